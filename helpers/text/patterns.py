"""Regular expressions in linear time: RE2 never backtracks, whatever the text is."""

import functools
from importlib import import_module
from typing import Protocol


class Match(Protocol):
    """A match of a pattern; group 0 is the whole match."""

    def span(self, group: int = 0) -> tuple[int, int]:
        """Return the start and the end of a group."""
        ...


class Pattern(Protocol):
    """A compiled pattern for bytes, used as `re.Pattern` is.

    Assertions such as word boundaries look at the bytes before ``pos`` and after ``endpos``.
    """

    def search(self, text: bytes, pos: int = 0, endpos: int = ...) -> Match | None:
        """Return the first match between ``pos`` and ``endpos``."""
        ...

    def match(self, text: bytes, pos: int = 0, endpos: int = ...) -> Match | None:
        """Return the match that begins at ``pos`` and ends at or before ``endpos``."""
        ...

    def fullmatch(self, text: bytes) -> Match | None:
        """Return the match of all bytes."""
        ...


class LinePattern(Pattern, Protocol):
    """A compiled pattern that matches within a line; ``programsize`` is its number of steps."""

    programsize: int


_MAX_MEMORY = 24 * 1024 * 1024
"""Bytes for the states of one pattern; a pattern that needs more becomes slow."""

_MAX_LINE_MEMORY = 8 * 1024 * 1024

_MAX_PROGRAM_MEMORY = 1024 * 1024
"""Bytes for about 10,000 steps; a larger pattern of a caller is refused."""


@functools.cache
def compile_pattern(pattern: str, *, captures: bool = True) -> Pattern:
    """Compile a pattern for bytes, which treats each byte as a character.

    Compiling takes some milliseconds, once. Without ``captures``, matches have no groups, and
    searches are faster. Searches release the interpreter lock.
    """
    engine = import_module("re2")  # has no types, and only reading files needs it

    options = engine.Options()
    options.encoding = engine.Options.Encoding.LATIN1
    options.never_capture = not captures
    options.max_mem = _MAX_MEMORY

    compiled: Pattern = engine.compile(pattern.encode(), options)
    return compiled


def compile_line_pattern(pattern: bytes) -> LinePattern | None:
    """Compile a caller's pattern for UTF-8; None if RE2 rejects it, or it is too large.

    It never matches a line feed, and ``^`` and ``$`` match at the ends of each line.
    """
    engine = import_module("re2")

    options = engine.Options()
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False  # mistakes in the pattern are the caller's

    try:
        # Alone first: with the prefix below, an invalid pattern may become a valid one.
        options.max_mem = _MAX_PROGRAM_MEMORY
        engine.compile(pattern, options)

        options.max_mem = _MAX_LINE_MEMORY
        compiled: LinePattern = engine.compile(b"(?m)" + pattern, options)
    except engine.error:
        return None

    return compiled
