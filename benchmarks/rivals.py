"""Linked memories over MCP: ours against the official memory server, on the same graph."""

import os
import subprocess
import sys
from pathlib import Path

import orjson

from abilities import parse_text
from benchmarks import peers
from benchmarks.measure import Measured, Timings, run_interleaved

SIZES = (1_000, 10_000)
STEPS = (7, 31, 127)
"""How far the three entities are that each entity leads to."""


async def measure_memory_server(base: Path, rounds: int) -> list[Measured]:
    """Twenty linked memories in one call, and a search, against the official memory server."""
    results: list[Measured] = []

    for size in SIZES:
        file = base / f"graph-{size}.jsonl"
        store = base / f"graph-{size}.db"
        write_graph(file, size)
        import_graph(file, store)

        with (
            peers.start_ours(base / "agent", base / "workspace", store) as ours,
            peers.start_memory_server(file) as official,
        ):
            timings = await compare(ours, official, rounds)

        label = f"20 linked memories of {size:,} over MCP, against server-memory"
        knowing = f"{label}, open_nodes that knows all names"
        search = f"a rare text among {size:,} over MCP, against search_nodes"
        results += [
            timings.ratio("11", f"{label}, one open_nodes each", ">= 5x", "each", "ours"),
            timings.ratio("11", knowing, ">= 1x", "one call", "ours"),
            timings.ratio("11", search, ">= 1x", "search", "query"),
        ]

    return results


async def compare(ours: peers.Peer, official: peers.Peer, rounds: int) -> Timings:
    """Return the timings of both servers for the same memories."""
    walk = parse_text(ours.call("bulk_read_memory", {"key": "entity 5"}))
    names = ["entity 5", *(memory["key"] for memory in walk["associatedMemories"])]
    nodes = orjson.loads(official.call("open_nodes", {"names": names}))
    assert len(names) == 20 == len(nodes["entities"])

    def open_each() -> None:
        for name in names:
            official.call("open_nodes", {"names": [name]})

    variants = {
        "ours": lambda: ours.call("bulk_read_memory", {"key": "entity 5"}),
        "one call": lambda: official.call("open_nodes", {"names": names}),
        "each": open_each,
        "query": lambda: ours.call("query_memories", {"search": "word 77 "}),
        "search": lambda: official.call("search_nodes", {"query": "word 77 "}),
    }
    return await run_interleaved(variants, rounds)


def import_graph(file: Path, store: Path) -> None:
    """Import a graph into a store."""
    subprocess.run(
        [sys.executable, "-m", "abilities", "import", str(file)],
        check=True,
        env={**os.environ, "ABILITIES_STORE_URL": f"sqlite:///{store}"},
        stderr=subprocess.PIPE,
    )


def write_graph(file: Path, size: int) -> None:
    """Write entities, each with relations to three others, in the official server's format."""
    with file.open("wb") as output:
        for n in range(size):
            observation = f"word {n} and some more text about the thing that an agent remembers"
            entity = {
                "type": "entity",
                "name": f"entity {n}",
                "entityType": "fact",
                "observations": [observation],
            }
            output.write(orjson.dumps(entity) + b"\n")

        for n in range(size):
            for step in STEPS:
                relation = {
                    "type": "relation",
                    "from": f"entity {n}",
                    "to": f"entity {(n * 3 + step) % size}",
                    "relationType": "leads to",
                }
                output.write(orjson.dumps(relation) + b"\n")
