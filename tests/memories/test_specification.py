"""The specifications' own test plan and scenarios, through the public interface."""

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.helpers.memory.helper import MemoryHelper


@pytest.fixture
def sample_roots(roots: Settings) -> Settings:
    for n in range(30):
        (roots.workspace_dir / f"{n:02}.txt").write_text(f"file {n}")

    (roots.agent_dir / "MEMORY.md").write_text("lasting")
    return roots


@pytest.mark.requirement("R5.0.1", "R5.6.1", "R5.7.1")
async def test_one_call_does_what_one_call_an_item_does(sample_roots: Settings) -> None:
    paths = [f"{n:02}.txt" for n in range(25)]
    async with Abilities.open(sample_roots) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": paths})
        single = [
            (await abilities.call("file_read_bulk", {"paths": [path]}))["results"][0]
            for path in paths
        ]

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
    sample_roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_open(*_: object, **__: object) -> int:
        raise AssertionError("a file was opened")

    async with Abilities.open(sample_roots) as abilities:
        monkeypatch.setattr("abilities.helpers.files.confinement.os.open", fail_to_open)
        for name, arguments in (
            ("file_read_bulk", {"paths": ["00.txt"] * 26}),
            ("memory_read_bulk", {"targets": [{"type": "long_term"}] * 26}),
        ):
            with pytest.raises(AbilityError) as caught:
                await abilities.call(name, arguments)
            assert caught.value.fault.code == "INVALID_INPUT"


@pytest.mark.requirement("R5.3.1", "R5.6.3", "R5.7.4", "R5.8.1")
@pytest.mark.parametrize("seed", range(10))
async def test_order_is_the_callers_whatever_it_is(seed: int, sample_roots: Settings) -> None:
    paths = random.Random(seed).choices([*(f"{n:02}.txt" for n in range(30)), "none", "../x"], k=25)
    async with Abilities.open(sample_roots) as abilities:
        first, again = [await abilities.call("file_read_bulk", {"paths": paths}) for _ in range(2)]

    assert [record["input"] for record in first["results"]] == paths
    assert first == again


@pytest.mark.requirement("R5.4.3")
async def test_reading_changes_nothing(sample_roots: Settings) -> None:
    def read_state() -> dict[Path, tuple[int, bytes]]:
        files = [p for p in sample_roots.workspace_dir.parent.rglob("*") if p.is_file()]
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in files}

    before = read_state()

    async with Abilities.open(sample_roots) as abilities:
        await abilities.call("file_read_bulk", {"paths": ["00.txt", "none"]})
        await abilities.call(
            "memory_read_bulk", {"targets": [{"type": "long_term"}, {"type": "short_term"}]}
        )

    assert read_state() == before


async def link_in_a_circle(abilities: Abilities, keys: str) -> None:
    """Store a memory per key; each links to the next one, and the last one to the first."""
    for key, following in zip(keys, keys[1:] + keys[0], strict=True):
        memory = {"type": "core", "content": key, "key": key, "links": [{"key": following}]}
        await abilities.call("store_memory", memory)


@pytest.mark.requirement("R1.2.1", "R1.2.3", "R2.2.1", "R4.2.5", "R4.4.3")
@pytest.mark.parametrize(
    ("given", "applied"),
    [
        ({}, {"depth": 3, "breadth": 5, "total": 20}),
        ({"depth": 4, "breadth": 10, "total": 30}, {"depth": 4, "breadth": 10, "total": 30}),
        ({"depth": 6, "breadth": 20, "total": 50}, {"depth": 6, "breadth": 20, "total": 50}),
        ({"depth": 1}, {"depth": 1, "breadth": 5, "total": 20}),
    ],
)
async def test_limits_are_the_callers_or_the_defaults(
    given: dict[str, int], applied: dict[str, int], roots: Settings
) -> None:
    total = {"totalLimit": given["total"]} if "total" in given else {}
    async with Abilities.open(roots) as abilities:
        await link_in_a_circle(abilities, "ABCDEFGHI")

        walk = await abilities.call("bulk_read_memory", {"key": "A", **given})
        by_get = await abilities.call(
            "memory_get", {"key": "A", "bulkRead": True, **given, **total, "total": None}
        )

    assert walk["metadata"]["limits"] == applied
    assert walk["metadata"]["depthReached"] == applied["depth"]
    assert by_get == walk


