"""The recall index of SQLite stores follows every change, and recall is exact."""

import random
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from abilities.declarations.faults import Refused
from abilities.helpers.search import postings
from abilities.helpers.search.recall import Filters, NoteTerms, RecallRequest
from abilities.helpers.search.terms import Language, split_question, weigh_terms, weigh_text
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.query import Query
from abilities.helpers.stores.sqlite.recall_recent import RecentTerms, pack_terms, unpack_terms
from abilities.helpers.stores.sqlite.store import SqliteStore
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_stores import open_store
from tests.support.exhaustive_recall import Expected, rank_exhaustively
from tests.support.recall_index import PlainMemory
from tests.support.tier import size

ROUNDS = size("ABILITIES_RECALL_ROUNDS", quick=4, full=60)
ENGLISH = Language()
LATER = "2026-02-01T00:00:00.000Z"
WORDS = [
    "tea",
    "coffee",
    "water",
    "stone",
    "parse_args",
    "ADR-007",
    "running",
    "runs",
    "the",
    "of",
    "世界",
    "größe",
    "cup",
]
Postings = dict[tuple[str, int, str, int], int]
"""Weights by namespace, archived, term and rowid."""


def read_index(path: Path) -> Postings:
    """Return what the index of a store holds."""
    found: Postings = {}
    with sqlite3.connect(path) as connection:
        memories = {
            (namespace, doc): memory
            for memory, namespace, doc in connection.execute(
                "SELECT memory, namespace, doc FROM recall_docs"
            )
        }
        for namespace, doc, archived, terms in connection.execute(
            "SELECT namespace, doc, archived, terms FROM recall_recent"
        ):
            for term, weight in unpack_terms(terms).items():
                found[namespace, archived, term, memories[namespace, doc]] = weight
        for namespace, block, archived, term, docs in connection.execute(
            "SELECT namespace, block, archived, term, docs"
            " FROM recall_terms JOIN recall_segments USING (segment)"
        ):
            for doc, weight in postings.unpack(docs, block):
                found[namespace, archived, term, memories[namespace, doc]] = weight

    connection.close()
    return found


def build_index(path: Path) -> Postings:
    """Return what the index of a store must hold, from its memories."""
    expected: Postings = {}
    with sqlite3.connect(path) as connection:
        for memory, namespace, archived, key, summary, content in connection.execute(
            "SELECT rowid, namespace, archived, key, summary, content FROM memories"
        ):
            for term, weight in weigh_terms(key, summary, content, ENGLISH).items():
                expected[namespace, archived, term, memory] = weight

    connection.close()
    return expected


async def change_randomly(store: SqliteStore, chance: random.Random, count: int) -> None:
    """Store, change, rename, archive, revive and delete memories."""
    keys = [f"key{n}" for n in range(12)] + ["Tea House", "ADR-007"]
    for _ in range(count):
        key = chance.choice(keys)
        page = await store.query(NAMESPACE, Query(limit=100, archived=True))
        memories = [memory for memory in page.memories if isinstance(memory, StoredMemory)]
        memory_id = chance.choice(memories).row.id if memories else ""
        kind = chance.choice(["store", "store", "store", "update", "rename", "archive", "delete"])

        if kind == "store" or not memory_id:
            links = [(chance.choice(keys), chance.randrange(1, 11) / 10) for _ in range(3)]
            await put(
                store,
                key,
                links=dict(links).items(),
                content=" ".join(chance.choices(WORDS, k=chance.randint(1, 12))),
                summary=" ".join(chance.choices(WORDS, k=chance.randint(0, 3))),
                type=chance.choice(["core", "task"]),
                tags=chance.sample(["a", "b"], chance.randint(0, 2)),
                memory_score=chance.randrange(1, 11) / 10,
            )
        elif kind == "update":
            await put(store, "", kind="update", id=memory_id, content=chance.choice(WORDS))
        elif kind == "rename":
            with suppress(Refused):  # the key may be in use
                await put(store, key, kind="update", id=memory_id)
        elif kind == "archive":
            await store.change(NAMESPACE, Change("archive", LATER, memory_id))
        else:
            await store.change(NAMESPACE, Change("delete", LATER, memory_id))


async def list_plain(store: SqliteStore) -> list[PlainMemory]:
    """Return the memories of a store as the plain computation takes them."""
    plain: list[PlainMemory] = []
    for memory in await store.read_page(("", ""), 10_000):
        assert isinstance(memory, StoredMemory)
        row = memory.row
        plain.append(
            PlainMemory(
                row.key,
                row.content,
                row.summary,
                type=row.type,
                tags=tuple(tag for tag in "ab" if f'"{tag}"' in row.tags),
                category=row.category,
                importance=row.importance,
                score=row.score,
                archived=bool(row.archived),
                updated_at=row.updated_at,
                links=[(link.target, link.weight) for link in memory.links],
            )
        )

    return plain


async def compare(store: SqliteStore, request: RecallRequest) -> None:
    """Compare a recall with the plain computation."""
    recalled = await store.recall(NAMESPACE, request, 1 << 30, [0] * len(request.questions))

    ours = [(list(r.entries), list(r.unknown_words)) for r in recalled.rankings]
    expected = rank_exhaustively(await list_plain(store), request)
    assert [([as_expected(e) for e in entries], words) for entries, words in ours] == expected
    names = {e.name for entries, _ in ours for e in entries if not e.is_note}
    assert recalled.memories.keys() == names


def as_expected(entry: object) -> Expected:
    return Expected(*(getattr(entry, name) for name in Expected.__dataclass_fields__))


