"""The integrity check of every store: derived data is compared with the memories.

A check examines a whole store, and a repair one namespace.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import count, islice
from typing import NamedTuple

import orjson

from abilities.declarations.refusals import Refused
from abilities.helpers.store.about import INDEXED, list_indexed
from abilities.helpers.store.engine import Statement, Transaction
from abilities.helpers.store.history import ENTRY_BYTES, Entry
from abilities.helpers.store.mending import mend_namespace
from abilities.helpers.store.model import LinkRecord, Row, verify_saved
from abilities.helpers.store.past import ENTRY_COLUMNS
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.ranking import ARE_STALE, LINK_COLUMNS, StaleMark
from abilities.helpers.store.recall_index import list_wrong_parts
from abilities.helpers.store.saving import INDEX_COLUMNS, IndexRow, build_index_row, list_tags

_MAX_EXAMPLES = 5
_PROGRESS_ROWS = 1_000
"""Rows between two reports of progress."""

_WORDS = {
    "memories": ("Every memory is intact.", "Memories with errors"),
    "links": ("Every link is intact.", "Links with errors"),
    "tags": (
        "The tag index agrees with the memories.",
        "Memories or tags with wrong entries in the tag index",
    ),
    "about": (
        "The index of paths agrees with the memories.",
        "Memories with wrong entries in the index of paths",
    ),
    "counters": (
        "The counters agree with the memories.",
        "Counters that disagree with the memories",
    ),
    "versions": (
        "Every version was given to one memory.",
        "Versions that were given twice or not at all",
    ),
    "search": (
        "Every memory is in the search index.",
        "Memories missing from the search index, or with wrong entries",
    ),
    "history": ("The history is intact.", "Entries of the history with errors"),
}
"""For each finding: the sentence if all is sound, and the words before the number otherwise."""

_MEMORY_COLUMNS = ", ".join(f"m.{name}" for name in (*Row._fields, "hash"))
_INDEX_COLUMNS = ", ".join(f"s.{name}" for name in INDEX_COLUMNS)
_MEMORIES = f"""
SELECT {_MEMORY_COLUMNS}, {{searched}}, (
    SELECT JSON_LIST(t.tag) FROM tags AS t
    WHERE t.namespace = m.namespace AND t.id = m.id AND t.archived = m.archived
), {INDEXED}, {_INDEX_COLUMNS}
FROM memories AS m
LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id AND {{is_own}}
"""
_SCORE = "CASE WHEN {0}.archived = 0 AND {0}.score BETWEEN 0 AND 1 THEN {0}.score END"
_LINKS = f"""
SELECT l.namespace, {LINK_COLUMNS}, t.key IS NULL, {ARE_STALE},
    {_SCORE.format("t")}, {_SCORE.format("s")}
FROM links AS l
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
"""
_MARKS = f"SELECT namespace, {', '.join(StaleMark._fields)} FROM stale_ranks"
_ENTRIES = f"SELECT {ENTRY_COLUMNS} FROM history INDEXED BY history_id"

COUNT_MEMORIES = """
SELECT namespace, 'all' AS name, archived, '' AS value, count(*) AS number FROM shelf {where}
GROUP BY namespace, archived
UNION ALL SELECT namespace, 'size', archived, '', sum(size) FROM shelf {where}
GROUP BY namespace, archived
UNION ALL SELECT namespace, 'type', archived, type, count(*) FROM shelf {where}
GROUP BY namespace, archived, type
UNION ALL SELECT namespace, 'importance', archived, CAST(importance AS text), count(*)
FROM shelf {where} GROUP BY namespace, archived, importance
UNION ALL SELECT namespace, 'tag', archived, tag, count(*) FROM tags {where}
GROUP BY namespace, archived, tag
"""
"""The correct counters, computed from the memory index and the tag index."""

COUNT_LINKS = """
SELECT namespace, key, sum(outgoing) AS outgoing, sum(incoming) AS incoming FROM (
    SELECT namespace, source AS key, count(*) AS outgoing, 0 AS incoming FROM links {where}
    GROUP BY namespace, source
    UNION ALL SELECT namespace, target, 0, count(*) FROM links {where} GROUP BY namespace, target
) AS ends GROUP BY namespace, key
"""
"""The correct numbers of links from and to each key."""

_SURPLUS = "SELECT (SELECT count(*) FROM shelf) - (SELECT count(*) FROM memories)"
_MISCOUNTED_MEMORIES = f"""
SELECT namespace, name, archived, value FROM (
    {COUNT_MEMORIES.format(where="")}
    UNION ALL SELECT namespace, name, archived, value, -number FROM counters
) AS counted GROUP BY namespace, name, archived, value HAVING sum(number) <> 0
ORDER BY namespace, name, archived, value
"""
_MISCOUNTED_LINKS = f"""
SELECT namespace, key, 'links' FROM (
    {COUNT_LINKS.format(where="")}
    UNION ALL SELECT namespace, key, -outgoing, -incoming FROM link_counts
) AS counted GROUP BY namespace, key HAVING sum(outgoing) <> 0 OR sum(incoming) <> 0
ORDER BY namespace, key
"""
_WRONG_VERSIONS = """
SELECT m.namespace, m.version FROM memories AS m
LEFT JOIN versions AS v ON v.namespace = m.namespace
GROUP BY m.namespace, m.version, v.number
HAVING count(*) > 1 OR m.version < 1 OR m.version > coalesce(v.number, 0)
"""

# Memories whose version is not the one that their last entry gave, deletions included.
UNRECORDED = """
SELECT m.namespace, m.id FROM memories AS m WHERE m.version <> (
    SELECT max(CASE h.action WHEN 'relinked' THEN h.previous ELSE h.version END)
    FROM history AS h INDEXED BY history_id WHERE h.namespace = m.namespace AND h.id = m.id
)
"""
_REVIVED = """
SELECT p.namespace, p.id FROM purged AS p
WHERE EXISTS (SELECT 1 FROM memories AS m WHERE m.namespace = p.namespace AND m.id = p.id)
    OR EXISTS (
        SELECT 1 FROM history AS h INDEXED BY history_id
        WHERE h.namespace = p.namespace AND h.id = p.id
    )
