"""Follow the next requests of a `read` to their end, and put together what came of each item."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from abilities import render

Payload = dict[str, Any]
Read = Callable[[Payload], Awaitable[Payload]]


@dataclass
class Leaf:
    """One content: its record without what depends on the reply, and the content.

    ``remembered`` are the keys of the memories that its first piece came with.
    """

    record: Payload
    content: str | None
    is_open: bool = False
    remembered: list[str] = field(default_factory=list[str])


@dataclass
class Collected:
    """What came of one item: contents in order, or its failure, and the item that goes on."""

    leaves: list[Leaf] = field(default_factory=list[Leaf])
    error: Payload | None = None
    more: Payload | None = None
    group: Payload = field(default_factory=dict[str, Any])


_OF_ONE_REPLY = ("input", "success", "truncation", "next", "replaced", "redacted", "lines")


async def collect(read: Read, request: Payload, most_replies: int = 1_000) -> list[Collected]:
    """Return what comes of each item until there is no next request."""
    collected = [Collected() for _ in request["items"]]
    origins = list(range(len(collected)))
    replies = 0

    while request:
        reply = await read(request)
        replies += 1
        assert replies <= most_replies, "it does not end"
        assert len(reply["results"]) == len(origins)

        left: list[int] = []
        for origin, record in zip(origins, reply["results"], strict=True):
            if take_record(collected[origin], record):
                left.append(origin)

        request = reply.get("next_request", {})
        assert len(left) == len(request.get("items", []))
        origins = left

    assert not any(leaf.is_open for item in collected for leaf in item.leaves)
    return collected


def take_record(item: Collected, record: Payload) -> bool:
    """Add what a record holds to its item; return whether something is left."""
    assert item.error is None, "it had failed"
    error = _find_error(record)
    if error is not None:
        if error["reason"] == "response_budget":
            return True
        item.error = error
        return False

    is_left = "truncation" in record or "next" in record
    data: Payload = record.get("data", record)
    if "items" not in data:
        _take_leaf(item, record)
        assert item.leaves[-1].is_open == is_left
        return is_left

    for inner in data["items"]:
        _take_leaf(item, inner)

    # One that is read on by an item of its own is not read on by the group.
    if item.leaves and is_atomic(item.leaves[-1]):
        item.leaves[-1].is_open = False
    if "more" in data:
        assert item.more in (None, data["more"]), "what goes on has moved"
        item.more = data["more"]
    item.group = {name: data.get(name) for name in ("matched", "limitsReached", "frontier")}
    return is_left


def is_atomic(leaf: Leaf) -> bool:
    """Return whether a content is read on as a part of a note."""
    return "filename" in leaf.record and "score" in leaf.record


def _take_leaf(item: Collected, record: Payload) -> None:
    data: Payload = record.get("data", record)
    rest = {**record, **data}
    content: str | None = rest.pop("content", None)
    rest.pop("data", None)
    remembered = [memory["key"] for memory in rest.pop("remembered", ()) or ()]
    kept = {name: value for name, value in rest.items() if name not in _OF_ONE_REPLY}
    is_open = content is not None and ("truncation" in record or "next" in record)

    if item.leaves and item.leaves[-1].is_open:
        last = item.leaves[-1]
        assert last.record == kept, "another one came in between"
        assert not remembered, "only the first piece of a file has memories"
        assert content is not None and last.content is not None, record
        last.content += content
        last.is_open = is_open
        return

    item.leaves.append(Leaf(kept, content, is_open, remembered))


def _find_error(record: Payload) -> Payload | None:
    if "error" in record:
        error: Payload = record["error"]
        return error
    if "reason" in record:
        return {"reason": record["reason"]}
    return None


def count_cut(reply: Payload) -> int:
    count = 0
    for record in reply["results"]:
        data: Payload = record.get("data", record)
        for inner in data.get("items", [record]):
            has_content = "content" in inner.get("data", inner)
            count += has_content and ("truncation" in inner or "next" in inner)
    return count


def measure_input(record: Payload) -> int:
    """Return the bytes of the field that repeats an item, with its comma."""
    return len(render({"input": record["input"]}).encode()) - 1
