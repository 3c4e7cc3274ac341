"""The specification's own test plan, through the public interface."""

import random
from pathlib import Path

import pytest

from abilities import Abilities, AbilityError, Settings


@pytest.fixture
def sample_roots(roots: Settings) -> Settings:
    for n in range(30):
        (roots.workspace_dir / f"{n:02}.txt").write_text(f"file {n}")

    (roots.agent_dir / "MEMORY.md").write_text("lasting")
    return roots


@pytest.mark.requirement("R5.6.1", "R5.7.1")
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


@pytest.mark.requirement("R5.6.2", "R5.7.2")
async def test_a_mixed_batch_answers_each_item(sample_roots: Settings) -> None:
    async with Abilities.open(sample_roots) as abilities:
        payload = await abilities.call(
            "file_read_bulk", {"paths": ["00.txt", "none", "../x", "01.txt"]}
        )
        memories = await abilities.call(
            "memory_read_bulk",
            {
                "targets": [
                    {"type": "long_term"},
                    {"type": "short_term", "date": "2001-01-01"},
                    {"type": "?"},
                ]
            },
        )

    assert [r["success"] for r in payload["results"]] == [True, False, False, True]
    assert [r["error"]["code"] for r in payload["results"][1:3]] == ["NOT_FOUND", "INVALID_INPUT"]
    assert [r["success"] for r in memories["results"]] == [True, False, False]
    assert [r["error"]["code"] for r in memories["results"][1:]] == ["NOT_FOUND", "INVALID_INPUT"]


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


@pytest.mark.requirement("R5.6.3", "R5.7.4")
@pytest.mark.parametrize("seed", range(10))
async def test_order_is_the_callers_whatever_it_is(seed: int, sample_roots: Settings) -> None:
    paths = random.Random(seed).choices([*(f"{n:02}.txt" for n in range(30)), "none", "../x"], k=25)
    async with Abilities.open(sample_roots) as abilities:
        first, again = [await abilities.call("file_read_bulk", {"paths": paths}) for _ in range(2)]

    assert [record["input"] for record in first["results"]] == paths
    assert first == again


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