"""
_MISCOUNTED_BYTES = f"""
SELECT namespace, 'bytes' FROM (
    SELECT namespace, {ENTRY_BYTES} + octet_length(before) AS size FROM history
    UNION ALL SELECT namespace, -history_bytes FROM versions
) AS sizes GROUP BY namespace HAVING sum(size) <> 0
"""
_STRAY_PATHS = """
SELECT a.namespace, a.root FROM about AS a WHERE NOT EXISTS (
    SELECT 1 FROM memories AS m
    WHERE m.namespace = a.namespace AND m.id = a.id AND m.archived = a.archived
)
"""
_WRONG = (
    ("about", _STRAY_PATHS),
    ("counters", _MISCOUNTED_LINKS),
    ("versions", _WRONG_VERSIONS),
    ("history", UNRECORDED),
    ("history", _REVIVED),
    ("history", _MISCOUNTED_BYTES),
)
"""Findings, and statements for wrong items that return the namespace and the item's names."""


class ExaminedMemory(NamedTuple):
    """A memory and its hash; ``wrong`` names its findings.

    If a memory is not sound, its derived data is not examined.
    """

    row: Row
    hash: int
    is_sound: bool
    wrong: Sequence[str]


class ExaminedLink(NamedTuple):
    """A link; it is ranked if it is sound with correct ranks, and dangles if it has no target."""

    namespace: str
    record: LinkRecord
    is_ranked: bool
    is_dangling: bool


async def check_rows(
    transaction: Transaction,
    progress: Callable[[int], None],
    wrong_tables: Sequence[str] = (),
) -> list[IntegrityFinding]:
    """Check all rows; return the findings in a fixed order.

    ``progress`` is called with the number of memories and links checked since the last call.
    ``wrong_tables`` are tables of the search index that disagree with the memories, if the engine
    compares whole tables.
    """
    wrong: dict[str, list[str]] = defaultdict(list)
    advance = _count_rows(progress)
    async for memory in examine_memories(transaction):
        advance()
        for finding in memory.wrong:
            wrong[finding].append(f"{memory.row.namespace}/{memory.row.key}")

    ((surplus,),) = await transaction.fetch(_SURPLUS)
    if surplus:
        wrong["memories"].append(f"{surplus:+} rows in the memory index")

    dangling = 0
    async for namespace, record, is_ranked, is_dangling in examine_links(transaction):
        advance()
        dangling += is_dangling
        if not is_ranked:
            wrong["links"].append(f"{namespace}/{record.source} -> {record.target}")

    for namespace, mark in await list_damaged_marks(transaction):
        wrong["links"].append(f"{namespace}/{mark.key}")

    async for namespace, name, archived, value in transaction.stream(_MISCOUNTED_MEMORIES):
        if name == "tag":
            wrong["tags"].append(f"{namespace}/{value}")
        else:
            wrong["counters"].append(f"{namespace}/{name} {archived} {value}")

    for finding, statement in _WRONG:
        async for namespace, *words in transaction.stream(statement):
            wrong[finding].append(f"{namespace}/{' '.join(map(str, words))}")

    async for entry in find_broken_entries(transaction):
        wrong["history"].append(f"{entry.namespace}/{entry.id} {entry.version}")

    for name in (*wrong_tables, *await list_wrong_parts(transaction)):
        wrong["search"].append(f"entries of {name}")

    findings = [build_finding(name, wrong[name], *words) for name, words in _WORDS.items()]
    findings.insert(2, _report_dangling_links(dangling))
    return findings


def build_finding(name: str, wrong: list[str], good: str, bad: str) -> IntegrityFinding:
    """Return a finding; ``wrong`` names the damaged items.

    ``good`` is the sentence if there are none; otherwise ``bad`` precedes their number.
    """
    if not wrong:
        return IntegrityFinding(name, "sound", 0, good)

    examples = tuple(wrong[:_MAX_EXAMPLES])
    return IntegrityFinding(name, "damaged", len(wrong), f"{bad}: {len(wrong):,}.", examples)


