"""A trial of what a store shows: the same random changes to it and to its model."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar, get_args
from uuid import UUID

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import Language, split_question
from abilities.helpers.store.changes import Change, Kind
from abilities.helpers.store.model import (
    IMPORTANCES,
    LinkRow,
    MemoryLine,
    Query,
    Row,
    StoredMemory,
    dump_sorted_json,
    split_search,
)
from abilities.helpers.store.protocol import MemoryStore, WriteResult
from abilities.helpers.walk import WalkLimits, WalkLink
from tests.support.exhaustive_recall import as_answers, rank_exhaustively
from tests.support.law_model import MemoryModel
from tests.support.law_payloads import build_graph, expect_stats, find_matches, list_plain
from tests.support.past_model import PastModel, State, Told
from tests.support.recall_index import write_note
from tests.support.walk_oracles import Graph, describe, expect_by_recursion

T = TypeVar("T")

NAMESPACE = "team"

KINDS: dict[Kind, int] = {
    "store": 30,
    "update": 18,
    "append": 6,
    "supersede": 8,
    "archive": 6,
    "delete": 10,
}
"""How often a change is of each kind."""

TASKS = {"change": 70, "read": 10, "list": 8}
"""How often each thing is done."""

_TEXTS = [
    "a",
    "b\n",
    "ß\u0301",
    "\U0001f9e0",
    "x" * 50,
    "two lamps",
    "the lamp by the river",
    "世界",
    "A\x01\t\"'\\%_",
]
_CONTENTS = [*_TEXTS, "The kettle sings 世界.\r\n" * 400]
_KEYS = ["a", "b", "c", "d\U0001f9e0", "d", "e", "f", "g", "Tea House", "lamp/1"]
_WORDS = ["lamp", "rivers", "tea", "ss", "世界", "the", "b", "d", "x" * 50, "nowhere"]
_NOTES = (write_note("note", "tea by the river"),)

_VALUES: dict[str, Sequence[object]] = {
    "content": _CONTENTS,
    "summary": ["", *_TEXTS],
    "category": ["", "x"],
    "tags": [[], ["t"], ["u", "t"], ["ß", "ß"]],
    "about": [[], ["src/app.py"], ["src/*", "ß", "ß"]],
    "importance": ["low", "medium", "high"],
    "memory_score": [0.0, 5e-324, 0.6, 1.0],
    "metadata": [{}, {"ß": None, "a": [0.5]}, {"memory_score": 0.25, "b": 1}],
    "archived": [True, False],
}

_FILTERS: dict[str, Sequence[object]] = {
    "type": ["core", "task"],
    "category": ["", "x"],
    "importance": ["low", "high"],
    "tags": [["t"], ["u", "t"], ["ß"]],
}
_SORTED_BY = ("created_at", "updated_at", "accessed_at", "importance", "access_count")


class PresentTrial:
    """Does the same with a store and its model, and compares what they show.

    A seed decides what it does. Without ``expires`` no memory ends by itself, so that the clock of
    the store may be any.
    """

    kinds: ClassVar[Mapping[Kind, int]] = KINDS
    tasks: ClassVar[Mapping[str, int]] = TASKS

    def __init__(self, store: MemoryStore, seed: int, *, expires: bool = False) -> None:
        self._store = store
        self._chance = random.Random(seed)
        self._expires = expires
        self._time = datetime(2026, 1, 1, 23, 59, 50, tzinfo=UTC)
        self._number = 0
        self._ids: list[str] = []
        self.model = PastModel()

    @property
    def now(self) -> str:
        return self._format(0)

    async def run(self, steps: int) -> None:
        """Take steps, and compare all that is known in the end."""
        for _ in range(steps):
            self._time += timedelta(milliseconds=self._choose(0, 1, 2_000, 2_000, -5_000))
            # A read, so that what expires has expired before the step.
            await self._store.read_stats(NAMESPACE)
            self.model.expire(self.now)
            await self._take_step(self._draw(self.tasks))

        await self.check()

    async def _take_step(self, task: str) -> None:
        match task:
            case "change":
                await self._change()
            case "read":
                await self._check_reads()
            case _:
                await self._list()

    async def check(self) -> None:
        """Compare all that is there."""
        await self._check_present()
        await self._check_reads()

    def _choose(self, *values: T) -> T:
        return self._chance.choice(values)

    def _draw(self, weights: Mapping[T, int]) -> T:
        (chosen,) = self._chance.choices(list(weights), list(weights.values()))
        return chosen

    async def _change(self) -> None:
        changes = [self._plan() for _ in range(self._choose(1, 1, 2, 4))]
        atomic = self._chance.random() < 0.4
        expected = self.model.apply(changes, atomic=atomic)
        outcomes = await self._store.change_many(NAMESPACE, changes, atomic=atomic)
        found = list(map(_describe_outcome, changes, outcomes))
        assert found == expected, (changes, found, expected)
        await self._check_present()

    def _plan(self) -> Change:
        """Return a change of a memory that there is, was, or never was."""
        self._number += 1
        new_id = str(UUID(int=self._number, version=4))
        self._ids.append(new_id)

        kind = self._draw(self.kinds)
        key = self._choose(None, self._chance.choice(_KEYS))
        if key is None and kind == "store":
            key = "a"
        memory_id = self.model.find_id(key) if key is not None else None
        is_by_both = key is not None and kind in ("store", "update") and self._chance.random() < 0.1
        if key is None or is_by_both:
            known = [one for one in self._ids if self.model.is_known(one)]
            superseded = [one.id for one in self.model.events[-2:] if one.action == "superseded"]
            if kind == "restore" and superseded:  # which undoes the replacement too
                known = superseded
            memory_id = self._choose(*known or [new_id], *sorted(self.model.purged))
        versions = [event.version for event in self.model.list_events(memory_id or "")]
        present = self.model.get_present(memory_id or "")

        if_version = None
        if kind not in ("restore", "purge") and self._chance.random() < 0.5:
            if_version = 0 if present is None else present.memory.version
            if_version += self._choose(0, 0, 1)

        change = Change(
            kind,
            self.now,
            id=memory_id if key is None or is_by_both else None,
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
            return {"content": self._chance.choice(_CONTENTS)}
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
            "link_weight": self._choose(0.0, 5e-324, 0.5, 1 / 3),
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

    async def _read_present(self) -> list[StoredMemory]:
        """Return all memories, with all their links."""
        lines = await self._store.list_memories(NAMESPACE, "", "", 1_000, archived=True)
        return [await self._store.read_linked(NAMESPACE, line.key, 0, 1_000) for line in lines]

    async def _check_present(self) -> None:
        found = {memory.row.id: memory for memory in await self._read_present()}
        for memory_id in self._ids:
            state = self.model.get_present(memory_id)
            if state is None:
                assert memory_id not in found
            else:
                compare_memory(found[memory_id], state, state.memory.version)

    async def _check_reads(self) -> None:
        """Compare the links of all keys, walks from all memories, queries and a recall."""
        graph = build_graph(self.model.present)
        for key in sorted({*graph.edges, *graph.missing}):
            await self._check_links(graph, key)
        for key in graph.edges:
            for direction in get_args(Direction):
                limits = WalkLimits(self._chance.randint(1, 4), self._chance.randint(1, 4), 12)
                walked = await self._store.walk(NAMESPACE, key, limits, direction)
                expected = expect_by_recursion(graph, key, limits, direction)
                assert describe(walked.outcome) == expected, (key, limits, direction)
        await self._check_stats()
        await self._check_query()
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
            replaced = self.model.present.describe_replacement(key)
            assert memory.replaced_by == replaced.get("replaced_by", "")

    async def _check_stats(self) -> None:
        stats = await self._store.read_stats(NAMESPACE)
        expected = expect_stats(self.model.present)
        assert (stats.total, stats.archived) == (
            expected["total_memories"],
            expected["archived_count"],
        )
        assert stats.by_type == expected["by_type"]
        assert stats.by_importance == expected["by_importance"]
        assert round(stats.size_bytes / 1_024, 3) == expected["total_storage_kb"]
        assert [{"tag": tag, "count": n} for tag, n in stats.top_tags] == expected["top_tags"]
        assert stats.oldest == expected.get("oldest_memory")
        assert stats.newest == expected.get("newest_memory")

    async def _check_query(self) -> None:
        """Compare what a query finds, from an offset and in pages."""
        chance, memories = self._chance, list(self.model.present.memories.values())
        asked: JsonObject = {"archived": self._choose(True, False)}
        for name, values in _FILTERS.items():
            if chance.random() < 0.25:
                asked[name] = chance.choice(values)
        if memories and chance.random() < 0.5:
            memory = chance.choice(memories)
            text = chance.choice([memory.content, memory.summary, memory.key]) or "ß"
            start = chance.randrange(len(text))
            asked["search"] = text[start : start + chance.randint(1, 9)]

        sort_by, descending = chance.choice(_SORTED_BY), self._choose(True, False)
        matches = find_matches(self.model.present, {**asked, "sort_by": "key", "sort_order": ""})
        matches.sort(key=lambda memory: _get_place(memory, sort_by), reverse=descending)
        expected = [memory.key for memory in matches]

        limit, offset = chance.randint(1, 5), chance.randint(0, 5)
        asked |= {"tags": tuple(asked.get("tags", ())), "sort_by": sort_by, "limit": limit}
        asked["search"] = split_search(asked.get("search", ""))
        query = Query(**asked, descending=descending)
        page = await self._store.query(NAMESPACE, replace(query, offset=offset))
        assert _list_keys(page.memories) == expected[offset : offset + limit], (query, offset)

        found: list[str] = []
        has_more = True
        while has_more:
            page = await self._store.query(NAMESPACE, query)
            assert page.total == len(expected), query
            found += _list_keys(page.memories)
            has_more = page.has_more
            if has_more:
                query = replace(query, after=page.positions[-1])
        assert found == expected, query

    async def _check_recall(self) -> None:
        chance = self._chance
        asked = [
            chance.choices(_WORDS, k=chance.randint(1, 5)) for _ in range(chance.randint(1, 3))
        ]
        questions = tuple(split_question(" ".join(words), Language()) for words in asked)
        filters = Filters(
            type=self._choose(None, None, "core"),
            tags=self._choose((), (), ("t",), ("t", "u")),
            category=self._choose(None, None, "x"),
            importance=self._choose(None, None, "high"),
            changed_since=self._choose(None, None, self._format(-30)),
            as_of=self._choose(None, None, "2026-01-01", "2026-01-02"),
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

        for key, memory in recalled.memories.items():
            assert isinstance(memory, StoredMemory)
            replaced = self.model.present.describe_replacement(key)
            assert memory.replaced_by == replaced.get("replaced_by", "")
            assert memory.since == (self.model.present.find_since(key) or "")

    def _format(self, seconds: int) -> str:
        time = self._time + timedelta(seconds=seconds)
        return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _get_place(memory: MemoryModel, sort_by: str) -> tuple[Any, str]:
    """Return the place of a memory that nobody has accessed."""
    values: dict[str, Any] = {
        "importance": IMPORTANCES.index(memory.importance),
        "accessed_at": memory.created_at,
        "access_count": 0,
    }
    return values[sort_by] if sort_by in values else getattr(memory, sort_by), memory.id


def _list_keys(memories: Sequence[StoredMemory | Exception]) -> list[str]:
    return [memory.row.key for memory in memories if isinstance(memory, StoredMemory)]


def _name_ends(links: Sequence[WalkLink]) -> list[tuple[str, str]]:
    return [(link.key, link.type) for link in links]


def _describe_outcome(change: Change, outcome: WriteResult | Exception) -> Told | str:
    if isinstance(outcome, Refused):
        return outcome.reason
    assert isinstance(outcome, WriteResult), outcome
    if change.kind in ("restore", "purge"):
        return Told(outcome.version)
    return Told(outcome.version, outcome.created, frozenset(outcome.updated), outcome.replaced)


def compare_memory(memory: StoredMemory, state: State, version: int) -> None:
    """Compare a memory and all its links with a state of the model."""
    row = _build_row(state, version)
    assert memory.row == row, f"is {memory.row}, and must be {row}"
    links = {
        LinkRow(row.key, target, kind, value.weight, value.term)
        for (target, kind), value in state.links.items()
    }
    assert set(memory.links) == links, f"is {memory.links}, and must be {links}"


def _build_row(state: State, version: int) -> Row:
    memory = state.memory
    values: JsonObject = {name: getattr(memory, name, None) for name in Row._fields}
    values |= {"namespace": NAMESPACE, "version": version, "archived": int(memory.archived)}
    values["scored"] = int(memory.is_scored)
    for name in ("tags", "about", "metadata"):
        values[name] = dump_sorted_json(values[name])
    return Row(**values)
