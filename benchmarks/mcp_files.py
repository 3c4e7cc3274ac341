"""Files over MCP stdio: one call of ours against the official filesystem server's calls."""

from pathlib import Path
from typing import NamedTuple

import orjson

from abilities import parse_text
from abilities.declarations.values import JsonObject
from benchmarks.measure import Measured, Timings, Work, run_shuffled
from benchmarks.peers import (
    BOUNDS,
    DEFAULT_BOUND,
    LARGE_BOUND,
    Peer,
    find_content,
    read_to_the_end,
    start_at_both_bounds,
    start_filesystem_server,
    start_ready_made,
)
from benchmarks.workloads import FILES, Workload, copy_sources, write_files

MAX_CHARS = 100_000
"""The most characters of one file that a caller may ask for."""

HEADS = {DEFAULT_BOUND: 2_000, LARGE_BOUND: 20_000}
"""How many characters of each of 25 files fit into one reply."""


class Goals(NamedTuple):
    """What is wanted against 25 single reads and against one bulk read; empty if nothing is."""

    number: str
    against_single: dict[int, str]
    against_bulk: dict[int, str]


GOALS = {
    "16 KB": Goals(
        "1",
        {LARGE_BOUND: ">= 5.5x", DEFAULT_BOUND: ">= 1.5x"},
        {LARGE_BOUND: ">= 2.5x", DEFAULT_BOUND: ">= 0.9x"},
    ),
    "1 KB": Goals("1", {}, {LARGE_BOUND: ">= 1.4x"}),
    "real sources": Goals(
        "1",
        {LARGE_BOUND: ">= 4x", DEFAULT_BOUND: ">= 1.8x"},
        {LARGE_BOUND: ">= 2.5x", DEFAULT_BOUND: ">= 1x"},
    ),
    "256 KB": Goals("2", {}, {}),
}


async def measure_small_files(base: Path, rounds: int) -> list[Measured]:
    """25 files of 1 KB over MCP, against the official filesystem server."""
    return await compare_whole(write_files(base / "workspace", 1), GOALS["1 KB"], rounds)


async def measure_files(base: Path, rounds: int) -> list[Measured]:
    """25 files of 16 KB over MCP, against the official filesystem server."""
    return await compare_whole(write_files(base / "workspace", 16), GOALS["16 KB"], rounds)


async def measure_real_files(base: Path, rounds: int) -> list[Measured]:
    """25 real sources over MCP, against the official filesystem server."""
    return await compare_whole(copy_sources(base / "workspace"), GOALS["real sources"], rounds)


