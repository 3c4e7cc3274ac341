"""A trial of what a store knows of the past: the same changes to a store and to its model."""

import random
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.store.changes import Change, Kind
from abilities.helpers.store.history import MemoryName
from abilities.helpers.store.model import LinkRow, MemoryLine, Row, StoredMemory, dump_sorted_json
from abilities.helpers.store.protocol import ServableStore, WriteResult
from abilities.helpers.transfer.exporting import ExportOptions, export
from abilities.helpers.transfer.importing import ImportOptions, import_memories, open_source
from tests.support.past_model import PastModel, State

NAMESPACE = "team"
END_OF_TIME = "9999-12-31T23:59:59.999Z"


KINDS: dict[Kind, int] = {
    "store": 30,
    "update": 18,
    "append": 6,
    "supersede": 8,
    "archive": 6,
    "delete": 10,
    "restore": 20,
    "purge": 2,
}
"""Changes of each kind in a hundred."""

Task = Literal["change", "follow", "list", "forget"]
_TASKS: dict[Task, int] = {"change": 80, "follow": 10, "list": 8, "forget": 1}

_TEXTS = ["a", "b\n", "ß\u0301", "\U0001f9e0", "x" * 50]
_KEYS = ["a", "b", "c", "d\U0001f9e0", "d", "e", "f", "g"]
_VALUES: dict[str, Sequence[object]] = {
    "content": _TEXTS,
    "summary": ["", *_TEXTS],
    "category": ["", "x"],
    "tags": [[], ["t"], ["u", "t"], ["ß", "ß"]],
    "about": [[], ["src/app.py"], ["src/*", "ß", "ß"]],
    "importance": ["low", "medium", "high"],
    "memory_score": [0.0, 1.0],
    "metadata": [{}, {"ß": None, "a": [0.5]}, {"memory_score": 0.25, "b": 1}],
    "archived": [True, False],
}


@dataclass(frozen=True)
class Wish:
    """A change to be made; which memory and version it names follows from what there is then.

    A memory without a ``key`` is that of a ``position`` among those that there ever were.
    ``condition`` says which version it must have, ``end`` after how many seconds it expires.
    """

    kind: Kind
    position: int
    key: str | None
    new_key: str | None
    fields: JsonObject
    links: list[JsonObject]
    removed: list[JsonObject]
    version: int
    condition: Literal["none", "right", "stale"]
    end: int | None


class Step(NamedTuple):
    """What is done at once: changes, or a task; so many milliseconds after the last step."""

    task: Task
    wishes: list[Wish]
    atomic: bool
    limit: int
    milliseconds: int


def make_steps(seed: int, count: int) -> list[Step]:
    chance = random.Random(seed)
    return [_make_step(chance) for _ in range(count)]


def _make_step(chance: random.Random) -> Step:
    return Step(
        task=_choose(chance, _TASKS),
        wishes=[_make_wish(chance) for _ in range(chance.choice([1, 1, 2, 4]))],
        atomic=chance.random() < 0.4,
        limit=chance.randint(1, 5),
        milliseconds=chance.choice([0, 1, 2_000, 2_000, -5_000]),
    )


def _make_wish(chance: random.Random) -> Wish:
    return Wish(
        kind=_choose(chance, KINDS),
        position=chance.randrange(1_000),
        key=chance.choice([None, chance.choice(_KEYS)]),
        new_key=chance.choice([None, chance.choice(_KEYS)]),
        fields={
            name: chance.choice(values)
            for name, values in _VALUES.items()
            if chance.random() < 0.25
        },
        links=[_make_link(chance) for _ in range(chance.choice([0, 0, 2, 4]))],
        removed=[
            {"key": chance.choice(_KEYS), "type": chance.choice([None, "part"])}
            for _ in range(chance.choice([0, 0, 1]))
        ],
        version=chance.randrange(1_000),
        condition=chance.choice(["none", "none", "none", "right", "right", "stale"]),
        end=chance.choice([None] * 6 + [1, 60]),
    )


def _make_link(chance: random.Random) -> JsonObject:
    link: JsonObject = {
        "key": chance.choice(_KEYS),
        "link_weight": chance.choice([0.0, 0.5, 1 / 3]),
        "type": chance.choice(["association", "part"]),
    }
    if chance.random() < 0.3:
        link["term"] = chance.choice(_TEXTS)
    return link


