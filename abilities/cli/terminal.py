"""Printing to a terminal, where no printed text can move the cursor or fake a line of ours.

Programs read the stdout of a command. A plugin may print while it is imported or called, or later,
so its output is sent to stderr.
"""

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from abilities.declarations.values import escape_unseen

if TYPE_CHECKING:
    from rich.progress import Progress

_USUAL_COLUMNS = 80
"""The assumed width of a terminal that reports a width of 0."""

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


escape_text = escape_unseen
"""Escapes the control characters of foreign text for one line of a terminal."""


def escape_lines(text: str) -> str:
    """Return text of several lines for a terminal: as `escape_text`, but line ends stay."""
    return escape_unseen(text, keep="\n\t")


def echo(
    text: object, file: TextIO | None = None, *, err: bool = False, head: str = "", hang: int = 2
) -> None:
    """Print a line for people, wrapped at the width of the terminal.

    Control characters in ``text`` are escaped. ``head`` is printed before it unchanged, with its
    colors. Continuation lines are indented by ``hang`` cells more than the first one, so none of
    them looks like a line of its own.
    """
    # Looked up now, because a progress bar replaces the streams while it is shown.
    stream = file or (sys.stderr if err else sys.stdout)
    line = head + escape_text(str(text))
    _write(wrap_text(line, stream, hang), stream)


def echo_line(text: object, file: TextIO | None = None) -> None:
    """Print one line of data, such as JSON or a path, without wrapping it."""
    _write(escape_text(str(text)), file)


def echo_payload(text: str, file: TextIO | None = None, *, nl: bool = True) -> None:
    """Print data for programs unchanged; on a terminal, escape it as `escape_lines` does.

    JSON and drawings contain no line ends of foreign text. Replies in the text format do, and keep
    them.
    """
    stream = file or sys.stdout
    if stream.isatty():
        text = escape_lines(text)

    _write(text, stream, nl=nl)


def wrap_text(text: str, stream: TextIO, hang: int = 2) -> str:
    """Return text with its lines wrapped for a terminal; for other streams return it unchanged.

    A command in single quotes stays in one piece if a line has room for it, as does anything
    without spaces. Continuation lines are indented by ``hang`` cells more than their first line.
    """
    columns = 0
    if stream.isatty():
        with suppress(OSError):
            columns = os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    if not columns:
        return text

    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")) + hang)
        pieces: list[str] = []
        for found in _PIECE.finditer(line):
            is_short = len(found[0].lstrip(" ")) <= columns - len(indent)
            pieces += [found[0]] if is_short else _WORD.findall(found[0])

        lines.append("")
        for piece in pieces:
            room = columns - len(click.unstyle(lines[-1]))
            is_beginning = not lines[-1].strip()

            if len(click.unstyle(piece)) <= room or is_beginning:
                lines[-1] += piece
            else:
                lines.append(indent + piece.lstrip(" "))

    return "\n".join(lines)


def show_unencodable() -> None:
    """Print characters that the encoding of stdout or stderr lacks as JSON escapes."""

    def escape(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error

        escaped = json.dumps(error.object[error.start : error.end])
        return escaped[1:-1], error.end

    codecs.register_error("json_escapes", escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="json_escapes")


def _write(text: str, file: TextIO | None, *, nl: bool = True) -> None:
    """Print a text. Raises click.ClickException if it cannot be written, say to a full disk."""
    try:
        click.echo(text, file, nl=nl)
    except BrokenPipeError:
        raise  # the reader has closed the pipe, as `head` does
    except OSError as error:
        # Otherwise the interpreter would fail again at exit, flushing the same buffer.
        with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), (file or sys.stdout).fileno())

        raise click.ClickException(
            f"the output cannot be written: {error.strerror}; make room, or send it elsewhere"
        ) from None


def claim_stdout() -> TextIO:
    """Return a stream to stdout; from now on everything else that is printed goes to stderr."""
    stdout = sys.stdout
    try:
        is_ours = stdout.fileno() == 1
    except OSError:
        is_ours = False  # a program that runs the command has put its own stream there

    if is_ours:
        stdout.flush()
        stdout = os.fdopen(os.dup(1), "w", encoding=stdout.encoding, errors=stdout.errors)
        # The descriptor too, because subprocesses and C libraries print there.
        os.dup2(2, 1)

    sys.stdout = sys.stderr
    return stdout


@contextmanager
def divert_stdout() -> Generator[None]:
    """Send everything that is printed during a block to stderr."""
    sys.stdout.flush()
    with _replace_descriptor(1, 2), redirect_stdout(sys.stderr):
        yield


@contextmanager
def silence_stderr() -> Generator[None]:
    """Drop everything that is printed to stderr during a block."""
    sys.stderr.flush()
    with (
        Path(os.devnull).open("w") as nothing,
        _replace_descriptor(2, nothing.fileno()),
        redirect_stderr(nothing),
    ):
        yield


@contextmanager
def _replace_descriptor(number: int, other: int) -> Generator[None]:
    """Let one file descriptor be a copy of another one during a block."""
    saved = os.dup(number)
    os.dup2(other, number)

    try:
        yield
    finally:
        os.dup2(saved, number)
        os.close(saved)


class ProgressBar:
    """One bar; pass its methods as progress callbacks."""

    def __init__(self, progress: "Progress", title: str, total: float | None) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total)
        self.done = 0.0
        """The amount done so far, counted even if no bar is shown."""

    def advance(self, amount: float) -> None:
        """Add to the amount done."""
        self.reach(self.done + amount)

    def reach(self, done: float) -> None:
        """Set the amount done."""
        self.done = done
        self._progress.update(self._task, completed=done)


@contextmanager
def show_progress(title: str, total: float | None = None) -> Generator[ProgressBar]:
    """Show a bar on stderr during a block, if stderr is a terminal.

    With a ``total`` it shows a percentage and the remaining time, without one a running count.
    """
    # Most commands show no bar, and rich takes long to import.
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True)
    columns = [bars.TextColumn("{task.description}"), bars.BarColumn()]

    if total:
        columns += [bars.TextColumn("{task.percentage:>3.0f} %"), bars.TimeRemainingColumn()]
    else:
        columns += [bars.MofNCompleteColumn()]

    # The frames of a bar would be noise in a log file.
    with bars.Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield ProgressBar(progress, title, total)