async def measure_large_files(base: Path, rounds: int) -> list[Measured]:
    """25 files of 256 KB over MCP, whole and cut, against the official filesystem server."""
    workload = write_files(base / "workspace", 256)
    whole = await compare_whole(workload, GOALS["256 KB"], max(rounds // 3, 2))
    return whole + await compare_heads(workload, rounds)


async def compare_whole(workload: Workload, goals: Goals, rounds: int) -> list[Measured]:
    """Read whole files through all servers, to the last byte."""
    request: JsonObject = {"paths": workload.names, "max_chars_per_file": MAX_CHARS}

    with (
        start_at_both_bounds(workload.folder.parent, workload.folder) as ours,
        start_filesystem_server(workload.folder) as official,
    ):
        replies = {bound: read_whole(peer, request, workload) for bound, peer in ours.items()}
        variants: dict[str, Work] = prepare_official(official, workload)
        for bound, peer in ours.items():
            variants[f"{bound}"] = prepare_ours(peer, request)

        with start_ready_made(workload.folder.parent, replies) as ready_made:
            for bound, peer in ready_made.items():
                variants[f"{bound} ready-made"] = prepare_ours(peer, request)

            peers = [official, *ours.values(), *ready_made.values()]
            processes = [peer.process_id for peer in peers]
            workload.settle()
            timings = await run_shuffled(variants, rounds, processes=processes)

    results: list[Measured] = []
    for bound in BOUNDS:
        results += list_ratios(timings, workload.label, goals, bound, len(replies[bound]))
    return results


def prepare_ours(peer: Peer, request: JsonObject) -> Work:
    """Return a function that reads files through our server, to the last byte."""
    return lambda: read_to_the_end(peer, "file_read_bulk", request)


def prepare_official(official: Peer, workload: Workload) -> dict[str, Work]:
    """Return the official server's two ways to read files, after checking that each reads all."""

    def read_one_by_one() -> list[str]:
        return [official.call("read_text_file", {"path": path}) for path in workload.paths]

    def read_together() -> str:
        return official.call("read_multiple_files", {"paths": workload.paths})

    assert read_one_by_one() == list(workload.contents.values())
    assert workload.holds_all([read_together()])
    return {"single": read_one_by_one, "bulk": read_together}


def read_whole(peer: Peer, request: JsonObject, workload: Workload) -> list[str]:
    """Return the replies that have all files, after checking that every character arrives."""
    replies = read_to_the_end(peer, "file_read_bulk", request)

    assert collect_contents(replies) == workload.contents
    return replies


def collect_contents(replies: list[str]) -> dict[str, str]:
    """Return the contents of files from the pieces in replies."""
    contents: dict[str, str] = {}
    for reply in replies:
        for record in parse_text(reply)["results"]:
            if record["success"]:
                path, *_ = record["input"].partition("#")
                contents[path] = contents.get(path, "") + find_content(record)

    return contents


def describe_calls(calls: int) -> str:
    """Return how many calls a row took."""
    return "1 call" if calls == 1 else f"{calls} calls"


def list_ratios(
    timings: Timings, label: str, goals: Goals, bound: int, calls: int
) -> list[Measured]:
    """Return both ratios at one bound, and how much faster the fastest possible server is."""
    note = describe_calls(calls)
    what = f"{label} over MCP, against"

    return [
        timings.ratio(
            goals.number,
            f"{what} 25 read_text_file",
            goals.against_single.get(bound, ""),
            "single",
            f"{bound}",
            bound=bound,
            note=note,
        ),
        timings.ratio(
            goals.number,
            f"{what} one read_multiple_files",
            goals.against_bulk.get(bound, ""),
            "bulk",
            f"{bound}",
            bound=bound,
            note=note,
        ),
        timings.ratio(
            goals.number,
            f"{label} over MCP, a server with ready-made replies against ours",
            "",
            f"{bound}",
            f"{bound} ready-made",
            bound=bound,
            note=note,
        ),
    ]


async def compare_heads(workload: Workload, rounds: int) -> list[Measured]:
    """Read as much of the beginning of each file as fits into one reply, against whole reads."""
    with (
        start_at_both_bounds(workload.folder.parent, workload.folder) as ours,
        start_filesystem_server(workload.folder) as official,
    ):
        variants: dict[str, Work] = prepare_official(official, workload)
        for bound, peer in ours.items():
            variants[f"{bound}"] = prepare_heads(peer, workload, HEADS[bound])

        processes = [official.process_id, *(peer.process_id for peer in ours.values())]
        workload.settle()
        timings = await run_shuffled(variants, rounds, processes=processes)

    results: list[Measured] = []
    for bound, characters in HEADS.items():
        what = (
            f"{characters:,} characters of each of {workload.label} over MCP,"
            " against 25 whole read_text_file"
        )
        wanted = ">= 15x" if bound == LARGE_BOUND else ""
        results.append(
            timings.ratio("2", what, wanted, "single", f"{bound}", bound=bound, note="1 call")
        )
    return results


def prepare_heads(peer: Peer, workload: Workload, characters: int) -> Work:
    """Return a function that reads the beginning of each file, after checking that it does."""
    request: JsonObject = {"paths": workload.names, "max_chars_per_file": characters}
    contents = collect_contents([peer.call("file_read_bulk", request)])
    assert [len(content) for content in contents.values()] == [characters] * FILES

    return lambda: peer.call("file_read_bulk", request)


async def measure_bytes(base: Path, _: int) -> list[Measured]:
    """Bytes on the wire, against the JSON of the payload and of the contents alone."""
    workload = copy_sources(base / "workspace")
    request: JsonObject = {"paths": workload.names, "max_chars_per_file": MAX_CHARS}
    contents_size = len(orjson.dumps(list(workload.contents.values())))

    results: list[Measured] = []
    with start_at_both_bounds(base, workload.folder) as ours:
        for bound, peer in ours.items():
            sizes = count_bytes(peer, request)
            for size, name in ((sizes.payload, "payload's"), (contents_size, "contents'")):
                what = f"bytes on the wire of 25 real sources, against the {name} JSON"
                results.append(Measured("3", what, "<= 1.1x", sizes.received / size, bound=bound))

    return results


class Sizes(NamedTuple):
    """Bytes of all replies: as they were received, and as JSON."""

    received: int
    payload: int


def count_bytes(peer: Peer, request: JsonObject | None) -> Sizes:
    """Read files to the last byte, and return the sizes of the replies."""
    received = payload = 0
    while request:
        reply = parse_text(peer.call("file_read_bulk", request))
        received += peer.received
        payload += len(orjson.dumps(reply))
        request = reply.get("next_request")

    return Sizes(received, payload)
