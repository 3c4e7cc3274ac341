"""Repair of a store in PostgreSQL while it is in use: one transaction per namespace."""

from collections.abc import Callable
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.stores.entries import Occasion, StoreRules, build_entry
from abilities.helpers.stores.integrity import (
    INDEX_COLUMNS,
    IndexRow,
    build_index_row,
    have_same_tags,
)
from abilities.helpers.stores.mending import mend_row, propose_names, restore_row
from abilities.helpers.stores.model import IMPORTANCES, AccessCounters, Row, verify_saved
from abilities.helpers.stores.originals import OriginalsFile, RepairReport
from abilities.helpers.stores.past import find_last_version
from abilities.helpers.stores.postgres.history_check import mend_history
from abilities.helpers.stores.postgres.reads import COLUMNS, RowRecord
from abilities.helpers.stores.postgres.recall_check import (
    is_index_sound,
    mend_language,
    rebuild_index,
)
from abilities.helpers.stores.postgres.repair_links import mend_links
from abilities.helpers.stores.postgres.server import Server
from abilities.helpers.stores.postgres.shelf import Shelved, index_memory, unindex_memory
from abilities.helpers.stores.postgres.statements import (
    LOCK,
    Connection,
    Select,
    Statement,
    stream,
    to_number,
    to_text,
)
from abilities.helpers.stores.postgres.transaction import bind
from abilities.helpers.stores.postgres.versions import Existing, find_existing_by_key
from abilities.helpers.stores.postgres.writes import save_memory, save_words
from abilities.helpers.stores.search_text import fold_searchable

_TABLES = (
    "memories",
    "links",
    "stale_ranks",
    "shelf",
    "tags",
    "words",
    "recall_terms",
    "recall_recent",
    "counters",
    "link_counts",
    "versions",
    "history",
    "purged",
)
_NAMESPACES = Select(
    " UNION ".join(f"SELECT namespace FROM {table}" for table in _TABLES) + " ORDER BY 1", to_text
)
_MEMORIES = f"""
SELECT {COLUMNS}, m.hash, w.folded, s.key = m.key, (
    SELECT coalesce(json_agg(t.tag), '[]')::text FROM tags AS t
    WHERE t.namespace = m.namespace AND t.id = m.id AND t.archived = m.archived
), {", ".join(f"s.{name}" for name in INDEX_COLUMNS)}
FROM memories AS m
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
LEFT JOIN words AS w ON w.namespace = m.namespace AND w.id = m.id
WHERE m.namespace = %s
"""
_ROW = Select(
    f"SELECT {COLUMNS}, m.hash FROM memories AS m WHERE m.namespace = %s AND m.key = %s",
    RowRecord.parse,
)
_DELETE_ROW = Statement("DELETE FROM memories WHERE namespace = %s AND key = %s")
_IS_TAKEN = Select(
    "SELECT count(*) FROM memories WHERE namespace = %s AND (key = %s OR id = %s)", to_number
)
_RAISE_VERSION = Statement("""
    INSERT INTO versions SELECT namespace, greatest(max(version), 0) FROM memories
    WHERE namespace = %s GROUP BY namespace
    ON CONFLICT (namespace) DO UPDATE SET number = greatest(versions.number, EXCLUDED.number)
""")
_REPEATED_VERSIONS = Select(
    """
    SELECT key FROM (
        SELECT key, version, row_number() OVER (PARTITION BY version ORDER BY key) AS n
        FROM memories WHERE namespace = %s
    ) AS numbered WHERE n > 1 OR version < 1
    """,
    to_text,
)
_OF_NO_MEMORY = """
WHERE old.namespace = %s AND NOT EXISTS (
    SELECT FROM memories AS m WHERE m.namespace = old.namespace AND m.id = old.id
)
"""
_CLEAN_TAGS = Statement(f"DELETE FROM tags AS old {_OF_NO_MEMORY}")
_CLEAN_WORDS = Statement(f"DELETE FROM words AS old {_OF_NO_MEMORY}")
_CLEAN_INDEX = Statement(f"DELETE FROM shelf AS old {_OF_NO_MEMORY}")
_CLEAR_COUNTERS = Statement("DELETE FROM counters WHERE namespace = %s")
_COUNT_AGAIN = Statement("""
    WITH s AS (SELECT * FROM shelf WHERE namespace = %s)
    INSERT INTO counters (namespace, name, archived, value, number)
    SELECT namespace, 'all', archived, '', count(*) FROM s GROUP BY 1, 3
    UNION ALL SELECT namespace, 'size', archived, '', sum(size) FROM s GROUP BY 1, 3
    UNION ALL SELECT namespace, 'type', archived, type, count(*) FROM s GROUP BY 1, 3, 4
    UNION ALL SELECT namespace, 'importance', archived, importance::text, count(*) FROM s
    GROUP BY 1, 3, 4
    UNION ALL SELECT namespace, 'tag', archived, tag, count(*) FROM tags WHERE namespace = %s
    GROUP BY 1, 3, 4
""")