def _report_dangling_links(number: int) -> IntegrityFinding:
    """Return a note, not damage, because a link may be stored before its target."""
    if not number:
        return IntegrityFinding("dangling", "sound", 0, "Every link leads to a memory.")

    words = f"Links to memories that do not exist: {number:,}. This is allowed."
    return IntegrityFinding("dangling", "note", number, words)


def _count_rows(progress: Callable[[int], None]) -> Callable[[], None]:
    """Return a function that reports progress after every `_PROGRESS_ROWS` calls."""
    numbers = count(1)

    def advance() -> None:
        if next(numbers) % _PROGRESS_ROWS == 0:
            progress(_PROGRESS_ROWS)

    return advance


async def examine_memories(
    transaction: Transaction, namespace: str | None = None
) -> AsyncIterator[ExaminedMemory]:
    """Yield each memory of a store, or of a namespace, with its findings."""
    is_own = match_own_columns(transaction) or "true"
    text = _MEMORIES.format(searched=transaction.searched, is_own=is_own)
    async for columns in transaction.stream(*_choose(text, "m.namespace", namespace)):
        rest = iter(columns)
        row = Row._make(islice(rest, len(Row._fields)))
        stored_hash = next(rest)
        try:
            verify_saved(row, stored_hash)
        except Refused:
            yield ExaminedMemory(row, stored_hash, False, ["memories"])
            continue

        is_right = {
            "search": transaction.is_findable(row, next(rest)),
            "tags": _is_same(list_tags(row), next(rest)),
            "about": _is_same(list_indexed(row), next(rest)),
            "memories": IndexRow._make(rest) == build_index_row(row),
        }
        wrong = [name for name, right in is_right.items() if not right]
        yield ExaminedMemory(row, stored_hash, True, wrong)


def match_own_columns(transaction: Transaction) -> str:
    """Return the SQL that joins row s of the memory index to memory m by the engine's columns.

    It is empty if the engine has no columns of that kind.
    """
    return " AND ".join(f"s.{name} = {source}" for name, source in transaction.shelf_columns)


async def examine_links(
    transaction: Transaction, namespace: str | None = None
) -> AsyncIterator[ExaminedLink]:
    """Yield each link of a store, or of a namespace."""
    width = len(LinkRecord._fields)
    async for owner, *columns in transaction.stream(*_choose(_LINKS, "l.namespace", namespace)):
        record = LinkRecord._make(columns[:width])
        is_dangling, is_stale, is_back_stale, *scores = columns[width:]
        is_ranked = record.is_sound
        if is_ranked:
            expected = LinkRecord.build(record.row, *scores)
            is_right = is_stale or record.rank == expected.rank
            is_ranked = bool(is_right and (is_back_stale or record.back_rank == expected.back_rank))
        yield ExaminedLink(owner, record, is_ranked, bool(is_dangling))


async def list_damaged_marks(
    transaction: Transaction, namespace: str | None = None
) -> list[tuple[str, StaleMark]]:
    """Return the damaged marks of stale ranks. The links show whether the others are right."""
    damaged: list[tuple[str, StaleMark]] = []
    text, *values = _choose(_MARKS, "namespace", namespace)
    for owner, *columns in await transaction.fetch(text, *values):
        mark = StaleMark._make(columns)
        if mend_namespace(owner) != owner or not mark.is_sound:
            damaged.append((owner, mark))

    return damaged


async def find_broken_entries(
    transaction: Transaction, namespace: str | None = None
) -> AsyncIterator[Entry]:
    """Yield the entries of a store, or of a namespace, that do not lead to their memory's last."""
    text, *values = _choose(_ENTRIES, "namespace", namespace)
    entries: list[Entry] = []
    async for columns in transaction.stream(f"{text} ORDER BY namespace, id, version", *values):
        entry = Entry._make(columns)
        if entries and (entry.namespace, entry.id) != (entries[0].namespace, entries[0].id):
            for broken in _list_broken(entries):
                yield broken
            entries = []
        entries.append(entry)

    for broken in _list_broken(entries):
        yield broken


def _list_broken(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of a memory, given by rising version, that do not lead to the last one.

    These are the damaged entries, and all entries before a damaged or a missing one.
    """
    linked: list[Entry] = []
    broken: list[Entry] = []
    version: int | None = None

    for entry in entries:
        if not entry.is_sound:
            broken += [*linked, entry]
            linked, version = [], None
            continue

        # The version before a repair is uncertain, so a gap there is no damage.
        if entry.action != "mended" and version not in (None, entry.previous):
            broken += linked
            linked = []

        linked.append(entry)
        version = {"deleted": 0, "relinked": entry.previous}.get(entry.action, entry.version)

    return broken


def _choose(text: str, column: str, namespace: str | None) -> Statement:
    """Return a statement for the rows of a namespace, or for all rows."""
    if namespace is None:
        return (text,)

    return f"{text} WHERE {column} = ?", namespace


def _is_same(right: list[str], indexed: str) -> bool:
    """Return whether the JSON list of a memory's entries in an index has the right ones."""
    try:
        return bool(sorted(right) == sorted(orjson.loads(indexed)))
    except ValueError:  # damage can make the entries invalid JSON
        return False
