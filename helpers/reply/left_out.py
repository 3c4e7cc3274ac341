"""Records of items that were left out, as the `text` format has them: in short.

Such a record says nothing but the name of its item, which stands in the next request too, and the
item's size if it is full. So a run of them becomes one entry that says how many they are, or their
sizes in bytes:

    {"results":[1,{"left_out":2}],…,"next_request":{"paths":["a.txt#byte=9","b.txt","c.txt"]}}

The next request has one item for each record that is cut or left out, in the same order.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import cast

from abilities.declarations.faults import Fault
from abilities.declarations.reasons import Reason
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.reply.detail import is_cut
from abilities.helpers.reply.items import format_item

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
