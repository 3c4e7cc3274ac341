"""Random changes of two stores, one of which marks ranks as stale at every opportunity."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import pytest

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Refused
from abilities.helpers.store import ranking
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.support.walk_oracles import describe

KEYS = [f"m{number}" for number in range(9)]
_WEIGHTS = [0.0, 0.25, 0.5, 0.5, 1.0]
_SCORES = [0.0, 0.3, 0.6, 1.0]


@contextmanager
def bounds(updated: int, stale: int, block: int) -> Iterator[None]:
    """Set how many links a change updates, how many marks stay, and how many links a block has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "MOST_UPDATED", updated)
        patch.setattr(ranking, "MOST_STALE", stale)
        patch.setattr(ranking, "BLOCK", block)
        yield


async def change_both(
    store: ServableStore, control: ServableStore, chance: random.Random, count: int
) -> None:
    """Make the same random changes in both stores; the control updates all ranks at once."""
    updated = chance.choice([0, 1, 2, 4])
    stale = chance.choice([0, 1, 3, 100])
    block = chance.choice([1, 2, 5])

    for number in range(count):
        seed = chance.random()
        with bounds(updated, stale, block):
            changed = await _change(store, random.Random(seed), number)
        with bounds(1_000_000, 0, 1):
            expected = await _change(control, random.Random(seed), number)

        assert changed == expected, (number, changed, expected)


async def _change(store: ServableStore, chance: random.Random, number: int) -> object:
    """Make a random change; return what it says about links."""
    kind = chance.choice(
        ["score", "score", "link", "link", "unlink", "archive", "delete", "rename"]
    )
    key = chance.choice(KEYS)
    target = chance.choice([*KEYS, "none"])
    weight = chance.choice(_WEIGHTS)
    link_type = chance.choice(["association", "cause"])
    (found,) = await store.read(NAMESPACE, [key])

    try:
        if isinstance(found, Exception) or kind == "score":
            result = await put(store, key, memory_score=chance.choice(_SCORES))
        elif kind == "link":
            result = await put(store, key, links=[(target, weight)], link_type=link_type)
        elif kind == "unlink":
            result = await put(store, key, remove=[{"key": target, "type": None}])
        elif kind == "rename":
            result = await put(store, target, kind="update", id=found.row.id)
        elif kind == "archive":
            result = await put(store, "", kind="archive", id=found.row.id)
        else:
            result = await put(store, "", kind="delete", id=found.row.id)
    except Refused as error:
        return number, error.reason

    if result.stored is None:
        return number, None
    return number, result.stored.links


async def compare(store: ServableStore, control: ServableStore, chance: random.Random) -> None:
    """Fail unless both stores give the same walks and pages, and find themselves sound."""
    for key in [*KEYS, "none"]:
        for offset in (0, chance.randrange(12)):
            limit = chance.randrange(1, 4)
            for read in (_read_links, _read_backlinks):
                page = await read(store, key, offset, limit)
                assert page == await read(control, key, offset, limit), (key, offset, limit)

        for direction in get_args(Direction):
            limits = WalkLimits(chance.randrange(1, 5), chance.randrange(1, 5), 12)
            walked = await _walk(store, key, limits, direction)
            assert walked == await _walk(control, key, limits, direction), (key, direction, limits)

    for finding in await store.check(lambda _: None, full=True):
        assert finding.state != "damaged", finding


async def _read_links(store: ServableStore, key: str, offset: int, limit: int) -> object:
    try:
        memory = await store.read_linked(NAMESPACE, key, offset, limit)
    except Refused as error:
        return error.reason
    return memory.links, memory.links_total


async def _read_backlinks(store: ServableStore, key: str, offset: int, limit: int) -> object:
    return await store.read_backlinks(NAMESPACE, key, offset, limit)


async def _walk(store: ServableStore, key: str, limits: WalkLimits, direction: Direction) -> object:
    try:
        result = await store.walk(NAMESPACE, key, limits, direction)
    except Refused as error:
        return error.reason
    return describe(result.outcome)
