"""Walks in PostgreSQL: in every direction those over plain lists, in few round trips."""

import random
from typing import get_args

import psycopg
import pytest

from abilities.declarations.memory import Direction
from abilities.helpers.store.model import LinkRecord, LinkRow
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.walk import Walk, WalkLimits, WalkLink, WalkOutcome
from tests.stores.behaviours import NAMESPACE, put
from tests.support import postgres
from tests.support.tier import size
from tests.support.trips import count_trips, note_read_rows

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
GRAPHS = size("ABILITIES_GRAPHS", quick=5, full=40)


Scores = dict[str, float | None]
"""The memories of a graph; None for one that is archived."""


def make_graph(seed: int) -> tuple[Scores, list[LinkRow]]:
    """Return memories and links, also of equal rank, to themselves and to absent memories."""
    chance = random.Random(seed)
    keys = [f"m{number}" for number in range(chance.randrange(2, 25))]
    scores: Scores = {key: chance.randrange(0, 11) / 10 for key in keys}
    for key in chance.sample(keys[1:], len(keys) // 6):
        scores[key] = None

    links: dict[tuple[str, str, str], LinkRow] = {}
    for _ in range(chance.randrange(1, 5) * len(keys)):
        source, target = chance.choice(keys), chance.choice([*keys, "none"])
        kind = chance.choice(["association", "b"])
        links[source, target, kind] = LinkRow(
            source, target, kind, chance.randrange(0, 11) / 10, chance.choice(["", "term"])
        )

    return scores, sorted(links.values())


async def store_graph(store: PostgresStore, scores: Scores, links: list[LinkRow]) -> None:
    ids: dict[str, str] = {}
    for key, score in scores.items():
        written = await put(store, key, memory_score=score or 0.0)
        assert written.stored is not None
        ids[key] = written.stored.row.id

    for link in links:
        await put(
            store,
            link.source,
            links=[(link.target, link.weight)],
            link_type=link.type,
            term=link.term,
        )
    for key, score in scores.items():
        if score is None:
            await put(store, "", kind="archive", id=ids[key])


def walk_in_memory(
    scores: Scores, links: list[LinkRow], limits: WalkLimits, direction: Direction
) -> WalkOutcome:
    """Walk from m0 over plain lists, three links at a time."""
    conversation = Walk("m0", limits).run()
    request = next(conversation)
    while True:
        known = list_links(scores, links, request.key, direction)
        if request.among is None:
            known = known[request.offset : request.offset + 3]

        try:
            request = conversation.send(known)
        except StopIteration as end:
            outcome: WalkOutcome = end.value
            return outcome


def list_links(
    scores: Scores, links: list[LinkRow], key: str, direction: Direction
) -> list[WalkLink]:
    seen: list[WalkLink] = []
    for link in links:
        record = LinkRecord.build(link, scores.get(link.target), scores.get(link.source))
        if link.source == key and direction != "in":
            seen.append(record.to_walk_link(()))
        if link.target == key and direction != "out":
            seen.append(record.to_walk_link((), incoming=True))

    return sorted(seen, key=lambda one: (-one.rank, -one.weight, one.key, one.type, one.incoming))


async def test_walks_in_every_direction_are_those_over_plain_lists(server: str) -> None:
    chance = random.Random(1)
    for seed in range(GRAPHS):
        scores, links = make_graph(seed)
        if scores["m0"] is None:
            continue

        with postgres.database(server) as url:
            store = PostgresStore(url)
            await store_graph(store, scores, links)
            for direction in DIRECTIONS:
                for _ in range(4):
                    limits = WalkLimits(
                        chance.randrange(1, 6), chance.randrange(1, 6), chance.randrange(1, 20)
                    )
                    result = await store.walk(NAMESPACE, "m0", limits, direction)
                    expected = walk_in_memory(scores, links, limits, direction)

                    assert describe(result.outcome) == describe(expected), (seed, direction, limits)
            await store.close()


def describe(outcome: WalkOutcome) -> object:
    steps = [
        (step.key, step.depth, step.parent and step.parent.key, step.link) for step in outcome.steps
    ]
    return (
        steps,
        outcome.duplicates,
        outcome.missing,
        outcome.invalid,
        outcome.cycles,
        outcome.frontier,
        outcome.has_more_frontier,
        outcome.cut_by,
    )


async def test_a_walk_along_outgoing_links_takes_two_round_trips(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the database guesses is what the walk needs, with shorter ways that are met late too."""
    store = PostgresStore(url)
    scores, links = make_graph(11)
    await store_graph(store, scores, links)
    trips = count_trips(monkeypatch)

    for depth in range(1, 7):
        for breadth in (1, 2, 3, 5):
            for total in (1, 2, 7, 50):
                trips.clear()
                await store.walk(NAMESPACE, "m0", WalkLimits(depth, breadth, total))
                assert len(trips) == 2, (depth, breadth, total)

    await store.close()


async def test_hubs_cost_no_more_in_any_direction(url: str) -> None:
    """No plan of a walk or a page of backlinks reads more links than it returns."""
    store = PostgresStore(url)
    await put(store, "hub")
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = abilities_data")
        with connection.cursor().copy("COPY links FROM STDIN") as copy:
            for number in range(20_000):
                for ends in (("hub", f"m{number}"), (f"m{number}", "hub")):
                    link = LinkRow(*ends, "a", number / 20_000)
                    copy.write_row((NAMESPACE, *LinkRecord.build(link, 0.5, 0.5)))
        connection.execute(
            "INSERT INTO link_counts SELECT namespace, key, count(*) - sum(incoming), sum(incoming)"
            " FROM (SELECT namespace, source AS key, 0 AS incoming FROM links"
            " UNION ALL SELECT namespace, target, 1 FROM links) AS ends GROUP BY namespace, key"
        )
        connection.execute("ANALYZE links")

    with pytest.MonkeyPatch.context() as patch:
        read_rows = note_read_rows(patch)
        for direction in DIRECTIONS:
            result = await store.walk(NAMESPACE, "hub", WalkLimits(1, 5, 20), direction)
            assert result.memories[0].backlinks_total == 20_000  # type: ignore[union-attr]

        backlinks = await store.read_backlinks(NAMESPACE, "hub", 5, 20)

    assert backlinks.total == 20_000
    assert len(read_rows) >= 8
    assert max(read_rows) <= 1_000
    await store.close()
