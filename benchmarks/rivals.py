"""Linked memories over MCP: ours against the official memory server, on the same graph."""

import os
import subprocess
import sys
from pathlib import Path

import orjson

from benchmarks import peers
from benchmarks.measure import Measured, interleaved

SIZES = (1_000, 10_000)
LINKS = (7, 31, 127)


async def goals_against_the_memory_server(base: Path, rounds: int) -> list[Measured]:
    """Twenty linked memories in one call, and found by a word, against the official server's calls for the same."""
    rows: list[Measured] = []
    for size in SIZES:
        file, store = base / f"graph-{size}.jsonl", base / f"graph-{size}.db"
        _write_graph(file, size)
        bring = [sys.executable, "-m", "abilities", "import", str(file)]
        given = {**os.environ, "ABILITIES_STORE_URL": f"sqlite:///{store}"}
        subprocess.run(bring, check=True, env=given, stderr=subprocess.PIPE)
        with (
            peers.ours(base / "agent", base / "workspace", store) as mine,
            peers.memory(file) as other,
        ):
            walk = orjson.loads(mine.call("bulk_read_memory", {"key": "entity 5"}))
            names = ["entity 5", *(memory["key"] for memory in walk["associatedMemories"])]
            told = orjson.loads(other.call("open_nodes", {"names": names}))
            assert len(names) == 20 == len(told["entities"])
            taken = await interleaved(
                {
                    "ours": lambda mine=mine: mine.call("bulk_read_memory", {"key": "entity 5"}),
                    "one call": lambda other=other, names=names: other.call(
                        "open_nodes", {"names": names}
                    ),
                    "each": lambda other=other, names=names: [
                        other.call("open_nodes", {"names": [name]}) for name in names
                    ],
                    "query": lambda mine=mine: mine.call("query_memories", {"search": "word 77 "}),
                    "search": lambda other=other: other.call("search_nodes", {"query": "word 77 "}),
                },
                rounds,
            )
        label = f"20 linked memories of {size:,} over MCP, against server-memory"
        rows += [
            taken.ratio("11", f"{label}, one open_nodes each", ">= 5x", "each", "ours"),
            taken.ratio(
                "11", f"{label}, open_nodes that knows all names", ">= 1x", "one call", "ours"
            ),
            taken.ratio(
                "11",
                f"a rare text among {size:,} over MCP, against search_nodes",
                ">= 1x",
                "search",
                "query",
            ),
        ]
    return rows


def _write_graph(file: Path, size: int) -> None:
    """Entities with an observation, each with relations to three others, as the official server keeps them."""
    with file.open("wb") as out:
        for n in range(size):
            said = f"word {n} and some more text about the thing that an agent remembers"
            entity = {
                "type": "entity",
                "name": f"entity {n}",
                "entityType": "fact",
                "observations": [said],
            }
            out.write(orjson.dumps(entity) + b"\n")
        for n in range(size):
            for step in LINKS:
                names = {"from": f"entity {n}", "to": f"entity {(n * 3 + step) % size}"}
                out.write(
                    orjson.dumps({"type": "relation", **names, "relationType": "leads to"}) + b"\n"
                )
