"""What calls need: memory, and characters around contents."""

import statistics
import subprocess
import sys
from pathlib import Path

from abilities import Abilities, render
from benchmarks.in_process import build_settings
from benchmarks.measure import Measured
from benchmarks.peers import BOUNDS, DEFAULT_BOUND, LARGE_BOUND
from benchmarks.workloads import FILES, LINE

RECORD_SIZES = {DEFAULT_BOUND: 2_000, LARGE_BOUND: 25_000}
"""Characters of files of which 25 fit into one reply."""

RUNS = 5
"""How often calls are made at once, each time in a process of its own."""

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
    agent, workspace, bound = sys.argv[1:]
    settings = Settings(agent_dir=agent, workspace_dir=workspace, max_response_bytes=int(bound))
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


async def measure_memory(base: Path, _: int) -> list[Measured]:
    """Peak memory of 64 concurrent calls of 25 files of one gibibyte."""
    huge = base / "workspace" / "huge.txt"
    block = (LINE * 12_000).encode()
    with huge.open("wb") as file:
        while file.tell() < 2**30:
            file.write(block)

    results: list[Measured] = []
    for bound in BOUNDS:
        folders = [str(base / "agent"), str(base / "workspace")]
        command = [sys.executable, "-c", MEMORY_PROGRAM, *folders, str(bound)]
        runs = [list(map(float, subprocess.check_output(command).split())) for _ in range(RUNS)]
        mebibytes = max(peak for peak, _ in runs)
        milliseconds = statistics.median(time for _, time in runs)

        memory = "peak MiB over idle, 64 calls at once of 25 files of 1 GiB each"
        until = "ms until the last of those 64 calls was answered"
        results += [
            Measured("18", memory, "<= 128 MiB", mebibytes, bound=bound),
            Measured("18", until, "<= 300 ms", milliseconds, bound=bound),
        ]

    huge.unlink()
    return results


async def measure_characters(base: Path, _: int) -> list[Measured]:
    """Characters of a JSON reply beyond the contents, per file record."""
    results: list[Measured] = []

    for bound, size in RECORD_SIZES.items():
        settings = build_settings(base, bound)
        names = [f"{n:02}".ljust(37, "x") + ".py" for n in range(FILES)]
        for name in names:
            (settings.workspace_dir / name).write_text("w" * size)

        async with Abilities.open(settings) as abilities:
            for label, wanted, max_chars in (
                ("whole", "<= 260", size),
                ("cut", "<= 500", size - 100),
            ):
                arguments = {"paths": names, "max_chars_per_file": max_chars}
                payload = await abilities.call("file_read_bulk", arguments)
                summary = payload["summary"]
                assert summary["returned_chars"] == max_chars * FILES

                beyond = len(render(payload)) - summary["returned_chars"]
                what = f"characters beyond its content, a {label} file record in JSON"
                results.append(Measured("20", what, wanted, beyond / FILES, bound=bound))

    return results
