"""The formats of a payload: compact JSON, text whose contents are not escaped, and TOON."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from typing import Any, Literal, NamedTuple, cast

import orjson

from abilities.declarations.refusals import Fault, Reason
from abilities.declarations.values import JsonObject, as_object, json_bytes
from abilities.helpers.reply.detail import is_cut
from abilities.helpers.reply.envelope import format_item

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


_REASON: Reason = "response_budget"
_FAULT = Fault.from_reason(_REASON).to_payload()

_ITEM_ARGUMENTS = ("paths", "targets", "items")


def fold_left_out(payload: JsonObject) -> JsonObject:
    """Return a payload with one entry in the place of each run of records that were left out."""
    items = _list_next_items(payload)
    if not items:
        return payload

    waiting = iter(items)
    entries: list[object] = []
    for record in payload["results"]:
        item = next(waiting, None) if _is_continued(record) else None
        size = _get_size(record)

        if item is None or record != _build_record(item, size):
            entries.append(record)
        else:
            _count(entries, size)

    return {**payload, "results": entries}


def unfold_left_out(payload: JsonObject) -> JsonObject:
    """Return the payload that was folded. Raises ValueError if there can be none."""
    items = _list_next_items(payload)
    if not items:
        return payload

    waiting = iter(items)
    records: list[object] = []
    for entry in payload["results"]:
        sizes = _list_sizes(entry)
        if sizes is None:
            records.append(entry)
            if _is_continued(entry):
                next(waiting, None)
        else:
            records += _build_run(sizes, waiting)

    return {**payload, "results": records}


def _list_next_items(payload: JsonObject) -> Sequence[object]:
    """Return the items of the next request of a bulk reply; none for anything else."""
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


def _get_size(record: object) -> object:
    """Return the size that a full record of an item that was left out tells."""
    fields = as_object(record) or {}
    return (as_object(fields.get("error")) or {}).get("size_bytes")


def _build_record(item: object, size: object) -> JsonObject:
    """Return the record of an item that was left out: a concise one without a size."""
    leading: JsonObject = {"input": format_item(item), "success": False}
    if size is None:
        return {**leading, "reason": _REASON}

    return {**leading, "error": {**_FAULT, "size_bytes": size}}


def _count(entries: list[object], size: object) -> None:
    """Count a record in the last entry, if that is a run of the same kind, or begin one."""
    last = as_object(entries[-1]) if entries else None
    run: object = (last or {}).get("left_out")

    if last is not None and isinstance(run, int) and size is None:
        last["left_out"] = run + 1
    elif isinstance(run, list) and size is not None:
        cast(list[object], run).append(size)
    else:
        entries.append({"left_out": 1 if size is None else [size]})


def _list_sizes(entry: object) -> Iterable[object] | None:
    """Return the sizes of a run, None for each that it does not tell; None if it is no run."""
    fields = as_object(entry)
    if fields is None or list(fields) != ["left_out"]:
        return None

    run: object = fields["left_out"]
    if isinstance(run, list):
        return cast(list[object], run)

    return repeat(None, run) if isinstance(run, int) else None


def _build_run(sizes: Iterable[object], waiting: Iterator[object]) -> Iterator[JsonObject]:
    """Yield the records of a run. Raises ValueError if the next request has too few items."""
    for size in sizes:
        item = next(waiting, None)
        if item is None:
            raise ValueError("a reply in the text format names more items than its next request")
        yield _build_record(item, size)


_PLACES = ("results", "targetMemory", "associatedMemories", "memories")
"""Where records stand in a payload, one or a list of them; a payload may be a record itself."""

_INNER_PLACES = ("memories", "items")
"""Where records stand within a record of `recall` or `read`, or within its data."""

_BOUNDARY_BYTES = 4
"""It is paid for with each record, and safe at any length: it stands in no content."""

_RECORD_START = re.compile(f"[0-9a-f]{{{_BOUNDARY_BYTES * 2}}} ")
_NOT_TEXT = "the text is not a whole reply in the text format"


class _Part(NamedTuple):
    """A record with content: its other fields, and the content."""

    header: JsonObject
    content: str


def format_text(payload: object) -> str:
    """Return a payload in the text format; the same payload gives the same text.

    It is the payload of a built-in ability: numbers in the place of records would be taken for
    counts. Raises TypeError for a payload that JSON cannot hold.
    """
    parts: list[_Part] = []
    frame = _take_records(fold_left_out(as_object(payload) or {}), parts)

    if not parts:
        return orjson.dumps(payload).decode()

    headers = [orjson.dumps(part.header) for part in parts]
    contents = [part.content for part in parts]
    boundary = choose_boundary(_list_boundaries(headers, contents), contents)

    pieces = [orjson.dumps(frame).decode(), "\n"]
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
        payload = _put_records(payload, _split_records(rest))

    if not isinstance(payload, dict):
        raise ValueError(_NOT_TEXT)

    return unfold_left_out(cast(JsonObject, payload))


def choose_boundary(candidates: Iterable[str], contents: Sequence[str]) -> str:
    """Return the first candidate that stands in none of the contents."""
    for candidate in candidates:
        if not any(candidate in content for content in contents):
            return candidate

    raise ValueError("there are too few candidates")


def _list_boundaries(headers: Sequence[bytes], contents: Sequence[str]) -> Iterator[str]:
    """Yield hashes without end (BLAKE2b, 32 bits): the same for the same records.

    The first is of the headers alone, which is fast. Whoever foresees it and puts it into a content
    cannot foresee the others, which are of the contents and a counter.
    """
    digest = blake2b(b"\n".join(headers), digest_size=_BOUNDARY_BYTES)
    yield digest.hexdigest()

    for content in contents:
        digest.update(content.encode())

    for counter in itertools.count():
        attempt = digest.copy()
        attempt.update(counter.to_bytes(8, "big"))
        yield attempt.hexdigest()


def _take_records(payload: JsonObject, parts: list[_Part]) -> object:
    """Return a payload with numbers in the place of the records that have content.

    The records are added to ``parts``.
    """
    frame: JsonObject = {}

    for name, value in payload.items():
        if name not in _PLACES:
            frame[name] = value
        elif isinstance(value, list):
            frame[name] = _take_from_list(cast(list[object], value), parts, name)
        else:
            frame[name] = _take_one(value, parts, name)

    if parts:
        return frame

    return _take_one(payload, parts)


def _take_one(record: object, parts: list[_Part], place: str = "") -> object:
    """Return 1 in the place of a record with content, and anything else as it is."""
    part = _split_record(record, place)
    if part is None:
        return record

    parts.append(part)
    return 1


def _take_from_list(records: list[object], parts: list[_Part], place: str) -> list[object]:
    """Return a list with one number in the place of each run of records with content."""
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
        rest.append(_take_inner(record, parts, place))

    if count:
        rest.append(count)

    return rest


def _take_inner(record: object, parts: list[_Part], place: str) -> object:
    """Return a record of a bulk reply with numbers in the place of records within it."""
    name, inner = _find_inner(record, place)
    if inner is None:
        return record

    return _replace_inner(record, name, _take_from_list(inner, parts, name))


def _find_inner(record: object, place: str) -> tuple[str, list[object] | None]:
    """Return where a record, or its data, holds further records, and these; None for none."""
    fields = as_object(record)
    if fields is None or place != "results":
        return "", None

    holder = as_object(fields.get("data")) or fields
    for name in _INNER_PLACES:
        if isinstance(holder.get(name), list):
            return name, cast(list[object], holder[name])

    return "", None


def _replace_inner(record: object, name: str, inner: list[object]) -> JsonObject:
    """Return a record with other values in the place of the records within it."""
    fields = as_object(record) or {}
    data = as_object(fields.get("data"))
    if data:
        return {**fields, "data": {**data, name: inner}}

    return {**fields, name: inner}


def _split_record(record: object, place: str) -> _Part | None:
    """Return the parts of a record that has content; None for anything else."""
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

    if _says_success(header, place) and header.get("success") is True:
        del header["success"]

    return _Part(header, content)


def _says_success(header: JsonObject, place: str) -> bool:
    """Return whether records like this one say whether they succeeded: all but concise memories."""
    return place == "results" or "data" in header


def _split_records(text: str) -> Iterator[JsonObject]:
    """Yield the records of a reply's lines after the first. Raises ValueError."""
    match = _RECORD_START.match(text)
    if match is None or not text.endswith("\n"):
        raise ValueError(_NOT_TEXT)

    start = match[0]
    for part in text[len(start) : -1].split("\n" + start):
        header, line_end, content = part.partition("\n")
        record: Any = orjson.loads(header)
        if not line_end or not isinstance(record, dict):
            raise ValueError(_NOT_TEXT)

        yield _put_content(cast(JsonObject, record), content)


