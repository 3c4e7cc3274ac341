"""The repair of every store, while it is in use: all findings of a check are mended.

Each namespace is one transaction, so after an interruption the finished namespaces stay mended.
"""

import base64
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import orjson

from abilities.declarations.values import JsonObject, has_surrogate, utc_now
from abilities.helpers.durable import sync_folder
from abilities.helpers.store import checking, mending, saving
from abilities.helpers.store.checking import ExaminedMemory
from abilities.helpers.store.engine import Transaction
from abilities.helpers.store.history import ENTRY_BYTES, Entry, HistoryLimits
from abilities.helpers.store.linking import SCORES, UNMARK
from abilities.helpers.store.mending import mend_namespace
from abilities.helpers.store.model import IMPORTANCES, LinkRecord, Row
from abilities.helpers.store.past import ENTRY_COLUMNS, ROW_BY_KEY
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.recall_index import (
    find_wrong_namespaces,
    mend_language,
    rebuild_index,
)

_TABLES = (
    "memories",
    "links",
    "stale_ranks",
    "shelf",
    "tags",
    "about",
    "counters",
    "link_counts",
    "versions",
    "history",
    "purged",
    "recall_terms",
    "recall_recent",
)
_HIGHEST = """
SELECT coalesce(max(version), 0) FROM history WHERE namespace = ? AND version < 4611686018427387904
"""
# A new row cannot say which entries were deleted, so it treats all of them as deleted.
_RAISE_VERSION = """
INSERT INTO versions AS v (namespace, number, forgotten) VALUES (?, ?, ?)
ON CONFLICT (namespace) DO UPDATE SET number = greatest(v.number, excluded.number)
"""
_REPEATED = """
SELECT key FROM (
    SELECT key, version, row_number() OVER (PARTITION BY version ORDER BY key) AS place
    FROM memories WHERE namespace = ?
) AS numbered WHERE place > 1 OR version < 1
"""
_MISSING_KEYS = """
SELECT key FROM link_counts AS c WHERE namespace = ? AND NOT EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = c.namespace AND m.key = c.key
) LIMIT 1000
"""
_KNOWN = ("namespace", "id", "key", "type", "category", "archived", "created_at", "updated_at")
_FIND_KNOWN = f"""
SELECT {", ".join(f"s.{name}" for name in _KNOWN)}, s.importance
FROM memories AS m CROSS JOIN shelf AS s
WHERE m.namespace = ? AND m.key = ? AND {{is_known}} ORDER BY s.id <> m.id
"""
_HAS_NAMES = "s.namespace = m.namespace AND (s.id = m.id OR s.key = m.key)"
_CLEAN = """
DELETE FROM {table} WHERE namespace = ? AND NOT EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = {table}.namespace AND m.id = {table}.id
)
"""

_DELETE_LINK = "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND type = ?"
_ADD_LINK = f"""
INSERT INTO links (namespace, {", ".join(LinkRecord._fields)})
VALUES ({", ".join("?" * (len(LinkRecord._fields) + 1))}) ON CONFLICT DO NOTHING
"""

_UNRECORDED_ENTRIES = f"""
SELECT {ENTRY_COLUMNS} FROM history INDEXED BY history_id
WHERE namespace = ? AND id IN (
    SELECT id FROM ({checking.UNRECORDED} AND m.namespace = ?) AS unrecorded
)
"""
_DELETE_ENTRY = "DELETE FROM history WHERE namespace = ? AND version = ? AND id = ?"
_NOTE_FORGOTTEN = """
UPDATE versions SET forgotten = least(number, greatest(forgotten, ?)) WHERE namespace = ?
"""
_DELETE_REVIVED = """
DELETE FROM purged AS p WHERE p.namespace = ? AND EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = p.namespace AND m.id = p.id
)
"""
_DELETE_PURGED = """
DELETE FROM history AS h WHERE h.namespace = ? AND EXISTS (
    SELECT 1 FROM purged AS p WHERE p.namespace = h.namespace AND p.id = h.id
)
"""

_COUNT_BYTES = f"""
UPDATE versions SET history_bytes = (
    SELECT coalesce(sum({ENTRY_BYTES} + octet_length(before)), 0) FROM history
    WHERE history.namespace = versions.namespace
) WHERE namespace = ?
"""
_COUNT_AGAIN = (
    "DELETE FROM counters WHERE namespace = ?",
    f"""
    INSERT INTO counters (namespace, name, archived, value, number)
    {checking.COUNT_MEMORIES.format(where="WHERE namespace = ?")}
    """,
    "DELETE FROM link_counts WHERE namespace = ?",
    f"""
    INSERT INTO link_counts (namespace, key, outgoing, incoming)
    {checking.COUNT_LINKS.format(where="WHERE namespace = ?")}
    """,
    _COUNT_BYTES,
)
"""Statements that recompute all counters of a namespace."""


