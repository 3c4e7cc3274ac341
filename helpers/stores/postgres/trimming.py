"""Forgetting the oldest entries of the history in PostgreSQL."""

from typing import NamedTuple

from abilities.helpers.stores.history import ENTRY_BYTES
from abilities.helpers.stores.postgres.statements import Connection, Select, Statement, to_text
from abilities.helpers.stores.timeline import HistoryLimits

TRIM_EVERY = 256
"""Versions of a namespace between two looks for entries to forget."""

MOST_TRIMMED = 1_024
"""Entries that one transaction forgets at most."""


class _Oldest(NamedTuple):
    """An entry among the oldest, and the size of the whole history that it belongs to."""

    version: int
    id: str
    made_at: str
    size: int
    history_bytes: int


_OLDEST = Select(
    f"""
    SELECT h.version, h.id, h.made_at, octet_length(h.before) + {ENTRY_BYTES}, v.history_bytes
    FROM history AS h JOIN versions AS v ON v.namespace = h.namespace
    WHERE h.namespace = %s ORDER BY h.version, h.id LIMIT {MOST_TRIMMED}
    """,
    _Oldest._make,
)
_FORGET = Statement("DELETE FROM history WHERE namespace = %s AND (version, id) <= (%s, %s)")
_NOTE_FORGOTTEN = Statement("""
    UPDATE versions SET forgotten = greatest(forgotten, %s), history_bytes = history_bytes - %s
    WHERE namespace = %s
""")
_NAMESPACES = Select("SELECT namespace FROM versions ORDER BY namespace", to_text)


async def list_namespaces(connection: Connection) -> list[str]:
    """Return the namespaces that may have a history."""
    return await _NAMESPACES.fetch(connection)


async def trim_portion(
    connection: Connection, namespace: str, limits: HistoryLimits, now: str
) -> int:
    """Forget up to `MOST_TRIMMED` of the oldest entries that the limits do not allow.

    The caller holds the lock of the namespace. Returns how many entries were forgotten; fewer than
    `MOST_TRIMMED` if no more are to be.
    """
    oldest = await _OLDEST.fetch(connection, namespace)
    trimmed = _select_trimmed(oldest, limits, now)
    if not trimmed:
        return 0

    *_, last = trimmed
    size = sum(entry.size for entry in trimmed)
    await _FORGET.execute(connection, namespace, last.version, last.id)
    await _NOTE_FORGOTTEN.execute(connection, last.version, size, namespace)
    return len(trimmed)


def _select_trimmed(oldest: list[_Oldest], limits: HistoryLimits, now: str) -> list[_Oldest]:
    """Return the first entries that are too old or over the size."""
    cutoff = limits.find_cutoff(now)
    trimmed: list[_Oldest] = []
    size = 0

    for entry in oldest:
        is_over = entry.history_bytes - size > limits.max_bytes
        is_old = limits.days == 0 or entry.made_at < cutoff
        if not is_over and not is_old:
            break

        trimmed.append(entry)
        size += entry.size

    return trimmed