def _put_content(record: JsonObject, content: str) -> JsonObject:
    holder = as_object(record.get("data"))
    if holder is None:
        holder = record

    holder["content"] = content
    return record


def _put_records(frame: object, records: Iterator[JsonObject]) -> object:
    """Return the payload: a frame with records in the place of numbers. Raises ValueError."""
    fields = as_object(frame)
    if fields is None:
        payload = _put_one(frame, records)
    else:
        payload = {name: _put_into(name, value, records) for name, value in fields.items()}

    if next(records, None) is not None:
        raise ValueError(_NOT_TEXT)

    return payload


def _put_into(name: str, value: object, records: Iterator[JsonObject]) -> object:
    if name not in _PLACES:
        return value

    if isinstance(value, list):
        return _put_into_list(cast(list[object], value), records, name)

    return _put_one(value, records, name)


def _put_one(value: object, records: Iterator[JsonObject], place: str = "") -> object:
    if type(value) is not int:
        return value

    (record,) = _put_into_list([value], records, place)
    return record


def _put_into_list(values: list[object], records: Iterator[JsonObject], place: str) -> list[object]:
    whole: list[object] = []

    for value in values:
        if type(value) is not int:  # true is no number here
            whole.append(_put_inner(value, records, place))
            continue

        run = list(itertools.islice(records, value))
        if len(run) < value:
            raise ValueError(_NOT_TEXT)
        whole += [_put_success(record, place) for record in run]

    return whole