@dataclass
class RepairReport:
    """The result of a repair, or the expected result of a dry run.

    ``damage`` lists the findings; if it is empty, nothing was repaired. ``originals`` is the file
    with the original damaged rows, and ``previous`` the file with the store before the repair; None
    if there is no such file.
    """

    damage: list[IntegrityFinding]
    restored_memories: int = 0
    """Memories restored exactly, because the store had their damaged values elsewhere too."""
    mended_memories: int = 0
    """Memories in which defaults replaced damaged values."""
    mended_links: int = 0
    lost_memories: int = 0
    """Memories of which nothing was readable."""
    lost_links: int = 0
    originals: Path | None = None
    previous: Path | None = None


class OriginalsFile:
    """A file of original damaged rows, one JSON object per line, created with the first row.

    A value that JSON cannot represent becomes an object: ``{"base64": "…"}`` with its bytes, or for
    example ``{"float": "nan"}``. Without a path, nothing is written. The file replaces no other.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def add(self, table: str, columns: Mapping[str, object]) -> None:
        """Write a row. Raises FileExistsError, OSError."""
        if self.path is None:
            return

        if self._file is None:
            self._file = open(  # noqa: SIM115 - see close
                self.path, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)
            )

        values = {name: _to_json(value) for name, value in columns.items()}
        self._file.write(orjson.dumps({"table": table, **values}) + b"\n")

    def save(self) -> Path | None:
        """Sync the file to disk; return its path, or None if nothing was written."""
        if self._file is None or self.path is None:
            return None

        self._file.flush()
        os.fsync(self._file.fileno())
        sync_folder(self.path.parent)
        return self.path

    def close(self) -> None:
        """Close the file. Rows that were not saved may be lost."""
        if self._file is not None:
            self._file.close()


def name_originals(beside: Path) -> Path:
    """Return a name for a file of originals that is unique to this run."""
    run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    return beside.with_name(f"{beside.name}-damaged-{run}.jsonl")


def _to_json(value: object) -> object:
    """Return a value of a row in a form that JSON can represent without loss."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode(errors="surrogateescape")

    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}

    return value


Begin = Callable[[str], AbstractAsyncContextManager[Transaction]]
"""Begins a transaction that alone changes a namespace; in a dry run, it is rolled back."""


async def repair_rows(
    begin: Begin,
    originals: OriginalsFile,
    report: RepairReport,
    progress: Callable[[int], None],
    limits: HistoryLimits,
) -> None:
    """Mend every namespace, and add the numbers of mended items to the report.

    ``progress`` is called with the number of memories and links examined since the last call.
    Raises Refused, OSError.
    """
    async with begin("") as transaction:
        await mend_language(transaction)
        tables = (*_TABLES, *transaction.search_tables)
        statement = " UNION ".join(f"SELECT namespace FROM {table}" for table in tables)
        namespaces = [namespace for (namespace,) in await transaction.fetch(statement)]

    # Invalid names come first, because their memories move to other namespaces.
    namespaces.sort(key=lambda name: (mend_namespace(name) == name, name))
    for place, namespace in enumerate(namespaces):
        async with begin(namespace) as transaction:
            repair = _Repair(transaction, namespace, originals, report, progress, limits)
            await repair.run()

            # The originals must be on disk before the transaction is committed.
            report.originals = originals.save()

        namespaces += sorted(repair.moved.difference(namespaces[place + 1 :]))


