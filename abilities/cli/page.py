"""The page that an answer is printed on: lines, tables, and the command for what is left.

No line is wider than the terminal, except commands, which people paste. All text is shown as it
stands: neither markup nor control characters in it are obeyed.
"""

import json
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from abilities.cli.text import escape_lines, escape_text, format_count
from abilities.declarations.values import JsonObject

_LEAST_CELLS = 12
"""A column that wraps is at least so wide, or the table is printed as a list."""

_GAP = 2
"""Cells between two columns."""

_INDENT = 4
_CONTENT_INDENT = 2

_SHOWN_CHARS = 200
"""How much of a content a table shows."""

_BEGINNING_LINES = 20
_BEGINNING_CHARS = 2_000
"""How much of a content a terminal shows if there may be many."""

_COMMAND_LINES = 2
"""A command that fills more lines is not printed."""


class AnsweredCall(NamedTuple):
    """An answer, and what was asked: the ability's name and its arguments."""

    name: str
    arguments: JsonObject
    payload: JsonObject


class Column(NamedTuple):
    """A column of a table; one that ``wraps`` takes what room the others leave.

    It shows the first of ``fields`` that a record has. A column without any text is left out unless
    it is ``kept``. Where a table has no room, its rows become lists, and the texts of columns that
    ``lead`` stand before the others.
    """

    heading: str
    fields: tuple[str, ...]
    is_right: bool = False
    wraps: bool = False
    leads: bool = False
    kept: bool = False


class Page:
    """Prints an answer.

    ``command`` are the words of a command that calls an ability, up to its name; without them a
    page says that next_request has the rest, and prints no command for it.
    """

    def __init__(self, console: Console, command: Sequence[str] = ()) -> None:
        self._console = console
        self._command = command

    def print_line(self, *parts: str | Text, style: str = "", indent: int = 0) -> None:
        """Print texts after each other; they wrap at the page's width, behind the indent."""
        line = Text(style=style)
        for part in parts:
            line.append_text(to_text(part))

        self._print(Padding(line, (0, 0, 0, indent), expand=False) if indent else line)

    def print_content(self, content: str) -> None:
        """Print a content of several lines, indented: none of them passes for one of the page."""
        text = Text(escape_lines(content))
        self._print(Padding(text, (0, 0, 0, _CONTENT_INDENT), expand=False))

    def print_beginning(self, content: str) -> None:
        """Print a content as `print_content` does; on a terminal only so much as it has room for.

        Who pipes the page into a file or a pager has asked for all of it.
        """
        shown = content
        if self._console.is_terminal:
            lines = content.splitlines(keepends=True)
            shown = "".join(lines[:_BEGINNING_LINES])[:_BEGINNING_CHARS]

        if shown:
            self.print_content(shown.removesuffix("\n"))

        left = len(content) - len(shown)
        if left:
            words = f"{format_count(left, 'further character')}; add | less to see all of it"
            self.print_line(words, style="dim", indent=_CONTENT_INDENT)

    def print_blank(self) -> None:
        """Print an empty line."""
        self._console.print()

    def print_table(self, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
        """Print a table, or lists if the page is too narrow for it."""
        texts = [[to_text(cell) for cell in row] for row in rows]
        filled = [index for index, column in enumerate(columns) if _is_shown(index, column, texts)]
        columns = [columns[index] for index in filled]
        texts = [[row[index] for index in filled] for row in texts]

        if _measure(columns, texts) <= self._console.width:
            self._print(_build_table(columns, texts))
        else:
            self._print_lists(columns, texts)

    def print_rest(self, name: str, arguments: JsonObject, words: str = "For the rest:") -> None:
        """Print the command that calls an ability for what is left."""
        if not self._command:
            self.print_line("send next_request for the rest")
            return

        # Escapes of JSON mean the same in it, and can be pasted.
        document = escape_text(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))
        command = Text(shlex.join([*self._command, name, document, "--pretty"]))
        room = _COMMAND_LINES * self._console.width

        if command.cell_len > room or command.plain != escape_text(command.plain):
            self.print_line(f"{words} send what the answer as JSON says, without --pretty.")
            return

        self.print_command(words, command.plain)

    def print_command(self, words: str, command: str) -> None:
        """Print a command on a line of its own, which is never broken."""
        self.print_line(words)
        self._console.print(Text(command), soft_wrap=True)

    def _print(self, shown: RenderableType) -> None:
        """Print something; into a pipe without the blanks that fill its lines."""
        if self._console.is_terminal:
            self._console.print(shown)
            return

        with self._console.capture() as captured:
            self._console.print(shown)
        for line in captured.get().removesuffix("\n").split("\n"):
            self._console.print(Text(line.rstrip(" ")), soft_wrap=True)

    def _print_lists(self, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
        for row in rows:
            cells = [pair for pair in zip(columns, row, strict=True) if pair[1]]
            leading = [cell for column, cell in cells if column.leads]
            self.print_line(Text("  ").join(leading))

            for column, cell in cells:
                if not column.leads:
                    heading = styled(f"{column.heading}: ", "dim")
                    self.print_line(heading, cell, indent=_INDENT)


def styled(text: str, style: str) -> Text:
    """Return foreign text for one line in a style; what could steer the terminal is an escape."""
    return Text(escape_text(text), style=style)


def to_text(value: str | Text) -> Text:
    """Return foreign text for one line without a style; a Text is returned as it is."""
    return styled(value, "") if isinstance(value, str) else value


def begin_content(content: str) -> str:
    """Return the beginning of a content on one line."""
    words = " ".join(content.split())
    if len(words) <= _SHOWN_CHARS:
        return words

    return f"{words[:_SHOWN_CHARS]}…"


def format_time(time: str) -> str:
    """Return a time in UTC to the minute.

    >>> format_time("2026-01-02T03:04:05.678Z")
    '2026-01-02 03:04'
    """
    return time[:16].replace("T", " ")


def _is_shown(index: int, column: Column, rows: Sequence[Sequence[Text]]) -> bool:
    return column.kept or any(row[index] for row in rows)


def _measure(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> int:
    """Return the fewest cells in which a table of these rows can be read."""
    cells = _GAP * (len(columns) - 1)

    for index, column in enumerate(columns):
        widest = _measure_column(index, column, rows)
        cells += min(widest, _LEAST_CELLS) if column.wraps else widest

    return cells


def _measure_column(index: int, column: Column, rows: Sequence[Sequence[Text]]) -> int:
    widths = [row[index].cell_len for row in rows]
    return max([Text(column.heading).cell_len, *widths])


def _build_table(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> Table:
    has_headings = any(column.heading for column in columns)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=has_headings)

    for index, column in enumerate(columns):
        table.add_column(
            column.heading,
            justify="right" if column.is_right else "left",
            overflow="fold",
            min_width=None if column.wraps else _measure_column(index, column, rows),
        )

    for row in rows:
        table.add_row(*row)

    return table
