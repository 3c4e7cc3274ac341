"""Records of answers as rows of tables: the fields of each column, and what to say of a record."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from rich.text import Text

from abilities.cli.page import Column, Page, begin_content, format_time, styled
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject, as_object

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
