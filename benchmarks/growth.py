"""Storing and importing beside memories that have a history: large stores are not slower."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

import orjson

from abilities import Abilities, Settings
from abilities.declarations.values import utc_now
from abilities.helpers.store.history import Entry, seal
from abilities.helpers.store.past import add_entries
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.store.sqlite.transaction import run
from abilities.helpers.transfer.importing import ImportOptions, import_memories, open_source
from benchmarks.generate import NAMESPACE, prepare_store
from benchmarks.measure import Measured, Work, run_shuffled

WRITTEN = 1_000
"""Memories per measurement."""

CALL = 50
"""Memories that one call of `remember` stores."""

TEXT = " ".join(f"word{number}" for number in range(20))


async def measure_growth(base: Path, rounds: int, sizes: Sequence[int]) -> list[Measured]:
    """A thousand memories stored and imported, beside few and many that have a history."""
    numbers = count()
    results: list[Measured] = []
    smallest = sizes[0]
    paths = {size: prepare_history(base, size) for size in sizes}
    os.sync()  # else the stores measured would wait for the copies to be written

    variants: dict[str, Work] = {}
    for size, path in paths.items():
        variants[f"store {size}"] = partial(store_memories, base, path, numbers)
        variants[f"import {size}"] = partial(import_file, base, path, numbers)
    timings = await run_shuffled(variants, max(rounds // 3, 2), warmup_rounds=1)

    for verb in ("store", "import"):
        for size in sizes[1:]:
            what = (
                f"{verb} {WRITTEN:,} memories beside {size:,} that have a history, "
                f"against beside {smallest:,}"
            )
            results.append(
                timings.ratio("24", what, "<= 1.5x", f"{verb} {size}", f"{verb} {smallest}")
            )

    return results


def prepare_history(base: Path, size: int) -> Path:
    """Return a copy of a generated store, in which each memory has an entry of history.

    The entries are young: old ones would be forgotten while others are measured.
    """
    path = base / f"history-{size}.db"
    shutil.copy(prepare_store(base, size), path)

    file = StoreFile(path)
    connection = file.open(writing=True)
    connection.execute("PRAGMA cache_size = -400000")
    connection.execute("BEGIN")
    rows = connection.execute("SELECT namespace, version, id, key FROM memories")
    now = utc_now()
    entries: list[Entry] = []
    for namespace, version, memory_id, key in rows.fetchall():
        entry = Entry(namespace, version, memory_id, key, 0, "created", now, "", "{}")
        entries.append(seal(entry))
    run(connection, add_entries, entries)
    connection.execute("COMMIT")
    connection.close()
    file.close()
    return path


async def store_memories(base: Path, path: Path, numbers: "count[int]") -> None:
    """Store new memories, in calls of `remember`."""
    settings = Settings(
        agent_dir=base / "agent", workspace_dir=base / "workspace", store_url=f"sqlite:///{path}"
    )
    async with Abilities.open(settings) as abilities:
        for _ in range(WRITTEN // CALL):
            operations = [
                {"op": "store", "type": "core", "key": f"new{next(numbers)}", "content": TEXT}
                for _ in range(CALL)
            ]
            answer = await abilities.call("remember", {"operations": operations})
            assert answer["summary"]["succeeded"] == CALL


async def import_file(base: Path, path: Path, numbers: "count[int]") -> None:
    """Import a file of new memories."""
    file = base / "new.jsonl"
    with file.open("wb") as lines:
        for _ in range(WRITTEN):
            entity = {"name": f"new{next(numbers)}", "entityType": "t", "observations": [TEXT]}
            lines.write(orjson.dumps({"type": "entity", **entity}) + b"\n")

    counts: Counter[str] = Counter()
    store = SqliteStore(path)
    async with open_source(file, NAMESPACE, all_into_it=True) as source:
        await import_memories(
            store, source, ImportOptions(), lambda _: None, lambda _: None, counts
        )
    await store.close()
    assert counts["added"] == WRITTEN
