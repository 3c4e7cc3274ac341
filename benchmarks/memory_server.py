"""Linked memories over MCP stdio: ours against the official memory server, on the same graph."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from abilities import parse_text
from benchmarks.graphs import ROOT, describe, import_graph, write_graph
from benchmarks.measure import Measured, Timings, Work, run_shuffled
from benchmarks.packages import count_tokens
from benchmarks.peers import BOUNDS, Peer, start_at_both_bounds, start_memory_server

SIZES = (1_000, 10_000)
DEPTH = 3
RETRIEVED = 20

EACH = f"{RETRIEVED} open_nodes, one name each"
LEVELS = f"{DEPTH + 1} open_nodes, one level each"
KNOWN = "one open_nodes that knows all names"

WANTED = {EACH: ">= 5x", LEVELS: "", KNOWN: ">= 1x"}


async def measure_memory_server(
    base: Path, rounds: int, sizes: Sequence[int] = SIZES
) -> list[Measured]:
    """20 linked memories and a search over MCP, against the official memory server."""
    results: list[Measured] = []

    for size in sizes:
        file = base / f"graph-{size}.jsonl"
        store = base / f"graph-{size}.db"
        write_graph(file, size)
        import_graph(file, store)

        with (
            start_at_both_bounds(base, base / "workspace", store) as ours,
            start_memory_server(file) as official,
        ):
            results += await compare(ours, official, size, rounds)
            if size == sizes[0]:
                results += compare_tokens(ours, official)

    return results


async def compare(ours: dict[int, Peer], official: Peer, size: int, rounds: int) -> list[Measured]:
    """Return the ratios for the same memories."""
    names = walk(ours[BOUNDS[0]])
    rare = f"{size - 223}"  # of one memory's name and text, and of no longer number
    variants: dict[str, Work] = {
        EACH: partial(open_each, official, names),
        LEVELS: partial(open_levels, official),
        KNOWN: partial(open_nodes, official, names),
        "search": partial(search_nodes, official, rare),
    }
    for bound, peer in ours.items():
        variants[f"walk {bound}"] = partial(peer.call, "bulk_read_memory", {"key": ROOT})
        variants[f"query {bound}"] = partial(query_memories, peer, rare)

    check_contents(ours, official, names)
    check_searches(ours, official, rare)
    processes = [official.process_id, *(peer.process_id for peer in ours.values())]
    timings = await run_shuffled(variants, rounds, processes=processes)

    results: list[Measured] = []
    for bound in BOUNDS:
        results += list_ratios(timings, size, bound)
    return results


def list_ratios(timings: Timings, size: int, bound: int) -> list[Measured]:
    """Return the ratios at one bound."""
    linked = f"{RETRIEVED} linked memories of {size:,} over MCP, against the memory server's"
    search = f"a rare text among {size:,} memories over MCP, against the memory server's"

    results = [
        timings.ratio(
            "11", f"{linked} {way}", wanted, way, f"walk {bound}", bound=bound, note="1 call"
        )
        for way, wanted in WANTED.items()
    ]
    results.append(
        timings.ratio(
            "11",
            f"{search} search_nodes",
            ">= 1x",
            "search",
            f"query {bound}",
            bound=bound,
            note="1 call",
        )
    )
    return results


def check_contents(ours: dict[int, Peer], official: Peer, names: list[str]) -> None:
    """Check that every way retrieves the same memories with their texts."""
    texts = {name: describe(int(name.split()[1])) for name in names}
    assert len(names) == RETRIEVED

    for peer in ours.values():
        assert read_walk(peer) == texts

    assert open_nodes(official, names) == texts
    assert open_each(official, names) == texts
    found = open_levels(official)
    assert {name: found[name] for name in names} == texts


def walk(peer: Peer) -> list[str]:
    """Return the keys of a walk."""
    return list(read_walk(peer))


def read_walk(peer: Peer) -> dict[str, str]:
    """Return the contents of a walk's memories by their keys."""
    payload = parse_text(peer.call("bulk_read_memory", {"key": ROOT}))
    assert "next_request" not in payload

    memories = [payload["targetMemory"], *payload["associatedMemories"]]
    return {memory["key"]: memory["data"]["content"] for memory in memories}


def check_searches(ours: dict[int, Peer], official: Peer, text: str) -> None:
    """Check that both find the one memory with a text."""
    found = [describe(int(text))]

    assert list(search_nodes(official, text).values()) == found
    for peer in ours.values():
        assert query_memories(peer, text) == found


def query_memories(peer: Peer, text: str) -> list[str]:
    """Return the contents of our memories with a text."""
    payload = parse_text(peer.call("query_memories", {"search": text}))
    return [memory["content"] for memory in payload["memories"]]


def search_nodes(official: Peer, text: str) -> dict[str, str]:
    """Return the official server's memories with a text."""
    graph: dict[str, Any] = orjson.loads(official.call("search_nodes", {"query": text}))
    return collect_texts(graph)


def open_graph(official: Peer, names: list[str]) -> dict[str, Any]:
    """Return entities of the official server, and the relations from and to them."""
    graph: dict[str, Any] = orjson.loads(official.call("open_nodes", {"names": names}))
    return graph


def collect_texts(graph: dict[str, Any]) -> dict[str, str]:
    """Return the texts of entities by their names."""
    return {entity["name"]: entity["observations"][0] for entity in graph["entities"]}


def open_nodes(official: Peer, names: list[str]) -> dict[str, str]:
    """Open entities whose names are known, in one call."""
    return collect_texts(open_graph(official, names))


def open_each(official: Peer, names: list[str]) -> dict[str, str]:
    """Open entities one by one."""
    texts: dict[str, str] = {}
    for name in names:
        texts |= open_nodes(official, [name])

    return texts


def open_levels(official: Peer) -> dict[str, str]:
    """Follow relations level by level, as far as a walk does: one call per level."""
    texts: dict[str, str] = {}
    level = [ROOT]

    for _ in range(DEPTH + 1):
        graph = open_graph(official, level)
        texts |= collect_texts(graph)
        chosen = set(level)
        targets = {link["to"] for link in graph["relations"] if link["from"] in chosen}
        level = sorted(targets - texts.keys())

    return texts


def compare_tokens(ours: dict[int, Peer], official: Peer) -> list[Measured]:
    """Return what the same memories cost in tokens."""
    names = walk(ours[BOUNDS[0]])
    known = official.call("open_nodes", {"names": names})
    each = "".join(official.call("open_nodes", {"names": [name]}) for name in names)

    results: list[Measured] = []
    for bound, peer in ours.items():
        for detail in ("concise", "full"):
            reply = peer.call("bulk_read_memory", {"key": ROOT, "detail": detail})
            tokens, known_tokens, each_tokens = count_tokens([reply, known, each])
            what = f"tokens of {RETRIEVED} linked memories, {detail}, against the memory server's"
            note = f"{tokens:,} tokens"
            for way, theirs in ((KNOWN, known_tokens), (EACH, each_tokens)):
                results.append(
                    Measured("20", f"{what} {way}", "", tokens / theirs, bound=bound, note=note)
                )

    return results
