"""The repair of every store while it is in use: what a check finds is written as it should be.

Each namespace is mended in one transaction. What is already mended stays if that is interrupted.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from abilities.declarations.values import JsonObject, has_surrogate, utc_now
from abilities.helpers.store.examining import (
    EngineIndex,
    ExaminedMemory,
    examine_memories,
)
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.history_check import mend_history
from abilities.helpers.store.mending import (
    mend_namespace,
    mend_row,
    mend_time,
    restore_row,
)
from abilities.helpers.store.model import IMPORTANCES, AccessCounters, Row, hash_row
from abilities.helpers.store.originals import OriginalsFile, RepairReport
from abilities.helpers.store.past import (
    Occasion,
    build_entry,
    find_last_version,
    save_entry,
    take_version,
)
from abilities.helpers.store.recall_check import (
    find_wrong_namespaces,
    mend_language,
    rebuild_index,
)
from abilities.helpers.store.repairing_links import count_again, mend_links
from abilities.helpers.store.saving import (
    Shelved,
    add_tags,
    is_free,
    name_mended,
    write_index_row,
)
from abilities.helpers.store.transaction import Transaction

ResultT = TypeVar("ResultT")

_TABLES = (
    "memories",
    "links",
    "stale_ranks",
    "shelf",
    "tags",
    "counters",
    "link_counts",
    "versions",
    "history",
    "purged",
    "recall_terms",
    "recall_recent",
)
_COLUMNS = (*Row._fields, "hash")
_UPDATE = f"""
UPDATE memories SET {", ".join(f"{name} = ?" for name in _COLUMNS)} WHERE namespace = ? AND key = ?
"""
_ROW = f"SELECT {', '.join(Row._fields)} FROM memories WHERE namespace = ? AND key = ?"
_HIGHEST = """
SELECT coalesce(max(version), 0) FROM history WHERE namespace = ? AND version < 4611686018427387904
"""
# Where it is not known what was forgotten, all may be.
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
SELECT {", ".join(f"s.{name}" for name in _KNOWN)}, s.importance,
    s.accessed_at, s.access_count, s.doc
FROM memories AS m CROSS JOIN shelf AS s
WHERE m.namespace = ? AND m.key = ? AND {{index.is_known}} ORDER BY s.id <> m.id
"""
_DELETE_TAGS = "DELETE FROM tags WHERE namespace = ? AND id = ?"
_FREE_DOC = "SELECT coalesce(max(doc) + 1, 0) FROM shelf WHERE namespace = ?"
_CLEAN = """
DELETE FROM {table} WHERE namespace = ? AND NOT EXISTS (
    SELECT 1 FROM memories AS m WHERE m.namespace = {table}.namespace AND m.id = {table}.id
)
"""


class RepairedStore(Protocol):
    """What a repair asks of an engine."""

    index: EngineIndex
    tables: Sequence[str]
    """Tables of the engine's own that have namespaces."""

    async def write(
        self, namespace: str, work: Callable[[Transaction], Awaitable[ResultT]]
    ) -> ResultT:
        """Do work in a transaction, the only one that changes a namespace; undo it in a dry run."""
        ...

    async def mend_words(
        self, transaction: Transaction, namespace: str, rows: Sequence[Row]
    ) -> None:
        """Make the search index of a namespace anew, as far as it is wrong.

        ``rows`` are memories that were mended, or that the search index does not have.
        """
        ...


class _Known(NamedTuple):
    """What the memory index has of a memory that damage may have changed."""

    columns: JsonObject
    accessed_at: str
    access_count: int
    doc: int

    @classmethod
    def parse(cls, values: Sequence[Any]) -> "_Known":
        """Make one of the columns of ``_FIND_KNOWN``."""
        *columns, importance, accessed_at, access_count, doc = values
        known: JsonObject = dict(zip(_KNOWN, columns, strict=True))
        if importance in range(len(IMPORTANCES)):
            known["importance"] = IMPORTANCES[importance]

        return cls(known, accessed_at, access_count, doc)


async def repair_rows(
    store: RepairedStore,
    originals: OriginalsFile,
    report: RepairReport,
    progress: Callable[[int], None],
    limits: HistoryLimits,
) -> None:
    """Mend every namespace, and count in the report what was mended. Raises Refused, OSError.

    ``progress`` is called with the number of memories and links that were examined.
    """

    async def find_namespaces(transaction: Transaction) -> list[str]:
        tables = (*_TABLES, *store.tables)
        statement = " UNION ".join(f"SELECT namespace FROM {table}" for table in tables)
        return [namespace for (namespace,) in await transaction.fetch(statement)]

    await store.write("", mend_language)

    # First those with impossible names, because their memories move to others.
    namespaces = await store.write("", find_namespaces)
    namespaces.sort(key=lambda name: (mend_namespace(name) == name, name))
    for place, namespace in enumerate(namespaces):

        async def mend(transaction: Transaction, namespace: str = namespace) -> set[str]:
            repair = _Repair(store, transaction, namespace, originals, report, progress, limits)
            moved = await repair.run()

            # What stood in the damaged rows is on disk before the change is committed.
            report.originals = originals.save()
            return moved

        moved = await store.write(namespace, mend)
        namespaces += sorted(moved.difference(namespaces[place + 1 :]))


