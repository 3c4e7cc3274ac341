"""The check of the history of an SQLite store, and what of a damaged history can be kept."""

import sqlite3
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.entries import ENTRY_COLUMNS, EntryOwner, find_owner
from abilities.helpers.stores.history import ENTRY_BYTES, Entry, verify_entry
from abilities.helpers.stores.integrity import build_finding
from abilities.helpers.stores.protocol import IntegrityFinding

_ENTRIES = f"""
SELECT {ENTRY_COLUMNS} FROM history INDEXED BY history_id ORDER BY namespace, id, version
"""

# As bytes, because damaged names need not be UTF-8.
_VERSION = """
SELECT version FROM memories WHERE namespace = CAST(? AS TEXT) AND id = CAST(? AS TEXT)
"""
_REVIVED = """
SELECT namespace, id FROM purged AS p
WHERE EXISTS (SELECT 1 FROM memories WHERE namespace = p.namespace AND id = p.id)
    OR EXISTS (SELECT 1 FROM history WHERE namespace = p.namespace AND id = p.id)
"""
_MISCOUNTED = f"""
SELECT namespace, 'bytes' FROM (
    SELECT namespace, {ENTRY_BYTES} + length(CAST(before AS BLOB)) AS size FROM history
    UNION ALL SELECT namespace, -history_bytes FROM versions
) GROUP BY namespace HAVING sum(size) <> 0
"""


class Chain(NamedTuple):
    """The entries of a memory, by rising version: those that lead to its present, and the others.

    ``version`` is what they lead to, 0 if that is its deletion.
    """

    linked: list[Entry]
    broken: list[Entry]
    version: int


def follow_chain(entries: Iterable[Entry]) -> Chain:
    """Return which entries of a memory are sound and lead from one to the next, to the last one."""
    linked: list[Entry] = []
    broken: list[Entry] = []
    version: int | None = None

    for entry in entries:
        if not _is_sound(entry):
            broken += [*linked, entry]
            linked, version = [], None
            continue

        # What was before a repair is not known for sure.
        if entry.action != "mended" and version not in (None, entry.previous):
            broken += linked
            linked = []

        linked.append(entry)
        version = _find_version_after(entry)

    return Chain(linked, broken, version or 0)


def _is_sound(entry: Entry) -> bool:
    try:
        verify_entry(entry)
    except Refused:
        return False

    return True


def _find_version_after(entry: Entry) -> int:
    """Return the version of a memory after the change of an entry, 0 if that deleted it."""
    if entry.action == "deleted":
        return 0
    if entry.action == "relinked":
        return entry.previous

    return entry.version


def _read_version(connection: sqlite3.Connection, owner: EntryOwner) -> int | None:
    """Return the version of a memory that exists, else None."""
    names = [name.encode(errors="surrogateescape") for name in owner]
    found: tuple[int] | None = connection.execute(_VERSION, names).fetchone()
    if found is None:
        return None

    (version,) = found
    return version


def check_history(connection: sqlite3.Connection) -> IntegrityFinding:
    """Return the finding about the history of all namespaces."""
    wrong: list[str] = []

    for owner, group in groupby(map(Entry._make, connection.execute(_ENTRIES)), key=find_owner):
        chain = follow_chain(group)
        for entry in chain.broken:
            wrong.append(f"{owner.namespace}/{owner.id} {entry.version}")

        version = _read_version(connection, owner)
        if version is not None and chain.linked and version != chain.version:
            wrong.append(f"{owner.namespace}/{owner.id}")

    for statement in (_REVIVED, _MISCOUNTED):
        for namespace, name in connection.execute(statement):
            wrong.append(f"{namespace}/{name}")

    return build_finding(
        "history",
        wrong,
        "The history is as it was written.",
        "Entries of the history that are not as they were written",
    )
