"""What calls and servers need: memory, time to start, and characters around contents."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from abilities import Abilities, render
from benchmarks.in_process import build_settings
from benchmarks.measure import Measured, Work, run_shuffled
from benchmarks.peers import (
    BOUNDS,
    DEFAULT_BOUND,
    LARGE_BOUND,
    Peer,
    start_filesystem_server,
    start_ours,
)
from benchmarks.workloads import FILES, LINE

RECORD_SIZES = {DEFAULT_BOUND: 2_000, LARGE_BOUND: 25_000}
"""Characters of files of which 25 fit into one reply."""

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
        done = subprocess.run(command, capture_output=True, check=True)
        mebibytes, milliseconds = map(float, done.stdout.split())

        memory = "peak MiB over idle, 64 calls at once of 25 files of 1 GiB each"
        time = "ms until the last of those 64 calls was answered"
        results += [
            Measured("18", memory, "<= 128 MiB", mebibytes, bound=bound),
            Measured("18", time, "<= 300 ms", milliseconds, bound=bound),
        ]

    huge.unlink()
    return results


async def measure_import(_: Path, rounds: int) -> list[Measured]:
    """The time that importing the package adds to an interpreter."""

    def prepare(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    variants = {"bare": prepare("pass"), "ours": prepare("import abilities")}
    timings = await run_shuffled(variants, rounds)

    milliseconds = (timings["ours"] - timings["bare"]) * 1000
    return [Measured("19", "ms to import abilities", "<= 250 ms", milliseconds)]


async def measure_start(base: Path, rounds: int) -> list[Measured]:
    """From spawn to the first answer of `abilities mcp`, and its resident memory."""
    (base / "workspace" / "notes.md").write_text("# Notes\n")
    resident: dict[str, int] = {}

    def read_first_note(name: str, start: Callable[[], Peer], tool: str, path: str) -> None:
        argument = {"paths": [path]}
        with start() as peer:
            assert "# Notes" in peer.call(tool, argument)
            resident[name] = read_resident(peer.process_id)

    workspace = base / "workspace"
    variants: dict[str, Work] = {
        "ours": lambda: read_first_note(
            "ours",
            lambda: start_ours(base, workspace, bound=DEFAULT_BOUND),
            "file_read_bulk",
            "notes.md",
        ),
        "theirs": lambda: read_first_note(
            "theirs",
            lambda: start_filesystem_server(workspace),
            "read_multiple_files",
            str(workspace / "notes.md"),
        ),
    }
    timings = await run_shuffled(variants, rounds, warmup_rounds=1)

    started = timings["ours"] * 1000
    size = resident["ours"] / 2**20
    return [
        Measured(
            "19",
            "ms from starting abilities mcp to its first answer",
            "<= 320 ms",
            started,
            note=f"the filesystem server: {timings['theirs'] * 1000:.0f} ms",
        ),
        Measured(
            "19",
            "MiB resident in abilities mcp after its first answer",
            "<= 50 MiB",
            size,
            note=f"the filesystem server: {resident['theirs'] / 2**20:.0f} MiB",
        ),
    ]


def read_resident(process_id: int) -> int:
    """Return the bytes of memory that a process holds, as ps(1) counts them."""
    command = ["ps", "-o", "rss=", "-p", str(process_id)]
    done = subprocess.run(command, capture_output=True, check=True)
    return int(done.stdout) * 1024


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
