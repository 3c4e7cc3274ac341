"""Text for a terminal: counts in words, and the one way to print, in which nothing steers it.

Keeping stdout for what a command prints itself; plugins print to stderr instead.

Programs read JSON from stdout, and a plugin may print while it is imported, while it is called, and
after that, until the process ends.
"""

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

import click

from abilities.declarations.values import escape_unseen

_USUAL_COLUMNS = 80
"""What a terminal is taken for that does not say how wide it is."""

_WORD = re.compile(r" *\S+|\s+")
_PIECE = re.compile(r" *(?:(?<!\S)'[^']*'\S*|\S+)|\s+")
"""A word, or words in single quotes, with the space before it."""


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun.

    >>> format_count(1, "memory", "memories"), format_count(1200, "token")
    ('1 memory', '1,200 tokens')
    """
    if number == 1:
        return f"1 {noun}"

    return f"{number:,} {plural or noun + 's'}"


def escape_text(text: str) -> str:
    r"""Return foreign text for one line of a terminal: what could steer it is an escape.

    >>> print(escape_text("two\nlines, a\x1b[31m 名"))
    two\nlines, a\u001b[31m 名
    """
    return escape_unseen(text)


def escape_lines(text: str) -> str:
    """Return text of several lines for a terminal: as `escape_text`, but line ends stay."""
    return escape_unseen(text, keep="\n\t")


def echo(
    text: object, file: TextIO | None = None, *, err: bool = False, head: str = "", hang: int = 2
) -> None:
    """Print a line for people, which wraps at the width of a terminal.

    Nothing in it steers the terminal or begins a line: the lines after the first are indented, by
    ``hang`` cells more than that. ``head`` is printed before it as it is, with its colors.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    line = head + escape_text(str(text))
    # The stream as it is now, because a bar that is shown meanwhile makes room for lines.
    _write(wrap_text(line, stream, hang), stream)


def echo_line(text: object, file: TextIO | None = None) -> None:
    """Print one line of data, such as JSON or a path, however long it is."""
    _write(escape_text(str(text)), file)


def echo_payload(text: str, file: TextIO | None = None, *, nl: bool = True) -> None:
    """Print what programs read: as it is, or on a terminal with escapes as in `escape_lines`.

    Its lines are its own: JSON and drawings hold no line end of foreign text. Only replies in the
    text format do, as they must.
    """
    stream = file or sys.stdout
    if stream.isatty():
        text = escape_lines(text)

    _write(text, stream, nl=nl)


def wrap_text(text: str, stream: TextIO, hang: int = 2) -> str:
    """Return text with its lines wrapped for a terminal; for anything else as it is.

    What stands in single quotes, often a command, stays in one piece if it has room, and so does
    what has no spaces. The lines after the first of each are indented by ``hang`` cells more.
    """
    columns = _measure_columns(stream)
    if not columns:
        return text

    return "\n".join(_wrap_line(line, columns, hang) for line in text.split("\n"))


def _measure_columns(stream: TextIO) -> int:
    """Return the width of the terminal that a stream writes to; 0 if there is none."""
    if not stream.isatty():
        return 0

    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    except OSError:
        return 0


def _wrap_line(line: str, columns: int, hang: int) -> str:
    indent = " " * (len(line) - len(line.lstrip(" ")) + hang)
    lines = [""]

    for piece in _split_pieces(line, columns - len(indent)):
        room = columns - len(click.unstyle(lines[-1]))
        is_beginning = not lines[-1].strip()

        if len(click.unstyle(piece)) <= room or is_beginning:
            lines[-1] += piece
        else:
            lines.append(indent + piece.lstrip(" "))

    return "\n".join(lines)


def _split_pieces(line: str, room: int) -> Iterator[str]:
    """Yield words, and what stands in quotes if it has room, each with the space before it."""
    for found in _PIECE.finditer(line):
        if len(found[0].lstrip(" ")) <= room:
            yield found[0]
        else:
            yield from _WORD.findall(found[0])


def show_unencodable() -> None:
    """Print characters that a terminal or a pipe has no bytes for as escapes, as JSON has them."""
    codecs.register_error("json_escapes", _escape_unencodable)

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="json_escapes")


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error

    escaped = json.dumps(error.object[error.start : error.end])
    return escaped[1:-1], error.end


def _write(text: str, file: TextIO | None, *, nl: bool = True) -> None:
    """Print a text. Raises click.ClickException if it does not fit where it goes."""
    try:
        click.echo(text, file, nl=nl)
    except BrokenPipeError:
        raise  # who reads it wants no more
    except OSError as error:
        _discard_output(file or sys.stdout)
        raise click.ClickException(
            f"the output cannot be written: {error.strerror}; make room, or send it elsewhere"
        ) from None


def _discard_output(stream: TextIO) -> None:
    """Let the end of the process not fail on what is left in a stream's buffer."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def claim_stdout() -> TextIO:
    """Return a stream to stdout; from now on everything else that is printed goes to stderr."""
    stdout = sys.stdout
    if _is_process_stdout(stdout):
        stdout.flush()
        stdout = os.fdopen(os.dup(1), "w", encoding=stdout.encoding, errors=stdout.errors)
        # The descriptor, because subprocesses and C libraries print there.
        os.dup2(2, 1)

    sys.stdout = sys.stderr
    return stdout


@contextmanager
def divert_stdout() -> Generator[None]:
    """Send everything that is printed during a block to stderr."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)

    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(descriptor, 1)
        os.close(descriptor)


@contextmanager
def silence_stderr() -> Generator[None]:
    """Drop everything that is printed to stderr during a block."""
    sys.stderr.flush()
    descriptor = os.dup(2)

    try:
        with Path(os.devnull).open("w") as nothing, redirect_stderr(nothing):
            os.dup2(nothing.fileno(), 2)
            yield
    finally:
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _is_process_stdout(stream: TextIO) -> bool:
    """Return whether a stream is the process's own stdout, and not what a program put there."""
    try:
        return stream.fileno() == 1
    except OSError:
        return False
