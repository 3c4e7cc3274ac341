"""Find where a text may be cut: between characters, as its bytes and as its readers see them."""

import unicodedata
from typing import Literal

from abilities.helpers.text.codec import Encoding

BACK_OFF = 32
"""Code points that a cut moves back at most to keep a user-perceived character whole."""

# UTF-16 (The Unicode Standard, table 3-5): a high and a low surrogate are one character.
_HIGH_SURROGATES = range(0xD800, 0xDC00)
_LOW_SURROGATES = range(0xDC00, 0xE000)

# UTF-8 (The Unicode Standard, table 3-7): the first byte says how many bytes its character has.
_LEADS_OF_TWO = range(0xC2, 0xE0)
_LEADS_OF_THREE = range(0xE0, 0xF0)
_LEADS_OF_FOUR = range(0xF0, 0xF5)

# What joins with the character before it (Unicode Standard Annex 29, grapheme clusters).
_FIRST_COMBINING = "\u0300"  # below it nothing joins, except LF after CR
_ZERO_WIDTH_JOINER = "\u200d"  # as in the emoji of a family
_MARK_CATEGORIES = frozenset({"Mn", "Mc", "Me"})  # accents, vowel signs, variation selectors
_EMOJI_MODIFIERS = range(0x1F3FB, 0x1F400)  # skin tones
_TAGS = range(0xE0020, 0xE0080)  # as in the flag of Scotland
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)  # two of these letters are one flag
_HANGUL_JAMO = range(0x1100, 0x1200)  # the letters of Korean syllables
_HANGUL_VOWELS_AND_TRAILS = range(0x1160, 0x1200)  # jamo that continue a syllable
_HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)  # composed syllables, which jamo may continue


def splits_character(raw: bytes, position: int, encoding: Encoding) -> bool:
    """Return whether a position lies inside a valid character.

    ``raw`` are the bytes around the position; three on each side are enough.
    """
    if encoding.unit == 2:
        return _splits_surrogate_pair(raw, position, encoding)

    return _splits_utf_8_sequence(raw, position)


def _splits_surrogate_pair(raw: bytes, position: int, encoding: Encoding) -> bool:
    if position < 2:
        return False

    order: Literal["little", "big"] = "little" if encoding.name == "utf-16-le" else "big"
    before = int.from_bytes(raw[position - 2 : position], order)
    after = int.from_bytes(raw[position : position + 2], order)
    return before in _HIGH_SURROGATES and after in _LOW_SURROGATES


def _splits_utf_8_sequence(raw: bytes, position: int) -> bool:
    """Look for a first byte, three before the position at most, whose character goes beyond it."""
    for distance in range(1, min(3, position) + 1):
        start = position - distance
        length = _sequence_length(raw[start])

        if length > distance and _is_one_character(raw[start : start + length], length):
            return True

    return False


def _sequence_length(lead: int) -> int:
    """Return how many bytes a character has that begins with this byte."""
    if lead in _LEADS_OF_TWO:
        return 2

    if lead in _LEADS_OF_THREE:
        return 3

    if lead in _LEADS_OF_FOUR:
        return 4

    return 1


def _is_one_character(raw: bytes, length: int) -> bool:
    if len(raw) != length:
        return False

    try:
        return len(raw.decode()) == 1
    except UnicodeDecodeError:
        return False


def back_off(text: str, position: int) -> int:
    """Return the last place up to ``position`` that does not split a user-perceived character.

    Follows Unicode Standard Annex 29 for what readers meet: combining marks, variation selectors,
    emoji sequences and flags, Hangul syllables, CR LF. Moves back 32 code points at most and never
    to the start of the text: if that is not enough, the cut stays at ``position``.
    """
    if position >= len(text):
        return len(text)

    for candidate in range(position, max(position - BACK_OFF, 0), -1):
        if not _is_joined(text, candidate):
            return candidate

    return position


def _is_joined(text: str, position: int) -> bool:
    """Return whether the characters on both sides of a position are seen as one."""
    before, after = text[position - 1], text[position]
    if after < _FIRST_COMBINING:
        return before == "\r" and after == "\n"

    return (
        _ZERO_WIDTH_JOINER in (before, after)
        or _extends_character(after)
        or _continues_syllable(before, after)
        or _splits_flag(text, position)
    )


def _extends_character(after: str) -> bool:
    point = ord(after)
    return (
        unicodedata.category(after) in _MARK_CATEGORIES
        or point in _EMOJI_MODIFIERS
        or point in _TAGS
    )


def _continues_syllable(before: str, after: str) -> bool:
    if ord(after) not in _HANGUL_VOWELS_AND_TRAILS:
        return False

    return ord(before) in _HANGUL_JAMO or ord(before) in _HANGUL_SYLLABLES


def _splits_flag(text: str, position: int) -> bool:
    """Return whether a cut would part the two regional indicators of a flag.

    Indicators pair up from the left, so an odd number of them before the cut is half a flag.
    Counting ends after twice the distance that a cut moves back.
    """
    if ord(text[position]) not in _REGIONAL_INDICATORS:
        return False

    count = 0
    limit = min(position, 2 * BACK_OFF)
    while count < limit and ord(text[position - 1 - count]) in _REGIONAL_INDICATORS:
        count += 1

    return count % 2 == 1
