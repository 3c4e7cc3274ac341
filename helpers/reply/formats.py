"""The formats of a payload: compact JSON, text with unescaped contents, and TOON.

In the text format, the first line is the payload as JSON, with a number in place of each run of
records that have content. The records follow: each begins with a boundary and its other fields as
JSON, and its content fills the next lines. A record with the same fields as the one before it has
only their values, as a list. In the payload of a bulk reply, one entry replaces each
run of records that were left out, because the next request has their items.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, repeat
from typing import Any, Literal, NamedTuple, cast

import orjson

from abilities.declarations.fields import OutputFormat
from abilities.declarations.refusals import Fault, Reason
from abilities.declarations.values import JsonObject, as_object, json_bytes, text_size
from abilities.helpers.reply.envelope import format_item, is_cut

Format = Literal["json", "text", "toon"]

_LISTS = ("results", "associatedMemories", "memories", "files")
"""The fields of an answer that hold records as rows of a table."""

_PLACES = ("results", "targetMemory", "associatedMemories", "memories")
"""The fields of a payload that hold one record with content or a list of them.

A payload may also be such a record itself.
"""

_INNER_PLACES = ("memories", "items")
"""The fields of a record of `recall` or `read`, or of its data, that hold further records."""

_ITEM_ARGUMENTS = ("paths", "targets", "items")

_REASON: Reason = "response_budget"
_FAULT = Fault.from_reason(_REASON).to_payload()

_BOUNDARY_BYTES = 3
"""Few, because every record repeats them; enough, because another boundary is tried if a content
contains the first.
"""

_RECORD_START = re.compile(f"[0-9a-f]{{{_BOUNDARY_BYTES * 2}}} ")
_NOT_TEXT = "the text is not a whole reply in the text format"


def render(payload: object, format: Format = "json") -> str:
    """Return a payload in a format: compact JSON, text with unescaped contents, or TOON.

    JSON is UTF-8, not escaped to ASCII. As text, a payload without contents is JSON; `parse_text`
    reads both. In TOON, records of plain values are one table, with null for each missing field.
    Raises ValueError for an unknown format, and TypeError for a payload that JSON cannot represent.

    >>> render({"results": [{"input": "a.txt", "success": True, "content": "é"}]})
    '{"results":[{"input":"a.txt","success":true,"content":"é"}]}'
    """
    if format == "json":
        return json_bytes(payload).decode()

    if format == "text":
        return format_text(payload)

    if format == "toon":
        # Imported here because it takes a fifth of a second, and only TOON needs it.
        import toon_format

        return toon_format.dumps(fill_tables(payload))

    raise ValueError(f"unknown format {format!r}: use 'json', 'text' or 'toon'")


def list_sent(output_format: OutputFormat, *, structured: bool) -> tuple[Format, ...]:
    """Return the formats in which an answer must keep its bound."""
    # Of "auto", the smallest format is sent, so JSON is the upper bound.
    sent: Format = "json" if output_format == "auto" else output_format
    return (sent, "json") if structured else (sent,)


def measure_largest(answer: JsonObject, formats: Iterable[Format]) -> int:
    """Return the size of an answer in the format in which it is largest."""
    return max(text_size(render(answer, name)) for name in formats)


def fill_tables(payload: object) -> object:
    """Return a payload whose flat records have null for each field that another record has.

    Records are flat if all their values are plain, as in concise answers; those of `recall` are
    within the records of its questions. A payload with any other records is returned unchanged.
    """
    reply = as_object(payload)
    if reply is None:
        return payload

    lists = [reply[name] for name in _LISTS if isinstance(reply.get(name), list)]
    records: list[object] = []
    for record in chain.from_iterable(lists):
        fields = as_object(record) or {}
        inner = (fields[name] for name in _INNER_PLACES if isinstance(fields.get(name), list))
        records += next(inner, [record])
    if "targetMemory" in reply:
        records.append(reply["targetMemory"])

    if records and all(map(_is_flat, records)):
        return _fill(reply)

    return payload


def _is_flat(value: object) -> bool:
    record = as_object(value)
    if not record:
        return False

    return not any(isinstance(field, dict | list) for field in record.values())


def _fill(value: object) -> object:
    """Fill the tables in a value at any depth, including those of the next request."""
    fields = as_object(value)
    if fields is not None:
        return {name: _fill(field) for name, field in fields.items()}

    if not isinstance(value, list):
        return value

    items = cast(list[object], value)
    if not items or not all(map(_is_flat, items)):
        return [_fill(item) for item in items]

    rows = cast(list[JsonObject], items)
    columns = dict.fromkeys(chain.from_iterable(rows))
    return [{column: row.get(column) for column in columns} for row in rows]


def fold_left_out(payload: JsonObject) -> JsonObject:
    """Return a payload with one entry in place of each run of records that were left out.

    A run of concise records is a number, one of full records the list of their sizes, for example
    ``{"left_out": 3}`` and ``{"left_out": [120, 4096, 80]}``.
    """
    items = _list_next_items(payload)
    if not items:
        return payload

    waiting = iter(items)
    entries: list[object] = []
    for record in payload["results"]:
        item = next(waiting, None) if _is_continued(record) else None
        fields = as_object(record) or {}
        size = (as_object(fields.get("error")) or {}).get("size_bytes")

        if item is None or record != _build_left_out(item, size):
            entries.append(record)
            continue

        last = as_object(entries[-1]) if entries else None
        run: object = (last or {}).get("left_out")
        if last is not None and isinstance(run, int) and size is None:
            last["left_out"] = run + 1
        elif isinstance(run, list) and size is not None:
            cast(list[object], run).append(size)
        else:
            entries.append({"left_out": 1 if size is None else [size]})

    return {**payload, "results": entries}


def unfold_left_out(payload: JsonObject) -> JsonObject:
    """Return the payload that was folded. Raises ValueError if the next request is too short."""
    items = _list_next_items(payload)
    if not items:
        return payload

    waiting = iter(items)
    records: list[object] = []
    for entry in payload["results"]:
        fields = as_object(entry) or {}
        run: object = fields.get("left_out") if len(fields) == 1 else None
        sizes: Iterable[object]
        if isinstance(run, list):
            sizes = cast(list[object], run)
        elif isinstance(run, int):
            sizes = repeat(None, run)
        else:
            records.append(entry)
            if _is_continued(entry):
                next(waiting, None)
            continue

        for size in sizes:
            item = next(waiting, None)
            if item is None:
                raise ValueError("a reply in text leaves out more items than its next request has")
            records.append(_build_left_out(item, size))

    return {**payload, "results": records}


def _list_next_items(payload: JsonObject) -> Sequence[object]:
    """Return the items of the next request of a bulk reply; none for any other payload."""
    request = as_object(payload.get("next_request"))
    if request is None or not isinstance(payload.get("results"), list):
        return ()

    for name in _ITEM_ARGUMENTS:
        if isinstance(request.get(name), list):
            return cast(list[object], request[name])

    return ()


def _is_continued(record: object) -> bool:
    """Return whether the next request has an item for a record."""
    fields = as_object(record) or {}
    error = as_object(fields.get("error")) or fields
    return error.get("reason") == _REASON or is_cut(fields)


def _build_left_out(item: object, size: object) -> JsonObject:
    """Return the record of an item that was left out: a concise one without a size."""
    leading: JsonObject = {"input": format_item(item), "success": False}
    if size is None:
        return {**leading, "reason": _REASON}

    return {**leading, "error": {**_FAULT, "size_bytes": size}}


class _Part(NamedTuple):
    """A record with content: its other fields, and the content."""

    header: JsonObject
    content: str


def format_text(payload: object) -> str:
    """Return a payload in the text format; the same payload gives the same text.

    It must be the payload of a built-in ability, because a number in place of a record counts
    records. Raises TypeError for a payload that JSON cannot represent.
    """
    folded = fold_left_out(as_object(payload) or {})
    parts: list[_Part] = []
    take = partial(_take_records, parts)

    envelope: object = _change_lists(folded, take)
    if not parts:
        (envelope,) = take([folded], "")  # the payload may be a record itself
    if not parts:
        return orjson.dumps(payload).decode()

    headers: list[bytes] = []
    names: list[str] = []
    for part in parts:
        former, names = names, list(part.header)
        shown: object = list(part.header.values()) if names == former else part.header
        headers.append(orjson.dumps(shown))
    contents = [part.content for part in parts]

    def is_free(boundary: str) -> bool:
        return not any(boundary in content for content in contents)

    boundary = next(filter(is_free, _generate_boundaries(headers, contents)))

    pieces = [orjson.dumps(envelope).decode(), "\n"]
    for header, content in zip(headers, contents, strict=True):
        pieces += (boundary, " ", header.decode(), "\n", content, "\n")

    return "".join(pieces)


def parse_text(text: str) -> JsonObject:
    """Return the payload of a reply in the text format, or of one in JSON.

    Raises ValueError for any other text, and for one that was cut off between two records.
    """
    first_line, _, rest = text.partition("\n")
    payload: Any = orjson.loads(first_line)

    if rest:
        records = _parse_records(rest)
        restore = partial(_restore_records, records)
        if isinstance(payload, dict):
            payload = _change_lists(cast(JsonObject, payload), restore)
        else:
            (payload,) = restore([payload], "")

        if next(records, None) is not None:
            raise ValueError(_NOT_TEXT)

    if not isinstance(payload, dict):
        raise ValueError(_NOT_TEXT)

    return unfold_left_out(cast(JsonObject, payload))


def _generate_boundaries(headers: Sequence[bytes], contents: Sequence[str]) -> Iterator[str]:
    """Yield hashes without end (BLAKE2b, 24 bits): the same for the same records.

    The first hash is of the headers alone, which is fast. An attacker who foresees it and puts it
    into a content cannot foresee the others, which are of the contents and a counter.
    """
    digest = blake2b(b"\n".join(headers), digest_size=_BOUNDARY_BYTES)
    yield digest.hexdigest()

    for content in contents:
        digest.update(content.encode())

    for counter in itertools.count():
        attempt = digest.copy()
        attempt.update(counter.to_bytes(8, "big"))
        yield attempt.hexdigest()


_Change = Callable[[list[object], str], list[object]]
"""Changes the records in a list at a place of a payload."""


def _change_lists(payload: JsonObject, change: _Change) -> JsonObject:
    """Return a payload whose lists of records are changed; a single record counts as a list."""
    changed: JsonObject = {}
    for name, value in payload.items():
        if name in _PLACES and isinstance(value, list):
            value = change(cast(list[object], value), name)
        elif name in _PLACES:
            (value,) = change([value], name)
        changed[name] = value

    return changed


def _change_inner(record: object, place: str, change: _Change) -> object:
    """Return a record of which the list of further records in it, or in its data, is changed."""
    fields = as_object(record)
    if fields is None or place != "results":
        return record

    data = as_object(fields.get("data"))
    holder = data or fields
    for name in _INNER_PLACES:
        if isinstance(holder.get(name), list):
            changed: JsonObject = {**holder, name: change(holder[name], name)}
            return {**fields, "data": changed} if data else changed

    return record


def _take_records(parts: list[_Part], records: list[object], place: str) -> list[object]:
    """Return a list with one number in place of each run of records with content.

    These are added to the parts.
    """
    rest: list[object] = []
    count = 0

    for record in records:
        part = _split_record(record, place)
        if part is not None:
            parts.append(part)
            count += 1
            continue

        if count:
            rest.append(count)
            count = 0
        rest.append(_change_inner(record, place, partial(_take_records, parts)))

    if count:
        rest.append(count)

    return rest


def _split_record(record: object, place: str) -> _Part | None:
    """Return the parts of a record that has content; None for any other value."""
    fields = as_object(record)
    if fields is None:
        return None

    data = as_object(fields.get("data"))
    content = (fields if data is None else data).get("content")
    if not isinstance(content, str):
        return None

    header = dict(fields)
    if data is None:
        del header["content"]
    else:
        header["data"] = {name: value for name, value in data.items() if name != "content"}

    if _has_success(header, place) and header.get("success") is True:
        del header["success"]

    return _Part(header, content)


def _has_success(header: JsonObject, place: str) -> bool:
    """Return whether such records have the field ``success``: all but concise memories do."""
    return place == "results" or "data" in header


def _parse_records(text: str) -> Iterator[JsonObject]:
    """Yield the records that follow the first line of a reply. Raises ValueError."""
    match = _RECORD_START.match(text)
    if match is None or not text.endswith("\n"):
        raise ValueError(_NOT_TEXT)

    start = match[0]
    names: list[str] = []
    for part in text[len(start) : -1].split("\n" + start):
        header, line_end, content = part.partition("\n")
        record: Any = orjson.loads(header)
        if isinstance(record, list):
            values = cast(list[object], record)
            record = dict(zip(names, values, strict=True)) if len(values) == len(names) else None
        if not line_end or not isinstance(record, dict):
            raise ValueError(_NOT_TEXT)

        fields = cast(JsonObject, record)
        names = list(fields)
        data = as_object(fields.get("data"))
        holder = fields if data is None else data
        holder["content"] = content
        yield fields


def _restore_records(
    records: Iterator[JsonObject], values: list[object], place: str
) -> list[object]:
    """Return a list with records in place of their numbers."""
    restored: list[object] = []

    for value in values:
        if type(value) is not int:  # `True` is an int too, but counts nothing
            restored.append(_change_inner(value, place, partial(_restore_records, records)))
            continue

        run = list(itertools.islice(records, value))
        if len(run) < value:
            raise ValueError(_NOT_TEXT)
        restored += [_restore_success(record, place) for record in run]

    return restored


def _restore_success(record: JsonObject, place: str) -> JsonObject:
    """Return a record with the ``success`` that its header omits, in its original place."""
    if "success" in record or not _has_success(record, place):
        return record

    restored: JsonObject = {}
    for name, value in record.items():
        if name in ("data", "content"):
            restored["success"] = True
        restored[name] = value

    return restored
