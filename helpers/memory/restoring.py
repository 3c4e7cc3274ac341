"""Restoring a version of a memory with the further parts of its content, all or nothing."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import orjson

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.memory.leftovers import Leftovers
from abilities.helpers.memory.parts import PartReader, Plan
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.model import LinkRow, Row, StoredMemory
from abilities.helpers.stores.parts import CONTINUES, has_link, make_part_key
from abilities.helpers.stores.protocol import HistoryStore
from abilities.helpers.stores.timeline import MemoryName


class Restoring:
    """Plans how versions of memories of one namespace are brought back."""

    def __init__(self, namespace: str, store: HistoryStore) -> None:
        self._namespace = namespace
        self._store = store
        self._reader = PartReader(namespace, store)
        self._leftovers = Leftovers(namespace, store)

    async def plan(self, change: Change) -> Plan:
        """Return the changes that give a memory what it was in a version, the first memory's first.

        They bring back all that its content went on in then, and delete further parts that did not
        exist. Raises Refused: version_not_found if a part is not known any more; key_taken if
        another memory has the key of a part; what the store refuses.
        """
        alone = Plan((change,))
        name = MemoryName(change.id, change.key)
        try:
            page = await self._store.read_history(self._namespace, name, None, 1)
        except Refused:
            return alone  # which mends a damaged memory, or says why it cannot be made
        if page.row is None and not page.entries:
            return alone

        memory_id = page.entries[0].id if page.row is None else page.row.id
        version = change.to_version or 0
        wanted = await self._store.read_content(self._namespace, MemoryName(id=memory_id), version)
        present: list[StoredMemory] = []
        if page.row is not None:
            present = await self._reader.read(page.row.key)
        if len(wanted) == 1 and len(present) <= 1:
            return alone

        key = wanted[0].row.key if page.row is None else page.row.key
        further = await self._plan_parts(change, key, wanted, present)
        if not further:
            return alone

        guard = change.if_version
        if guard is None:
            guard = 0 if page.row is None else present[0].row.version

        # The first part stands for all: its version tells that the content has changed.
        is_other = [part.row.content for part in wanted] != [part.row.content for part in present]
        first = replace(change, id=memory_id, key=None, if_version=guard, touches=is_other)
        changes = (_move_link(first, wanted, key, 1), *further)
        return Plan(changes, len(wanted), is_guarded=change.if_version is None)

    async def _plan_parts(
        self,
        change: Change,
        key: str,
        wanted: Sequence[StoredMemory],
        present: Sequence[StoredMemory],
    ) -> list[Change]:
        keys = [make_part_key(key, number) for number in range(2, len(wanted) + 1)]
        found = await self._read(keys)
        own = {part.row.key for part in present}
        changes: list[Change] = []

        for number, part_key in enumerate(keys, 2):
            row = found.get(part_key)
            part = wanted[number - 1].row
            if row is not None and row.id == part.id:
                if row.version != part.version:
                    again = _restore_part(change, part, row.version)
                    changes.append(_move_link(again, wanted, key, number))
                continue

            if row is not None and part_key not in own:
                if not await self._leftovers.delete(key, number, change):
                    raise Refused("key_taken")
                row = None
            if row is not None:
                changes.append(_delete_part(change, row))
            if part.key == part_key and await self._is_deleted(part.id):
                changes.append(_restore_part(change, part, 0))
            else:
                created = _write_part(change, wanted[number - 1], part_key)
                changes.append(_move_link(created, wanted, key, number))

        changes += [_delete_part(change, part.row) for part in present[len(wanted) :]]
        return changes

    async def _read(self, keys: Sequence[str]) -> dict[str, Row]:
        """Return the memories that exist, by their keys. Raises Refused if one is damaged."""
        found: dict[str, Row] = {}
        for memory in await self._store.read(self._namespace, keys) if keys else ():
            if isinstance(memory, StoredMemory):
                found[memory.row.key] = memory.row
            elif not (isinstance(memory, Refused) and memory.reason == "memory_not_found"):
                raise memory

        return found

    async def _is_deleted(self, memory_id: str) -> bool:
        name = MemoryName(id=memory_id)
        page = await self._store.read_history(self._namespace, name, None, 1)
        return page.row is None


def _restore_part(change: Change, part: Row, if_version: int) -> Change:
    return Change(
        "restore",
        change.now,
        id=part.id,
        to_version=part.version,
        if_version=if_version,
        caller=change.caller,
    )


def _delete_part(change: Change, row: Row) -> Change:
    return Change("delete", change.now, key=row.key, if_version=row.version, caller=change.caller)


def _write_part(change: Change, part: StoredMemory, key: str) -> Change:
    """Write a part under another key than it had, as a memory of its own."""
    row = part.row
    fields: JsonObject = {
        "type": row.type,
        "content": row.content,
        "summary": row.summary,
        "category": row.category,
        "tags": orjson.loads(row.tags),
        "importance": row.importance,
        "metadata": orjson.loads(row.metadata),
    }
    if row.scored:
        fields["memory_score"] = row.score
    if row.expires_at:
        fields["expires_at"] = row.expires_at

    return Change(
        "store",
        change.now,
        key=key,
        new_id=str(uuid4()),
        fields=fields,
        links=[_describe(link) for link in part.links],
        if_version=0,
        caller=change.caller,
    )


def _move_link(change: Change, wanted: Sequence[StoredMemory], key: str, number: int) -> Change:
    """Let a part lead to the next one by its key now, if the content was renamed since."""
    part = wanted[number - 1]
    former = make_part_key(wanted[0].row.key, number + 1)
    present = make_part_key(key, number + 1)
    if former == present or not has_link(part.links, former):
        return change

    old = _describe(LinkRow(part.row.key, former, CONTINUES, 1.0))
    new = {**old, "key": present}
    links = [link for link in change.links if link != old]
    return replace(change, links=[*links, new], remove_links=[*change.remove_links, old])


def _describe(link: LinkRow) -> JsonObject:
    """Return a link as changes give it."""
    return {"type": link.type, **link.to_data()}
