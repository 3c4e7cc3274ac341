"""Long contents: the memories that one is kept in, each linked to the next."""

from collections.abc import Sequence

from abilities.declarations.limits import MAX_CONTENT_CHARS, MAX_KEY_CHARS
from abilities.helpers.stores.model import LinkRow
from abilities.helpers.stores.names import HASH_MARK, hash_text

CONTINUES = "continues"
"""The type of the link from a part of a long content to the next one; its weight is 1."""

_WORD_WINDOW = 500
"""Content is cut after a line or a word if one ends in this many characters before the limit."""


def make_part_key(key: str, number: int) -> str:
    """Return the key of a part, for example ``notes#2`` for the second one of ``notes``."""
    if number == 1:
        return key

    suffix = f"#{number}"
    if len(key) + len(suffix) > MAX_KEY_CHARS:
        beginning = key[: MAX_KEY_CHARS - HASH_MARK - len(suffix)].strip()
        key = f"{beginning}~{hash_text(key)}"

    return key + suffix


def split_text(text: str) -> list[str]:
    """Split a text into parts that fit a memory, and which joined are the text again."""
    parts: list[str] = []

    while len(text) > MAX_CONTENT_CHARS:
        window = (MAX_CONTENT_CHARS - _WORD_WINDOW, MAX_CONTENT_CHARS)
        last_space = max(text.rfind("\n", *window), text.rfind(" ", *window))
        cut = MAX_CONTENT_CHARS

        if last_space > 0:
            cut = last_space + 1  # the space stays with the part before it, so nothing is lost

        parts.append(text[:cut])
        text = text[cut:]

    return [*parts, text]


def has_link(links: Sequence[LinkRow], target: str) -> bool:
    """Return whether links lead to the part with a key."""
    return any(link.target == target and link.type == CONTINUES for link in links)
