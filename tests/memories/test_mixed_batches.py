"""Mixed batches of memories: every kind of failure between successes, and nothing lost."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from abilities import Abilities, Settings
from tests.memories.calls import open_calls, store
from tests.support.mixed_batches import Expected, check_answer, mix, read_one_at_a_time
from tests.support.stores import tamper
from tests.support.surfaces import SURFACES


def day(date: Any, **more: Any) -> dict[str, Any]:
    return {"type": "short_term", "date": date, **more}


def stored(key: Any, **more: Any) -> dict[str, Any]:
    return {"type": "stored", "key": key, **more}


SUCCESSES = [
    Expected({"type": "long_term"}, content="# Memory\n- likes tea\n"),
    Expected(day("2026-01-02"), content="a day's notes\n"),
    Expected(day("2026-01-06"), content="hällo\n世"),
    Expected(day("2026-01-03"), content="broken \ufffd\n"),
    Expected(stored("tea"), content="Ada drinks tea."),
    Expected(stored("tea", resume="byte=4-10"), content="drinks"),
    Expected({"type": "long_term", "resume": "byte=2-8"}, content="Memory"),
]

FAILURES = [
    Expected(5, "invalid_target"),
    Expected("long_term", "invalid_target"),
    Expected({}, "invalid_target"),
    Expected({"type": "../x"}, "invalid_target"),
    Expected({"type": "long_term", "date": "today"}, "date_not_allowed"),
    Expected(stored("tea", date="today"), "unknown_argument"),
    Expected(day("2025-02-30"), "invalid_date"),
    Expected(day(20250101), "invalid_date"),
    Expected(day("2001-01-01"), "memory_file_not_found"),
    Expected(day("2026-01-04"), "binary_file"),
    Expected(day("2026-01-07"), "dangling_link"),
    Expected(stored("none"), "memory_not_found"),
    Expected(stored(""), "invalid_key"),
    Expected(stored(7), "invalid_key"),
    Expected(stored("damaged"), "checksum_mismatch"),
    Expected(stored("tea", resume="L1"), "invalid_range"),
    Expected(stored("umlaut", resume="byte=1"), "invalid_range"),
    Expected(stored("tea", resume="byte=4@000000000000"), "changed"),
    Expected(day("2026-01-05", resume="byte=2"), "invalid_range"),
    Expected({"type": "long_term", "resume": "byte=5@000000000000"}, "changed"),
]

BATCHES = list(mix(SUCCESSES, FAILURES))


@pytest.fixture
async def filled(settings: Settings) -> AsyncIterator[Settings]:
    """The sample files, with memories of which one is damaged."""
    async with open_calls(settings) as call:
        for key, content in {"tea": "Ada drinks tea.", "damaged": "x", "umlaut": "äöü"}.items():
            await store(call, key, content)

    tamper(settings, "UPDATE memories SET content = 'other' WHERE key = 'damaged'")
    yield settings


@pytest.mark.requirement("R5.6.2", "R5.7.2")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("batch", BATCHES, ids=range(len(BATCHES)))
async def test_each_target_of_a_mixed_batch_has_its_own_outcome(
    batch: list[Expected], surface: str, filled: Settings
) -> None:
    targets = [expected.item for expected in batch]

    answer = await SURFACES[surface](filled, "memory_read_bulk", {"targets": targets})

    check_answer(answer, batch)


async def test_a_target_gets_in_a_mixed_batch_what_it_gets_alone(filled: Settings) -> None:
    async with Abilities.open(filled) as abilities:
        for batch in BATCHES:
            targets = [expected.item for expected in batch]
            together = await abilities.call("memory_read_bulk", {"targets": targets})
            alone = await read_one_at_a_time(abilities, "memory_read_bulk", "targets", batch)

            assert together["results"] == alone


async def test_a_store_that_cannot_answer_fails_its_targets_alone(roots: Settings) -> None:
    (roots.agent_dir / "MEMORY.md").write_text("lasting")
    settings = roots.model_copy(update={"store_url": "sqlite:////proc/none/memory.db"})
    targets = [{"type": "long_term"}, stored("tea"), day("2001-01-01"), stored("")] * 5

    async with open_calls(settings) as call:
        answer = await call("memory_read_bulk", targets=targets)

    codes = [record.get("error", {}).get("code") for record in answer["results"]]
    assert codes == [None, "STORAGE_ERROR", "NOT_FOUND", "INVALID_INPUT"] * 5
