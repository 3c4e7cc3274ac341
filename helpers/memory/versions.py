"""The past of memories: their histories and versions, and what changed since some version."""

from functools import partial

from abilities.declarations.memory import Direction
from abilities.helpers.memory.parts import has_link, read_parts
from abilities.helpers.stores.model import DamagedMemory, StoredMemory
from abilities.helpers.stores.protocol import HistoryStore
from abilities.helpers.stores.query import MemoryLine
from abilities.helpers.stores.timeline import ChangePage, MemoryHistory, MemoryName

SHOWN_LINKS = 20
"""Links on a page of a memory's links, or of those that lead to it."""


def show_links(stored: StoredMemory, offset: int, direction: Direction) -> StoredMemory:
    """Return a memory of the past with a page of its links, the heaviest first.

    Links that led to it are not known any more.
    """
    links = sorted(stored.links, key=lambda link: (-link.weight, link.target, link.type))
    shown = links[offset : offset + SHOWN_LINKS]
    if direction == "in":
        shown = []

    return stored._replace(links=tuple(shown), links_total=len(links))


class Versions:
    """What a namespace knows of its past."""

    def __init__(self, namespace: str, store: HistoryStore) -> None:
        self._namespace = namespace
        self._store = store

    async def read(self, name: MemoryName, before: int | None, limit: int) -> MemoryHistory:
        """Return a page of a memory's history. Raises Refused: memory_not_found, id_not_found."""
        return await self._store.read_history(self._namespace, name, before, limit)

    async def is_deleted(self, key: str) -> bool:
        """Return whether a key names a memory that was deleted. Raises Refused."""
        page = await self.read(MemoryName(key=key), None, 1)
        return page.row is None

    async def read_at(self, key: str, time: str) -> StoredMemory:
        """Return a memory with all its links as it was at a time. Raises Refused."""
        return await self._store.read_version(self._namespace, MemoryName(key=key), time)

    async def read_whole_at(self, key: str, time: str) -> list[StoredMemory]:
        """Return the memories that held a content at a time. Raises Refused."""
        return await read_parts(key, partial(self._read_part_at, time=time))

    async def list_memories(
        self, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        """Return memories by their keys, as `MemoryStore.list_memories`. Raises Refused."""
        return await self._store.list_memories(
            self._namespace, prefix, after, limit, archived=archived
        )

    async def read_changes(self, since: int, limit: int) -> ChangePage:
        """Return what changed after a version. Raises Refused."""
        return await self._store.read_changes(self._namespace, since, limit)

    async def _read_part_at(
        self, key: str, next_key: str, *, time: str
    ) -> tuple[StoredMemory, bool]:
        part = await self.read_at(key, time)
        return part, has_link(part.links, next_key)