class _Known(NamedTuple):
    """What the memory index has of a memory that damage may have changed."""

    columns: JsonObject
    counters: AccessCounters

    @classmethod
    def parse(cls, values: Any) -> "_Known":
        """Make a record of the columns of ``_KNOWN``."""
        *columns, importance, accessed_at, access_count = values
        known: JsonObject = dict(zip(_KNOWN_COLUMNS, columns, strict=True))
        if importance in range(len(IMPORTANCES)):
            known["importance"] = IMPORTANCES[importance]

        return cls(known, AccessCounters(accessed_at, access_count))


_KNOWN_COLUMNS = ("id", "key", "type", "category", "archived", "created_at", "updated_at")
_KNOWN = Select(
    f"""
    SELECT {", ".join(_KNOWN_COLUMNS)}, importance, accessed_at, access_count FROM shelf
    WHERE namespace = %s AND (id = %s OR key = %s)
    """,
    _Known.parse,
)
_UNINDEX_KEY = Statement("DELETE FROM shelf WHERE namespace = %s AND key = %s")
_DELETE_WORDS = Statement("DELETE FROM words WHERE namespace = %s AND id = %s")


async def repair_store(
    server: Server,
    originals: OriginalsFile,
    report: RepairReport,
    progress: Callable[[int], None],
    rules: StoreRules,
    *,
    dry_run: bool,
) -> None:
    """Mend every namespace; what is already mended stays if this is interrupted. Raises Refused."""
    async with server.long_write("", dry_run=dry_run) as connection:
        await mend_language(connection)

    namespaces = await server.read("", _NAMESPACES.fetch)
    for namespace in namespaces:
        async with server.long_write(namespace, dry_run=dry_run) as connection:
            repair = _Repair(connection, namespace, originals, report, progress, rules)
            await repair.run()

            # What stood in the damaged rows is on disk before the change is committed.
            report.originals = originals.save()


class _Selected(NamedTuple):
    """The keys of memories to write anew, to index again, and to be found by their words again."""

    damaged: list[str]
    unindexed: list[str]
    unsearchable: list[str]


