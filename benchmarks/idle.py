"""What a call costs right after the same call, after a rival's call, after a pause, after a write.

Processors slow down and forget while they wait, and a model takes seconds between two calls.
"""

import time
from collections.abc import Callable
from pathlib import Path

from abilities.declarations.values import JsonObject
from benchmarks.mcp_files import MAX_CHARS, prepare_official, prepare_ours
from benchmarks.measure import Measured, Prepared, Timings, Work, run_shuffled
from benchmarks.peers import BOUNDS, start_at_both_bounds, start_filesystem_server
from benchmarks.workloads import write_files

PAUSE = 0.05
"""Seconds without a call."""

SITUATIONS = ("after itself", "after a call of the other", f"after {PAUSE * 1000:.0f} ms idle")


async def measure_idle(base: Path, rounds: int) -> list[Measured]:
    """25 files of 16 KB over MCP after the same call, a rival's call, a pause, and a write."""
    workload = write_files(base / "workspace", 16)
    written = write_files(base / "workspace", 16, "written/")
    request: JsonObject = {"paths": workload.names, "max_chars_per_file": MAX_CHARS}

    with (
        start_at_both_bounds(base, workload.folder) as ours,
        start_filesystem_server(workload.folder) as official,
    ):
        theirs = prepare_official(official, workload)["bulk"]
        variants: dict[str, Prepared] = {}
        for bound, peer in ours.items():
            read = prepare_ours(peer, request)
            variants |= prepare_situations(f"ours {bound}", read, theirs)
            variants |= prepare_situations(f"theirs {bound}", theirs, read)

            variants[f"written {bound}"] = Prepared(
                written.write_again, prepare_ours(peer, {**request, "paths": written.names})
            )

        processes = [official.process_id, *(peer.process_id for peer in ours.values())]
        workload.settle()
        timings = await run_shuffled(variants, rounds, processes=processes)

    results: list[Measured] = []
    for bound in BOUNDS:
        results += list_situations(timings, bound)
    return results


def prepare_situations(name: str, work: Work, other: Work) -> dict[str, Prepared]:
    """Return one function in the situations that may come before it."""
    before: tuple[Callable[[], object], ...] = (work, other, lambda: time.sleep(PAUSE))

    return {
        f"{name} {situation}": Prepared(prepare, work)
        for situation, prepare in zip(SITUATIONS, before, strict=True)
    }


def list_situations(timings: Timings, bound: int) -> list[Measured]:
    """Return the ratio to the rival in each situation, and ours to ours after itself."""
    what = "25 files of 16 KB over MCP"
    results = [
        timings.ratio(
            "1",
            f"{what}, both {situation}, against one read_multiple_files",
            "",
            f"theirs {bound} {situation}",
            f"ours {bound} {situation}",
            bound=bound,
        )
        for situation in SITUATIONS
    ]

    usual = f"ours {bound} {SITUATIONS[0]}"
    slower = {situation: f"ours {bound} {situation}" for situation in SITUATIONS[1:]}
    slower["written just before"] = f"written {bound}"
    for situation, name in slower.items():
        row = f"{what}, {situation}, against after itself"
        results.append(timings.ratio("1", row, "", name, usual, bound=bound))

    return results
