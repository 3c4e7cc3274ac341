"""Records of answers as rows of tables: the fields of each column, and what to say of a record.

The page that an answer is printed on: lines, tables, and the command for what is left.

No line is wider than the terminal, except commands, which people paste. All text is shown as it
stands: neither markup nor control characters in it are obeyed.
"""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from abilities.cli.terminal import escape_lines, escape_text, format_count
from abilities.declarations.values import JsonObject, as_object

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


_NAMES = ("input", "path", "key", "filename", "date", "type")
"""What may name a record or a content within one, the first that it has."""

ITEM = Column("item", _NAMES, wraps=True, leads=True, kept=True)
_MARK = Column("", ("mark",), leads=True, kept=True)
_MEMORY = Column("memory", ("key", "filename", "id"), wraps=True, leads=True)
_NOTE = Column("what to know", ("note",), wraps=True)
_TYPE = Column("type", ("type",))
_VERSION = Column("version", ("version",), is_right=True, leads=True)
_WHEN = Column("when (UTC)", ("at",), leads=True)

BATCH = (
    _MARK,
    ITEM,
    Column("from", ("source", "date", "filename"), wraps=True, kept=True),
    Column("characters", ("characters",), is_right=True, kept=True),
    _NOTE._replace(kept=True),
)
PLAN = (
    ITEM,
    Column("bytes", ("bytes",), is_right=True, kept=True),
    Column("would come", ("granted_bytes",), is_right=True, kept=True),
    _NOTE._replace(kept=True),
)
OPERATIONS = (
    _MARK,
    Column("operation", ("op",), leads=True),
    _MEMORY,
    _VERSION._replace(leads=False),
    _NOTE,
)
RECALLED = (
    Column("score", ("score",), leads=True),
    _MEMORY,
    Column("date", ("date",)),
    Column("content", ("content", "note"), wraps=True),
)
FOUND = (
    _MEMORY,
    _TYPE,
    Column("importance", ("importance",)),
    Column("score", ("score",), is_right=True),
    Column("changed", ("date", "updated_at")),
    Column("content", ("content",), wraps=True),
)
LISTED = (
    _MEMORY,
    _TYPE,
    Column("bytes", ("size",), is_right=True),
    _VERSION._replace(leads=False),
    _NOTE,
)
FILES = (
    Column("file", ("path",), wraps=True, leads=True),
    Column("from", ("source",)),
    Column("bytes", ("size_bytes",), is_right=True),
    Column("changed (UTC)", ("modified_at",)),
)
TIMELINE = (
    _VERSION,
    _WHEN,
    Column("what", ("action",)),
    Column("by", ("by",), wraps=True),
    Column("fields", ("changed",), wraps=True),
    Column("kept bytes", ("size",), is_right=True),
)
CHANGES = (*TIMELINE[:3], _MEMORY._replace(leads=False), TIMELINE[3])
LINKS = (
    Column("weight", ("link_weight",)),
    _MEMORY,
    Column("kind", ("type",), wraps=True),
    Column("term", ("term",), wraps=True),
)
MISTAKES = (
    Column("field", ("field",), wraps=True, leads=True),
    Column("expected", ("expected",), wraps=True),
    Column("did you mean", ("did_you_mean",), wraps=True),
)
FACTS = (Column("", ("name",), leads=True), Column("", ("fact",), wraps=True, leads=True))


def print_table(page: Page, columns: Sequence[Column], records: Iterable[JsonObject]) -> None:
    """Print one row per record; nothing without any."""
    rows: list[list[str | Text]] = []
    for record in records:
        values = {**record, **(as_object(record.get("data")) or {})}
        values.setdefault("mark", _mark(values))
        values.setdefault("note", _describe(values))
        rows.append([format_cell(column, values) for column in columns])

    if rows:
        page.print_table(columns, rows)


def format_cell(column: Column, values: JsonObject) -> str | Text:
    """Return the first value that a record has of those that a column shows."""
    for name in column.fields:
        value = values.get(name)
        if value is not None and value != "":
            return _FORMATS.get(name, str)(value) if not isinstance(value, Text) else value

    return ""


