"""Lose the leader of a real cluster under load, twice: `make failover`.

Two PostgreSQL nodes under Patroni with etcd, and two server processes, as `examples/cluster/` starts them. Every
process of the leader is ended with kill -9 while writers and readers go on through both servers; then the lost node
comes back and follows, and the other one is lost. Writes must resume within a minute, every acknowledged one must be
there in the end, and reads must be answered in between.
"""

import asyncio
import math
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import count

import httpx

from examples.cluster.cluster import Cluster, cluster, wait_until

ROUNDS = 2
WRITERS, READERS = 8, 4
RESUMED_SECONDS = 60
BEFORE, AFTER = 8, 8
"""Seconds of load before the loss of a leader, and after writes went on."""
KINDS = ("writes", "writes refused", "reads", "reads refused")


class Load:
    """Writers and readers that go on whatever happens, and what they were told."""

    def __init__(self, servers: list[str]) -> None:
        self._clients = [httpx.AsyncClient(base_url=server, timeout=60) for server in servers]
        self.acknowledged: list[str] = []
        self.told: Counter[str] = Counter()
        self.stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Start all writers and readers."""
        self._tasks = [asyncio.create_task(self._write(worker)) for worker in range(WRITERS)]
        self._tasks += [asyncio.create_task(self._read(worker)) for worker in range(READERS)]

    async def end(self) -> None:
        """Let them finish what they began."""
        self.stopping = True
        await asyncio.gather(*self._tasks)

    async def lost(self) -> list[str]:
        """The acknowledged memories that are not there."""
        missing: list[str] = []
        for key in self.acknowledged:
            answer = await self._clients[0].get(f"/api/memories/{key}")
            if answer.status_code != 200 or answer.json()["data"]["content"] != key:
                missing.append(key)
        return missing

    async def close(self) -> None:
        """Let go of the connections."""
        for client in self._clients:
            await client.aclose()

    async def _write(self, worker: int) -> None:
        client = self._clients[worker % len(self._clients)]
        for number in count():
            if self.stopping:
                return
            key = f"{worker}-{number}"
            links = [{"key": f"{worker}-{number - 1}"}] if number else []
            answer = await client.post(
                "/api/memories", json={"type": "task", "content": key, "key": key, "links": links}
            )
            self._tell("writes", answer)
            if answer.status_code == 200:
                self.acknowledged.append(key)

    async def _read(self, worker: int) -> None:
        client = self._clients[worker % len(self._clients)]
        while not self.stopping:
            if self.acknowledged:
                self._tell("reads", await client.get(f"/api/memories/{self.acknowledged[-1]}/bulk"))
            await asyncio.sleep(0.02)

    def _tell(self, kind: str, answer: httpx.Response) -> None:
        """Count an answer; only success and a fault that may be tried again are as they should be."""
        if answer.status_code == 200:
            self.told[kind] += 1
            return
        fault = answer.json()["error"]
        assert answer.status_code == 503 and fault["retryable"], (kind, answer.status_code, fault)
        self.told[f"{kind} refused"] += 1


async def rounds(running: Cluster) -> None:
    """Lose leaders. Raises AssertionError where a promise is not kept."""
    load = Load(running.servers)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    async def watched(seconds: float, enough: float = math.inf) -> None:
        """Say each second what was told in it, until enough is acknowledged."""
        end = time.monotonic() + seconds
        while len(load.acknowledged) <= enough and time.monotonic() < end:
            before = load.told.copy()
            await asyncio.sleep(1)
            told = load.told - before
            say("   ".join(f"{kind} {told[kind]:4}" for kind in KINDS))

    load.begin()
    for number in range(1, ROUNDS + 1):
        await watched(BEFORE)
        leader = await asyncio.to_thread(running.leader)
        assert leader is not None
        lost_at, acknowledged, told = time.monotonic(), len(load.acknowledged), load.told.copy()
        leader.kill()
        say(f"round {number}: every process of {leader.name}, which led, was killed")
        settled = acknowledged + WRITERS  # answers that were on their way do not count
        await watched(RESUMED_SECONDS, settled)
        assert len(load.acknowledged) > settled, "writes did not go on"
        between = load.told - told
        seconds = time.monotonic() - lost_at
        say(
            f"round {number}: writes go on after {seconds:.0f} s; {between['reads']} reads were answered in between"
        )
        assert between["reads"], "no read was answered"
        await watched(AFTER)
        leader.start()
        await asyncio.to_thread(wait_until, running.is_whole, "the lost node follows")
        say(f"round {number}: {leader.name} is back and follows")
    await watched(BEFORE)
    await load.end()
    lost = await load.lost()
    await load.close()
    say(f"{len(load.acknowledged)} writes were acknowledged, {len(lost)} of them are lost")
    assert not lost, lost[:10]


def main() -> None:
    """Run the rounds, and check the store in the end."""
    with cluster() as running:
        asyncio.run(rounds(running))
        settings = {"PATH": os.environ["PATH"], "ABILITIES_STORE_URL": running.store_url}
        done = subprocess.run([sys.executable, "-m", "abilities", "check"], env=settings)
        assert done.returncode == 0, "the store is damaged"


if __name__ == "__main__":
    main()
