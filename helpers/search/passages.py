"""Passages: the parts of a text, by its headings and lines, that a question is compared with.

Notes and long contents are divided alike.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_PASSAGE = 5_000
"""Characters of a content that is compared with questions as one passage, and not divided."""

MAX_PART_CHARS = 1_000
"""Characters of a part; a longer section is divided between lines, and a longer line at a space."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+")
_FENCE = re.compile(r" {0,3}(```|~~~)")


class Section(NamedTuple):
    """A part of a text, from ``start`` to ``end``, and the headings above it, outermost first."""

    start: int
    end: int
    headings: tuple[str, ...]


def split_sections(text: str) -> list[Section]:
    """Return the parts of a Markdown text in order; nothing but blank text is between them.

    A part begins at a heading, except that a heading without a text of its own stays with the
    first of its subheadings. A part has 1,000 characters at most.
    """
    sections: list[Section] = []
    builder = _Builder()

    for start, line in _list_lines(text):
        if builder.ends_before(line, start):
            sections += builder.take()
        builder.add(line, start)

    return sections + builder.take()


def _list_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their places; longer ones in pieces that end after a space."""
    start = 0

    for line in text.splitlines(keepends=True):
        offset = 0
        while offset < len(line):
            end = offset + MAX_PART_CHARS
            if end < len(line):
                end = line.rfind(" ", offset + MAX_PART_CHARS // 2, end) + 1 or end
            yield start + offset, line[offset:end]
            offset = end
        start += len(line)


class _Builder:
    """The part that is being built, line by line."""

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
            self._above = self._list_above(heading)

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
        """Return the part, if there is anything in it, and begin the next one."""
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

    def _list_above(self, heading: tuple[int, str] | None) -> tuple[str, ...]:
        """Return the headings above a part that begins with this heading, or with none."""
        names: list[str] = []
        for level, name in self._headings:
            if heading is None or level < heading[0]:
                names.append(name)

        return tuple(names)
