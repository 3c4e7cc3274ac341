"""Cut text where a reader would."""

import unicodedata

from abilities.helpers.text.codec import Encoding

BACK_OFF = 32
"""Code points a cut moves back at most to keep a user-perceived character whole."""

_JOINER = "\u200d"


def splits_character(around: bytes, at: int, encoding: Encoding) -> bool:
    """Whether position ``at`` in ``around`` (some bytes before and after it) lies inside of a valid character."""
    if encoding.unit == 2:
        order = "little" if encoding.name == "utf-16-le" else "big"
        before, after = (int.from_bytes(around[i : i + 2], order) for i in (max(at - 2, 0), at))  # type: ignore[arg-type]
        return at >= 2 and 0xD800 <= before < 0xDC00 and 0xDC00 <= after < 0xE000
    for back in range(1, min(3, at) + 1):
        lead = around[at - back]
        length = (
            2
            if 0xC2 <= lead < 0xE0
            else 3
            if 0xE0 <= lead < 0xF0
            else 4
            if 0xF0 <= lead < 0xF5
            else 1
        )
        if length > back and _is_valid(around[at - back : at - back + length], length):
            return True
    return False


def _is_valid(raw: bytes, length: int) -> bool:
    try:
        return len(raw) == length and len(raw.decode()) == 1
    except UnicodeDecodeError:
        return False


def back_off(text: str, at: int) -> int:
    """The last place up to ``at`` where the text may be cut without splitting a user-perceived character.

    Follows Unicode Standard Annex 29 in what readers meet: combining marks, variation selectors, emoji
    sequences and flags, Hangul syllables, CR LF. Moves back 32 code points at most and never to the
    very start: then the cut stays where it was asked for.
    """
    if at >= len(text):
        return len(text)
    for place in range(at, max(at - BACK_OFF, 0), -1):
        if not _joined(text, place):
            return place
    return at


def _joined(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    return (
        before == _JOINER
        or after == _JOINER
        or unicodedata.category(after) in ("Mn", "Mc", "Me")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\U000e0020" <= after <= "\U000e007f"
        or ("\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\u11ff")
        or _inside_flag(text, at)
        or ("\u1160" <= after <= "\u11ff" and "\uac00" <= before <= "\ud7a3")
    )


def _inside_flag(text: str, at: int) -> bool:
    """Whether a cut would part the two regional indicators of a flag."""
    run = 0
    while run < at and run < 2 * BACK_OFF and "\U0001f1e6" <= text[at - 1 - run] <= "\U0001f1ff":
        run += 1
    return run % 2 == 1 and "\U0001f1e6" <= text[at] <= "\U0001f1ff"
