"""Reading memories, their links and walks along these; and counting accesses to memories.

Reads run in a snapshot of the caller. Accesses are buffered, and written in batches.
"""

import sys
import threading
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from abilities.declarations.fields import is_day
from abilities.declarations.limits import MAX_ACCESS_COUNT, MAX_KEY_CHARS
from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Refused
from abilities.helpers.store import model
from abilities.helpers.store.engine import Columns, Statement, Transaction, split, to_name, to_raw
from abilities.helpers.store.model import MemoryLine, check_names
from abilities.helpers.store.protocol import MAX_TOUCHES, Backlinks, WalkResult
from abilities.helpers.store.ranking import LINK_COLUMNS, BestLinks, Side, WalkLinks, Wanted
from abilities.helpers.walk import WalkLimits

COLUMNS = ", ".join(f"m.{name}" for name in model.Row._fields)
"""The columns of a `Row`, from memories AS m."""

_MEMORIES = f"""
SELECT %s, coalesce(c.outgoing, 0), coalesce(c.incoming, 0), m.hash, {COLUMNS}
FROM memories AS m %s LEFT JOIN link_counts AS c ON c.namespace = m.namespace AND c.key = m.key
WHERE m.namespace = ? AND m.%s
"""
_COUNTED = (
    "coalesce(s.accessed_at, m.created_at), coalesce(s.access_count, 0)",
    "LEFT JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id",
)
_BY_KEY = _MEMORIES % ("'', 0", "", "key = ANY (?)")
_COUNTED_BY_ID = _MEMORIES % (*_COUNTED, "id = ANY (?)")
_ONE = _MEMORIES % (*_COUNTED, "key = ?")  # planned once; a list is planned anew each time
_INCOMING = "SELECT incoming FROM link_counts WHERE namespace = ? AND key = ?"
_LINKS = f"""
SELECT {LINK_COLUMNS} FROM links AS l INDEXED BY links_name
WHERE l.namespace = ? AND l.source = ?
"""
_REPLACED = f"""
SELECT {LINK_COLUMNS} FROM links AS l INDEXED BY links_name
WHERE l.namespace = ? AND l.source = ANY (?) AND l.type = '{model.REPLACED_BY}'
"""
# Links from archived memories have the back_rank -1, or it is stale, so that only these are read.
_REPLACING = f"""
SELECT {LINK_COLUMNS} FROM links AS l INDEXED BY links_incoming
JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.source AND m.archived = 1
WHERE l.namespace = ? AND l.target = ANY (?) AND l.back_rank = -1 AND l.type = '{model.REPLACED_BY}'
UNION SELECT {LINK_COLUMNS}
FROM stale_ranks AS r CROSS JOIN links AS l INDEXED BY links_name CROSS JOIN memories AS m
WHERE r.namespace = ? AND r.side = 'source' AND l.namespace = r.namespace AND l.source = r.key
    AND l.target = ANY (?) AND l.type = '{model.REPLACED_BY}'
    AND m.namespace = l.namespace AND m.key = l.source AND m.archived = 1
"""
DUE = """
SELECT expires_at, id FROM memories INDEXED BY memories_due
WHERE namespace = ? AND archived = 0 AND expires_at <> '' AND expires_at <= ?
AND (expires_at, id) > (?, ?) ORDER BY expires_at, id LIMIT ?
"""
_PORTION = 100
"""Memories to list per statement: they are read with their contents, which the hash covers."""

_LIST = f"""
SELECT RAW(m.key), {COLUMNS}, m.hash FROM memories AS m
WHERE m.namespace = ? AND m.archived <= ? AND m.key >= ? AND m.key <= ? AND m.key > CAST(? AS text)
ORDER BY m.key LIMIT ?
"""


async def read(
    transaction: Transaction, namespace: str, keys: Sequence[str], *, dated: bool = False
) -> list[model.StoredMemory | Exception]:
    """Return memories by key, in that order, without their links and access counters.

    A missing or damaged memory is a Refused. ``dated`` adds the days on which they last replaced
    archived ones.
    """
    check_names(*keys)
    names = list(dict.fromkeys(keys))
    statements: list[Statement] = [(_BY_KEY, namespace, names)]
    if dated:
        statements.append((_REPLACING, namespace, names, namespace, names))
    rows, *replacing = await transaction.fetch_each(*statements)
    memories = await _build_memories(transaction, "key", rows)

    for link in _list_links(columns for found in replacing for columns in found):
        memory = memories.get(link.target)
        if isinstance(memory, model.StoredMemory) and is_day(link.term):
            memories[link.target] = memory._replace(since=link.term)

    return [memories.get(name) or Refused("memory_not_found") for name in keys]


async def read_ids(
    transaction: Transaction, namespace: str, ids: Sequence[str]
) -> list[model.StoredMemory | Exception]:
    """Return memories by id, in that order, without their links, like `read`."""
    rows = await transaction.fetch(_COUNTED_BY_ID, namespace, list(dict.fromkeys(ids)))
    memories = await _build_memories(transaction, "id", rows)
    return [memories.get(name) or Refused("memory_not_found") for name in ids]


