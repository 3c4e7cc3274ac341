"""Tables: records that have the same fields, which TOON writes as one header and a row each."""

from collections.abc import Sequence
from itertools import chain
from typing import cast

from abilities.declarations.values import JsonObject, as_object

_LISTS = ("results", "associatedMemories", "memories", "files")
"""The fields in which answers hold their records."""

_INNER_LISTS = ("memories", "items")
"""The fields in which a record may hold further ones."""


def fill_tables(payload: object) -> object:
    """Return a payload whose records are flat with null for each field that another one has.

    Records are flat if they hold only plain values, as those of concise answers do; those of
    `recall` are within the records of its questions. A payload with any other records is returned
    as it is.
    """
    reply = as_object(payload)
    if reply is None or not _has_flat_records(reply):
        return payload

    return _fill(reply)


def _has_flat_records(reply: JsonObject) -> bool:
    lists = [reply[name] for name in _LISTS if isinstance(reply.get(name), list)]
    records: list[object] = []
    for value in chain.from_iterable(lists):
        records += _list_inner(value)
    if "targetMemory" in reply:
        records.append(reply["targetMemory"])

    return bool(records) and all(map(_is_flat, records))


def _list_inner(value: object) -> list[object]:
    """Return the records within a record of `recall` or `read`; any other record alone."""
    fields = as_object(value) or {}
    for name in _INNER_LISTS:
        if isinstance(fields.get(name), list):
            return cast(list[object], fields[name])

    return [value]


def _is_flat(value: object) -> bool:
    record = as_object(value)
    if not record:
        return False

    return not any(isinstance(field, dict | list) for field in record.values())


def _fill(value: object) -> object:
    """Fill the tables in a value, at any depth: those of the next request too."""
    fields = as_object(value)
    if fields is not None:
        return {name: _fill(field) for name, field in fields.items()}

    if not isinstance(value, list):
        return value

    items = cast(list[object], value)
    if items and all(map(_is_flat, items)):
        return _fill_table(cast(list[JsonObject], items))

    return [_fill(item) for item in items]


def _fill_table(records: Sequence[JsonObject]) -> list[JsonObject]:
    columns = dict.fromkeys(chain.from_iterable(records))

    filled: list[JsonObject] = []
    for record in records:
        filled.append({column: record.get(column) for column in columns})

    return filled
