"""Nobody holds up another: what a good tenant gets while another one does its worst."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest

from abilities import Abilities, Settings
from abilities.helpers.tokens import TokenFile
from tests.support import postgres
from tests.support.measurements import reached
from tests.support.rude import HUB, WAYS
from tests.support.serving import Server, serving
from tests.support.tier import size

HUB_LINKS = size("ABILITIES_HUB_LINKS", quick=300, full=1_000)
"""How many memories of the rude tenant link to its hub; `make torture` has 100,000."""

CALLS = size("ABILITIES_NEIGHBOR_CALLS", quick=30, full=120)
"""How many calls of the good tenant are measured."""

GOOD, RUDE = "good", "rude"


class Measured(NamedTuple):
    """The good tenant's calls: seconds of each, and the statuses of those that were refused."""

    seconds: list[float]
    refused: list[tuple[str, int]]

    @property
    def p99(self) -> float:
        """Milliseconds that 99 % of the calls took at most."""
        return statistics.quantiles(self.seconds, n=100)[98] * 1000


def list_calls(n: int) -> tuple[str, dict[str, Any]]:
    """Return the n-th call of a tenant that works quietly: mostly reads, some writes."""
    memory = {"key": f"day-{n % 10}", "type": "task", "content": f"common work {n}"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_get", {"key": "k1"}),
        ("bulk_read_memory", {"key": "k1"}),
        ("store_memory", memory),
        ("file_read_bulk", {"paths": [f"{n}.txt" for n in range(5)]}),
        ("query_memories", {"search": "common"}),
        ("memory_read_bulk", {"targets": [{"type": "stored", "key": f"k{n}"} for n in range(5)]}),
    ]
    return calls[n % len(calls)]


async def measure(address: str, token: str) -> Measured:
    headers = {"Authorization": f"Bearer {token}"}
    seconds: list[float] = []
    refused: list[tuple[str, int]] = []

    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
        for n in range(CALLS):
            name, arguments = list_calls(n)
            began = time.monotonic()
            answer = await client.post(f"/api/abilities/{name}", json=arguments)
            seconds.append(time.monotonic() - began)
            if answer.status_code != 200:
                refused.append((name, answer.status_code))

    return Measured(seconds, refused)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/memory.db"
        return

    with postgres.database(request.getfixturevalue("server")) as url:
        yield url


@pytest.fixture
def shared(tmp_path: Path, store_url: str) -> Settings:
    """Settings for many tenants: a folder each, and one store."""
    for namespace in (GOOD, RUDE):
        for place in ("agent", "workspace"):
            (tmp_path / place / namespace).mkdir(parents=True)
        for n in range(25):
            (tmp_path / "workspace" / namespace / f"{n}.txt").write_text(f"line {n}\n" * 2_000)

    return Settings(
        namespace=GOOD,
        agent_dir=tmp_path / "agent" / "{namespace}",
        workspace_dir=tmp_path / "workspace" / "{namespace}",
        store_url=store_url,
    )


async def fill_store(settings: Settings, folder: Path) -> None:
    """Give both tenants memories, and the rude one a hub to which all the others link."""
    async with Abilities.open(settings) as abilities:
        for n in range(10):
            links = [{"key": f"k{m}"} for m in range(n)]
            memory = {"key": f"k{n}", "type": "core", "content": f"common {n}", "links": links}
            await abilities.call("store_memory", memory)

        rude = abilities.for_namespace(RUDE)
        await rude.call("store_memory", {"key": HUB, "type": "core", "content": "hub"})

    graph = folder / "spokes.jsonl"
    write_spokes(graph)
    import_file(graph, settings, RUDE)


def write_spokes(file: Path) -> None:
    """Write a knowledge graph whose every entity leads to the hub."""
    with file.open("w") as lines:
        for n in range(HUB_LINKS):
            spoke = {"type": "entity", "name": f"spoke-{n}", "entityType": "spoke"}
            lines.write(json.dumps({**spoke, "observations": ["common " * 50]}) + "\n")
            relation = {"type": "relation", "from": f"spoke-{n}", "to": HUB}
            lines.write(json.dumps({**relation, "relationType": "belongs to"}) + "\n")


def import_file(file: Path, settings: Settings, namespace: str) -> None:
    command = [sys.executable, "-m", "abilities", "import", str(file), "--namespace", namespace]
    environment = {**os.environ, "ABILITIES_STORE_URL": str(settings.store_url)}
    subprocess.run(command, env=environment, check=True, capture_output=True)


def settle(store_url: str | None) -> None:
    """Let a database do at once the cleaning that it would begin by itself while we measure."""
    assert store_url is not None
    if store_url.startswith("sqlite"):
        return

    with psycopg.connect(store_url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


@contextmanager
def being_rude(server: Server, token: str, way: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.support.rude", server.address, token, way]
    with subprocess.Popen(command) as process:
        try:
            yield
            assert process.poll() is None, "the rude neighbor gave up"
        finally:
            process.kill()


@pytest.mark.thorough
async def test_a_tenant_is_served_while_another_does_its_worst(
    shared: Settings, tmp_path: Path
) -> None:
    """Figure 13. Nothing of the good tenant is refused; how long it waits is only measured.

    Its time alone is measured anew for each way, in the state that the way before has left.
    """
    await fill_store(shared, tmp_path)
    tokens = TokenFile(tmp_path / ".abilities" / "tokens.json")
    good = tokens.add(GOOD, "write")[1]
    rude = tokens.add(RUDE, "write")[1]

    with serving(shared, tmp_path) as server:
        await measure(server.address, good)

        for way in WAYS:
            settle(shared.store_url)
            alone = await measure(server.address, good)
            assert alone.refused == []

            with being_rude(server, rude, way):
                await asyncio.sleep(2)  # until it is at its worst
                beside = await measure(server.address, good)

            assert beside.refused == [], way
            reached(
                13,
                f"p99 beside {way}: {beside.p99:.0f} ms, alone {alone.p99:.0f} ms"
                f" ({beside.p99 / alone.p99:.1f} times)",
            )

        server.stop()
