"""Ranges: the part of a text that a suffix or a resume point asks for."""

import re
from dataclasses import dataclass

from abilities.declarations.faults import Refused

# 18 digits: a position always fits into 64 bits.
_RANGE = re.compile(
    r"""
    L- (?P<trailing>\d{1,18})
    | L (?P<first>\d{1,18})  (?P<dash> - (?: L? (?P<last>\d{1,18}) )? )?
    | byte= (?P<start>\d{1,18})  (?: - (?P<end>\d{1,18}) )?  (?: @ (?P<version>[0-9a-z]{1,32}) )?
    """,
    re.ASCII | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Range:
    """The requested part of a text: lines (from 1, inclusive) or bytes (end exclusive).

    ``first_line`` tells the two apart; a ``last_line`` or ``end`` of None is the end of the text.
    ``trailing_lines`` asks for so many lines at the end instead. ``version`` is the hash of the
    bytes before ``start`` that a resume point carries.
    """

    first_line: int | None = None
    last_line: int | None = None
    trailing_lines: int | None = None
    start: int = 0
    end: int | None = None
    version: str | None = None
    is_whole: bool = False


WHOLE = Range(is_whole=True)
"""All of a text, requested without any range. Unlike ``byte=0``, it may be read in one go."""


def split_suffix(item: str) -> tuple[str, str]:
    """Split a path from its last ``#`` suffix if that is a range; else the suffix is empty."""
    path, mark, suffix = item.rpartition("#")
    if mark and _RANGE.fullmatch(suffix):
        return path, suffix

    return item, ""


def parse_range(text: str) -> Range:
    """Return the range of a suffix, such as ``L10-L40``, ``L-50`` or ``byte=20480-40960@0f3a56b1``.

    Raises Refused: invalid_range.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise Refused("invalid_range")

    if match["trailing"]:
        return _parse_trailing_lines(match)
    if match["first"]:
        return _parse_lines(match)

    return _parse_bytes(match)


def _parse_lines(match: re.Match[str]) -> Range:
    """Return the lines of ``L10`` (one line), ``L10-`` (to the end), ``L10-L40`` or ``L10-40``."""
    first = int(match["first"])
    last: int | None = first
    if match["dash"]:
        last = _parse_optional(match["last"])

    if first < 1 or (last is not None and last < first):
        raise Refused("invalid_range")

    return Range(first_line=first, last_line=last)


def _parse_trailing_lines(match: re.Match[str]) -> Range:
    """Return the lines of ``L-50``, the last 50."""
    count = int(match["trailing"])
    if count < 1:
        raise Refused("invalid_range")

    return Range(trailing_lines=count)


def _parse_bytes(match: re.Match[str]) -> Range:
    start = int(match["start"])
    end = _parse_optional(match["end"])

    if end is not None and end < start:
        raise Refused("invalid_range")

    return Range(start=start, end=end, version=match["version"])


def _parse_optional(digits: str | None) -> int | None:
    return int(digits) if digits else None