def make_requests(chance: random.Random) -> Sequence[RecallRequest]:
    questions = tuple(
        split_question(" ".join(chance.choices([*WORDS, "nowhere"], k=3)), ENGLISH)
        for _ in range(chance.randint(1, 3))
    )
    notes = (NoteTerms("note", weigh_text("tea and stone", ENGLISH)),)
    return [
        RecallRequest(questions),
        RecallRequest(questions, Filters(archived=True), notes=notes),
        RecallRequest(questions, Filters(type="core"), hops=1),
        RecallRequest(questions, Filters(tags=("a",), archived=True)),
        RecallRequest(questions, Filters(changed_since="2026-01-15T00:00:00.000Z"), hops=0),
    ]


@pytest.mark.parametrize("block", [4, 1_024])
async def test_the_index_follows_every_change_and_recall_is_exact(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With small blocks memories move from the recent ones to the blocks by term."""
    monkeypatch.setattr(postings, "BLOCK_DOCS", block)
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        path = tmp_path / f"{seed}.db"
        async with open_store(path) as store:
            for _ in range(3):
                await change_randomly(store, chance, 25)

                assert read_index(path) == build_index(path)
                for finding in await store.check(lambda _: None, full=True):
                    assert finding.state != "damaged", finding
                if block == 1_024:
                    for request in make_requests(chance):
                        await compare(store, request)


async def test_recall_reads_recent_memories_and_full_blocks(tmp_path: Path) -> None:
    chance = random.Random(1)
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        for n in range(1_100):
            text = " ".join(chance.choices(WORDS, k=8))
            await put(store, f"k{n:04}", content=f"{text} number{n}")
        await change_randomly(store, chance, 40)
        for request in make_requests(chance):
            await compare(store, request)

        # One of a full block and a recent one, as the random changes have left them.
        earliest, *_, latest = await list_untouched(store, 1_100)
        assert earliest < 100 and latest > 1_050
        question = split_question(f"number{earliest} number{latest}", ENGLISH)
        recalled = await store.recall(NAMESPACE, RecallRequest((question,), hops=0), 1, [0])

        keys = [entry.name for entry in recalled.rankings[0].entries]
        assert sorted(keys) == [f"k{earliest:04}", f"k{latest:04}"]

    with sqlite3.connect(path) as connection:
        blocks = connection.execute("SELECT DISTINCT block FROM recall_terms").fetchall()
        assert blocks == [(0,)]
    connection.close()


async def test_blocks_of_several_segments_hold_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "BLOCK_DOCS", 2)
    path = tmp_path / "m.db"
    chance = random.Random(3)

    async with open_store(path) as store:
        for n in range(72):
            await put(store, f"k{n:04}", content=" ".join(chance.choices(WORDS, k=8)))
        await change_randomly(store, chance, 20)

    with sqlite3.connect(path) as connection:
        segments = connection.execute("SELECT namespace, part FROM recall_segments").fetchall()
    connection.close()
    assert segments[:2] == [(NAMESPACE, 0), (NAMESPACE, 1)]
    assert read_index(path) == build_index(path)


async def list_untouched(store: SqliteStore, count: int) -> list[int]:
    """Return the numbers of the memories that are as they were stored."""
    memories = await store.read(NAMESPACE, [f"k{n:04}" for n in range(count)])
    numbers: list[int] = []
    for n, memory in enumerate(memories):
        if not isinstance(memory, StoredMemory) or memory.row.archived:
            continue
        if memory.row.content.endswith(f" number{n}"):
            numbers.append(n)

    return numbers


async def test_memories_are_loaded_in_turns_until_there_is_no_room(tmp_path: Path) -> None:
    async with open_store(tmp_path / "m.db") as store:
        for n in range(80):
            await put(store, f"k{n:02}", content=f"{'tea' if n % 2 else 'stone'} {'x' * 1_000}")
        questions = (split_question("tea", ENGLISH), split_question("stone", ENGLISH))
        request = RecallRequest(questions, hops=0)

        every = await store.recall(NAMESPACE, request, 1 << 20, [0, 0])
        few = await store.recall(NAMESPACE, request, 10, [3, 30])

    first, second = (list(map(get_name, ranking.entries)) for ranking in every.rankings)
    assert len(every.memories) == 80
    turns = [name for pair in zip(first[3:], second[30:], strict=False) for name in pair]
    assert set(turns[:20]) <= set(few.memories) < set(first + second)


def get_name(entry: object) -> str:
    name: str = entry.name  # type: ignore[attr-defined]
    return name


def test_terms_are_packed_and_found() -> None:
    weights = {"te": 1, "tea": 63, "a-b": 10, "世界": 5, "1": 9}
    text = pack_terms(weights)

    assert unpack_terms(text) == weights
    assert unpack_terms(pack_terms({})) == {}
    texts = [(4, text), (5, ""), (7, pack_terms({"tea": 2})), (9, text + text)]
    recent = RecentTerms((doc, text.encode()) for doc, text in texts)
    assert list(recent.find("tea")) == [(4, 63), (7, 2), (9, 63)]
    for term in weights.keys() - {"tea"}:
        assert list(recent.find(term)) == [(4, weights[term]), (9, weights[term])]
    for term in ("t", "ea", "", "b", "63"):
        assert list(recent.find(term)) == []


@pytest.mark.parametrize("damage", [b"", b"\t", b"\x00", b"p", b"\xff", b"\xc3\xbc"])
def test_a_recent_term_without_a_weight_is_passed_over(damage: bytes) -> None:
    texts = [(1, b"\ntea\t1"), (2, b"\ntea\t" + damage), (3, b"\ntea"), (4, b"\ntea\t3")]

    assert list(RecentTerms(texts).find("tea")) == [(1, 1), (4, 3)]
