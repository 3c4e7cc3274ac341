"""Those who keep a copy of a namespace: all at once, by what changed, or in another store."""

from collections.abc import Sequence

from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import ServableStore

NAMESPACE = "team"


class Follower:
    """Keeps a copy of a namespace by its changes alone."""

    def __init__(self, store: ServableStore) -> None:
        self._store = store
        self._since = 0
        self.copy: dict[str, StoredMemory] = {}

    async def follow(self, limit: int) -> None:
        has_more = True
        while has_more:
            page = await self._store.read_changes(NAMESPACE, self._since, limit)
            if not page.is_complete:
                await self._begin_again()
                return

            for change in page.changes:
                assert change.version > self._since
                self.copy.pop(change.id, None)
                for memory in await _read(self._store, [change.key]):
                    if memory.row.id == change.id:
                        self.copy[change.id] = memory
            assert page.next > self._since or not page.changes
            self._since, has_more = page.next, page.has_more

    async def _begin_again(self) -> None:
        page = await self._store.read_changes(NAMESPACE, 2**53, 1)
        assert not page.changes
        self.copy = {memory.row.id: memory for memory in await read_all(self._store)}
        self._since = max([self._since, *(memory.row.version for memory in self.copy.values())])


async def read_all(store: ServableStore) -> list[StoredMemory]:
    memories: list[StoredMemory] = []
    for memory in await store.read_page(("", ""), 1_000):
        assert isinstance(memory, StoredMemory), memory
        memories.append(memory)

    return memories


async def _read(store: ServableStore, keys: Sequence[str]) -> list[StoredMemory]:
    memories: list[StoredMemory] = []
    for key, memory in zip(keys, await store.read(NAMESPACE, keys), strict=True):
        if isinstance(memory, StoredMemory):
            memories.append(await store.read_linked(NAMESPACE, key, 0, 100))

    return memories
