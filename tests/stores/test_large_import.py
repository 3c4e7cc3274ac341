"""A large import: every memory takes as long as the first ones."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from abilities.helpers.transfer.importing import ImportOptions, import_memories, open_source
from tests.stores.test_stores import open_store
from tests.support.measurements import reached
from tests.support.tier import size

IMPORTED = size("ABILITIES_IMPORTED", quick=2_000, full=10_000)


def write_memories(path: Path) -> None:
    """Write entities as the official memory server keeps them."""
    with path.open("w") as lines:
        for number in range(IMPORTED):
            seen = f"It was seen {number} times in the garden with a red hat."
            entity = {"type": "entity", "name": f"e{number}", "entityType": "cat"}
            lines.write(f"{json.dumps({**entity, 'observations': [seen]})}\n")


@pytest.mark.thorough
async def test_the_last_memories_of_an_import_take_as_long_as_the_first(tmp_path: Path) -> None:
    write_memories(tmp_path / "memory.jsonl")
    counts: Counter[str] = Counter()
    done: list[tuple[int, float, float]] = [(0, time.process_time(), time.monotonic())]

    def note(_: int) -> None:
        done.append((counts["added"], time.process_time(), time.monotonic()))

    async with (
        open_source(tmp_path / "memory.jsonl", "default", all_into_it=False) as source,
        open_store(tmp_path / "m.db") as store,
    ):
        await import_memories(store, source, ImportOptions(), lambda _: None, note, counts)
        findings = await store.check(lambda _: None, full=False)

    assert counts["added"] == IMPORTED
    assert not [finding for finding in findings if finding.state == "damaged"]

    def measure(begin: float, end: float) -> tuple[float, float]:
        """Return the seconds of processor and of wall time for a thousand of some memories."""
        first, *_, last = (mark for mark in done if begin <= mark[0] / IMPORTED <= end)
        thousands = (last[0] - first[0]) / 1_000
        return (last[1] - first[1]) / thousands, (last[2] - first[2]) / thousands

    first, last = measure(0, 0.2), measure(0.8, 1)
    reached(
        18,
        f"{IMPORTED:,} memories imported, a thousand in {first[1]:.1f} s at the beginning and "
        f"{last[1]:.1f} s at the end, in processor time {last[0] / first[0]:.2f} times as long",
    )
    assert last[0] <= 3 * first[0]