def _put_inner(record: object, records: Iterator[JsonObject], place: str) -> object:
    """Return a record of a bulk reply with the records within it."""
    name, inner = _find_inner(record, place)
    if inner is None:
        return record

    return _replace_inner(record, name, _put_into_list(inner, records, name))


def _put_success(record: JsonObject, place: str) -> JsonObject:
    """Return a record with the success that its header left out, after its first field."""
    if "success" in record or not _says_success(record, place):
        return record

    whole: JsonObject = {}
    for name, value in record.items():
        if name in ("data", "content"):
            whole["success"] = True
        whole[name] = value

    return whole


Format = Literal["json", "text", "toon"]


def render(payload: object, format: Format = "json") -> str:
    """Return a payload in a format: compact JSON, text whose contents are not escaped, or TOON.

    JSON is UTF-8, not escaped to ASCII. As text, a payload without contents is JSON; `parse_text`
    reads both. In TOON, records of plain values are one table, with null for what a record does
    not have. Raises ValueError for an unknown format, and TypeError for a payload that JSON cannot
    hold.
    """
    if format == "json":
        return json_bytes(payload).decode()

    if format == "text":
        return format_text(payload)

    if format == "toon":
        # Imported only here: it takes a fifth of a second, which only TOON needs.
        import toon_format

        return toon_format.dumps(fill_tables(payload))

    raise ValueError(f"unknown format {format!r}: use 'json', 'text' or 'toon'")
