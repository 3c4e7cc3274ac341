"""Parts that a long content left behind: their first memory is gone, or goes on in them no more."""

from collections.abc import Sequence

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.history import Entry
from abilities.helpers.stores.model import Row, StoredMemory
from abilities.helpers.stores.parts import CONTINUES, has_link, make_part_key
from abilities.helpers.stores.protocol import HistoryStore
from abilities.helpers.stores.timeline import MemoryName

_MAX_LINKS = 1_000
_MAX_ENTRIES = 50


class Leftovers:
    """Finds and deletes them, so that their keys can be used again; the history keeps them."""

    def __init__(self, namespace: str, store: HistoryStore) -> None:
        self._namespace = namespace
        self._store = store

    async def delete(self, key: str, number: int, change: Change) -> bool:
        """Delete the parts from one on that a content has left behind; return whether it did.

        ``change`` is the one that they are in the way of. Raises Refused.
        """
        parts = await self._find(key, number)
        if not parts:
            return False

        deletions: list[Change] = []
        for row in parts:
            deletions.append(
                Change(
                    "delete",
                    change.now,
                    key=row.key,
                    if_version=row.version,
                    caller=change.caller,
                )
            )

        results = await self._store.change_many(self._namespace, deletions, atomic=True)
        return not any(isinstance(result, Exception) for result in results)

    async def _find(self, key: str, number: int) -> list[Row]:
        # The parts first: a content that begins to use them afterwards gives them new versions.
        parts = await self._read_parts(key, number)
        if not parts or await self._is_in_use(key, number):
            return []

        # Nobody else links memories like that; a single one is known by the past of the content.
        if len(parts) > 1 or await self._had_part(make_part_key(key, number - 1), parts[0]):
            return parts

        return []

    async def _read_parts(self, key: str, number: int) -> list[Row]:
        parts: list[Row] = []
        has_next = True

        while has_next:
            part = await self._read(make_part_key(key, number))
            if part is None:
                return parts

            parts.append(part.row)
            number += 1
            has_next = has_link(part.links, make_part_key(key, number))

        return parts

    async def _is_in_use(self, key: str, number: int) -> bool:
        """Return whether a content goes on in a part, that of its key or of another."""
        part_key = make_part_key(key, number)
        backlinks = await self._store.read_backlinks(self._namespace, part_key, 0, _MAX_LINKS)

        return any(link.type == CONTINUES for link in backlinks.links)

    async def _had_part(self, key: str, part: Row) -> bool:
        """Return whether a memory, or the last one with its key, once went on in a part."""
        for entry in await self._read_history(MemoryName(key=key), None):
            if _had_link(entry, part.key):
                # A memory that was created afterwards is none of its parts.
                return bool(await self._read_history(MemoryName(id=part.id), entry.version))

        return False

    async def _read_history(self, name: MemoryName, before: int | None) -> Sequence[Entry]:
        try:
            page = await self._store.read_history(self._namespace, name, before, _MAX_ENTRIES)
        except Refused:
            return ()

        return page.entries

    async def _read(self, key: str) -> StoredMemory | None:
        try:
            return await self._store.read_linked(self._namespace, key, 0, _MAX_LINKS)
        except Refused:
            return None


def _had_link(entry: Entry, target: str) -> bool:
    """Return whether a memory went on in a part before a change to that link."""
    links: Sequence[Sequence[object]] = orjson.loads(entry.before).get("links", ())

    # A link that was not there before is told without its weight and term.
    return any(list(link[:2]) == [target, CONTINUES] and len(link) > 2 for link in links)