async def _build_memories(
    transaction: Transaction, column: str, rows: Iterable[Columns]
) -> dict[str, model.StoredMemory | Exception]:
    """Return memories by their names in a column."""
    memories: dict[str, model.StoredMemory | Exception] = {}
    archived: list[model.StoredMemory] = []
    for columns in rows:
        memory, stored_hash = _parse(columns)
        damage = model.find_damage(memory.row, stored_hash)
        memories[getattr(memory.row, column)] = memory if damage is None else Refused(damage)
        if damage is None and memory.row.archived:
            archived.append(memory)

    for memory in await _add_replacements(transaction, archived):
        memories[getattr(memory.row, column)] = memory

    return memories


async def _add_replacements(
    transaction: Transaction, archived: Sequence[model.StoredMemory]
) -> list[model.StoredMemory]:
    """Return archived memories of a namespace, with the keys of those that replaced them."""
    if not archived:
        return []

    keys = [memory.row.key for memory in archived]
    rows = await transaction.fetch(_REPLACED, archived[0].row.namespace, keys)
    targets = {link.source: link.target for link in _list_links(rows)}
    return [memory._replace(replaced_by=targets.get(memory.row.key, "")) for memory in archived]


def _list_links(rows: Iterable[Columns]) -> list[model.LinkRow]:
    """Return the sound links of some rows, by term and then by target."""
    links = [record.row for record in map(model.LinkRecord._make, rows) if record.is_sound]
    return sorted(links, key=lambda link: (link.term, link.target))


def _parse(columns: Columns) -> tuple[model.StoredMemory, int]:
    """Return a memory and the hash of its row, from the columns of ``_MEMORIES``."""
    accessed_at, access_count, outgoing, incoming, stored_hash, *values = columns
    row = model.Row._make(values)
    return model.StoredMemory(row, (), outgoing, accessed_at, access_count, incoming), stored_hash


async def read_linked(
    transaction: Transaction, namespace: str, key: str, offset: int, limit: int
) -> model.StoredMemory:
    """Return one memory with a page of its links.

    Raises Refused: memory_not_found, checksum_mismatch, invalid_stored_value.
    """
    check_names(key)
    links, rows = await _read_page(transaction, namespace, "target", key, limit, offset, _ONE)
    if not rows:
        raise Refused("memory_not_found")

    memory, stored_hash = _parse(rows[0])
    damage = model.find_damage(memory.row, stored_hash)
    if damage is not None:
        raise Refused(damage)
    if memory.row.archived:
        (memory,) = await _add_replacements(transaction, [memory])

    return memory._replace(links=links)


async def _read_page(
    transaction: Transaction,
    namespace: str,
    side: Side,
    key: str,
    limit: int,
    offset: int,
    text: str,
) -> tuple[tuple[model.LinkRow, ...], Sequence[Columns]]:
    """Return the sound links of a page, and the rows of a statement about the key."""
    if not limit:  # most callers need no links, so save them two statements
        return (), await transaction.fetch(text, namespace, key)

    best, wanted = BestLinks(transaction, namespace), Wanted(side, [key], limit, offset)
    (pages,), (rows,) = await best.fetch([wanted], (text, namespace, key))
    records = map(model.LinkRecord._make, pages[key])
    return tuple(record.row for record in records if record.is_sound), rows


async def read_backlinks(
    transaction: Transaction, namespace: str, key: str, offset: int, limit: int
) -> Backlinks:
    """Return a page of the sound links to a key, best first, and the total number of links."""
    check_names(key)
    links, totals = await _read_page(
        transaction, namespace, "source", key, limit, offset, _INCOMING
    )
    return Backlinks(links, sum(total for (total,) in totals))


async def read_links_to(
    transaction: Transaction, namespace: str, source: str, targets: Sequence[str]
) -> model.Links:
    """Return a memory's links to some keys, including damaged links."""
    statement = f"{_LINKS} AND l.target = ANY (?)"
    rows = await transaction.fetch(statement, namespace, source, list(targets))
    return model.index_links(model.LinkRecord._make(columns).row for columns in rows)


async def read_links(transaction: Transaction, namespace: str, source: str) -> model.Links:
    """Return all sound links of a memory."""
    rows = await transaction.fetch(_LINKS, namespace, source)
    return model.index_links(
        await select_sound(transaction, list(map(model.LinkRecord._make, rows)))
    )


