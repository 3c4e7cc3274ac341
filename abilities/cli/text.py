"""Text for a terminal: counts in words, and foreign text made harmless."""

from abilities.declarations.memory import is_key
from abilities.declarations.values import has_control_character


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> format_count(1, "memory", "memories"), format_count(1200, "token")
    ('1 memory', '1,200 tokens')
    """
    if number == 1:
        return f"1 {noun}"

    return f"{number:,} {plural or noun + 's'}"


def escape_text(text: str) -> str:
    """Return text as it is if a key could hold it, otherwise as an ASCII literal in quotes.

    A file or a store may hold control sequences, which would steer the terminal.
    """
    return text if is_key(text) else ascii(text)


def replace_control_characters(text: str) -> str:
    """Return text with U+FFFD in place of each character that could steer a terminal."""
    shown: list[str] = []

    for char in text:
        if has_control_character(char):
            shown.append("\ufffd")
        else:
            shown.append(char)

    return "".join(shown)
