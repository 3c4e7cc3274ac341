"""Write an entry of the history as a line of JSON, and read it back without loss."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from abilities.declarations.transfer import HistoryLine, Replaced
from abilities.declarations.values import JsonObject
from abilities.helpers.store.history import Entry, seal
from abilities.helpers.store.model import Row, dump_sorted_json
from abilities.helpers.transfer.export_lines import UnusableLine, describe_mistake, parse_line_json

_START = b'{"history"'
_JSON_COLUMNS = ("tags", "metadata")
_ALL_COLUMNS = frozenset(Row._fields) - {"namespace", "version"}


def is_history(line: bytes) -> bool:
    """Return whether a line is one of the history, sound or not."""
    return line.startswith(_START)


def format_entry(entry: Entry) -> bytes:
    """Return an entry as a line with its newline."""
    before: JsonObject = orjson.loads(entry.before)
    for name in _JSON_COLUMNS:
        if name in (before["row"] or ()):
            before["row"][name] = orjson.loads(before["row"][name])

    values: JsonObject = {
        "namespace": entry.namespace,
        "id": entry.id,
        "version": entry.version,
        "key": entry.key,
        "previous": entry.previous,
        "action": entry.action,
        "made_at": entry.made_at,
        "caller": entry.caller,
        "before": before,
    }
    return orjson.dumps({"history": values}) + b"\n"


def parse_entry(line: bytes) -> Entry:
    """Return the entry on a line, with its hash. Raises UnusableLine."""
    value = parse_line_json(line)
    try:
        entry = HistoryLine.model_validate(value).history
    except ValidationError as error:
        raise describe_mistake(error, "an entry of the history") from None

    parsed = Entry(
        namespace=entry.namespace,
        version=entry.version,
        id=entry.id,
        key=entry.key,
        previous=entry.previous,
        action=entry.action,
        made_at=entry.made_at,
        caller=entry.caller,
        before=_dump_replaced(entry.before),
    )
    if not _is_possible(parsed):
        raise UnusableLine("The entry of the history fits no memory.")

    return seal(parsed)


def _dump_replaced(replaced: Replaced) -> str:
    before: dict[str, Any] = {"row": None}
    if replaced.row is not None:
        columns: JsonObject = {**replaced.row}
        for name in _JSON_COLUMNS:
            if name in columns:
                columns[name] = dump_sorted_json(columns[name])
        before["row"] = columns

    if replaced.links:
        before["links"] = replaced.links
    return dump_sorted_json(before)


def _is_possible(entry: Entry) -> bool:
    """Return whether an entry can be undone, whatever came before it."""
    columns: JsonObject | None = orjson.loads(entry.before)["row"]
    if (columns is None) != (entry.previous == 0):
        return False
    if columns is None:
        return entry.action in ("created", "imported", "restored")
    if entry.action == "deleted":
        return columns.keys() == _ALL_COLUMNS and columns["id"] == entry.id

    return "id" not in columns and (entry.action != "relinked" or not columns)


class _Position(NamedTuple):
    """Where the entries of a memory have led: to which version, and whether it was there then."""

    version: int
    exists: bool


def keep_sound(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of one memory from which its past can be made, by rising version.

    If one does not follow the one before it, those before it lead nowhere.
    """
    kept: list[Entry] = []
    position: _Position | None = None

    for entry in entries:
        if position is not None and not _follows(entry, kept[-1], position):
            kept = []
        kept.append(entry)
        position = _move_on(entry)

    return kept


def _follows(entry: Entry, last: Entry, position: _Position) -> bool:
    if entry.version <= last.version:
        return False
    if not position.exists:
        return entry.previous == 0

    return entry.previous == position.version


def _move_on(entry: Entry) -> _Position:
    if entry.action == "relinked":
        return _Position(entry.previous, exists=True)

    return _Position(entry.version, exists=entry.action != "deleted")
