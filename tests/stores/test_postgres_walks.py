"""Walks in PostgreSQL take few round trips, and read few links."""

from typing import get_args

import pytest

from abilities.declarations.memory import Direction
from abilities.helpers.store.model import LinkRecord, LinkRow
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_stores import store_graph
from tests.support.places import DatabasePlace
from tests.support.postgres import count_trips, note_read_rows
from tests.support.walk_oracles import make_random_graph

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


async def test_a_walk_along_outgoing_links_takes_two_round_trips(
    database_place: DatabasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the database guesses is what the walk needs, with shorter ways that are met late too."""
    graph, _ = make_random_graph(11)
    async with database_place.open() as store:
        await store_graph(store, NAMESPACE, graph)
        trips = count_trips(monkeypatch)

        for depth in range(1, 7):
            for breadth in (1, 2, 3, 5):
                for total in (1, 2, 7, 50):
                    trips.clear()
                    await store.walk(NAMESPACE, "m0", WalkLimits(depth, breadth, total))
                    assert len(trips) == 2, (depth, breadth, total)


async def test_hubs_cost_no_more_in_any_direction(database_place: DatabasePlace) -> None:
    """No plan of a walk or a page of backlinks reads more links than it returns."""
    store = PostgresStore(database_place.url)
    await put(store, "hub")
    with database_place.connect() as connection:
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
