"""The goals about what calls need: memory, the time to import the package, and characters."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from abilities import Abilities, render
from benchmarks.files import FILES, LINE, build_settings
from benchmarks.measure import Measured, run_interleaved

MEMORY_PROGRAM = """
import asyncio, sys, threading, time

from abilities import Abilities, Settings

def read_resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

class Watch(threading.Thread):
    peak = 0
    stopping = False

    def run(self):
        while not self.stopping:
            self.peak = max(self.peak, read_resident())
            time.sleep(0.001)

async def main():
    settings = Settings(agent_dir=sys.argv[1], workspace_dir=sys.argv[2])
    async with Abilities.open(settings) as abilities:
        await abilities.call("file_read_bulk", {"paths": ["none"]})
        idle = read_resident()
        watch = Watch()
        watch.start()
        began = time.perf_counter()
        calls = [abilities.call("file_read_bulk", {"paths": ["huge.txt"] * 25}) for _ in range(64)]
        await asyncio.gather(*calls)
        seconds = time.perf_counter() - began
        watch.stopping = True
        watch.join()
        print((watch.peak - idle) / 2**20, seconds * 1000)

asyncio.run(main())
"""


async def measure_goal_18(base: Path, _: int) -> list[Measured]:
    """Peak memory of 64 concurrent calls of 25 files of one gibibyte."""
    huge = base / "workspace" / "huge.txt"
    block = (LINE * 12_000).encode()
    with huge.open("wb") as file:
        while file.tell() < 2**30:
            file.write(block)

    command = [sys.executable, "-c", MEMORY_PROGRAM, str(base / "agent"), str(base / "workspace")]
    done = subprocess.run(command, capture_output=True, check=True)
    mebibytes, milliseconds = map(float, done.stdout.split())
    huge.unlink()

    memory = "peak MiB over idle, 64 calls of 25x1 GiB"
    time = "ms until the last of those 64 calls was answered (figure 4: p99 <= 300)"
    return [
        Measured("18", memory, "<= 128 MiB", mebibytes),
        Measured("18", time, "<= 300 ms", milliseconds),
    ]


async def measure_goal_19(_: Path, rounds: int) -> list[Measured]:
    """The time that importing the package adds to an interpreter."""

    def prepare(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    variants = {"bare": prepare("pass"), "ours": prepare("import abilities")}
    timings = await run_interleaved(variants, rounds)

    milliseconds = (timings["ours"] - timings["bare"]) * 1000
    return [Measured("19", "ms to import abilities", "<= 250 ms", milliseconds)]


async def measure_goal_20(base: Path, _: int) -> list[Measured]:
    """Characters of a reply beyond the contents, per record."""
    settings = build_settings(base)
    names = [f"{n:02}".ljust(37, "x") + ".py" for n in range(FILES)]
    for name in names:
        (settings.workspace_dir / name).write_text("word " * 5_000)

    results: list[Measured] = []
    async with Abilities.open(settings) as abilities:
        for label, wanted, max_chars in (("whole", "<= 260", 100_000), ("cut", "<= 500", 20_000)):
            arguments = {"paths": names, "max_chars_per_file": max_chars}
            payload = await abilities.call("file_read_bulk", arguments)

            beyond = len(render(payload)) - payload["summary"]["returned_chars"]
            what = f"characters beyond its content, a {label} file record"
            results.append(Measured("20", what, wanted, beyond / FILES))

    return results


GOALS_OF_RESOURCES = [measure_goal_18, measure_goal_19, measure_goal_20]
