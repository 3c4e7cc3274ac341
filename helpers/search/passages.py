"""Passages: a text divided by its headings and lines, so that each part is compared with questions.

Notes and long contents are divided in the same way. A text that is too long to be shown is divided
into sentences.
"""

import re
from typing import NamedTuple

from abilities.helpers.text import back_off

LONGEST_PASSAGE = 3_000
"""The most characters of a content that is compared with questions as a whole, not in parts."""

MAX_PART_CHARS = 1_000
"""The most characters of a part.

A longer section is divided between lines, and a longer line after a space.
"""

MAX_SENTENCE_BYTES = 300
"""The most bytes of a sentence; a longer one is divided between lines or words."""

_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+|[\u3002\uff01\uff1f\u0964]\s*|\n\s*\n\s*")
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


class Span(NamedTuple):
    """A part of a text, by its first character and the one after its last."""

    start: int
    end: int


def split_sentences(text: str) -> list[Span]:
    """Return the sentences of a text in order, without the space around them.

    A blank line ends a sentence too. A sentence of more than 300 bytes is divided.

    >>> split_sentences("It rains. It pours.")
    [Span(start=0, end=9), Span(start=10, end=19)]
    """
    sentences: list[Span] = []
    start = 0

    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    for end in (*ends, len(text)):
        while start < end:
            part = text[start : min(end, start + MAX_SENTENCE_BYTES)].encode()
            cut = start + len(part[:MAX_SENTENCE_BYTES].decode(errors="ignore"))
            if cut < end:
                middle = (start + cut) // 2
                place = text.rfind("\n", middle, cut) + 1 or text.rfind(" ", middle, cut) + 1
                cut = place or back_off(text, cut)

            sentence = text[start:cut]
            end_of_text = start + len(sentence.rstrip())
            start += len(sentence) - len(sentence.lstrip())
            if start < end_of_text:
                sentences.append(Span(start, end_of_text))
            start = cut

    return sentences


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
