"""Text for a terminal: counts in words, and foreign text made harmless."""

from abilities.declarations.values import has_control_character, has_surrogate


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> format_count(1, "memory", "memories"), format_count(1200, "token")
    ('1 memory', '1,200 tokens')
    """
    if number == 1:
        return f"1 {noun}"

    return f"{number:,} {plural or noun + 's'}"


def escape_text(text: str) -> str:
    r"""Return text as it is, or as an ASCII literal in quotes if it could steer the terminal.

    >>> print(escape_text("long " * 50 + "名"), escape_text("a\x1b[31m"))  # doctest: +ELLIPSIS
    long long ...名 'a\x1b[31m'
    """
    if has_control_character(text) or has_surrogate(text):
        return ascii(text)

    return text


def replace_control_characters(text: str) -> str:
    """Return text with U+FFFD in place of each character that could steer a terminal."""
    shown: list[str] = []

    for char in text:
        if has_control_character(char):
            shown.append("\ufffd")
        else:
            shown.append(char)

    return "".join(shown)
