"""Check and repair of the history in PostgreSQL."""

from typing import NamedTuple

from abilities.helpers.stores.entries import ENTRY_COLUMNS
from abilities.helpers.stores.history import ENTRY_BYTES, DamagedEntry, Entry, parse_entry
from abilities.helpers.stores.integrity import build_finding
from abilities.helpers.stores.originals import OriginalsFile
from abilities.helpers.stores.postgres.statements import Connection, Select, Statement, stream
from abilities.helpers.stores.protocol import IntegrityFinding

_ENTRIES = f"SELECT {ENTRY_COLUMNS} FROM history AS h"
_UNTOLD = """
SELECT m.namespace, m.id FROM memories AS m CROSS JOIN LATERAL (
    SELECT h.version FROM history AS h
    WHERE h.namespace = m.namespace AND h.id = m.id AND h.action <> 'relinked'
    ORDER BY h.version DESC LIMIT 1
) AS last WHERE last.version <> m.version
"""
_REVIVED = """
SELECT p.namespace, p.id FROM purged AS p
WHERE EXISTS (SELECT FROM memories AS m WHERE m.namespace = p.namespace AND m.id = p.id)
    OR EXISTS (SELECT FROM history AS h WHERE h.namespace = p.namespace AND h.id = p.id)
"""
_MISCOUNTED = f"""
SELECT namespace, sum(size) FROM (
    SELECT namespace, octet_length(before) + {ENTRY_BYTES} AS size FROM history
    UNION ALL SELECT namespace, -history_bytes FROM versions
) AS sizes GROUP BY namespace HAVING sum(size) <> 0
"""


class _Name(NamedTuple):
    namespace: str
    id: str


_IN_NAMESPACE = "WHERE h.namespace = %s"
_UNTOLD_HERE = Select(f"{_UNTOLD} AND m.namespace = %s", _Name._make)
_TAKE_ENTRIES = Select(
    f"""
    DELETE FROM history AS h WHERE h.namespace = %s AND h.id = %s AND h.version <= %s
    RETURNING {ENTRY_COLUMNS}
    """,
    Entry._make,
)
_NOTE_FORGOTTEN = Statement("""
    UPDATE versions SET forgotten = least(number, greatest(forgotten, %s)) WHERE namespace = %s
""")
_CLEAN_HISTORY = Statement("""
    DELETE FROM history AS h USING purged AS p
    WHERE p.namespace = %s AND h.namespace = p.namespace AND h.id = p.id
""")
_CLEAN_PURGED = Statement("""
    DELETE FROM purged AS p USING memories AS m
    WHERE p.namespace = %s AND m.namespace = p.namespace AND m.id = p.id
""")
_COUNT_AGAIN = Statement(f"""
    UPDATE versions SET history_bytes = (
        SELECT coalesce(sum(octet_length(before) + {ENTRY_BYTES}), 0) FROM history
        WHERE history.namespace = versions.namespace
    ) WHERE namespace = %s
""")

_LAST_VERSION = 2**63 - 1


async def check_history(connection: Connection) -> IntegrityFinding:
    """Return the finding about the history of all namespaces."""
    wrong: list[str] = []

    async for columns in stream(connection, _ENTRIES):
        entry = parse_entry(columns)
        if isinstance(entry, DamagedEntry):
            wrong.append(f"{entry.namespace}/{entry.id} {entry.version}")

    for statement in (_UNTOLD, _REVIVED, _MISCOUNTED):
        async for namespace, subject in stream(connection, statement):
            wrong.append(f"{namespace}/{subject}")

    return build_finding(
        "history",
        wrong,
        "The history is as it was written.",
        "Entries of the history that are not as they were written",
    )


async def mend_history(connection: Connection, namespace: str, originals: OriginalsFile) -> None:
    """Remove damaged entries with all older ones of their memories, which nothing leads to.

    A memory that changed without its history loses that. What was removed is put aside.
    """
    last_wrong: dict[str, int] = {}
    async for columns in stream(connection, f"{_ENTRIES} {_IN_NAMESPACE}", namespace):
        entry = parse_entry(columns)
        if isinstance(entry, DamagedEntry):
            last_wrong[entry.id] = max(entry.version, last_wrong.get(entry.id, 0))

    for name in await _UNTOLD_HERE.fetch(connection, namespace):
        last_wrong[name.id] = _LAST_VERSION

    for memory_id, version in last_wrong.items():
        removed = await _TAKE_ENTRIES.fetch(connection, namespace, memory_id, version)
        for entry in removed:
            originals.add("history", entry._asdict())

        last_removed = max((entry.version for entry in removed), default=0)
        await _NOTE_FORGOTTEN.execute(connection, last_removed, namespace)

    # A memory that is there counts for more than the note that it was purged.
    await _CLEAN_PURGED.execute(connection, namespace)
    await _CLEAN_HISTORY.execute(connection, namespace)
    await _COUNT_AGAIN.execute(connection, namespace)
