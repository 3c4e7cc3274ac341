"""Archiving the memories of a namespace that expired, before anything else looks at them."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar, cast

from abilities.declarations.faults import Refused
from abilities.helpers.stores.postgres.statements import Connection, Select, is_due, to_number

ResultT = TypeVar("ResultT")

MOST_EXPIRED = 256
"""Memories that one transaction archives at most."""

_COUNT_DUE = Select(
    f"""
    SELECT count(*) FROM (
        SELECT FROM memories AS m WHERE m.namespace = %s AND {is_due("m", "%s")} LIMIT 1
    ) AS due
    """,
    to_number,
)


class DueMemory(NamedTuple):
    """A memory that has expired. Of several, those with earlier times come first, then by id."""

    expires_at: str
    id: str


FIRST_DUE = DueMemory("", "")

_DUE = Select(
    f"""
    SELECT m.expires_at, m.id FROM memories AS m WHERE m.namespace = %s AND {is_due("m", "%s")}
    AND (m.expires_at, m.id) > (%s, %s) ORDER BY m.expires_at, m.id LIMIT {MOST_EXPIRED}
    """,
    DueMemory._make,
)


class MemoriesAreDueError(Exception):
    """Memories of the namespace are to be archived first; then the call can be tried again."""


async def read_unless_due(
    connection: Connection,
    namespace: str,
    now: str,
    work: Callable[[Connection], Awaitable[ResultT]],
) -> ResultT:
    """Do work that reads a namespace. Raises MemoriesAreDueError if memories expired by ``now``.

    The probe travels with the work, so that it costs no round trip.
    """
    probe = await _COUNT_DUE.send(connection, namespace, now)
    refused: Refused | None = None
    result: ResultT | None = None
    try:
        result = await work(connection)
    except Refused as error:
        refused = error

    if await probe.fetchone():
        raise MemoriesAreDueError
    if refused is not None:
        raise refused

    return cast(ResultT, result)


async def list_due(
    connection: Connection, namespace: str, now: str, after: DueMemory
) -> list[DueMemory]:
    """Return up to `MOST_EXPIRED` memories that expired by ``now``, after one of them."""
    return await _DUE.fetch(connection, namespace, now, *after)