@pytest.mark.requirement("R1.2.2", "R2.2.1", "R2.3.2", "R4.2.5")
@pytest.mark.parametrize("name", ["bulk_read_memory", "memory_get"])
@pytest.mark.parametrize(
    "limits",
    [{"depth": 10, "breadth": 30, "total": 100}, {"depth": 7}, {"breadth": 21}, {"total": 51}],
)
async def test_limits_beyond_the_maximum_are_refused_and_nothing_is_read(
    limits: dict[str, int], name: str, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_reads(monkeypatch)

    async with Abilities.open(roots) as abilities:
        with pytest.raises(AbilityError) as caught:
            await abilities.call(name, {"key": "A", **limits})

    assert caught.value.fault.code == "INVALID_INPUT"
    assert caught.value.fault.field in (*limits, "totalLimit")


def refuse_reads(monkeypatch: pytest.MonkeyPatch, *methods: str) -> None:
    """Fail the test if a memory is read."""

    def fail(*_: object) -> None:
        raise AssertionError("a memory was read")

    for method in methods or ("walk", "get", "read"):
        monkeypatch.setattr(MemoryHelper, method, fail)


@pytest.mark.requirement("R2.1.1", "R2.5.1", "R4.2.6")
@pytest.mark.parametrize("more", [{}, {"bulkRead": False}, {"depth": 6, "breadth": 20}])
async def test_one_memory_is_read_without_a_walk_unless_it_is_asked_for(
    more: dict[str, Any], roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Abilities.open(roots) as abilities:
        await link_in_a_circle(abilities, "ABC")
        refuse_reads(monkeypatch, "walk")

        answer = await abilities.call("memory_get", {"key": "A", **more})

    assert answer["data"]["content"] == "A"
    assert answer["data"]["links"] == [{"key": "B", "link_weight": 0.5}]
    assert answer["data"]["metadata"] == {"memory_score": 0.6}


@pytest.mark.requirement("R2.1.2", "R2.3.1", "R2.4.1", "R4.2.2", "R4.4.6")
async def test_memory_get_walks_with_bulk_read_and_says_how(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        await link_in_a_circle(abilities, "ABC")

        answer = await abilities.call(
            "memory_get", {"key": "A", "bulkRead": True, "depth": 4, "breadth": 8, "totalLimit": 30}
        )

    assert answer["targetMemory"]["data"]["content"] == "A"
    assert [entry["key"] for entry in answer["associatedMemories"]] == ["B", "C"]
    metadata = answer["metadata"]
    assert (metadata["depthReached"], metadata["totalRetrieved"]) == (2, 3)
    assert metadata["duplicatesSkipped"] == 1, "C leads back to A"


@pytest.mark.requirement("R4.5.8")
async def test_a_circle_is_noted_in_the_log(
    roots: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "abilities")

    async with Abilities.open(roots) as abilities:
        await link_in_a_circle(abilities, "ABC")
        await abilities.call("bulk_read_memory", {"key": "A"})

    assert "a walk met cycles: 1" in caplog.messages


@pytest.mark.requirement("R4.3.1", "R4.3.3", "R4.3.4", "R4.3.5")
async def test_reading_memories_changes_none(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        await link_in_a_circle(abilities, "ABC")

        async def read_state() -> list[dict[str, Any]]:
            state: list[dict[str, Any]] = []
            for key in "ABC":
                state.append((await abilities.call("memory_get", {"key": key}))["data"])
            return state

        before = await read_state()
        for limits in ({}, {"depth": 1}, {"total": 1}):
            await abilities.call("bulk_read_memory", {"key": "A", **limits})

        assert await read_state() == before
        assert (await abilities.call("get_memory_stats"))["total_memories"] == 3