class _Repair:
    """The repair of one namespace, in a transaction that alone changes it."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        originals: OriginalsFile,
        report: RepairReport,
        progress: Callable[[int], None],
        rules: StoreRules,
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._namespace = namespace
        self._originals = originals
        self._report = report
        self._progress = progress
        self._now = utc_now()

    async def run(self) -> None:
        """Mend all that a check would find."""
        connection, namespace = self._connection, self._namespace
        await _RAISE_VERSION.execute(connection, namespace)
        await _CLEAN_TAGS.execute(connection, namespace)
        await _CLEAN_WORDS.execute(connection, namespace)

        selected = await self._select_memories()
        for key in selected.damaged:
            await self._mend_memory(key)
        for key in selected.unindexed:
            await self._index_again(key)
        for key in selected.unsearchable:
            await self._save_words(key)
        for key in await _REPEATED_VERSIONS.fetch(connection, namespace):
            await self._renew_version(key)

        # Until now the index may have told what a damaged id was.
        await _CLEAN_INDEX.execute(connection, namespace)
        await mend_links(connection, namespace, self._originals, self._report, self._progress)

        # What terms a damaged memory had is not known.
        if not await is_index_sound(connection, namespace):
            await rebuild_index(connection, namespace)

        await mend_history(connection, namespace, self._originals)

        # At last, because the triggers have counted along from wrong numbers.
        await _CLEAR_COUNTERS.execute(connection, namespace)
        await _COUNT_AGAIN.execute(connection, namespace, namespace)

    async def _select_memories(self) -> _Selected:
        damaged: list[str] = []
        unindexed: list[str] = []
        unsearchable: list[str] = []
        width = len(Row._fields)

        async for columns in stream(self._connection, _MEMORIES, self._namespace):
            row = Row._make(columns[:width])
            stored_hash, folded, has_key, tags, *indexed = columns[width:]
            self._progress(1)
            if not _is_sound(row, stored_hash):
                damaged.append(row.key)
                continue

            is_indexed = has_key and IndexRow._make(indexed) == build_index_row(row)
            if not is_indexed or not have_same_tags(row.tags, tags):
                unindexed.append(row.key)
            elif folded != fold_searchable(row):
                unsearchable.append(row.key)

        return _Selected(damaged, unindexed, unsearchable)

    async def _mend_memory(self, key: str) -> None:
        """Write what is left of a damaged memory anew, after its row was put aside."""
        connection = self._connection
        row, stored_hash = await _ROW.fetch_only(connection, self._namespace, key)
        self._originals.add("memories", {**row._asdict(), "hash": stored_hash})

        mended: Row | None = None
        known = await _KNOWN.fetch(connection, self._namespace, row.id, row.key)
        for values in known:
            mended = mended or restore_row(row, stored_hash, values.columns)

        counters = await self._remove(row)
        if known:
            counters = known[0].counters

        if mended is not None and await self._is_free(mended):
            self._report.restored_memories += 1
        else:
            mended = await self._name(mend_row(row, self._now))
            self._report.mended_memories += 1

        if mended.namespace != self._namespace:
            await LOCK.execute(connection, f"abilities:{mended.namespace}")
            await _RAISE_VERSION.execute(connection, mended.namespace)

        existing = await find_existing_by_key(connection, mended.namespace, mended.key)
        await self._save(existing, mended, counters)

    async def _index_again(self, key: str) -> None:
        row, _ = await _ROW.fetch_only(self._connection, self._namespace, key)
        known = await _KNOWN.fetch(self._connection, self._namespace, row.id, row.key)
        shelved = await self._unindex(row)
        if known:
            shelved = shelved._replace(counters=known[0].counters)

        await save_words(self._connection, row)
        await index_memory(self._connection, row, shelved)

    async def _save_words(self, key: str) -> None:
        """Write the words of a memory anew, and no counters, which take longer with each change."""
        row, _ = await _ROW.fetch_only(self._connection, self._namespace, key)
        await _DELETE_WORDS.execute(self._connection, row.namespace, row.id)
        await save_words(self._connection, row)

    async def _renew_version(self, key: str) -> None:
        existing = await find_existing_by_key(self._connection, self._namespace, key)
        assert existing.row is not None, "it was found just now"
        await self._save(existing, existing.row)

    async def _save(
        self, existing: Existing, row: Row, counters: AccessCounters | None = None
    ) -> None:
        """Write a memory anew; the history tells that it was mended."""
        connection = self._connection
        version = existing.next_version
        last = await bind(find_last_version)(connection, row.namespace, row.id)
        former = row._replace(version=last or row.version)

        occasion = Occasion("mended", self._now, "repair")
        entry = build_entry(occasion, former, row._replace(version=version), version)
        await save_memory(connection, existing, row, entry, self._rules, counters)

    async def _remove(self, row: Row) -> AccessCounters:
        """Remove a damaged memory with all that is derived from it but its links."""
        shelved = await self._unindex(row)
        await _DELETE_ROW.execute(self._connection, row.namespace, row.key)
        return shelved.counters

    async def _unindex(self, row: Row) -> Shelved:
        shelved = await unindex_memory(self._connection, row)
        await _UNINDEX_KEY.execute(self._connection, row.namespace, row.key)
        await _DELETE_WORDS.execute(self._connection, row.namespace, row.id)
        return shelved

    async def _name(self, row: Row) -> Row:
        """Return a row with names that no other memory has."""
        for proposed in propose_names(row):
            if await self._is_free(proposed):
                return proposed

        raise AssertionError("proposals do not end")

    async def _is_free(self, row: Row) -> bool:
        taken = await _IS_TAKEN.fetch_only(self._connection, row.namespace, row.key, row.id)
        return taken == 0


def _is_sound(row: Row, stored_hash: int) -> bool:
    try:
        verify_saved(row, stored_hash)
    except Refused:
        return False

    return True
