"""Figures 2 and 16 on a real server: a read token, a dead drive below the workspace, and load."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from abilities import Settings
from abilities.helpers.tokens import TokenFile
from tests.support.fuse import HungFolder, mounted
from tests.support.measurements import reached
from tests.support.reading import write_files
from tests.support.serving import Server, serving
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

NAMESPACES = ("ada", "bob")
DEAD = [f"mnt/{n:02}.txt" for n in range(25)]
HEALTHY = [f"src/{n:02}.txt" for n in range(25)]
CALLS = 60  # the server refuses the 65th

pytestmark = pytest.mark.thorough


class Reader:
    """A caller with a read token for one namespace."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def call(self, ability: str, arguments: dict[str, Any]) -> Any:
        return (await self._client.post(f"/api/abilities/{ability}", json=arguments)).json()

    async def count_answered(self, paths: list[str]) -> int:
        """Return of how many files the beginning is read."""
        heads = {"paths": paths, "max_chars_per_file": 100}
        payload = await self.call("file_read_bulk", heads)
        return int(payload["summary"]["succeeded"])

    async def reads_all(self) -> bool:
        """Return whether every file of both folders is read and listed."""
        read = [await self.count_answered(paths) for paths in (DEAD, HEALTHY)]
        listing = await self.call("file_list", {})
        return read == [25, 25] and len(listing.get("files", ())) >= 50


@pytest.fixture
def files(tmp_path: Path) -> Settings:
    write_files(tmp_path / "workspace", dict.fromkeys((*DEAD, *HEALTHY), "healthy\n" * 2_000))
    for namespace in NAMESPACES:
        (tmp_path / "agents" / namespace).mkdir(parents=True)

    return Settings(
        agent_dir=tmp_path / "agents" / "{namespace}",
        workspace_dir=tmp_path / "workspace",
        store_url=f"sqlite:///{tmp_path}/memory.db",
        shared_files=True,
    )


@asynccontextmanager
async def open_readers(server: Server, tokens: list[str]) -> AsyncIterator[list[Reader]]:
    """Let a caller per namespace call the server."""
    limits = httpx.Limits(max_connections=CALLS)
    async with AsyncExitStack() as closing:
        readers: list[Reader] = []
        for token in tokens:
            client = httpx.AsyncClient(
                base_url=server.address,
                headers={"Authorization": f"Bearer {token}"},
                timeout=GIVE_UP_SECONDS,
                limits=limits,
            )
            readers.append(Reader(await closing.enter_async_context(client)))

        yield readers


def add_tokens(tmp_path: Path) -> list[str]:
    file = TokenFile(tmp_path / ".abilities" / "tokens.json")
    return [file.add(namespace, "read")[1] for namespace in NAMESPACES]


async def measure_recovery(readers: list[Reader]) -> float:
    """Return the seconds until every namespace reads every file."""
    began = time.monotonic()
    async with asyncio.timeout(GIVE_UP_SECONDS):
        while not all([await reader.reads_all() for reader in readers]):
            await asyncio.sleep(POLL_SECONDS)

    return time.monotonic() - began


async def test_load_by_a_read_token_alone_leaves_every_namespace_answered(
    files: Settings, tmp_path: Path
) -> None:
    tokens = add_tokens(tmp_path)
    with serving(files, tmp_path) as server:
        async with open_readers(server, tokens) as readers:
            await asyncio.gather(*(read_on(readers[0], 5.0) for _ in range(CALLS)))
            taken = await measure_recovery(readers)

        server.stop()

    reached(16, f"5 s of load by a read token: all namespaces answered {taken:.2f} s after it")


async def test_a_mount_that_hangs_stalls_no_other_folder_and_is_read_again(
    files: Settings, tmp_path: Path
) -> None:
    contents = {Path(name).name: b"mounted\n" for name in DEAD}
    try:
        with mounted(tmp_path / "workspace" / "mnt", contents) as hung:
            await try_to_darken(hung, files, tmp_path)
    except PermissionError as error:
        reached(16, f"a mount that hangs (FUSE) was not tried, this user may not mount: {error}")


async def read_on(reader: Reader, seconds: float) -> None:
    """Read and list, again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await reader.call("file_read_bulk", {"paths": DEAD})
        await reader.call("file_list", {})


async def count_beside(readers: list[Reader]) -> int:
    """Return how many files beside the mount are read by calls that read in it too."""
    ada, bob = readers
    mixed = [ada.count_answered([DEAD[n % 25], *HEALTHY[:24]]) for n in range(CALLS)]
    answered = sum(await asyncio.gather(*mixed))
    dead = asyncio.gather(*(ada.count_answered(DEAD) for _ in range(CALLS - 2)))
    beside = [await bob.count_answered(HEALTHY) for _ in range(20)]

    assert sum(await dead) == 0
    assert beside == [25] * 20, "another namespace does not notice"

    return answered


async def try_to_darken(hung: HungFolder, files: Settings, folder: Path) -> None:
    """Read in a mount while it hangs, end that, and end the server while it hangs again."""
    tokens = add_tokens(folder)
    with serving(files, folder) as server:
        async with open_readers(server, tokens) as readers:
            assert await readers[0].reads_all()

            hung.stall()
            answered = await count_beside(readers)
            hung.resume()
            taken = await measure_recovery(readers)
            hung.stall()

            assert await readers[0].count_answered(DEAD[:3]) == 0

        began = time.monotonic()
        server.stop()
        stopped = time.monotonic() - began

    assert answered == CALLS * 24

    reached(
        16,
        f"a mount that hung (FUSE): {answered} of {CALLS * 24} files beside it were answered, "
        f"and all in every namespace {taken:.2f} s after it",
    )
    reached(2, f"a server with threads stuck in a mount (FUSE) ended after {stopped:.2f} s")
