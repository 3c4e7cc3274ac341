"""The page that an answer is printed on, and the tables of records on it.

No line is wider than the terminal, except commands, which people paste. Text is never interpreted:
markup in it is printed as it is, and control characters are escaped.
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
"""The least width of a column that wraps; in less room the table is printed as lists."""

_GAP = 2
"""Cells between two columns."""

_INDENT = 4
_CONTENT_INDENT = 2

_SHOWN_CHARS = 200
"""Characters of a content that a table shows."""

_BEGINNING_LINES = 20
_BEGINNING_CHARS = 2_000
"""The part of a content that a terminal shows if there may be many."""

_COMMAND_LINES = 2
"""The most lines of a printed command."""


class AnsweredCall(NamedTuple):
    """A call and its answer."""

    name: str
    arguments: JsonObject
    payload: JsonObject


class Column(NamedTuple):
    """A column of a table, which shows the first of ``fields`` that a record has.

    A column that ``wraps`` gets the room that the others leave. A column without any text is left
    out unless it is ``kept``. If a table has no room, each row becomes a list under a line with the
    texts of the columns that ``leads`` marks.
    """

    heading: str
    fields: tuple[str, ...]
    is_right: bool = False
    wraps: bool = False
    leads: bool = False
    kept: bool = False


class Page:
    """Prints an answer.

    ``command`` are the words of a command that calls an ability, such as "abilities call". Without
    them the page mentions next_request instead of printing commands.
    """

    def __init__(self, console: Console, command: Sequence[str] = ()) -> None:
        self._console = console
        self._command = command

    def print_line(self, *parts: str | Text, style: str = "", indent: int = 0) -> None:
        """Print texts after each other; they wrap at the page's width, with the indent."""
        line = Text(style=style)
        for part in parts:
            line.append_text(to_text(part))

        self._print(Padding(line, (0, 0, 0, indent), expand=False) if indent else line)

    def print_content(self, content: str) -> None:
        """Print a content of several lines, indented so that none looks like a line of the page."""
        # A tab has no width when a text is measured, so the lines would be too short for it.
        text = Text(escape_lines(content).expandtabs())
        self._print(Padding(text, (0, 0, 0, _CONTENT_INDENT), expand=False))

    def print_beginning(self, content: str) -> None:
        """Print a content as `print_content` does, but only its beginning on a terminal.

        A file or a pager gets all of it.
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

    def print_table(self, columns: Sequence[Column], records: Iterable[JsonObject]) -> None:
        """Print one row per record, or lists if the page is too narrow; nothing without records."""
        rows: list[list[Text]] = []
        for record in records:
            values = {**record, **(as_object(record.get("data")) or {})}
            mark, note = _describe_outcome(values)
            values = {"mark": mark, "note": note, **values}
            rows.append([to_text(format_cell(column, values)) for column in columns])
        if not rows:
            return

        filled = [
            index
            for index, column in enumerate(columns)
            if column.kept or any(row[index] for row in rows)
        ]
        columns = [columns[index] for index in filled]
        rows = [[row[index] for index in filled] for row in rows]

        least = _GAP * (len(columns) - 1)
        headed = any(column.heading for column in columns)
        table = Table(box=None, pad_edge=False, header_style="bold", show_header=headed)
        for index, column in enumerate(columns):
            texts = [Text(column.heading), *(row[index] for row in rows)]
            widest = max(text.cell_len for text in texts)
            least += min(widest, _LEAST_CELLS) if column.wraps else widest
            table.add_column(
                column.heading,
                justify="right" if column.is_right else "left",
                overflow="fold",
                min_width=None if column.wraps else widest,
            )

        if least <= self._console.width:
            for row in rows:
                table.add_row(*row)
            self._print(table)
            return

        for row in rows:
            cells = [pair for pair in zip(columns, row, strict=True) if pair[1]]
            leading = [cell for column, cell in cells if column.leads]
            self.print_line(Text("  ").join(leading))

            for column, cell in cells:
                if not column.leads:
                    heading = style_text(f"{column.heading}: ", "dim")
                    self.print_line(heading, cell, indent=_INDENT)

    def print_rest(self, name: str, arguments: JsonObject, words: str = "For the rest:") -> None:
        """Print the command that calls an ability for the rest of an answer."""
        if not self._command:
            self.print_line("send next_request for the rest")
            return

        # Control characters become JSON escapes, which mean the same and can be pasted.
        document = escape_text(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))
        command = Text(shlex.join([*self._command, name, document, "--pretty"]))
        room = _COMMAND_LINES * self._console.width

        if command.cell_len > room or command.plain != escape_text(command.plain):
            self.print_line(f"{words} send the request in the JSON answer (leave out --pretty).")
            return

        self.print_command(words, command.plain)

    def print_command(self, words: str, command: str) -> None:
        """Print a command on its own line, which is never broken."""
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


def style_text(text: str, style: str) -> Text:
    """Return foreign text for one line in a style, with control characters escaped."""
    return Text(escape_text(text), style=style)


def to_text(value: str | Text) -> Text:
    """Return foreign text for one line without a style; a Text is returned as it is."""
    return style_text(value, "") if isinstance(value, str) else value


def begin_content(content: str) -> str:
    """Return the first 200 characters of a content on one line."""
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


_NAMES = ("input", "path", "key", "filename", "date", "type")
"""The fields that may name a record or a content in it; the first one present does."""

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


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("bytes", "characters", "granted_bytes", "size", "size_bytes"), "{:,}".format),
    **dict.fromkeys(("score", "link_weight"), "{:.2f}".format),
    **dict.fromkeys(("at", "modified_at"), format_time),
    "changed": ", ".join,
    "content": begin_content,
    "updated_at": lambda time: time[:10],
}
"""The formats of fields, by name; other values are printed as they are."""


def format_cell(column: Column, values: JsonObject) -> str | Text:
    """Return the text of a column for a record."""
    for name in column.fields:
        value = values.get(name)
        if isinstance(value, Text):
            return value
        if value is not None and value != "":
            return _FORMATS.get(name, str)(value)

    return ""


def find_reason(record: JsonObject) -> str | None:
    """Return why a record failed, such as "not_found"; None if it did not."""
    reason: str | None = record.get("error", record).get("reason")
    return reason


def _describe_outcome(record: JsonObject) -> tuple[Text, Text]:
    """Return the word for a record's outcome, and the reason of a failure or other notes."""
    match find_reason(record):
        case None:
            pass
        case "response_budget":
            # People need not take it for a failure.
            note = "no room left; next_request fetches it"
            return style_text("later", "yellow"), style_text(note, "dim")
        case "rolled_back":
            return style_text("not made", "yellow"), style_text("another operation failed", "dim")
        case _:
            return style_text("failed", "red"), style_failure(record)

    mark = style_text("ok", "green")
    if "truncation" in record or "next" in record:
        mark = style_text("cut", "yellow")

    replaced = record.get("replaced")
    is_version = isinstance(replaced, int) and not isinstance(replaced, bool)
    similar: list[JsonObject] = record.get("similar", [])
    mended: list[str] = record.get("mended", [])
    notes = [
        "unchanged, not sent again" if record.get("unchanged") else "",
        format_state(record),
        "new" if record.get("created") is True else "",
        f"replaced version {replaced}" if is_version else "",
        f"changed {', '.join(record['updated_fields'])}" if record.get("updated_fields") else "",
        f"similar: {', '.join(one['key'] for one in similar)}" if similar else "",
        f"damaged, so {', '.join(mended)} became defaults" if mended else "",
        begin_content(str(record.get("summary", ""))),
    ]

    items, planned = record.get("items"), "granted_bytes" in record
    if planned and items is not None:
        notes.append(f"{record['granted_items']} of {format_count(items, 'content')}")
    elif planned and record["bytes"] and not record["granted_bytes"]:
        notes.append("no room left")
    elif isinstance(items, list):
        notes.append(format_count(len(cast(list[object], items)), "content"))
    if "truncation" in record:
        notes.append(format_truncation(record["truncation"]))

    return mark, style_text(", ".join(filter(None, notes)), "dim")


def style_failure(record: JsonObject) -> Text:
    """Return why a record failed; a concise record has a reason, and perhaps a message."""
    if "error" in record:
        words = f"{record['error']['code']}: {record['error']['message']}"
    else:
        words = ": ".join(filter(None, [record["reason"], record.get("message", "")]))

    return style_text(words, "red")


def format_truncation(truncation: JsonObject) -> str:
    """Return how much of a content was read, such as "cut at 20 of 90 characters (limit)"."""
    returned = f"{truncation['returned_chars']:,}"

    # The total is unknown if reading stopped before the end.
    if "total_chars" in truncation:
        returned += f" of {truncation['total_chars']:,}"

    return f"cut at {returned} characters ({truncation['reason']})"


def format_state(record: JsonObject) -> str:
    """Return where a memory is from and what became of it, such as "archived, replaced by tea"."""
    parts = [
        f"from {record['from']}" if "from" in record else "",
        "archived" if record.get("archived") else "",
        f"replaced by {record['replaced_by']}" if "replaced_by" in record else "",
        f"since {record['since']}" if "since" in record else "",
    ]
    return ", ".join(filter(None, parts))


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
