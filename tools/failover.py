"""Lose the leader of a real cluster under load, twice: `python -m tools.failover`.

Two PostgreSQL nodes under Patroni with etcd and two server processes run as `examples/cluster/`
starts them. Every process of the leader is ended with kill -9 while writers and readers go on
through both servers; then the lost node returns and follows, and the other one is lost. Writes must
resume within a minute, every acknowledged write must exist in the end, and reads must be answered
in between.
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

from examples.cluster.cluster import Cluster, Node, cluster, wait_until

ROUNDS = 2
WRITERS = 8
READERS = 4

RESUME_SECONDS = 60
"""Writes must go on this soon after the loss of a leader."""

SECONDS_BEFORE = 8
SECONDS_AFTER = 8
"""How long the load lasts before the loss of a leader, and after writes go on."""

KINDS = ("writes", "writes refused", "reads", "reads refused")


class Load:
    """Writers and readers that go on whatever happens, and count the responses they receive."""

    def __init__(self, servers: list[str]) -> None:
        self._clients = [httpx.AsyncClient(base_url=server, timeout=60) for server in servers]
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self.acknowledged: list[str] = []
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        """Start all writers and readers."""
        for worker in range(WRITERS):
            self._tasks.append(asyncio.create_task(self._write(worker)))
        for worker in range(READERS):
            self._tasks.append(asyncio.create_task(self._read(worker)))

    async def stop(self) -> None:
        """Let all of them finish their current request."""
        self._is_stopping = True
        await asyncio.gather(*self._tasks)

    async def find_lost(self) -> list[str]:
        """Return the keys of acknowledged memories that cannot be read."""
        lost: list[str] = []

        for key in self.acknowledged:
            response = await self._clients[0].get(f"/api/memories/{key}")
            if response.status_code != 200 or response.json()["data"]["content"] != key:
                lost.append(key)

        return lost

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            await client.aclose()

    async def _write(self, worker: int) -> None:
        client = self._clients[worker % len(self._clients)]

        for number in count():
            if self._is_stopping:
                return

            key = f"{worker}-{number}"
            links = [{"key": f"{worker}-{number - 1}"}] if number else []
            memory = {"type": "task", "content": key, "key": key, "links": links}
            response = await client.post("/api/memories", json=memory)

            self._count("writes", response)
            if response.status_code == 200:
                self.acknowledged.append(key)

    async def _read(self, worker: int) -> None:
        client = self._clients[worker % len(self._clients)]

        while not self._is_stopping:
            if self.acknowledged:
                key = self.acknowledged[-1]
                self._count("reads", await client.get(f"/api/memories/{key}/bulk"))
            await asyncio.sleep(0.02)

    def _count(self, kind: str, response: httpx.Response) -> None:
        """Count a response; a fault must be one of those that may be tried again."""
        if response.status_code == 200:
            self.counts[kind] += 1
            return

        fault = response.json()["error"]
        status = response.status_code
        assert status == 503 and fault["retryable"], (kind, status, fault)
        self.counts[f"{kind} refused"] += 1


class Trial:
    """The rounds of one run, with a report of every second. Raises AssertionError if one fails."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._load = Load(cluster.servers)
        self._began = time.monotonic()

    async def run(self) -> None:
        """Lose leaders under load, then look for every acknowledged write."""
        self._load.start()
        for number in range(1, ROUNDS + 1):
            await self._lose_leader(number)

        await self._wait(SECONDS_BEFORE)
        await self._load.stop()
        lost = await self._load.find_lost()
        await self._load.close()

        acknowledged = len(self._load.acknowledged)
        self._say(f"{acknowledged} writes were acknowledged, {len(lost)} of them are lost")
        assert not lost, lost[:10]

    async def _lose_leader(self, number: int) -> None:
        await self._wait(SECONDS_BEFORE)

        leader = await asyncio.to_thread(self._cluster.find_leader)
        assert leader is not None
        await self._kill(leader, number)
        await self._wait(SECONDS_AFTER)

        leader.start()
        await asyncio.to_thread(wait_until, self._cluster.is_whole, "the lost node follows")
        self._say(f"round {number}: {leader.name} is back and follows")

    async def _kill(self, leader: Node, number: int) -> None:
        """Kill a leader, and wait until writes go on."""
        killed_at = time.monotonic()
        counts_before = self._load.counts.copy()
        # Each writer may have one response on its way, which does not show that writes go on.
        settled = len(self._load.acknowledged) + WRITERS

        leader.kill()
        self._say(f"round {number}: every process of {leader.name}, the leader, was killed")
        await self._wait(RESUME_SECONDS, enough=settled)
        assert len(self._load.acknowledged) > settled, "writes did not go on"

        seconds = time.monotonic() - killed_at
        reads = (self._load.counts - counts_before)["reads"]
        self._say(f"round {number}: writes go on after {seconds:.0f} s; {reads} reads in between")
        assert reads, "no read was answered"

    async def _wait(self, seconds: float, enough: float = math.inf) -> None:
        """Report each second for a time, or until more than ``enough`` writes are acknowledged."""
        end = time.monotonic() + seconds

        while len(self._load.acknowledged) <= enough and time.monotonic() < end:
            before = self._load.counts.copy()
            await asyncio.sleep(1)
            recent = self._load.counts - before
            self._say("   ".join(f"{kind} {recent[kind]:4}" for kind in KINDS))

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


def main() -> None:
    """Run the rounds, and check the store in the end."""
    with cluster() as running:
        asyncio.run(Trial(running).run())

        environment = {"PATH": os.environ["PATH"], "ABILITIES_STORE_URL": running.store_url}
        done = subprocess.run([sys.executable, "-m", "abilities", "check"], env=environment)
        assert done.returncode == 0, "the store is damaged"


if __name__ == "__main__":
    main()
