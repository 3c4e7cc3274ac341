"""Eight processes that write to one SQLite store without a pause: how long each write waits."""

import asyncio
import json
import sys
from pathlib import Path

from benchmarks.measure import Measured
from benchmarks.waiting import find_quantile

PROCESSES = 8
SECONDS_PER_ROUND = 1 / 3

WRITER_PROGRAM = """
import asyncio, json, sys, time

from abilities import Abilities, Settings

async def main():
    folder, number, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    settings = Settings(
        agent_dir=folder, workspace_dir=folder, store_url=f"sqlite:///{folder}/writers.db"
    )
    taken = []
    async with Abilities.open(settings) as abilities:
        memory = {"type": "core", "key": f"m{number}", "content": "first"}
        await abilities.call("store_memory", memory)
        print("ready", flush=True)
        sys.stdin.readline()

        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            memory["content"] = f"{number} at {began}"
            await abilities.call("store_memory", memory)
            taken.append(time.perf_counter() - began)

    print(json.dumps(taken), flush=True)

asyncio.run(main())
"""


async def measure_process_writers(base: Path, rounds: int) -> list[Measured]:
    """The slowest of a hundred writes of eight processes, each to a memory of its own."""
    seconds = rounds * SECONDS_PER_ROUND
    writers = [await start_writer(base, number, seconds) for number in range(PROCESSES)]
    for writer in writers:
        assert writer.stdout
        assert (await writer.stdout.readline()).strip() == b"ready"

    ended = [asyncio.create_task(writer.communicate(b"\n")) for writer in writers]
    taken: list[float] = []
    for output, _ in await asyncio.gather(*ended):
        taken += json.loads(output)

    note = f"{len(taken) / seconds:,.0f} writes per second, each on disk"
    what = "ms, p99, for a write of eight processes to one SQLite store"
    return [Measured("6f", what, "<= 80 ms", find_quantile(taken, 99) * 1000, note=note)]


async def start_writer(base: Path, number: int, seconds: float) -> asyncio.subprocess.Process:
    """Start a process that stores a memory and then waits for a line."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        WRITER_PROGRAM,
        str(base),
        str(number),
        str(seconds),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