def _format_number(number: int) -> str:
    return f"{number:,}"


def _format_score(score: float) -> str:
    return f"{score:.2f}"


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("bytes", "characters", "granted_bytes", "size", "size_bytes"), _format_number),
    **dict.fromkeys(("score", "link_weight"), _format_score),
    **dict.fromkeys(("at", "modified_at"), format_time),
    "changed": ", ".join,
    "content": begin_content,
    "updated_at": lambda time: time[:10],
}
"""How values are shown, by the names of their fields; others as they are."""


def find_reason(record: JsonObject) -> str | None:
    """Return why a record failed; None if it did not."""
    reason: str | None = record.get("error", record).get("reason")
    return reason


def _mark(record: JsonObject) -> Text:
    """Return the word for how a record ended."""
    match find_reason(record):
        case "response_budget":
            return styled("later", "yellow")  # people need not take it for a failure
        case "rolled_back":
            return styled("not made", "yellow")
        case None if "truncation" in record or "next" in record:
            return styled("cut", "yellow")
        case None:
            return styled("ok", "green")
        case _:
            return styled("failed", "red")


def _describe(record: JsonObject) -> Text:
    """Return why a record failed, or what else there is to know of it."""
    match find_reason(record):
        case None:
            return styled(", ".join(filter(None, _list_notes(record))), "dim")
        case "response_budget":
            return styled("no room left; next_request fetches it", "dim")
        case "rolled_back":
            return styled("another operation failed", "dim")
        case _:
            return style_failure(record)


def _list_notes(record: JsonObject) -> list[str]:
    items, planned = record.get("items"), "granted_bytes" in record
    notes = [
        "unchanged, not sent again" if record.get("unchanged") else "",
        "archived" if record.get("archived") else "",
        "new" if record.get("created") is True else "",
        f"replaced version {record['replaced']}" if _is_version(record.get("replaced")) else "",
        f"changed {', '.join(record['updated_fields'])}" if record.get("updated_fields") else "",
        format_mended(record),
        begin_content(str(record.get("summary", ""))),
    ]
    if planned and items is not None:
        notes.append(f"{record['granted_items']} of {format_count(items, 'content', 'contents')}")
    elif planned and record["bytes"] and not record["granted_bytes"]:
        notes.append("no room left")
    elif isinstance(items, list):
        notes.append(format_count(len(cast(list[object], items)), "content", "contents"))
    if "truncation" in record:
        notes.append(format_truncation(record["truncation"]))

    return notes


def _is_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def style_failure(record: JsonObject) -> Text:
    """Return why a record failed; a concise one has the reason alone, or with a message."""
    if "error" in record:
        words = f"{record['error']['code']}: {record['error']['message']}"
    else:
        words = ": ".join(filter(None, [record["reason"], record.get("message", "")]))

    return styled(words, "red")


def format_truncation(truncation: JsonObject) -> str:
    """Return how much of a content is there."""
    returned = f"{truncation['returned_chars']:,}"

    # The total is unknown if reading stopped before the end.
    if "total_chars" in truncation:
        returned += f" of {truncation['total_chars']:,}"

    return f"cut at {returned} characters ({truncation['reason']})"


def format_mended(record: JsonObject) -> str:
    """Return which fields of a memory were damaged; empty if none was."""
    if not record.get("mended"):
        return ""

    return f"It was damaged: {', '.join(record['mended'])} had to be replaced by defaults."


def describe_rule(mistake: JsonObject) -> str:
    """Return a rule in words, such as "1 to 6" or "one of: out, in, both"."""
    rest = dict(mistake.get("expected", {}))
    parts: list[str] = []

    if "type" in rest:
        parts.append(rest.pop("type"))
    if "minimum" in rest and "maximum" in rest:
        parts.append(f"{rest.pop('minimum')} to {rest.pop('maximum')}")
    if "one_of" in rest:
        parts.append(f"one of: {', '.join(map(str, rest.pop('one_of')))}")

    for name, value in rest.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"{name.replace('_', ' ')}: {text}")

    return "; ".join(parts)
