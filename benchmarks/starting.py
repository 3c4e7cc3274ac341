"""How long it takes to start, and how much memory a server then holds."""

import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measure import Measured, Prepared, run_shuffled
from benchmarks.peers import DEFAULT_BOUND, Peer, start_filesystem_server, start_ours

IMPORTING = """
import time

began = time.perf_counter()
import abilities
print(time.perf_counter() - began)
"""


async def measure_import(_: Path, rounds: int) -> list[Measured]:
    """The time that importing the package takes in an interpreter of its own."""
    seconds = [time_import() for _ in range(rounds)]
    milliseconds = statistics.median(seconds) * 1000
    return [Measured("19", "ms to import abilities", "<= 250 ms", milliseconds)]


def time_import() -> float:
    """Return the seconds that a new interpreter takes to import the package."""
    command = [sys.executable, "-c", IMPORTING]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def measure_start(base: Path, rounds: int) -> list[Measured]:
    """From starting `abilities mcp` to its first answer, and the memory that it then holds."""
    workspace = base / "workspace"
    note = workspace / "notes.md"
    note.write_text("# Notes\n")

    ours = Starter(
        partial(start_ours, base, workspace, bound=DEFAULT_BOUND), "file_read_bulk", note.name
    )
    theirs = Starter(partial(start_filesystem_server, workspace), "read_multiple_files", str(note))
    variants = {
        "ours": Prepared(ours.stop, ours.answer_first),
        "theirs": Prepared(theirs.stop, theirs.answer_first),
    }
    timings = await run_shuffled(variants, rounds)
    ours.stop()
    theirs.stop()

    other = "the filesystem server:"
    return [
        Measured(
            "19",
            "ms from starting abilities mcp to its first answer",
            "<= 320 ms",
            timings["ours"] * 1000,
            note=f"{other} {timings['theirs'] * 1000:.0f} ms",
        ),
        Measured(
            "19",
            "MiB resident in abilities mcp after its first answer",
            "<= 50 MiB",
            ours.resident,
            note=f"{other} {theirs.resident:.0f} MiB",
        ),
    ]


class Starter:
    """Starts a server again and again; ``resident`` is what the last one held, in MiB."""

    def __init__(self, start: Callable[[], Peer], tool: str, path: str) -> None:
        self._start = start
        self._tool = tool
        self._arguments = {"paths": [path]}
        self._running: Peer | None = None
        self.resident = 0.0

    def answer_first(self) -> None:
        """Start a server, and wait for the answer to one call."""
        peer = self._start()
        peer.greet()
        assert "# Notes" in peer.call(self._tool, self._arguments)
        self._running = peer

    def stop(self) -> None:
        """Stop the server, if one runs."""
        if self._running is not None:
            self.resident = read_resident(self._running.process_id) / 2**20
            self._running.stop()
            self._running = None


def read_resident(process_id: int) -> int:
    """Return the bytes of memory that a process holds, as ps(1) counts them."""
    command = ["ps", "-o", "rss=", "-p", str(process_id)]
    done = subprocess.run(command, capture_output=True, check=True)
    return int(done.stdout) * 1024
