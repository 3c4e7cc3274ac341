"""A trial of what a store knows, now and of the past: the same changes to it and to its model."""

import asyncio
import random
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, get_args
from uuid import UUID

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.search.recall import Filters, NoteTerms, RecallRequest
from abilities.helpers.search.terms import Language, split_question, weigh_text
from abilities.helpers.store.changes import Change, Kind
from abilities.helpers.store.history import MemoryName
from abilities.helpers.store.model import LinkRow, MemoryLine, Row, StoredMemory, dump_sorted_json
from abilities.helpers.store.protocol import ServableStore, WriteResult
from abilities.helpers.transfer.exporting import ExportOptions, export
from abilities.helpers.walk import WalkLimits, WalkLink
from tests.support.exhaustive_recall import as_answers, rank_exhaustively
from tests.support.importing import import_file
from tests.support.law_payloads import build_graph, list_plain
from tests.support.past_model import PastModel, State
from tests.support.walk_oracles import Graph, describe, expect_by_recursion

T = TypeVar("T")

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

TASKS = {"change": 70, "follow": 10, "read": 10, "list": 8, "forget": 1}
"""What is done in a hundred steps."""

_TEXTS = [
    "a",
    "b\n",
    "ß\u0301",
    "\U0001f9e0",
    "x" * 50,
    "two lamps",
    "the lamp by the river",
    "世界",
]
_KEYS = ["a", "b", "c", "d\U0001f9e0", "d", "e", "f", "g", "Tea House", "lamp/1"]
_WORDS = ["lamp", "rivers", "tea", "ss", "世界", "the", "b", "d", "x" * 50, "nowhere"]
_NOTES = (NoteTerms("note", weigh_text("tea by the river", Language())),)

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
    """Does the same with a store and its model, and compares what they know.

    A seed decides what it does. Without ``expires`` no memory ends by itself.
    """

    def __init__(self, store: ServableStore, seed: int, *, expires: bool = True) -> None:
        self._store = store
        self._chance = random.Random(seed)
        self._expires = expires
        self._time = datetime(2026, 1, 1, tzinfo=UTC)
        self._number = 0
        self._ids: list[str] = []
        self._follower = Follower(store)
        self.model = PastModel()

    @property
    def now(self) -> str:
        return self._format(0)

    async def run(self, steps: int) -> None:
        """Change, follow, read, list and forget, and compare all that is known in the end."""
        for _ in range(steps):
            self._time += timedelta(milliseconds=self._choose(0, 1, 2_000, 2_000, -5_000))
            # A read, so that what expires has expired before the step.
            await self._store.read_stats(NAMESPACE)
            self.model.expire(self.now)
            await self._take_step()

        await self.check()

    async def _take_step(self) -> None:
        match self._draw(TASKS):
            case "change":
                await self._change()
            case "follow":
                await self._follower.follow(self._chance.randint(1, 5))
            case "read":
                await self._check_reads()
            case "list":
                await self._list()
            case _:
                await self._store.compact(END_OF_TIME)
                self.model.forget()

    def _choose(self, *values: T) -> T:
        return self._chance.choice(values)

    def _draw(self, weights: Mapping[T, int]) -> T:
        (chosen,) = self._chance.choices(list(weights), list(weights.values()))
        return chosen

    async def check(self) -> None:
        """Compare all that ever was, what was copied by following, and the store with itself."""
        await self._check_present()
        await self._check_reads()
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

    async def _change(self) -> None:
        changes = [self._plan() for _ in range(self._choose(1, 1, 2, 4))]
        atomic = self._chance.random() < 0.4
        expected = self.model.apply(changes, atomic=atomic)
        outcomes = await self._store.change_many(NAMESPACE, changes, atomic=atomic)
        found = [_describe_outcome(outcome) for outcome in outcomes]
        assert found == expected, (changes, found, expected)
        await self._check_present()

    def _plan(self) -> Change:
        """Return a change of a memory that there is, was, or never was."""
        self._number += 1
        new_id = str(UUID(int=self._number, version=4))
        self._ids.append(new_id)

        kind = self._draw(KINDS)
        key = self._choose(None, self._chance.choice(_KEYS))
        if key is None and kind == "store":
            key = "a"
        memory_id = self.model.find_id(key) if key is not None else None
        if key is None:
            known = [name for name in self._ids if self.model.is_known(name)]
            memory_id = self._choose(*known or [new_id])
        versions = [event.version for event in self.model.list_events(memory_id or "")]
        present = self.model.get_present(memory_id or "")

        if_version = None
        if kind not in ("restore", "purge") and self._chance.random() < 0.5:
            if_version = 0 if present is None else present.memory.version
            if_version += self._choose(0, 0, 1)

        change = Change(
            kind,
            self.now,
            id=memory_id if key is None else None,
            key=key,
            new_id=new_id,
            fields=self._choose_fields(kind),
            if_version=if_version,
            caller=f"c{self._number % 3}",
        )
        if kind == "restore":
            return replace(change, to_version=self._choose(None, 0, *versions))
        if kind not in ("store", "update", "supersede"):
            return change

        links = [self._make_link() for _ in range(self._choose(0, 0, 2, 4))]
        change = replace(change, links=links)
        if self._chance.random() < 0.3:
            removal = {"key": self._chance.choice(_KEYS), "type": self._choose(None, "part")}
            change = replace(change, remove_links=[removal])
        if kind != "store":
            change = replace(change, new_key=self._choose(None, self._chance.choice(_KEYS)))
        return change

    def _choose_fields(self, kind: Kind) -> JsonObject:
        if kind == "append":
            return {"content": self._chance.choice(_TEXTS)}
        if kind not in ("store", "update", "supersede"):
            return {}

        fields: JsonObject = {}
        for name, values in _VALUES.items():
            if self._chance.random() < 0.25:
                fields[name] = self._chance.choice(values)
        if self._expires and self._chance.random() < 0.25:
            fields["expires_at"] = self._format(self._choose(1, 60))
        if kind == "store":
            fields = {"type": "core", "content": "c", **fields}
        if kind != "update":
            fields.pop("archived", None)
        return fields

    def _make_link(self) -> JsonObject:
        link: JsonObject = {
            "key": self._chance.choice(_KEYS),
            "link_weight": self._choose(0.0, 0.5, 1 / 3),
            "type": self._choose("association", "part"),
        }
        if self._chance.random() < 0.3:
            link["term"] = self._chance.choice(_TEXTS)
        return link

    async def _list(self) -> None:
        after = self._choose("", *_KEYS)
        prefix = self._choose("", *_KEYS)[:1]
        limit, archived = self._chance.randint(1, 5), self._choose(True, False)
        lines = await self._store.list_memories(NAMESPACE, prefix, after, limit, archived=archived)

        expected: list[MemoryLine] = []
        for key, memory in sorted(self.model.present.memories.items()):
            if key > after and key.startswith(prefix) and (archived or not memory.archived):
                size = len(memory.content.encode())
                line = (key, memory.summary, memory.type, size, memory.version, memory.updated_at)
                expected.append(MemoryLine(*line, memory.archived))
        assert lines == expected[:limit]

    async def _check_present(self) -> None:
        found = {memory.row.id: memory for memory in await read_all(self._store)}
        for memory_id in self._ids:
            state = self.model.get_present(memory_id)
            if state is None:
                assert memory_id not in found
            else:
                _compare(found[memory_id], state, state.memory.version)

    async def _check_reads(self) -> None:
        """Compare the links of all keys, walks from all memories, and a recall."""
        graph = build_graph(self.model.present)
        for key in sorted({*graph.edges, *graph.missing}):
            await self._check_links(graph, key)
        for key in graph.edges:
            for direction in get_args(Direction):
                limits = WalkLimits(self._chance.randint(1, 4), self._chance.randint(1, 4), 12)
                walked = await self._store.walk(NAMESPACE, key, limits, direction)
                expected = expect_by_recursion(graph, key, limits, direction)
                assert describe(walked.outcome) == expected, (key, limits, direction)
        await self._check_recall()

    async def _check_links(self, graph: Graph, key: str) -> None:
        """Compare a page of a key's links in each direction, best first."""
        start, limit = self._choose(0, 0, *range(9)), self._chance.randint(1, 4)
        incoming = graph.list_links(key, "in")
        backlinks = await self._store.read_backlinks(NAMESPACE, key, start, limit)
        assert backlinks.total == len(incoming)
        shown = [(link.source, link.type) for link in backlinks.links]
        assert shown == _name_ends(incoming[start : start + limit]), (key, start, limit)

        if key in graph.edges:
            outgoing = graph.list_links(key, "out")
            memory = await self._store.read_linked(NAMESPACE, key, start, limit)
            assert (memory.links_total, memory.backlinks_total) == (len(outgoing), len(incoming))
            shown = [(link.target, link.type) for link in memory.links]
            assert shown == _name_ends(outgoing[start : start + limit]), (key, start, limit)

    async def _check_recall(self) -> None:
        chance = self._chance
        asked = [
            chance.choices(_WORDS, k=chance.randint(1, 5)) for _ in range(chance.randint(1, 3))
        ]
        questions = tuple(split_question(" ".join(words), Language()) for words in asked)
        filters = Filters(
            type=self._choose(None, None, "core"),
            tags=self._choose((), (), ("t",), ("t", "u")),
            importance=self._choose(None, None, "high"),
            changed_since=self._choose(None, None, self._format(-30)),
            archived=self._choose(True, False),
        )
        notes, least = self._choose((), _NOTES), self._choose(None, 0, 600)
        request = RecallRequest(questions, filters, chance.randint(0, 2), notes, least)

        recalled = await self._store.recall(NAMESPACE, request, 1 << 30, [0] * len(questions))
        plain = list_plain(self.model.present)
        expected = await asyncio.to_thread(rank_exhaustively, plain, request)
        assert list(map(as_answers, recalled.rankings)) == expected, request
        entries = [entry for ranking in recalled.rankings for entry in ranking.entries]
        assert recalled.memories.keys() == {one.name for one in entries if not one.is_note}

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
        await import_file(other, file, namespace=NAMESPACE, note=remarks.append)
        assert not remarks, remarks

    def _format(self, seconds: int) -> str:
        time = self._time + timedelta(seconds=seconds)
        return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _name_ends(links: Sequence[WalkLink]) -> list[tuple[str, str]]:
    return [(link.key, link.type) for link in links]


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
