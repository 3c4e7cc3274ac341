"""Walks over HTTP: ours against kv-memory, the previous system, under bun.

kv-memory is in no registry. Set ``KV_MEMORY`` to a checkout of github.com/aokihu/kv-memory with its
dependencies installed, and have bun (the npm package ``bun``) in ``PATH``.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from abilities import Settings
from benchmarks.graphs import ROOT, import_graph, write_kv_memory
from benchmarks.measure import Measured, Timings, Work, run_shuffled
from benchmarks.peers import BOUNDS
from tests.support.serving import serving

SIZES = (1_000, 10_000, 100_000)
RETRIEVED = 20
WALKS = 10
"""Walks per measurement, because one is short."""

PATH = f"/api/memories/{ROOT.replace(' ', '%20')}/bulk?depth=3&breadth=5&total={RETRIEVED}"

LISTEN_LOCALLY = """
const serve = Bun.serve;
Bun.serve = (options) => {
  const server = serve({ ...options, hostname: "127.0.0.1", port: 0 });
  console.log(`listening at ${server.port}.`);
  return server;
};
"""
"""Loaded before kv-memory, which would listen at a fixed port of every address."""


class Rival(NamedTuple):
    """A running kv-memory: its process and its address."""

    process_id: int
    address: str


async def measure_kv_memory(
    base: Path, rounds: int, sizes: Sequence[int] = SIZES
) -> list[Measured]:
    """20 linked memories over HTTP, against kv-memory under bun."""
    missing = find_missing()
    results: list[Measured] = []

    for size in sizes:
        if missing:
            results += [
                Measured("11b", describe_row(size), ">= 1.2x", None, bound=bound, note=missing)
                for bound in BOUNDS
            ]
        else:
            results += await compare(base, size, rounds)

    return results


def find_missing() -> str:
    """Return why kv-memory cannot be run, or nothing."""
    if not shutil.which("bun"):
        return "not run: bun is not in PATH"
    if "KV_MEMORY" not in os.environ:
        return "not run: KV_MEMORY names no checkout of kv-memory"

    return ""


def describe_row(size: int) -> str:
    """Return what is measured."""
    return f"{RETRIEVED} linked memories of {size:,} over HTTP, against kv-memory under bun"


async def compare(base: Path, size: int, rounds: int) -> list[Measured]:
    """Return the ratios for one graph."""
    source = base / f"kv-{size}.db"
    store = base / f"ours-{size}.db"
    write_kv_memory(source, size)
    import_graph(source, store)

    results: list[Measured] = []
    with run_kv_memory(source, base) as rival:
        for bound in BOUNDS:
            settings = Settings(
                agent_dir=base / "agent",
                workspace_dir=base / "workspace",
                store_url=f"sqlite:///{store}",
                max_response_bytes=bound,
            )
            with serving(settings, base) as server:
                timings = await compare_servers(server.address, rival, server.process.pid, rounds)
            results.append(
                timings.ratio(
                    "11b",
                    describe_row(size),
                    ">= 1.2x",
                    "theirs",
                    "ours",
                    bound=bound,
                    note="1 call",
                )
            )

    return results


async def compare_servers(address: str, rival: Rival, process_id: int, rounds: int) -> Timings:
    """Walk from the same memory through both servers."""
    with closing(connect(address)) as ours, closing(connect(rival.address)) as theirs:
        check_walk(walk(ours), "content")
        check_walk(walk(theirs)["data"], "text")

        variants: dict[str, Work] = {
            "ours": partial(walk_often, ours),
            "theirs": partial(walk_often, theirs),
        }
        return await run_shuffled(variants, rounds, processes=[process_id, rival.process_id])


def connect(address: str) -> HTTPConnection:
    """Return a connection; the standard library's client takes little of the time."""
    return HTTPConnection(address.removeprefix("http://"))


def walk_often(connection: HTTPConnection) -> None:
    """Request the same walk some times."""
    for _ in range(WALKS):
        walk(connection)


def walk(connection: HTTPConnection) -> Any:
    """Request a walk, and return its payload."""
    connection.request("GET", PATH)
    response = connection.getresponse()
    assert response.status == 200
    return orjson.loads(response.read())


def check_walk(payload: Any, field: str) -> None:
    """Check that a walk retrieved as many memories as it may, each with its text."""
    memories = [payload["targetMemory"], *payload["associatedMemories"]]
    texts = [memory.get("data", memory)[field] for memory in memories]

    assert len(texts) == RETRIEVED
    assert all("some more text" in text for text in texts)


@contextmanager
def run_kv_memory(database: Path, folder: Path) -> Iterator[Rival]:
    """Run kv-memory on a database, at a free port of this machine."""
    preload = folder / "preload.js"
    preload.write_text(LISTEN_LOCALLY)
    log = folder / f"kv-memory-{database.stem}.log"
    program = Path(os.environ["KV_MEMORY"]) / "src" / "index.ts"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "KVDB_SQLITE_FILE": str(database),
    }

    with (
        log.open("wb") as output,
        subprocess.Popen(
            ["bun", "--preload", str(preload), str(program)],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield Rival(process.pid, wait_for_address(process, log))
        finally:
            process.kill()


def wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return where kv-memory listens, once it says so."""
    end = time.monotonic() + 60

    while True:
        said = log.read_text()
        if listening := re.search(r"listening at (\d+)\.", said):
            return f"http://127.0.0.1:{listening[1]}"

        assert process.poll() is None and time.monotonic() < end, said
        time.sleep(0.02)
