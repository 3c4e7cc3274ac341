"""Stale ranks: nobody sees them, they are updated in blocks, and no change takes long for them."""

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from abilities.helpers.stores import ranking
from abilities.helpers.stores.model import LinkRow
from abilities.helpers.stores.postgres.store import PostgresStore
from abilities.helpers.stores.protocol import ServableStore
from abilities.helpers.stores.sqlite.repair import repair
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_stores import count_equal_walks, open_store
from tests.support import postgres
from tests.support.stale import bounds, change_both, compare
from tests.support.tier import size

ROUNDS = size("ABILITIES_STALE_ROUNDS", quick=3, full=40)
GRAPHS = size("ABILITIES_STALE_GRAPHS", quick=10, full=100)


async def test_stale_ranks_change_no_answer(tmp_path: Path) -> None:
    """Against a store that updates all ranks at once."""
    marks = 0
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        path = tmp_path / f"{seed}.db"
        async with open_store(path) as store, open_store(tmp_path / f"c{seed}.db") as control:
            for _ in range(4):
                await change_both(store, control, chance, 20)
                await compare(store, control, chance)
        marks += len(list_marks(path))

    assert marks > 0


async def test_stale_ranks_change_no_answer_in_postgres(server: str) -> None:
    """Against a store that updates all ranks at once."""
    marks = 0
    for seed in range(2, 3 + ROUNDS // 4):
        chance = random.Random(seed)
        with postgres.database(server) as url, postgres.database(server) as control_url:
            store, control = PostgresStore(url), PostgresStore(control_url)
            for _ in range(4):
                await change_both(store, control, chance, 20)
                await compare(store, control, chance)
            await store.close()
            await control.close()

            with psycopg.connect(url) as connection:
                statement = "SELECT count(*) FROM abilities_data.stale_ranks"
                marks += connection.execute(statement).fetchall()[0][0]

    assert marks > 0


async def test_walks_in_postgres_over_graphs_full_of_stale_ranks(server: str) -> None:
    with bounds(0, 100, 1), postgres.database(server) as url:
        store = PostgresStore(url)
        assert await count_equal_walks(store, range(GRAPHS)) == GRAPHS
        await store.close()


async def test_walks_over_graphs_full_of_stale_ranks_agree_with_the_oracle(tmp_path: Path) -> None:
    with bounds(0, 100, 1):
        async with open_store(tmp_path / "m.db") as store:
            assert await count_equal_walks(store, range(GRAPHS)) == GRAPHS

    assert list_marks(tmp_path / "m.db")


@pytest.mark.parametrize("links", [ranking.MOST_UPDATED, ranking.MOST_UPDATED + 1])
async def test_a_change_updates_few_ranks_and_marks_many(links: int, tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await link_to_hub(store, "hub", links)
        await put(store, "hub", memory_score=0.2)
        first = (await store.read_linked(NAMESPACE, "s0", 0, 1)).links
        walk = await store.walk(NAMESPACE, "s0", WalkLimits(1, 1, 2), "out")

    is_marked = links > ranking.MOST_UPDATED
    assert list_marks(path) == [("target", "hub")] * is_marked
    assert count_ranks(path, "hub") == {True: {-1: links}, False: {100_000: links}}[is_marked]
    assert first[0].target == "hub"
    assert [step.link.rank for step in walk.outcome.steps if step.link] == [100_000]


async def test_older_marks_are_removed_in_blocks(tmp_path: Path) -> None:
    """Each change of the namespace updates a block of ranks behind the oldest marks."""
    path = tmp_path / "m.db"
    with bounds(4, 1, 3):
        async with open_store(path) as store:
            await link_to_hub(store, "hub", 10)
            await link_to_hub(store, "other", 10)
            await put(store, "hub", memory_score=0.2)
            await put(store, "other", memory_score=0.2)

            seen = [count_ranks(path, "hub")]
            for number in range(4):
                await put(store, f"plain{number}")
                seen.append(count_ranks(path, "hub"))

    updated = [ranks.get(100_000, 0) for ranks in seen]
    assert updated == sorted(updated) and updated[-1] == 10
    assert all(after - before <= 3 for before, after in pairwise(updated))
    assert list_marks(path) == [("target", "other")]


async def link_to_hub(store: ServableStore, hub: str, count: int) -> None:
    for number in range(count):
        await put(store, f"s{number}", links=[(hub, 0.5)], memory_score=0.5)


def list_marks(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT side, key FROM stale_ranks ORDER BY 1, 2").fetchall()


def list_marks_in(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT side, key FROM abilities_data.stale_ranks").fetchall()


def count_ranks(path: Path, target: str) -> dict[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        statement = "SELECT rank, count(*) FROM links WHERE target = ? GROUP BY rank"
        return dict(connection.execute(statement, (target,)).fetchall())


DAMAGED_MARKS = (
    "DELETE FROM stale_ranks",
    "UPDATE stale_ranks SET key = 'other'",
    "UPDATE stale_ranks SET namespace = 'other'",
    "UPDATE stale_ranks SET last_rank = -2",
    "UPDATE stale_ranks SET last_rank = 250000, last_weight = 0.1",
    "UPDATE stale_ranks SET last_rank = 250000, last_weight = 0.5, last_key = 's7'",
)


@pytest.mark.parametrize("statement", DAMAGED_MARKS)
async def test_s16_damaged_marks_are_found_and_mended(statement: str, tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        await fill_with_stale_ranks(store)
        assert await find_damage(store) == []
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1

    async with open_store(path) as store:
        assert await find_damage(store) == ["links"]
    repair(path, None, lambda _: None, dry_run=False)

    async with open_store(path) as store:
        await confirm_mended(store)


@pytest.mark.parametrize("statement", DAMAGED_MARKS)
async def test_s16_damaged_marks_are_found_and_mended_in_postgres(statement: str, url: str) -> None:
    store = PostgresStore(url)
    await fill_with_stale_ranks(store)
    assert await find_damage(store) == []
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = abilities_data")
        assert connection.execute(statement.encode()).rowcount == 1

    assert await find_damage(store) == ["links"]
    await store.repair(None, lambda _: None, dry_run=False)

    await confirm_mended(store)
    await store.close()


async def fill_with_stale_ranks(store: ServableStore) -> None:
    with bounds(2, 100, 1):
        await link_to_hub(store, "hub", 8)
        await put(store, "s0", links=[("other", 0.7)])
        await put(store, "hub", memory_score=0.9)


async def confirm_mended(store: ServableStore) -> None:
    """Fail unless all ranks are right, now and after a change that updates them."""
    assert await find_damage(store) == []
    assert [link.target for link in await read_links(store, "s0")] == ["hub", "other"]

    with bounds(100, 0, 1):
        await put(store, "hub", memory_score=0.1)
        await put(store, "other", memory_score=0.9)
    assert [link.target for link in await read_links(store, "s0")] == ["other", "hub"]
    assert await find_damage(store) == []


async def find_damage(store: ServableStore) -> list[str]:
    findings = await store.check(lambda _: None, full=True)
    return [finding.name for finding in findings if finding.state == "damaged"]


async def read_links(store: ServableStore, key: str) -> Sequence[LinkRow]:
    return (await store.read_linked(NAMESPACE, key, 0, 5)).links


async def test_a_change_updates_a_block_behind_each_older_mark(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_store(path) as store:
        with bounds(4, 100, 3):
            for hub in ("h0", "h1", "h2", "h3"):
                await link_to_hub(store, hub, 10)
            for hub in ("h0", "h1", "h2", "h3"):
                await put(store, hub, memory_score=0.2)
        with bounds(4, 1, 3):
            await put(store, "plain")

    updated = [count_ranks(path, hub).get(100_000, 0) for hub in ("h0", "h1", "h2", "h3")]
    assert updated == [3, 3, 3, 0]


async def test_a_mark_does_not_stay_for_good(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some changes after it was made, it is removed even if it is the only one."""
    monkeypatch.setattr(ranking, "LONGEST_STALE", 3)
    path = tmp_path / "m.db"
    database = PostgresStore(url)
    seen: list[list[int]] = []
    with bounds(4, 100, 6):
        async with open_store(path) as store:
            for each in (store, database):
                await link_to_hub(each, "hub", 10)
                await put(each, "hub", memory_score=0.2)

            for number in range(5):
                seen.append([len(list_marks(path)), len(list_marks_in(url))])
                for each in (store, database):
                    await put(each, f"plain{number}")

    await database.close()
    assert seen == [[1, 1]] * 4 + [[0, 0]]
