"""A trial of what a store knows of the past: the same random changes to it and to its model."""

from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.store.changes import Kind
from abilities.helpers.store.history import MemoryName
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.transfer.exporting import ExportOptions, export
from tests.support.importing import import_file
from tests.support.past_model import State
from tests.support.present_trial import KINDS, NAMESPACE, TASKS, PresentTrial, compare_memory

END_OF_TIME = "9999-12-31T23:59:59.999Z"


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
                (found,) = await self._store.read(NAMESPACE, [change.key])
                if isinstance(found, StoredMemory) and found.row.id == change.id:
                    memory = await self._store.read_linked(NAMESPACE, change.key, 0, 100)
                    self.copy[change.id] = memory
            assert page.next > self._since or not page.changes
            self._since, has_more = page.next, page.has_more

    async def _begin_again(self) -> None:
        page = await self._store.read_changes(NAMESPACE, 2**53, 1)
        assert not page.changes
        self.copy = {memory.row.id: memory for memory in await _read_all(self._store)}
        self._since = max([self._since, *(memory.row.version for memory in self.copy.values())])


async def _read_all(store: ServableStore) -> list[StoredMemory]:
    memories: list[StoredMemory] = []
    for memory in await store.read_page(("", ""), 1_000):
        assert isinstance(memory, StoredMemory), memory
        memories.append(memory)
    return memories


class PastTrial(PresentTrial):
    """Restores, purges, follows and forgets too, and compares all that is known of the past."""

    kinds: ClassVar[Mapping[Kind, int]] = {**KINDS, "restore": 20, "purge": 5}
    tasks: ClassVar[Mapping[str, int]] = {**TASKS, "follow": 10, "forget": 1}

    def __init__(self, store: ServableStore, seed: int, *, expires: bool = False) -> None:
        super().__init__(store, seed, expires=expires)
        self._past = store
        self._follower = Follower(store)

    @override
    async def _take_step(self, task: str) -> None:
        match task:
            case "follow":
                await self._follower.follow(self._chance.randint(1, 5))
            case "forget":
                await self._past.compact(END_OF_TIME)
                self.model.forget()
            case _:
                await super()._take_step(task)

    @override
    async def check(self) -> None:
        """Compare all that ever was, what was copied by following, and the store with itself."""
        await super().check()
        for memory_id in self._ids:
            await self._check_memory(memory_id)
        await self._check_latest()
        await self._follower.follow(3)
        present = {memory.row.id: memory.row for memory in await _read_all(self._past)}
        assert {name: memory.row for name, memory in self._follower.copy.items()} == present
        await _expect_sound(self._past)

    async def _check_latest(self) -> None:
        """Compare the latest changes, in pages; those that were purged are told by the follower."""
        told: list[tuple[int, str, str]] = []
        last: int | None = None
        while changes := await self._past.read_latest_changes(NAMESPACE, last, 3):
            assert len(changes) <= 3
            last = changes[-1].version
            told += [(one.version, one.id, one.action) for one in changes if one.action != "purged"]

        events = [one for one in self.model.events if one.action != "relinked"]
        assert told == [(one.version, one.id, one.action) for one in reversed(events)]

    async def check_moved(self, other: ServableStore, file: Path) -> None:
        """Export everything into another store, and compare what that knows then."""
        await self._move(other, file)
        before = [await other.read_entries(("", "", 0), 10_000), await _read_all(other)]
        for memory_id in self._ids:
            if memory_id not in self.model.purged:
                await self._check_moved_memory(other, memory_id)

        await self._move(other, file)
        again = [await other.read_entries(("", "", 0), 10_000), await _read_all(other)]
        assert again == before, "importing again changes nothing"
        await _expect_sound(other)

    @override
    async def _read_present(self) -> list[StoredMemory]:
        return await _read_all(self._past)

    async def _check_memory(self, memory_id: str) -> None:
        name = MemoryName(id=memory_id)
        events = self.model.list_events(memory_id)
        present = self.model.get_present(memory_id)
        if present is None and not events:
            await _expect_refused(self._past.read_history(NAMESPACE, name, None, 5), "id_not_found")
            return

        history = await self._past.read_history(NAMESPACE, name, None, 1_000)
        told = [tuple(entry[:8]) for entry in history.entries]
        expected = [(NAMESPACE, *event[:-1]) for event in events]
        assert told == expected
        assert (history.row is None) == (present is None)

        versions = {event.version for event in events} | {event.previous for event in events}
        reads: list[tuple[int | str, State | None]] = []
        reads += [(one, self.model.find_version(memory_id, one)) for one in versions - {0}]
        reads += [(one.made_at, self.model.find_at(memory_id, one.made_at)) for one in events]
        for place, state in reads:
            read = self._past.read_version(NAMESPACE, name, place)
            if state is None:
                await _expect_refused(read, "version_not_found")
            else:
                compare_memory(await read, state, state.memory.version)

    async def _check_moved_memory(self, other: ServableStore, memory_id: str) -> None:
        """Compare the states that another store knows of a memory, whatever their versions."""
        name = MemoryName(id=memory_id)
        events = self.model.list_events(memory_id)
        if not events:
            return

        history = await other.read_history(NAMESPACE, name, None, 1_000)
        entries = [entry for entry in history.entries if entry.caller != "import"]
        assert [entry.action for entry in entries] == [event.action for event in events]

        for entry, event in zip(entries, events, strict=True):
            if event.after is not None and event.action != "relinked":
                memory = await other.read_version(NAMESPACE, name, entry.version)
                state = self.model.find_version(memory_id, event.version)
                assert state is not None
                compare_memory(memory, state, entry.version)

    async def _move(self, other: ServableStore, file: Path) -> None:
        await export(self._past, file, ExportOptions(), lambda _: None)
        remarks: list[Any] = []
        await import_file(other, file, namespace=NAMESPACE, note=remarks.append)
        assert not remarks, remarks


async def _expect_refused(reading: Awaitable[object], reason: Reason) -> None:
    try:
        result = await reading
    except Refused as refused:
        assert refused.reason == reason, refused
    else:
        raise AssertionError(f"it must be refused: {result}")


async def _expect_sound(store: ServableStore) -> None:
    for finding in await store.check(lambda _: None, full=True):
        assert finding.state != "damaged", finding
