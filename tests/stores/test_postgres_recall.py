"""`recall` on PostgreSQL: its index follows every change, and it ranks as a plain computation."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import orjson
import psycopg
import pytest

from abilities.declarations.faults import Refused
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import Language, split_question
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.model import IncomingMemory, StoredMemory
from abilities.helpers.stores.postgres import recall_index
from abilities.helpers.stores.postgres.recall_check import rebuild_index
from abilities.helpers.stores.postgres.statements import Select
from abilities.helpers.stores.postgres.store import PostgresStore
from abilities.helpers.stores.sqlite.store import SqliteStore
from tests.stores.behaviours import put
from tests.stores.behaviours.steps import NAMESPACE, TIME
from tests.support.exhaustive_recall import Expected, rank_exhaustively
from tests.support.recall_index import PlainMemory
from tests.support.tier import size

WORDS = ("lamp", "lamps", "river", "the", "ADR-007", "adr", "Zürich", "数据库", "x1", "night")
KEYS = ("lamp/1", "river-2", *(f"m{number}" for number in range(12)))
STEPS = size("ABILITIES_RECALLED", quick=150, full=600)
LARGE_ROOM = 10_000_000


@pytest.mark.parametrize("most_recent", [0, 40, 100_000], ids=["merged", "mixed", "recent"])
async def test_the_index_follows_every_change(
    most_recent: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall_index, "MOST_RECENT", most_recent)
    chance = Random(most_recent)
    store = PostgresStore(url)

    for step in range(STEPS):
        await change_something(store, chance, step)
        if step % 10 == 9:
            await compare(store, chance)

    findings = await store.check(lambda _: None, full=True)
    await store.close()
    assert [finding.name for finding in findings if finding.state == "damaged"] == []


async def test_an_imported_store_ranks_alike(url: str) -> None:
    chance = Random(1)
    store = PostgresStore(url)
    for step in range(STEPS):
        await change_something(store, chance, step)
    request = make_request(chance)
    before = await store.recall(NAMESPACE, request, LARGE_ROOM, starts(request))

    memories = await read_all(store)
    for row in [memory.row for memory in memories]:
        await store.change(NAMESPACE, Change("delete", TIME, id=row.id))
    chance.shuffle(memories)
    await store.import_batch([IncomingMemory(memory) for memory in memories])
    after = await store.recall(NAMESPACE, request, LARGE_ROOM, starts(request))

    await store.close()
    assert after.rankings == before.rankings


async def test_both_stores_give_the_same_rankings(url: str, tmp_path: Path) -> None:
    chance = Random(3)
    store, file = PostgresStore(url), SqliteStore(tmp_path / "memory.db")
    for step in range(STEPS):
        await change_something(store, chance, step)
    memories = await read_all(store)
    await file.import_batch([IncomingMemory(memory) for memory in memories])

    for _ in range(20):
        request = make_request(chance)
        asked = (NAMESPACE, request, LARGE_ROOM, starts(request))
        ours, theirs = await store.recall(*asked), await file.recall(*asked)

        assert ours.rankings == theirs.rankings
        assert ours.memories.keys() == theirs.memories.keys()

    await store.close()
    await file.close()


async def test_memories_are_loaded_in_turns_until_there_is_no_room(url: str) -> None:
    store = PostgresStore(url)
    for number in range(100):
        await put(store, f"a{number:02}", content="river " + "x" * 900)
        await put(store, f"b{number:02}", content="lamp " + "x" * 900)

    request = RecallRequest((ask("river"), ask("lamp")))
    recalled = await store.recall(NAMESPACE, request, 20_000, (0, 90))
    await store.close()

    assert {f"b{number}" for number in range(90, 100)} < recalled.memories.keys()
    assert "b89" not in recalled.memories
    assert {f"a{number:02}" for number in range(16)} < recalled.memories.keys()
    assert len(recalled.memories) < 100


async def test_a_question_with_two_hops_takes_five_statements(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url)
    for number in range(70):
        content = f"river {'x' * 140}"
        await put(store, f"m{number}", content=content, links=[(f"m{number + 1}", 0.5)])

    sent: list[bytes] = []
    send = Select.send

    async def note_and_send(select: Select[Any], *arguments: Any) -> Any:
        sent.append(select.text)
        return await send(select, *arguments)

    monkeypatch.setattr(Select, "send", note_and_send)
    recalled = await store.recall(NAMESPACE, RecallRequest((ask("river"),)), 8_000, (0,))
    await store.close()

    # The first one, which begins to read, travels with the second.
    assert len([text for text in sent if b"begin_read" not in text]) == 5
    assert len(recalled.memories) == 64


async def test_a_damaged_memory_is_told_in_its_place(url: str) -> None:
    store = PostgresStore(url)
    await put(store, "a", content="river")
    tamper(url, "UPDATE memories SET content = 'river and lamp'")

    request = RecallRequest((ask("river"),))
    recalled = await store.recall(NAMESPACE, request, LARGE_ROOM, (0,))
    await store.close()

    assert [entry.name for entry in recalled.rankings[0].entries] == ["a"]
    error = recalled.memories["a"]
    assert isinstance(error, Refused)
    assert error.reason == "checksum_mismatch"


async def test_a_change_of_a_damaged_memory_leaves_none_of_its_terms(url: str) -> None:
    store = PostgresStore(url)
    await put(store, "a", content="river")
    tamper(url, "UPDATE memories SET content = 'lamp'")

    await put(store, "a", content="night")
    request = RecallRequest((ask("river lamp night"),))
    recalled = await store.recall(NAMESPACE, request, LARGE_ROOM, (0,))
    findings = await store.check(lambda _: None, full=True)
    await store.close()

    assert recalled.rankings[0].unknown_words == ("river", "lamp")
    assert [finding.name for finding in findings if finding.state == "damaged"] == []


_CHANGED_ROWS = """
SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables WHERE relname = %s
"""


DAMAGES = {
    "a posting is lost": "UPDATE recall_terms SET docs = substr(docs, 3) WHERE term = 'river'",
    "a weight is another": "UPDATE recall_terms SET docs = set_byte(docs, 1, 1)",
    "a term is lost": "DELETE FROM recall_terms WHERE term = 'night'",
    "a change is lost": "DELETE FROM recall_recent WHERE number % 3 = 0",
    "a number is another": "UPDATE shelf SET doc = 2000 WHERE key = 'm3'",
}


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_index_is_found_and_repaired(
    statement: str, url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall_index, "MOST_RECENT", 40)
    chance = Random(2)
    store = PostgresStore(url)
    for number in range(30):
        await put(store, f"m{number}", content=f"river lamp night {number}")

    tamper(url, statement)
    found = [
        finding.name
        for finding in await store.check(lambda _: None, full=True)
        if finding.state == "damaged"
    ]
    await store.repair(tmp_path / "originals", lambda _: None, dry_run=False)
    left = [
        finding.name
        for finding in await store.check(lambda _: None, full=True)
        if finding.state == "damaged"
    ]
    await compare(store, chance)
    await store.close()

    assert found == ["search"]
    assert left == []


async def test_rebuilding_the_index_counts_no_memory_again(url: str) -> None:
    store = PostgresStore(url)
    for number in range(12):
        await put(store, f"m{number}", content="river", tags=["a"])
    await store.close()
    tamper(url, "UPDATE shelf SET doc = doc + 1000000 WHERE doc % 2 = 0")
    tamper(url, "UPDATE shelf SET doc = -1 WHERE doc = 3")

    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SET search_path = abilities_data")
        await rebuild_index(connection, NAMESPACE)
        counted = await connection.execute(_CHANGED_ROWS, ("counters",))
        shelved = await connection.execute(_CHANGED_ROWS, ("shelf",))
        numbers = await connection.execute("SELECT doc FROM shelf ORDER BY doc")

        assert await counted.fetchone() == (0,)
        assert await shelved.fetchone() == (7,)
        assert await numbers.fetchall() == [(number,) for number in range(12)]


async def test_the_language_is_that_of_the_index(url: str) -> None:
    german = PostgresStore(url, language=Language("german"))
    await put(german, "a", content="Die Häuser")
    await german.close()

    store = PostgresStore(url, language=Language("english"))
    language = await store.read_language()
    await put(store, "b", content="Das Haus")
    request = RecallRequest((split_question("Häuser", language),))
    recalled = await store.recall(NAMESPACE, request, LARGE_ROOM, (0,))
    await store.close()

    assert language == Language("german")
    assert [entry.name for entry in recalled.rankings[0].entries] == ["a", "b"]


async def change_something(store: PostgresStore, chance: Random, step: int) -> None:
    """Make a change of any kind; one that the store refuses changes nothing."""
    memories = await read_all(store)
    kind = chance.choice(("store", "store", "store", "update", "rename", "archive", "delete"))
    key = chance.choice(KEYS)
    fields = {
        "type": chance.choice(("core", "learning")),
        "content": " ".join(chance.choices(WORDS, k=chance.randint(1, 8))),
        "summary": " ".join(chance.choices(WORDS, k=chance.randint(0, 2))),
        "tags": chance.choice(([], ["a"], ["a", "b"])),
        "importance": chance.choice(("low", "high")),
    }
    links = [
        {"key": chance.choice((*KEYS, "gone")), "type": "t", "link_weight": chance.random()}
        for _ in range(chance.randint(0, 3))
    ]

    row = chance.choice(memories).row if memories else None
    change = Change("store", TIME, key=key, new_id=make_id(step), fields=fields, links=links)
    if row is not None and kind == "update":
        change = Change("update", TIME, id=row.id, fields=fields, links=links)
    elif row is not None and kind == "rename":
        change = Change("update", TIME, id=row.id, key=key)
    elif row is not None and kind == "archive":
        change = Change("archive", TIME, id=row.id)
    elif row is not None and kind == "delete":
        change = Change("delete", TIME, id=row.id)

    try:
        await store.change(NAMESPACE, change)
    except Refused as refused:
        assert refused.reason == "key_taken"


async def compare(store: PostgresStore, chance: Random) -> None:
    """Compare an answer of the store with one that is computed from all of its memories."""
    request = make_request(chance)
    memories = await read_all(store)

    recalled, expected = await asyncio.gather(
        store.recall(NAMESPACE, request, LARGE_ROOM, starts(request)),
        asyncio.to_thread(rank_exhaustively, [make_plain(memory) for memory in memories], request),
    )

    found = [
        (
            [Expected(e.name, e.is_note, e.score, e.own, e.via, e.words) for e in ranking.entries],
            list(ranking.unknown_words),
        )
        for ranking in recalled.rankings
    ]
    assert found == expected
    assert recalled.memories.keys() == {
        entry.name for ranking in recalled.rankings for entry in ranking.entries
    }


def make_request(chance: Random) -> RecallRequest:
    filters = Filters(
        type=chance.choice((None, None, "core")),
        tags=chance.choice(((), (), ("a",), ("a", "b"))),
        importance=chance.choice((None, None, "high")),
        archived=chance.random() < 0.5,
    )
    questions = [
        ask(" ".join(chance.choices(WORDS, k=chance.randint(1, 5))))
        for _ in range(chance.randint(1, 3))
    ]
    return RecallRequest(tuple(questions), filters, chance.randint(0, 2))


def ask(question: str) -> Any:
    return split_question(question, Language())


def starts(request: RecallRequest) -> tuple[int, ...]:
    return (0,) * len(request.questions)


def make_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def make_plain(memory: StoredMemory) -> PlainMemory:
    row = memory.row
    return PlainMemory(
        key=row.key,
        content=row.content,
        summary=row.summary,
        type=row.type,
        tags=tuple(orjson.loads(row.tags)),
        category=row.category,
        importance=row.importance,
        score=row.score,
        archived=bool(row.archived),
        updated_at=row.updated_at,
        links=[(link.target, link.weight) for link in memory.links],
    )


async def read_all(store: PostgresStore) -> list[StoredMemory]:
    memories = await store.read_page(("", ""), 1_000)
    return [memory for memory in memories if isinstance(memory, StoredMemory)]


def tamper(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = abilities_data")
        assert connection.execute(statement.encode()).rowcount >= 1
