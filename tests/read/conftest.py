"""Applications for one set of files, notes and memories that no test changes."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from abilities import Abilities, Settings
from tests.support import postgres
from tests.support.read_samples import TODAY, build_world, make_unbounded, today_is
from tests.support.stalls import NEVER, item_seconds

BOUND = 40_000
"""The least bound that a server may have."""


class Opened(NamedTuple):
    """Applications for the same world: one whose replies have no bound, and one with the least."""

    runner: asyncio.Runner
    unbounded: Abilities
    bounded: Abilities


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files, notes and a store with memories, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    with today_is(TODAY):
        asyncio.run(build_world(make_unbounded(folder)))
    return folder


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)]
)
def opened(
    request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """Applications for files, notes, and memories of either store."""
    folder = tmp_path_factory.mktemp("read")
    unbounded = make_unbounded(folder)

    with ExitStack() as stack:
        stack.enter_context(today_is(TODAY))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        stack.enter_context(item_seconds(patch, NEVER))  # a busy machine may be slow
        runner = stack.enter_context(asyncio.Runner())
        if request.param == "sqlite":
            shutil.copytree(built, folder, dirs_exist_ok=True)
        else:
            url = stack.enter_context(postgres.database(request.getfixturevalue("server")))
            unbounded = unbounded.model_copy(update={"store_url": url})
            runner.run(build_world(unbounded))

        applications = AsyncExitStack()
        yield runner.run(open_both(runner, applications, unbounded))
        runner.run(applications.aclose())


async def open_both(runner: asyncio.Runner, stack: AsyncExitStack, unbounded: Settings) -> Opened:
    """Return the applications; the stack closes them."""
    bounded = unbounded.model_copy(update={"max_response_bytes": BOUND})

    return Opened(
        runner,
        await stack.enter_async_context(Abilities.open(unbounded)),
        await stack.enter_async_context(Abilities.open(bounded)),
    )


@pytest.fixture
async def app(built: Path, tmp_path: Path) -> AsyncIterator[Abilities]:
    """An application for a world that a test may change."""
    settings = make_unbounded(tmp_path)
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)

    with today_is(TODAY):
        async with Abilities.open(settings) as abilities:
            yield abilities
