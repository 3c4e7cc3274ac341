"""Ranges: the part of a text that a suffix or a resume point asks for."""

import re
from dataclasses import dataclass

from abilities.declarations.faults import Refused

_RANGE = re.compile(
    r"L(\d{1,18})(-(?:L?(\d{1,18}))?)?|byte=(\d{1,18})(?:-(\d{1,18}))?(?:@([0-9a-z]{1,32}))?", re.A
)


@dataclass(frozen=True, slots=True)
class Range:
    """The part of a text that was asked for: lines (from 1, inclusive) or bytes (end exclusive)."""

    first_line: int | None = None
    last_line: int | None = None
    start: int = 0
    end: int | None = None
    version: str | None = None


WHOLE = Range()


def split_suffix(item: str) -> tuple[str, str]:
    """Part a path from its last ``#`` suffix, where that is a range; else the suffix is empty."""
    path, mark, suffix = item.rpartition("#")
    return (path, suffix) if mark and _RANGE.fullmatch(suffix) else (item, "")


def parse_range(text: str) -> Range:
    """The range that a suffix such as ``L10-L40`` or ``byte=20480-40960@0f3a…`` names; Refused("invalid_range")."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise Refused("invalid_range")
    first, open_end, last, start, end, version = match.groups()
    if first is None:
        found = Range(start=int(start), end=int(end) if end else None, version=version)
        valid = found.end is None or found.start <= found.end
    else:
        stop = int(last) if last else None if open_end else int(first)
        found = Range(first_line=int(first), last_line=stop)
        valid = int(first) >= 1 and (stop is None or int(first) <= stop)
    if not valid:
        raise Refused("invalid_range")
    return found
