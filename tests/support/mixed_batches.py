"""Batches of 25 items in which items that fail stand between items that succeed."""

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from abilities import Abilities
from abilities.declarations.refusals import Fault, Reason

FAILURES_PER_BATCH = 11
"""Different failures of one batch; the first of them is asked for twice."""


class Expected(NamedTuple):
    """An item, and what its record holds: the reason of a failure, or the content."""

    item: Any
    reason: Reason | None = None
    content: str = ""


def mix(successes: Sequence[Expected], failures: Sequence[Expected]) -> Iterator[list[Expected]]:
    """Yield batches of 25: thirteen successes and, between them, twelve failures.

    Successes and one failure are asked for more than once in each batch.
    """
    for start in range(0, len(failures), FAILURES_PER_BATCH):
        chunk = failures[start : start + FAILURES_PER_BATCH]
        failing = cycle(chunk)
        succeeding = cycle(successes)
        batch: list[Expected] = []
        for _ in range(12):
            batch += [next(succeeding), next(failing)]
        yield [*batch, next(succeeding)]


def check_answer(answer: dict[str, Any], batch: Sequence[Expected]) -> None:
    """Check order, count, duplicates, codes and the summary of a whole answer."""
    assert len(answer["results"]) == len(batch) == 25

    characters = 0
    for record, expected in zip(answer["results"], batch, strict=True):
        if isinstance(expected.item, str):
            assert record["input"] == expected.item[:200]

        if expected.reason is None:
            assert record["success"] is True, record
            assert record["data"]["content"] == expected.content
            assert "error" not in record and "truncation" not in record
            characters += len(expected.content)
        else:
            assert record["success"] is False and "data" not in record
            fault = Fault.from_reason(expected.reason)
            error = record["error"]
            assert (error["code"], error["reason"]) == (fault.code, fault.reason), expected

    assert answer["summary"] == {
        "requested": 25,
        "succeeded": 13,
        "failed": 12,
        "truncated": 0,
        "returned_chars": characters,
    }
    assert "next_request" not in answer


async def read_one_at_a_time(
    abilities: Abilities, name: str, argument: str, batch: Sequence[Expected]
) -> list[dict[str, Any]]:
    """Return the records of a batch's items, each requested in a call of its own."""
    records: list[dict[str, Any]] = []
    for expected in batch:
        answer = await abilities.call(name, {argument: [expected.item]})
        records += answer["results"]
    return records
