"""The specifications' own test plan and scenarios, through the public interface."""

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from abilities import Settings
from abilities.helpers.memory.helper import MemoryHelper
from tests.memories.calls import find_fault, get, store
from tests.support.surfaces import Call


@pytest.fixture
def sample_roots(roots: Settings) -> Settings:
    for n in range(30):
        (roots.workspace_dir / f"{n:02}.txt").write_text(f"file {n}")

    (roots.agent_dir / "MEMORY.md").write_text("lasting")
    return roots


@pytest.mark.requirement("R5.0.1", "R5.6.1", "R5.7.1")
async def test_one_call_does_what_one_call_an_item_does(sample_roots: Settings, call: Call) -> None:
    paths = [f"{n:02}.txt" for n in range(25)]
    payload = await call("file_read_bulk", paths=paths)
    single = [(await call("file_read_bulk", paths=[path]))["results"][0] for path in paths]

    assert payload["results"] == single
    assert payload["summary"] == {
        "requested": 25,
        "succeeded": 25,
        "failed": 0,
        "truncated": 0,
        "returned_chars": sum(len(f"file {n}") for n in range(25)),
    }
    assert "next_request" not in payload


@pytest.mark.requirement("R5.7.3")
async def test_more_than_25_items_are_refused_before_anything_is_read(
    sample_roots: Settings, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_open(*_: object, **__: object) -> int:
        raise AssertionError("a file was opened")

    monkeypatch.setattr("abilities.helpers.files.confinement.os.open", fail_to_open)
    files = await find_fault(call, "file_read_bulk", paths=["00.txt"] * 26)
    memories = await find_fault(call, "memory_read_bulk", targets=[{"type": "long_term"}] * 26)

    assert files.code == memories.code == "INVALID_INPUT"


@pytest.mark.requirement("R5.3.1", "R5.6.3", "R5.7.4", "R5.8.1")
async def test_order_is_the_callers_whatever_it_is(sample_roots: Settings, call: Call) -> None:
    choices = [*(f"{n:02}.txt" for n in range(30)), "none", "../x"]
    for seed in range(10):
        paths = random.Random(seed).choices(choices, k=25)
        first, again = [await call("file_read_bulk", paths=paths) for _ in range(2)]

        assert [record["input"] for record in first["results"]] == paths
        assert first == again


@pytest.mark.requirement("R5.4.3")
async def test_reading_changes_nothing(sample_roots: Settings, call: Call) -> None:
    def read_state() -> dict[Path, tuple[int, bytes]]:
        files = [p for p in sample_roots.workspace_dir.parent.rglob("*") if p.is_file()]
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in files}

    before = read_state()
    await call("file_read_bulk", paths=["00.txt", "none"])
    await call("memory_read_bulk", targets=[{"type": "long_term"}, {"type": "short_term"}])

    assert read_state() == before


async def link_in_a_circle(call: Call, keys: str) -> None:
    """Store a memory per key; each links to the next one, and the last one to the first."""
    for key, following in zip(keys, keys[1:] + keys[0], strict=True):
        await store(call, key, key, links=[{"key": following}])


@pytest.mark.requirement(
    "R1.2.1", "R1.2.3", "R2.1.2", "R2.2.1", "R2.3.1", "R4.2.2", "R4.2.5", "R4.4.3", "R4.4.6"
)
async def test_limits_are_the_callers_or_the_defaults(call: Call) -> None:
    await link_in_a_circle(call, "ABCDEFGHI")

    for depth, breadth, total in ((None, None, None), (4, 10, 30), (6, 20, 50), (1, None, None)):
        limits = {"depth": depth, "breadth": breadth, "total": total}
        given = {name: value for name, value in limits.items() if value}
        applied = {"depth": 3, "breadth": 5, "total": 20, **given}

        walk = await call("bulk_read_memory", key="A", **given)
        assert walk["metadata"]["limits"] == applied
        assert walk["metadata"]["depthReached"] == applied["depth"]

        renamed = {**given, "total": None, "totalLimit": total}
        assert await call("memory_get", key="A", bulkRead=True, **renamed) == walk

    assert (await find_fault(call, "memory_get", key="A", total=51)).field == "total"
    assert (await find_fault(call, "memory_get", key="A", totalLimit=51)).field == "totalLimit"


def refuse_reads(monkeypatch: pytest.MonkeyPatch, *methods: str) -> None:
    """Fail the test if a memory is read."""

    def fail(*_: object) -> None:
        raise AssertionError("a memory was read")

    for method in methods:
        monkeypatch.setattr(MemoryHelper, method, fail)


@pytest.mark.requirement("R2.1.1", "R2.5.1", "R4.2.6")
async def test_one_memory_is_read_without_a_walk_unless_it_is_asked_for(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    await link_in_a_circle(call, "ABC")
    refuse_reads(monkeypatch, "walk")

    more: tuple[dict[str, Any], ...] = ({}, {"bulkRead": False}, {"depth": 6, "breadth": 20})
    for arguments in more:
        data = await get(call, "A", **arguments)

        assert data["content"] == "A"
        assert data["links"] == [{"key": "B", "link_weight": 0.5}]
        assert data["metadata"] == {"memory_score": 0.6}


@pytest.mark.requirement("R4.5.7", "R4.5.8")
async def test_a_circle_is_noted_in_the_log(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "abilities")

    await link_in_a_circle(call, "ABC")
    await call("bulk_read_memory", key="A")

    assert "a walk met cycles: 1" in caplog.messages


@pytest.mark.requirement("R4.3.1", "R4.3.3", "R4.3.4", "R4.3.5")
async def test_reading_memories_changes_none(call: Call) -> None:
    await link_in_a_circle(call, "ABC")

    before = [await get(call, key) for key in "ABC"]
    for limits in ({}, {"depth": 1}, {"total": 1}):
        await call("bulk_read_memory", key="A", **limits)

    assert [await get(call, key) for key in "ABC"] == before
    assert (await call("get_memory_stats"))["total_memories"] == 3
