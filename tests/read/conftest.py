"""Applications for one set of files, notes and memories that no test changes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from abilities import Abilities, Settings
from tests.support import postgres
from tests.support.read_samples import TODAY, build_world, make_unbounded, today_is

BOUND = 40_000
"""The least bound that a server may have."""


class Opened(NamedTuple):
    """Applications for the same world: one whose replies have no bound, and one with the least."""

    runner: asyncio.Runner
    unbounded: Abilities
    bounded: Abilities


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)]
)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """Applications for files, notes, and memories of either store."""
    unbounded = make_unbounded(tmp_path_factory.mktemp("read"))

    with ExitStack() as stack:
        if request.param == "postgres":
            server = request.getfixturevalue("server")
            url = stack.enter_context(postgres.database(server))
            unbounded = unbounded.model_copy(update={"store_url": url})

        stack.enter_context(today_is(TODAY))
        runner = stack.enter_context(asyncio.Runner())
        applications = AsyncExitStack()
        yield runner.run(open_both(runner, applications, unbounded))
        runner.run(applications.aclose())


async def open_both(runner: asyncio.Runner, stack: AsyncExitStack, unbounded: Settings) -> Opened:
    """Return the applications; the stack closes them."""
    await build_world(unbounded)
    bounded = unbounded.model_copy(update={"max_response_bytes": BOUND})

    return Opened(
        runner,
        await stack.enter_async_context(Abilities.open(unbounded)),
        await stack.enter_async_context(Abilities.open(bounded)),
    )


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Abilities]:
    """An application for a world that a test may change."""
    settings = make_unbounded(tmp_path)

    with today_is(TODAY):
        await build_world(settings)
        async with Abilities.open(settings) as abilities:
            yield abilities