async def list_memories(
    transaction: Transaction,
    namespace: str,
    prefix: str,
    after: str,
    limit: int,
    *,
    archived: bool,
) -> list[MemoryLine | model.DamagedMemory]:
    """Return memories after a key whose keys begin with a prefix, by key."""
    check_names(prefix, after)
    # No key that begins with the prefix is greater than this one.
    end = prefix + chr(sys.maxunicode) * MAX_KEY_CHARS
    lines: list[MemoryLine | model.DamagedMemory] = []

    while len(lines) < limit:
        asked = min(_PORTION, limit - len(lines))
        values = (namespace, int(archived), prefix, end, to_raw(after), asked)
        rows = await transaction.fetch(_LIST, *values)

        for key, *columns, stored_hash in rows:
            after = to_name(key)
            row = model.Row._make(columns)
            damage = model.find_damage(row, stored_hash)
            if damage is not None:
                lines.append(model.DamagedMemory(row.namespace, after, damage))
                continue

            size, is_archived = len(row.content.encode()), bool(row.archived)
            line = MemoryLine(
                row.key, row.summary, row.type, size, row.version, row.updated_at, is_archived
            )
            lines.append(line)

        if len(rows) < asked:
            break

    return lines


async def select_sound(
    transaction: Transaction, records: Sequence[model.LinkRecord]
) -> list[model.LinkRow]:
    """Return the sound links among any number of records."""
    sound: list[model.LinkRow] = []
    async for portion in split(transaction, records):
        sound += [record.row for record in portion if record.is_sound]

    return sound


async def walk(
    transaction: Transaction,
    namespace: str,
    key: str,
    limits: WalkLimits,
    direction: Direction = "out",
) -> WalkResult:
    """Walk from a memory. Raises Refused if it is missing or damaged itself.

    Links do not show whether their memories have a valid score, so invalid ones are found only when
    the memories of the walk are read. The walk is then repeated without these.
    """
    check_names(key)
    links = WalkLinks(transaction, namespace, direction)
    while True:
        outcome = await links.walk(key, limits)
        keys = [step.key for step in outcome.steps]
        memories = await read(transaction, namespace, keys)
        if isinstance(memories[0], Exception):  # the memory that the walk begins with
            raise memories[0]

        invalid: set[str] = set()
        for name, memory in zip(keys, memories, strict=True):
            if isinstance(memory, Refused) and memory.reason == "invalid_stored_value":
                invalid.add(name)

        if not invalid:
            return WalkResult(outcome, tuple(memories))
        links.exclude(invalid)


class DueMemory(NamedTuple):
    """An expired memory. They are ordered by time and id."""

    expires_at: str
    id: str


FIRST_DUE = DueMemory("", "")


async def has_due(transaction: Transaction, namespace: str, now: str) -> bool:
    """Return whether any memory has expired and is not archived yet."""
    return bool(await transaction.fetch(DUE, namespace, now, *FIRST_DUE, 1))


# The limit is never reached. It makes SQLite look the memories up by key, before the join.
_ACCESSED = f"""
FROM (
    SELECT m.namespace, m.id, new.number, new.accessed_at
    FROM ROWS(?) AS new (key text, number int8, accessed_at text) CROSS JOIN memories AS m
    WHERE m.namespace = ? AND m.key = new.key LIMIT {MAX_TOUCHES}
) AS new WHERE t.namespace = new.namespace AND t.id = new.id
"""
_COUNT = f"""
UPDATE shelf AS t SET accessed_at = greatest(t.accessed_at, new.accessed_at),
    access_count = least(t.access_count + new.number, {MAX_ACCESS_COUNT}) {_ACCESSED}
"""
_UPDATE_TAGS = f"""
UPDATE tags AS t SET accessed_at = greatest(t.accessed_at, new.accessed_at) {_ACCESSED}
"""


class Access(NamedTuple):
    """The number of accesses to one memory, and the time of the last one."""

    key: str
    number: int
    accessed_at: str


class AccessBuffer:
    """A thread-safe buffer of accesses per memory, until they are written.

    It holds accesses to `MAX_TOUCHES` memories; while it is full, accesses to others are dropped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accesses: dict[tuple[str, str], Access] = {}

    def __len__(self) -> int:
        """Return the number of memories with buffered accesses."""
        return len(self._accesses)

    def add(self, namespace: str, key: str, now: str) -> None:
        """Count one access."""
        name = (namespace, key)
        with self._lock:
            # The buffer must not grow without bound while the store cannot be written.
            if len(self._accesses) >= MAX_TOUCHES and name not in self._accesses:
                return

            earlier = self._accesses.get(name, Access(key, 0, now))
            self._accesses[name] = Access(key, earlier.number + 1, now)

    def take(self) -> dict[str, list[Access]]:
        """Empty the buffer; return its accesses per namespace, sorted by key."""
        with self._lock:
            accesses, self._accesses = self._accesses, {}

        by_namespace: dict[str, list[Access]] = {}
        for (namespace, _), access in sorted(accesses.items()):
            by_namespace.setdefault(namespace, []).append(access)

        return by_namespace


async def count_accesses(
    transaction: Transaction, namespace: str, accesses: Iterable[Access]
) -> None:
    """Add accesses to the counters of memories; ignore missing memories."""
    rows = orjson.dumps([access._asdict() for access in accesses]).decode()
    await transaction.run(_COUNT, rows, namespace)
    await transaction.run(_UPDATE_TAGS, rows, namespace)
