"""Stale ranks: they are updated in blocks, and no change takes long for them.

That nobody sees them is shown by the law of the past, in `test_law.py`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from abilities.helpers.store import ranking
from abilities.helpers.store.engine import Columns, Reached
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.behaviours.steps import link_to, plan, put_many
from tests.support.places import StorePlace, find_damage, list_cases


@contextmanager
def bounds(updated: int, stale: int, block: int) -> Iterator[None]:
    """Set how many links a change updates, how many marks stay, and how many links a block has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "MOST_UPDATED", updated)
        patch.setattr(ranking, "MOST_STALE", stale)
        patch.setattr(ranking, "BLOCK", block)
        yield


async def test_a_walk_from_a_hub_reads_few_links_though_a_rank_is_stale(
    place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []
    group = ranking._group

    def group_and_count(keys: Sequence[str] | Reached, rows: Sequence[Columns]) -> ranking.Pages:
        numbers.append(len(rows))
        return group(keys, rows)

    monkeypatch.setattr(ranking, "_group", group_and_count)
    targets = [f"t{number}" for number in range(300)]
    async with place.open() as store:
        with bounds(4, 100, 1):
            await put_many(store, [plan("store", key) for key in targets])
            await put(store, "hub", links=[(key, 0.5) for key in targets])
            await link_to_hub(store, "t299", 10)
            await put(store, "t299", memory_score=0.9)
        assert list_marks(place) == [("target", "t299")]

        numbers.clear()
        walk = await store.walk(NAMESPACE, "hub", WalkLimits(1, 20, 10))

    assert [step.key for step in walk.outcome.steps][:2] == ["hub", "t299"]
    assert sum(numbers) < 150


@pytest.mark.parametrize("links", [ranking.MOST_UPDATED, ranking.MOST_UPDATED + 1])
async def test_a_change_updates_few_ranks_and_marks_many(links: int, place: StorePlace) -> None:
    async with place.open() as store:
        await link_to_hub(store, "hub", links)
        await put(store, "hub", memory_score=0.2)
        first = (await store.read_linked(NAMESPACE, "s0", 0, 1)).links
        walk = await store.walk(NAMESPACE, "s0", WalkLimits(1, 1, 2), "out")

    is_marked = links > ranking.MOST_UPDATED
    assert list_marks(place) == [("target", "hub")] * is_marked
    assert count_ranks(place, "hub") == {True: {-1: links}, False: {100_000: links}}[is_marked]
    assert first[0].target == "hub"
    assert [step.link.rank for step in walk.outcome.steps if step.link] == [100_000]


async def test_the_day_of_a_replacement_is_known_though_the_ranks_of_its_links_are_stale(
    place: StorePlace,
) -> None:
    targets = [(f"t{number}", 0.5) for number in range(3)]
    async with place.open() as store:
        await put(store, "old", links=targets)
        written = await put(store, "old", kind="supersede", content="c")
        await put(store, "old")
        with bounds(2, 100, 1):
            await put(store, "old", kind="archive")
        assert ("source", "old") in list_marks(place)

        (new,) = await store.read(NAMESPACE, [written.id], dated=True)

    assert isinstance(new, StoredMemory)
    assert new.since == new.row.created_at[:10]


async def link_to_hub(store: ServableStore, hub: str, count: int) -> None:
    fields = {"type": "core", "content": "c", "memory_score": 0.5}
    sources = [f"s{number}" for number in range(count)]
    await put_many(store, [plan("store", s, fields=fields, links=link_to(hub)) for s in sources])


def list_marks(place: StorePlace) -> list[tuple[str, str]]:
    return place.fetch("SELECT side, key FROM stale_ranks ORDER BY 1, 2")


def count_ranks(place: StorePlace, target: str) -> dict[int, int]:
    return dict(
        place.fetch(f"SELECT rank, count(*) FROM links WHERE target = '{target}' GROUP BY rank")
    )


DAMAGED_MARKS = (
    "DELETE FROM stale_ranks",
    "UPDATE stale_ranks SET key = 'other'",
    "UPDATE stale_ranks SET namespace = 'other'",
    "UPDATE stale_ranks SET last_rank = -2",
    "UPDATE stale_ranks SET last_rank = 250000, last_weight = 0.1",
    "UPDATE stale_ranks SET last_rank = 250000, last_weight = 0.5, last_key = 's7'",
)


@pytest.mark.parametrize(
    ("place", "statement"), list_cases(DAMAGED_MARKS, sampled=2), indirect=["place"]
)
async def test_s16_damaged_marks_are_found_and_mended(statement: str, place: StorePlace) -> None:
    async def list_targets() -> list[str]:
        return [link.target for link in (await store.read_linked(NAMESPACE, "s0", 0, 5)).links]

    async with place.open() as store:
        with bounds(2, 100, 1):
            await link_to_hub(store, "hub", 8)
            await put(store, "s0", links=[("other", 0.7)])
            await put(store, "hub", memory_score=0.9)
        assert await find_damage(store) == []
        place.tamper(statement)
        assert await find_damage(store) == ["links"]

        await place.repair()

        assert await find_damage(store) == []
        assert await list_targets() == ["hub", "other"]

        # All ranks are right after a change that updates them too.
        with bounds(100, 0, 1):
            await put(store, "hub", memory_score=0.1)
            await put(store, "other", memory_score=0.9)
        assert await list_targets() == ["other", "hub"]
        assert await find_damage(store) == []


async def test_a_change_updates_a_block_behind_each_older_mark(place: StorePlace) -> None:
    hubs = ("h0", "h1", "h2", "h3")
    async with place.open() as store:
        with bounds(4, 100, 3):
            for hub in hubs:
                await link_to_hub(store, hub, 10)
            for hub in hubs:
                await put(store, hub, memory_score=0.2)
        with bounds(4, 1, 3):
            await put(store, "plain")

    updated = [count_ranks(place, hub).get(100_000, 0) for hub in hubs]
    assert updated == [3, 3, 3, 0]


async def test_a_mark_does_not_stay_for_good(
    place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some changes after it was made, it is removed even if it is the only one."""
    monkeypatch.setattr(ranking, "LONGEST_STALE", 3)
    seen: list[int] = []
    with bounds(4, 100, 6):
        async with place.open() as store:
            await link_to_hub(store, "hub", 10)
            await put(store, "hub", memory_score=0.2)

            for number in range(5):
                seen.append(len(list_marks(place)))
                await put(store, f"plain{number}")

    assert seen == [1, 1, 1, 1, 0]