@dataclass
class _Repair:
    """The repair of one namespace, in a transaction that alone changes it."""

    transaction: Transaction
    namespace: str
    originals: OriginalsFile
    report: RepairReport
    progress: Callable[[int], None]
    limits: HistoryLimits
    now: str = field(default_factory=utc_now)
    moved: set[str] = field(default_factory=set[str])
    """Other namespaces to which memories or links were moved."""

    async def run(self) -> None:
        """Mend all findings that a check of the namespace would have."""
        transaction, namespace = self.transaction, self.namespace
        for memory in await self._select_wrong():
            await self._mend_memory(memory)
        for (key,) in await transaction.fetch(_REPEATED, namespace):
            ((*columns, _),) = await transaction.fetch(ROW_BY_KEY, namespace, key)
            await self._save(Row._make(columns))

        # Not before, because stray rows may have the values of damaged memories.
        for table in ("shelf", "tags", "about", *transaction.search_tables):
            await transaction.run(_CLEAN.format(table=table), namespace)
        await self._mend_links()
        await self._mend_history()
        for statement in _COUNT_AGAIN:
            await transaction.run(statement, *[namespace] * statement.count("?"))

        # The former terms of damaged memories are not known, so the index is rebuilt as a whole.
        if await find_wrong_namespaces(transaction, namespace):
            await rebuild_index(transaction, namespace)
        if has_surrogate(namespace):
            for table in ("versions", "purged"):
                await transaction.run(f"DELETE FROM {table} WHERE namespace = ?", namespace)

    async def _select_wrong(self) -> list[ExaminedMemory]:
        """Return the memories with findings; make sure that no version is given again."""
        wrong: list[ExaminedMemory] = []
        ((highest,),) = await self.transaction.fetch(_HIGHEST, self.namespace)
        async for memory in checking.examine_memories(self.transaction, self.namespace):
            self.progress(1)
            if memory.is_sound:
                highest = max(highest, memory.row.version)
            if memory.wrong:
                wrong.append(memory)

        if highest:
            await self.transaction.run(_RAISE_VERSION, self.namespace, highest, highest)
        return wrong

    async def _mend_memory(self, memory: ExaminedMemory) -> None:
        """Mend a memory with findings, and write all data derived from it anew."""
        row = memory.row
        if not memory.is_sound:
            self.originals.add("memories", {**row._asdict(), "hash": memory.hash})
            restored = await self._restore(memory)
            if restored is None:
                self.report.mended_memories += 1
                row = await self._save(row)
            else:
                self.report.restored_memories += 1
                await saving.update_row(self.transaction, row, restored)
                row = restored
            if row.namespace != self.namespace:
                self.moved.add(row.namespace)

        await saving.write_derived(self.transaction, row)

    async def _restore(self, memory: ExaminedMemory) -> Row | None:
        """Return a damaged memory exactly as it was written, None if that cannot be told."""
        row = memory.row
        is_known = checking.match_own_columns(self.transaction) or _HAS_NAMES
        text = _FIND_KNOWN.format(is_known=is_known)

        candidates: list[JsonObject] = []
        for *values, importance in await self.transaction.fetch(text, self.namespace, row.key):
            candidate: JsonObject = dict(zip(_KNOWN, values, strict=True))
            if importance in range(len(IMPORTANCES)):
                candidate["importance"] = IMPORTANCES[importance]
            candidates.append(candidate)

        # The key may be damaged in the memory index too, but not in the numbers of links.
        likeliest: JsonObject = candidates[0] if candidates else {}
        namespace = likeliest.get("namespace", row.namespace)
        for (key,) in await self.transaction.fetch(_MISSING_KEYS, namespace):
            candidates.append({**likeliest, "key": key})

        for candidate in candidates:
            restored = mending.restore_row(row, memory.hash, candidate)
            if restored is not None and await saving.is_free(self.transaction, restored, row):
                return restored

        return None

    async def _save(self, row: Row) -> Row:
        return await saving.save_mended(self.transaction, row, self.now, "repair", self.limits)

    async def _mend_links(self) -> None:
        """Mend damaged links and wrong ranks; delete damaged marks of stale ranks."""
        transaction, namespace = self.transaction, self.namespace
        for _, mark in await checking.list_damaged_marks(transaction, namespace):
            await transaction.run(UNMARK, namespace, mark.side, mark.key)

        mended_namespace = mend_namespace(namespace)
        is_moved = mended_namespace != namespace
        wrong: list[LinkRecord] = []
        async for link in checking.examine_links(transaction, namespace):
            self.progress(1)
            if not link.is_ranked or is_moved:
                wrong.append(link.record)

        for record in wrong:
            mended = record.row
            if not record.is_sound or is_moved:
                self.originals.add("links", {"namespace": namespace, **record._asdict()})
                self.report.mended_links += 1
                mended = mending.mend_link(mended)

            await transaction.run(_DELETE_LINK, namespace, *record[:3])
            scores: dict[str, float] = {}
            ends = [mended.target, mended.source]
            for key, score in await transaction.fetch(SCORES, mended_namespace, ends):
                scores[key] = score
            ranked = LinkRecord.build(mended, scores.get(ends[0]), scores.get(ends[1]))
            await transaction.run(_ADD_LINK, mended_namespace, *ranked)

        if wrong and is_moved:
            self.moved.add(mended_namespace)

    async def _mend_history(self) -> None:
        """Delete the entries that do not lead to the present state, and keep their originals."""
        transaction, namespace = self.transaction, self.namespace
        await self._delete(
            [each async for each in checking.find_broken_entries(transaction, namespace)]
        )
        unrecorded = await transaction.fetch(_UNRECORDED_ENTRIES, namespace, namespace)
        await self._delete(map(Entry._make, unrecorded))

        # An existing memory outweighs the record that it was purged.
        for statement in (_DELETE_REVIVED, _DELETE_PURGED):
            await transaction.run(statement, namespace)

    async def _delete(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.originals.add("history", entry._asdict())
            await self.transaction.run(_DELETE_ENTRY, self.namespace, entry.version, entry.id)
            await self.transaction.run(_NOTE_FORGOTTEN, entry.version, self.namespace)
