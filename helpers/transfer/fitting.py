"""Names, texts and weights of other systems, made to fit our limits; always in the same way."""

import math

from abilities.declarations.limits import MAX_CONTENT_CHARS, MAX_KEY_CHARS
from abilities.helpers.stores.names import HASH_MARK, hash_text

_WORD_WINDOW = 500
"""Content is cut after a line or a word if one ends in this many characters before the limit."""


def make_piece_key(key: str, number: int) -> str:
    """Return the key of a piece, for example ``notes#2`` for the second one of ``notes``."""
    if number == 1:
        return key

    suffix = f"#{number}"
    if len(key) + len(suffix) > MAX_KEY_CHARS:
        beginning = key[: MAX_KEY_CHARS - HASH_MARK - len(suffix)].strip()
        key = f"{beginning}~{hash_text(key)}"

    return key + suffix


def shorten(text: str, limit: int) -> str:
    """Shorten a text if it is too long; a hash tells it from others with the same beginning."""
    if len(text) <= limit:
        return text

    return f"{text[: limit - HASH_MARK]}~{hash_text(text)}"


def split_text(text: str) -> list[str]:
    """Split a text into pieces that fit a memory, and which joined are the text again."""
    pieces: list[str] = []

    while len(text) > MAX_CONTENT_CHARS:
        window = (MAX_CONTENT_CHARS - _WORD_WINDOW, MAX_CONTENT_CHARS)
        last_space = max(text.rfind("\n", *window), text.rfind(" ", *window))
        cut = MAX_CONTENT_CHARS

        if last_space > 0:
            cut = last_space + 1  # the space stays with the piece before it, so nothing is lost

        pieces.append(text[:cut])
        text = text[cut:]

    return [*pieces, text]


def clamp_weight(weight: float) -> float:
    """Return the nearest weight from 0 to 1; the default of 0.5 for one that is not finite."""
    if not math.isfinite(weight):
        return 0.5

    return float(min(max(0.0, weight), 1.0))  # of two zeros the first stays, which is not -0.0
