"""A graph of linked memories in other programs' formats, and as a store of ours."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson

from tests.support.kv_memory import KvLink, KvMemory, write_database

STEPS = (7, 31, 127)
"""How far the three memories are that each memory leads to."""

ROOT = "entity 5"


def list_links(size: int) -> Iterator[tuple[str, str]]:
    """Yield the links of a graph: the names of their sources and targets."""
    for n in range(size):
        for step in STEPS:
            yield f"entity {n}", f"entity {(n * 3 + step) % size}"


def describe(n: int) -> str:
    """Return the text of a memory."""
    return f"word {n} and some more text about the thing that an agent remembers"


def write_graph(file: Path, size: int) -> None:
    """Write a graph as the official memory server does."""
    with file.open("wb") as output:
        for n in range(size):
            entity = {
                "type": "entity",
                "name": f"entity {n}",
                "entityType": "fact",
                "observations": [describe(n)],
            }
            output.write(orjson.dumps(entity) + b"\n")

        for source, target in list_links(size):
            relation = {
                "type": "relation",
                "from": source,
                "to": target,
                "relationType": "leads to",
            }
            output.write(orjson.dumps(relation) + b"\n")


def write_kv_memory(file: Path, size: int) -> None:
    """Write a graph as a database of kv-memory."""
    memories = (KvMemory(f"entity {n}", describe(n)) for n in range(size))
    links = (KvLink(source, target) for source, target in list_links(size))
    write_database(file, memories, links)


def import_graph(file: Path, store: Path) -> None:
    """Import a graph in either format into a store of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "abilities", "import", str(file)],
        env={**os.environ, "ABILITIES_STORE_URL": f"sqlite:///{store}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
