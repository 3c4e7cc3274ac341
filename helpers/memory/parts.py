"""Long contents: reading the parts of one, and the changes that write, move and remove them.

A content of more characters than a memory holds goes on in further memories, each linked to by the
one before. The first one stands for all; the others have its values, except for its summary, its
metadata and its links.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

import orjson

from abilities.declarations.faults import Refused
from abilities.declarations.limits import MAX_CONTENT_CHARS
from abilities.declarations.values import JsonObject
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.model import Row, StoredMemory
from abilities.helpers.stores.parts import CONTINUES, has_link, make_part_key, split_text
from abilities.helpers.stores.protocol import MemoryStore

_LINKS_PER_READ = 1_000
_MAX_READS = 25

UNKNOWN_VERSION = -1
"""Stands for the version of a part that another change of the same call makes."""

_SHARED = ("type", "category", "tags", "importance", "memory_score", "archived", "expires_at")
"""Values that all parts have from the first one."""

ReadPart = Callable[[str, str], Awaitable[tuple[StoredMemory, bool]]]
"""Reads the memory with a key; also returns whether it is linked to the part with a second key."""


async def read_parts(key: str, read_part: ReadPart) -> list[StoredMemory]:
    """Return the memories that hold a content, the one with its key first.

    Raises Refused as ``read_part`` does, except for a further part that is missing.
    """
    parts: list[StoredMemory] = []

    while True:
        number = len(parts) + 1
        try:
            part, has_next = await read_part(
                make_part_key(key, number), make_part_key(key, number + 1)
            )
        except Refused as error:
            if not parts or error.reason not in ("memory_not_found", "version_not_found"):
                raise
            return parts

        parts.append(part)
        if not has_next:
            return parts


def join_parts(parts: Sequence[StoredMemory]) -> str:
    """Return the content that memories hold together."""
    return "".join(part.row.content for part in parts)


class PartReader:
    """Reads the parts of contents from a store, as they are together at one moment."""

    def __init__(self, namespace: str, store: MemoryStore) -> None:
        self._namespace = namespace
        self._store = store

    async def read(self, key: str) -> list[StoredMemory]:
        """Return the memories that hold a content. Raises Refused; busy if they keep changing."""
        for _ in range(_MAX_READS):
            parts = await read_parts(key, self._read_part)
            if len(parts) == 1 or await self._are_current(parts):
                return parts

        raise Refused("busy")

    async def read_all(self, key: str) -> list[StoredMemory]:
        """Return the memories that hold a content, as `read` does; none of them may be missing.

        Raises Refused: memory_not_found for the field "whole" if one is.
        """
        for _ in range(_MAX_READS):
            parts = await self.read(key)
            if not has_link(parts[-1].links, make_part_key(key, len(parts) + 1)):
                return parts
            if await self._are_current(parts):
                raise Refused("memory_not_found", "whole")

        raise Refused("busy")

    async def find(self, keys: Sequence[str]) -> set[str]:
        """Return those keys whose content may have a second part. Raises Refused."""
        if not keys:
            return set()

        seconds = await self._store.read(self._namespace, [make_part_key(key, 2) for key in keys])
        found: set[str] = set()
        for key, second in zip(keys, seconds, strict=True):
            if not (isinstance(second, Refused) and second.reason == "memory_not_found"):
                found.add(key)

        return found

    async def read_first(self, keys: Sequence[str]) -> dict[str, Row]:
        """Return the memories with these keys that can be read. Raises Refused."""
        if not keys:
            return {}

        memories = await self._store.read(self._namespace, keys)
        return {
            memory.row.key: memory.row for memory in memories if isinstance(memory, StoredMemory)
        }

    async def _read_part(self, key: str, next_key: str) -> tuple[StoredMemory, bool]:
        offset = 0

        while True:
            part = await self._store.read_linked(self._namespace, key, offset, _LINKS_PER_READ)
            offset += _LINKS_PER_READ
            is_linked = has_link(part.links, next_key)
            if is_linked or offset >= part.links_total:
                return part, is_linked

    async def _are_current(self, parts: Sequence[StoredMemory]) -> bool:
        keys = [part.row.key for part in parts]
        memories = await self._store.read(self._namespace, keys)

        for part, memory in zip(parts, memories, strict=True):
            if not isinstance(memory, StoredMemory) or memory.row.version != part.row.version:
                return False

        return True


class Plan(NamedTuple):
    """The changes that one operation takes; the first one is that of the memory it names.

    They are made together. ``parts`` is how many memories hold the content then; 0 if that is
    not known. If a change of a further part cannot be made because others have changed that, the
    operation is planned anew; so it is if the first one ``is_guarded`` by a version of the plan's.
    """

    changes: tuple[Change, ...]
    parts: int = 0
    is_guarded: bool = False


def plan_change(change: Change, parts: Sequence[Row]) -> Plan:
    """Return the changes for one that may concern the parts of a content.

    ``parts`` are the memories that hold the content now; none if there are none, or if they are
    not known because the change may concern the first one alone.
    """
    if "content" in change.fields and change.new_key is None:
        content: str = change.fields["content"]
        if change.kind == "append":
            return _plan_append(change, parts, content)
        if len(parts) > 1 or is_long(change):
            return _plan_content(change, parts, split_text(content))

    elif len(parts) > 1:
        return _plan_for_all(change, parts)

    return plan_alone(change)


def is_long(change: Change) -> bool:
    """Return whether a change has a content that needs several memories."""
    if change.key is None or change.kind == "append":
        return False

    return len(change.fields.get("content", "")) > MAX_CONTENT_CHARS


def plan_alone(change: Change) -> Plan:
    """Return a plan that is carried out only if a content has and needs no further part."""
    concerns_parts = (
        change.kind not in ("store", "update")
        or change.new_key is not None
        or not change.fields.keys().isdisjoint(("content", *_SHARED))
    )
    return Plan((replace(change, if_whole=concerns_parts),))


def _plan_append(change: Change, parts: Sequence[Row], addition: str) -> Plan:
    """Add to the last part; what it has no room for becomes further ones."""
    if not parts:
        return plan_alone(change)

    last = parts[-1].content
    if len(parts) == 1 and len(last) + len(addition) <= MAX_CONTENT_CHARS:
        return plan_alone(change)

    contents = [part.content for part in parts[:-1]]
    contents += split_text(last + addition)

    without_content = {name: change.fields[name] for name in change.fields if name != "content"}
    update = replace(change, kind="update", fields=without_content)
    return _plan_content(update, parts, contents)


def _plan_content(change: Change, parts: Sequence[Row], contents: Sequence[str]) -> Plan:
    """Write contents into parts, and remove the parts that are left over."""
    first = change
    before = parts[0].content if parts else None
    if contents[0] != before or "content" in change.fields:
        first = replace(change, fields={**change.fields, "content": contents[0]})

    # The first part stands for all: its version tells that the content has changed.
    if list(contents) != [part.content for part in parts]:
        first = replace(first, touches=True)

    next_link: JsonObject = {
        "key": make_part_key(change.key or "", 2),
        "link_weight": 1.0,
        "type": CONTINUES,
    }
    if len(contents) > 1:
        first = replace(first, links=(*change.links, next_link))
    elif len(parts) > 1:
        first = replace(first, remove_links=(*change.remove_links, next_link))

    is_guarded = change.if_version is None and bool(parts)
    if is_guarded:
        first = replace(first, if_version=_find_version(parts[0]))

    changes = [first]
    for number in range(2, max(len(parts), len(contents)) + 1):
        present = parts[number - 1] if number <= len(parts) else None
        if number > len(contents):
            assert present is not None
            changes.append(_remove_part(change, present))
        else:
            has_next = number < len(contents)
            content = contents[number - 1]
            changes.append(_write_part(change, parts, number, content, has_next=has_next))

    return Plan(tuple(changes), len(contents), is_guarded)


def _write_part(
    change: Change, parts: Sequence[Row], number: int, content: str, *, has_next: bool
) -> Change:
    key = make_part_key(change.key or "", number)
    link: JsonObject = {
        "key": make_part_key(change.key or "", number + 1),
        "link_weight": 1.0,
        "type": CONTINUES,
    }

    present_version: int | None = 0
    if number <= len(parts):
        present_version = _find_version(parts[number - 1])

    return Change(
        "store",
        change.now,
        key=key,
        new_id=str(uuid4()),
        fields={**_find_shared(change, parts), "content": content},
        links=(link,) if has_next else (),
        remove_links=() if has_next else (link,),
        if_version=present_version,
        caller=change.caller,
    )


def _remove_part(change: Change, part: Row) -> Change:
    return Change(
        "delete",
        change.now,
        key=part.key,
        if_version=_find_version(part),
        caller=change.caller,
    )


def _plan_for_all(change: Change, parts: Sequence[Row]) -> Plan:
    """Do to all parts what is done to the first one."""
    shared = {name: change.fields[name] for name in _SHARED if name in change.fields}
    if change.kind in ("store", "update") and not shared and change.new_key is None:
        return Plan((change,), len(parts))

    changes = [change]
    for number, part in enumerate(parts[1:], 2):
        new_key = None
        if change.new_key is not None:
            new_key = make_part_key(change.new_key, number)

        changes.append(
            Change(
                change.kind,
                change.now,
                key=part.key,
                fields=shared,
                new_key=new_key,
                if_version=_find_version(part),
                caller=change.caller,
            )
        )

    return Plan(tuple(changes), len(parts))


def _find_version(part: Row) -> int | None:
    return None if part.version == UNKNOWN_VERSION else part.version


def _find_shared(change: Change, parts: Sequence[Row]) -> JsonObject:
    """Return the values of a part: those of the first one after a change, as far as it has them."""
    values: JsonObject = {}

    if parts:
        first = parts[0]
        values = {
            "type": first.type,
            "category": first.category,
            "tags": orjson.loads(first.tags),
            "importance": first.importance,
            "expires_at": first.expires_at,
        }
        if first.scored:
            values["memory_score"] = first.score

    given = {name: change.fields[name] for name in _SHARED if name in change.fields}
    return {**values, **given}