class _Repair:
    """The repair of one namespace, in a transaction that alone changes it."""

    def __init__(
        self,
        store: RepairedStore,
        transaction: Transaction,
        namespace: str,
        originals: OriginalsFile,
        report: RepairReport,
        progress: Callable[[int], None],
        limits: HistoryLimits,
    ) -> None:
        self._store = store
        self._transaction = transaction
        self._namespace = namespace
        self._originals = originals
        self._report = report
        self._progress = progress
        self._limits = limits
        self._now = utc_now()
        self._moved: set[str] = set()  # other namespaces that memories or links were moved to

    async def run(self) -> set[str]:
        """Mend all that a check would find; return the other namespaces that got something."""
        transaction, namespace = self._transaction, self._namespace
        mended: list[Row] = []
        for memory in await self._select_wrong():
            if not memory.is_sound:
                mended.append(await self._mend_memory(memory))
            else:
                mended.append(memory.row)
                if not memory.is_indexed or not memory.has_tags:
                    await self._index(memory.row, await self._find_known(memory.row.key))

        for (key,) in await transaction.fetch(_REPEATED, namespace):
            await self._renew_version(key)

        # Until now the index may have told what a damaged memory was.
        for table in ("shelf", "tags"):
            await transaction.run(_CLEAN.format(table=table), namespace)
        self._moved |= await mend_links(
            transaction, namespace, self._originals, self._report, self._progress
        )
        await mend_history(transaction, namespace, self._originals)
        await count_again(transaction, namespace)
        await self._store.mend_words(transaction, namespace, mended)

        # What terms a damaged memory had is not known.
        if await find_wrong_namespaces(transaction, namespace):
            await rebuild_index(transaction, namespace)
        if has_surrogate(namespace):
            for table in ("versions", "purged"):
                await transaction.run(f"DELETE FROM {table} WHERE namespace = ?", namespace)

        return self._moved

    async def _select_wrong(self) -> list[ExaminedMemory]:
        """Return the memories with anything wrong; let no version of a sound one be given again."""
        wrong: list[ExaminedMemory] = []
        transaction, namespace = self._transaction, self._namespace
        ((highest,),) = await transaction.fetch(_HIGHEST, namespace)
        async for memory in examine_memories(transaction, self._store.index, namespace):
            self._progress(1)
            if memory.is_sound:
                highest = max(highest, memory.row.version)
            if not (memory.is_indexed and memory.has_tags and memory.is_findable):
                wrong.append(memory)

        if highest:
            await transaction.run(_RAISE_VERSION, namespace, highest, highest)
        return wrong

    async def _mend_memory(self, memory: ExaminedMemory) -> Row:
        """Write what is left of a damaged memory anew, after its row was put aside."""
        row = memory.row
        self._originals.add("memories", {**row._asdict(), "hash": memory.hash})
        known = await self._find_known(row.key)
        for columns in await self._list_known_values(row, known):
            restored = restore_row(row, memory.hash, columns)
            if restored is not None and await is_free(self._transaction, restored, row):
                self._report.restored_memories += 1
                await self._update(row, restored)
                break
        else:
            restored = await self._write_mended(row)

        await self._index(restored, known)
        return restored

    async def _list_known_values(self, row: Row, known: Sequence[_Known]) -> list[JsonObject]:
        """Return what the columns of a damaged memory may have been, the likeliest first."""
        values = [each.columns for each in known]
        own: JsonObject = values[0] if values else {}
        namespace = own.get("namespace", row.namespace)
        for (key,) in await self._transaction.fetch(_MISSING_KEYS, namespace):
            values.append({**own, "key": key})

        return values

    async def _write_mended(self, row: Row) -> Row:
        """Write a damaged memory with defaults in place of what cannot be; return it."""
        self._report.mended_memories += 1
        mended = await name_mended(self._transaction, row, mend_row(row, self._now))
        return await self._save(row, mended)

    async def _renew_version(self, key: str) -> None:
        ((*columns,),) = await self._transaction.fetch(_ROW, self._namespace, key)
        row = Row._make(columns)
        await self._save(row, row)

    async def _save(self, before: Row, row: Row) -> Row:
        """Write a memory with a new version, of which the history tells; return it."""
        transaction, namespace = self._transaction, row.namespace
        version = await take_version(transaction, namespace)
        last = await find_last_version(transaction, namespace, row.id)

        # What was damaged cannot come back, so the entry tells nothing of it.
        former, saved = (
            row._replace(version=last or max(row.version, 0)),
            row._replace(version=version),
        )
        entry = build_entry(Occasion("mended", self._now, "repair"), former, saved, version)
        await self._update(before, saved)
        await save_entry(transaction, entry, self._limits)
        return saved

    async def _update(self, before: Row, row: Row) -> None:
        names = (before.namespace, before.key)
        await self._transaction.run(_UPDATE, *row, hash_row(row), *names)
        if row.namespace != self._namespace:
            self._moved.add(row.namespace)

    async def _find_known(self, key: str) -> list[_Known]:
        """Return what the memory index may have of a memory, the likeliest first."""
        statement = _FIND_KNOWN.format(index=self._store.index)
        found = await self._transaction.fetch(statement, self._namespace, key)
        return list(map(_Known.parse, found))

    async def _index(self, row: Row, known: Sequence[_Known]) -> None:
        """Write a memory's rows in the memory index and the tag index; keep its access counters."""
        counters = AccessCounters(row.created_at, 0)
        transaction, namespace = self._transaction, row.namespace
        if known:
            accessed_at = mend_time(known[0].accessed_at, row.created_at)
            counters = AccessCounters(accessed_at, max(known[0].access_count, 0))
            doc = known[0].doc
        else:
            ((doc,),) = await transaction.fetch(_FREE_DOC, namespace)

        await write_index_row(transaction, row, Shelved(counters, doc))
        await transaction.run(_DELETE_TAGS, namespace, row.id)
        await add_tags(transaction, row, counters.accessed_at)
