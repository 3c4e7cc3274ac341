"""Patterns of a linear-time engine: RE2, which never backtracks, whatever the text is."""

import functools
from importlib import import_module
from typing import Protocol


class Match(Protocol):
    """Where a pattern was found; group 0 is the whole match."""

    def span(self, group: int = 0) -> tuple[int, int]:
        """Return where a group begins and ends."""
        ...


class Pattern(Protocol):
    """A compiled pattern for bytes, used as `re.Pattern` is.

    Assertions, such as that a word begins, look at the bytes before ``pos`` and after ``endpos``.
    """

    def search(self, text: bytes, pos: int = 0) -> Match | None:
        """Return the first match from a position on."""
        ...

    def match(self, text: bytes, pos: int = 0, endpos: int = ...) -> Match | None:
        """Return the match that begins at a position, and ends at ``endpos`` at the latest."""
        ...

    def fullmatch(self, text: bytes) -> Match | None:
        """Return the match with all of the bytes."""
        ...


class LinePattern(Pattern, Protocol):
    """A compiled pattern that matches within a line; ``programsize`` is how many steps it has."""

    programsize: int


_MAX_MEMORY = 24 * 1024 * 1024
"""Bytes that the states of one pattern take at most; if they do not suffice, it becomes slow."""

_MAX_LINE_MEMORY = 8 * 1024 * 1024


@functools.cache
def compile_pattern(pattern: str, *, captures: bool = True) -> Pattern:
    """Compile a pattern for bytes, each of which is a character to it.

    It takes some milliseconds, once. Without ``captures`` groups are not told, and searches are
    faster. The interpreter lock is released while a pattern is looked for.
    """
    engine = import_module("re2")  # has no types, and is not needed by those who read no file

    options = engine.Options()
    options.encoding = engine.Options.Encoding.LATIN1
    options.never_capture = not captures
    options.max_mem = _MAX_MEMORY

    compiled: Pattern = engine.compile(pattern.encode(), options)
    return compiled


def compile_line_pattern(pattern: bytes) -> LinePattern | None:
    """Compile a caller's pattern for UTF-8; None if it is not one that RE2 takes.

    It never matches a line feed, and ``^`` and ``$`` stand for the ends of each line.
    """
    engine = import_module("re2")

    options = engine.Options()
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False  # the pattern is the caller's
    options.max_mem = _MAX_LINE_MEMORY

    try:
        # By itself first: what stands before it may make another pattern of it.
        engine.compile(pattern, options)
        compiled: LinePattern = engine.compile(b"(?m)" + pattern, options)
    except engine.error:
        return None

    return compiled
