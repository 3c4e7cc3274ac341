"""Passages: a text divided by its headings and lines, so that each part is compared with questions.

Notes and long contents are divided in the same way.
"""

import re
from typing import NamedTuple

LONGEST_PASSAGE = 5_000
"""The most characters of a content that is compared with questions as a whole, not in parts."""

MAX_PART_CHARS = 1_000
"""The most characters of a part.

A longer section is divided between lines, and a longer line after a space.
"""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+")
_FENCE = re.compile(r" {0,3}(```|~~~)")


class Section(NamedTuple):
    """A part of a text, from ``start`` to ``end``, with the headings above it, outermost first."""

    start: int
    end: int
    headings: tuple[str, ...]


def split_sections(text: str) -> list[Section]:
    r"""Return the parts of a Markdown text in order; only blank text is left out.

    A part begins at a heading. But a heading without its own text stays with its first subheading.
    A part has at most 1,000 characters.

    >>> [section.headings for section in split_sections("# A\n\nText\n\n## B\n\nText")]
    [(), ('A',)]
    """
    sections: list[Section] = []
    builder = _Builder()
    start = 0

    for line in text.splitlines(keepends=True):
        offset = 0
        while offset < len(line):
            end = offset + MAX_PART_CHARS
            if end < len(line):
                end = line.rfind(" ", offset + MAX_PART_CHARS // 2, end) + 1 or end
            piece = line[offset:end]

            if builder.ends_before(piece, start + offset):
                sections += builder.take()
            builder.add(piece, start + offset)
            offset = end
        start += len(line)

    return sections + builder.take()


class _Builder:
    """Builds one part after another, line by line."""

    def __init__(self) -> None:
        self._start = 0
        self._end = 0
        self._has_text = False
        self._is_code = False
        self._above: tuple[str, ...] = ()
        self._headings: list[tuple[int, str]] = []

    def ends_before(self, line: str, start: int) -> bool:
        """Return whether a line begins the next part."""
        if start + len(line) - self._start > MAX_PART_CHARS:
            return True

        heading = self._parse_heading(line)
        if heading is None:
            return False

        is_deeper = bool(self._headings) and heading[0] > self._headings[-1][0]
        return self._has_text or not is_deeper

    def add(self, line: str, start: int) -> None:
        """Add a line to the part."""
        heading = self._parse_heading(line)
        if self._end <= self._start:
            self._start = self._end = start
            above = self._headings
            if heading is not None:
                above = [one for one in above if one[0] < heading[0]]
            self._above = tuple(name for _, name in above)

        if heading is not None:
            while self._headings and self._headings[-1][0] >= heading[0]:
                self._headings.pop()
            self._headings.append(heading)
        elif _FENCE.match(line):
            self._is_code = not self._is_code

        text = line.rstrip()
        self._has_text = self._has_text or (heading is None and bool(text))
        if text:
            self._end = start + len(text)

    def take(self) -> list[Section]:
        """Return the part, unless it is empty, and begin the next one."""
        taken = Section(self._start, self._end, self._above)
        is_empty = self._start == self._end or not (self._has_text or self._headings)
        self._start = self._end
        self._has_text = False

        if is_empty:
            return []
        return [taken]

    def _parse_heading(self, line: str) -> tuple[int, str] | None:
        match = _HEADING.match(line)
        if match is None or self._is_code:
            return None

        return len(match[1]), line[match.end() :].rstrip().rstrip("#").rstrip()
