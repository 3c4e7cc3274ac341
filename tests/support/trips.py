"""Round trips to PostgreSQL, counted, and the plans of what they ask for."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from abilities.helpers.store.postgres.transaction import PostgresTransaction

_WAITING = (
    (PostgresTransaction, "fetch"),
    (PostgresTransaction, "fetch_each"),
)
"""What waits for rows, each time once."""


def count_trips(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Let each trip from now on add an element to a list."""
    trips: list[object] = []
    for owner, name in _WAITING:
        monkeypatch.setattr(owner, name, _count(getattr(owner, name), trips))
    return trips


def _count(wait: Callable[..., Any], trips: list[object]) -> Callable[..., Any]:
    async def count(asking: object, *arguments: Any) -> Any:
        trips.append(arguments)
        return await wait(asking, *arguments)

    return count


def note_read_rows(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let each SELECT from now on add to a list how many rows a part of its plan read at most."""
    read_rows: list[float] = []
    execute = psycopg.AsyncCursor[Any].execute

    async def explain(cursor: Any, text: Any, values: Any = None, **options: Any) -> Any:
        if b"begin_read" not in text:
            explaining = cursor.connection.cursor()
            await execute(explaining, b"EXPLAIN (ANALYZE, FORMAT JSON) " + text, values)
            (plan,) = (await explaining.fetchone())[0]
            read_rows.append(max(_find_rows(plan["Plan"])))
        return await execute(cursor, text, values, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", explain)
    return read_rows


def _find_rows(plan: dict[str, Any]) -> Iterator[float]:
    yield plan["Actual Rows"] * plan["Actual Loops"] + plan.get("Rows Removed by Filter", 0)
    for part in plan.get("Plans", ()):
        yield from _find_rows(part)