def _choose(chance: random.Random, weights: dict[Any, int]) -> Any:
    (chosen,) = chance.choices(list(weights), list(weights.values()))
    return chosen


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
        self.copy = {memory.row.id: memory for memory in await read_all(self._store)}
        self._since = max([self._since, *(memory.row.version for memory in self.copy.values())])


async def read_all(store: ServableStore) -> list[StoredMemory]:
    memories: list[StoredMemory] = []
    for memory in await store.read_page(("", ""), 1_000):
        assert isinstance(memory, StoredMemory), memory
        memories.append(memory)
    return memories


class PastTrial:
    """Does the same with a store and its model, and compares what they know."""

    def __init__(self, store: ServableStore) -> None:
        self._store = store
        self._time = datetime(2026, 1, 1, tzinfo=UTC)
        self._number = 0
        self._ids: list[str] = []
        self._follower = Follower(store)
        self.model = PastModel()

    @property
    def now(self) -> str:
        return self._format(0)

    async def perform(self, step: Step) -> None:
        self._time += timedelta(milliseconds=step.milliseconds)

        # A read, so that what expires has expired before the step.
        await self._store.read_stats(NAMESPACE)
        self.model.expire(self.now)

        if step.task == "change":
            await self._change(step)
        elif step.task == "follow":
            await self._follower.follow(step.limit)
        elif step.task == "list":
            await self._list(step)
        else:
            await self._store.compact(END_OF_TIME)
            self.model.forget()

    async def check(self) -> None:
        """Compare all that ever was, what was copied by following, and the store with itself."""
        await self._check_present()
        for memory_id in self._ids:
            await self._check_memory(memory_id)
        await self._follower.follow(3)
        present = {memory.row.id: memory.row for memory in await read_all(self._store)}
        assert {name: memory.row for name, memory in self._follower.copy.items()} == present
        for finding in await self._store.check(lambda _: None, full=True):
            assert finding.state != "damaged", finding

    async def check_moved(self, other: ServableStore, file: Path) -> None:
        """Export everything into another store, and compare what that knows then."""
        await self._move(other, file)
        before = [await other.read_entries(("", "", 0), 10_000), await read_all(other)]
        for memory_id in self._ids:
            if memory_id not in self.model.purged:
                await self._check_moved_memory(other, memory_id)

        await self._move(other, file)
        again = [await other.read_entries(("", "", 0), 10_000), await read_all(other)]
        assert again == before, "importing again changes nothing"
        for finding in await other.check(lambda _: None, full=True):
            assert finding.state != "damaged", finding

    async def _change(self, step: Step) -> None:
        changes = [self._plan(wish) for wish in step.wishes]
        expected = self.model.apply(changes, atomic=step.atomic)
        outcomes = await self._store.change_many(NAMESPACE, changes, atomic=step.atomic)
        found = [_describe_outcome(outcome) for outcome in outcomes]
        assert found == expected, (changes, found, expected)
        await self._check_present()

    def _plan(self, wish: Wish) -> Change:
        self._number += 1
        new_id = str(UUID(int=self._number, version=4))
        self._ids.append(new_id)

        key = wish.key or ("a" if wish.kind == "store" else None)
        memory_id = self.model.find_id(key) if key is not None else None
        if key is None:
            known = [name for name in self._ids if self.model.is_known(name)] or [new_id]
            memory_id = known[wish.position % len(known)]
        versions = [None, 0, *(event.version for event in self.model.list_events(memory_id or ""))]
        present = self.model.get_present(memory_id or "")

        if_version = None
        if wish.condition != "none" and wish.kind not in ("restore", "purge"):
            if_version = 0 if present is None else present.memory.version
            if_version += wish.condition == "stale"

        has_links = wish.kind in ("store", "update", "supersede")
        return Change(
            wish.kind,
            self.now,
            id=memory_id if key is None else None,
            key=key,
            new_id=new_id,
            fields=self._choose_fields(wish),
            links=wish.links if has_links else (),
            remove_links=wish.removed if has_links else (),
            new_key=wish.new_key if wish.kind in ("update", "supersede") else None,
            if_version=if_version,
            to_version=versions[wish.version % len(versions)] if wish.kind == "restore" else None,
            caller=f"c{self._number % 3}",
        )

    def _choose_fields(self, wish: Wish) -> JsonObject:
        if wish.kind == "append":
            return {"content": wish.fields.get("content", "+")}
        if wish.kind not in ("store", "update", "supersede"):
            return {}

        fields = dict(wish.fields)
        if wish.end is not None:
            fields["expires_at"] = self._format(wish.end)
        if wish.kind == "store":
            fields = {"type": "core", "content": "c", **fields}
        if wish.kind != "update":
            fields.pop("archived", None)
        return fields

    async def _list(self, step: Step) -> None:
        wish = step.wishes[0]
        after = wish.key or ""
        prefix = (wish.new_key or "")[:1]
        lines = await self._store.list_memories(
            NAMESPACE, prefix, after, step.limit, archived=step.atomic
        )

        expected: list[MemoryLine] = []
        for key, memory in sorted(self.model.present.memories.items()):
            if key > after and key.startswith(prefix) and (step.atomic or not memory.archived):
                size = len(memory.content.encode())
                line = (key, memory.summary, memory.type, size, memory.version, memory.updated_at)
                expected.append(MemoryLine(*line, memory.archived))
        assert lines == expected[: step.limit]

    async def _check_present(self) -> None:
        found = {memory.row.id: memory for memory in await read_all(self._store)}
        for memory_id in self._ids:
            state = self.model.get_present(memory_id)
            if state is None:
                assert memory_id not in found
            else:
                _compare(found[memory_id], state, state.memory.version)

    async def _check_memory(self, memory_id: str) -> None:
        name = MemoryName(id=memory_id)
        events = self.model.list_events(memory_id)
        present = self.model.get_present(memory_id)
        if present is None and not events:
            await _expect_refused(
                self._store.read_history(NAMESPACE, name, None, 5), "id_not_found"
            )
            return

        history = await self._store.read_history(NAMESPACE, name, None, 1_000)
        told = [tuple(entry[:8]) for entry in history.entries]
        expected = [(NAMESPACE, *event[:-1]) for event in events]
        assert told == expected
        assert (history.row is None) == (present is None)

        versions = {event.version for event in events} | {event.previous for event in events}
        reads: list[tuple[int | str, State | None]] = []
        reads += [(one, self.model.find_version(memory_id, one)) for one in versions - {0}]
        reads += [(one.made_at, self.model.find_at(memory_id, one.made_at)) for one in events]
        for place, state in reads:
            read = self._store.read_version(NAMESPACE, name, place)
            if state is None:
                await _expect_refused(read, "version_not_found")
            else:
                _compare(await read, state, state.memory.version)

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
                _compare(memory, state, entry.version)

    async def _move(self, other: ServableStore, file: Path) -> None:
        await export(self._store, file, ExportOptions(), lambda _: None)
        remarks: list[Any] = []
        async with open_source(file, NAMESPACE, all_into_it=False) as source:
            await import_memories(
                other, source, ImportOptions(), remarks.append, lambda _: None, Counter()
            )
        assert not remarks, remarks

    def _format(self, seconds: int) -> str:
        time = self._time + timedelta(seconds=seconds)
        return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _expect_refused(reading: Awaitable[object], reason: Reason) -> None:
    try:
        result = await reading
    except Refused as refused:
        assert refused.reason == reason, refused
    else:
        raise AssertionError(f"it must be refused: {result}")


def _describe_outcome(outcome: WriteResult | Exception) -> int | str:
    if isinstance(outcome, WriteResult):
        return outcome.version
    assert isinstance(outcome, Refused), outcome
    return outcome.reason


def _compare(memory: StoredMemory, state: State, version: int) -> None:
    row = build_row(state, version)
    assert memory.row == row, f"is {memory.row}, and must be {row}"
    links = {
        LinkRow(row.key, target, kind, value.weight, value.term)
        for (target, kind), value in state.links.items()
    }
    assert set(memory.links) == links, f"is {memory.links}, and must be {links}"


def build_row(state: State, version: int) -> Row:
    memory = state.memory
    values: JsonObject = {name: getattr(memory, name, None) for name in Row._fields}
    values |= {"namespace": NAMESPACE, "version": version, "archived": int(memory.archived)}
    values["scored"] = int(memory.is_scored)
    for name in ("tags", "about", "metadata"):
        values[name] = dump_sorted_json(values[name])
    return Row(**values)
