"""The `text` format: a reply in which contents stand as they are, without any escaping.

The first line is the payload as compact JSON without the records that have content. In their place
stands a number: how many of them follow. Then comes each of these records, in the order of the
payload: a line with the boundary, a space and the record's other fields as JSON, then the content,
then one LF. The boundary stands in no content, so that no content can pass for a record:

    {"results":[1,{"input":"b.txt","success":false,"error":{…}},1],"summary":{…}}
    4f1c9a0b {"input":"a.txt","data":{"path":"a.txt",…}}
    content of a.txt
    4f1c9a0b {"input":"c.txt","data":{"path":"c.txt",…}}
    content of c.txt

Content is success enough: where records say whether they succeeded, these leave it out. What was
left out for lack of room is said in short (`left_out`). A payload without contents is compact JSON.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, cast

import orjson

from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.reply.left_out import fold_left_out, unfold_left_out

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
