"""Reading memories and links from PostgreSQL, on a connection that the caller holds."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import LinkRecord, LinkRow, Row, StoredMemory, verify_row
from abilities.helpers.stores.postgres.statements import Connection, Select, to_number
from abilities.helpers.stores.protocol import Backlinks

COLUMNS = ", ".join(f"m.{name}" for name in Row._fields)
"""The columns of a `Row`, from memories AS m."""
LINK_COLUMNS = ", ".join(f"l.{name}" for name in LinkRecord._fields)
"""The columns of a `LinkRecord`, from links AS l."""
BEST_FIRST = "ORDER BY l.rank DESC, l.weight DESC, l.target, l.type"


class _RowRecord(NamedTuple):
    """A memory's row, and the hash that is stored beside it."""

    row: Row
    hash: int

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_RowRecord":
        """Make a record of the columns of ``_SELECT_ROW``."""
        *values, stored_hash = columns
        row = Row._make(values)
        return cls(row, stored_hash)


class _Counts(NamedTuple):
    """What changes without a change of the memory; it is outside of the row and its hash."""

    accessed_at: str
    access_count: int
    links_total: int


class _MemoryRecord(NamedTuple):
    """A memory without its links, and the hash that is stored beside its row."""

    memory: StoredMemory
    hash: int

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_MemoryRecord":
        """Make a record of the columns of ``_SELECT_MEMORIES``."""
        *values, stored_hash, accessed_at, access_count, links_total = columns
        memory = StoredMemory(
            Row._make(values),
            links_total=links_total,
            accessed_at=accessed_at,
            access_count=access_count,
        )
        return cls(memory, stored_hash)

    def verify(self) -> StoredMemory | Exception:
        """Return the memory, or a Refused if it is damaged."""
        try:
            verify_row(self.memory.row, self.hash)
        except Refused as error:
            return error

        return self.memory


_SELECT_ROW = f"SELECT {COLUMNS}, m.hash FROM memories AS m WHERE m.namespace = %s"
_ROW_BY_KEY = Select(f"{_SELECT_ROW} AND m.key = %s", _RowRecord.parse)
_ROW_BY_ID = Select(f"{_SELECT_ROW} AND m.id = %s", _RowRecord.parse)

_SELECT_MEMORIES = f"""
SELECT {COLUMNS}, m.hash, s.accessed_at, s.access_count,
    (SELECT count(*) FROM links AS l WHERE l.namespace = m.namespace AND l.source = m.key)
FROM memories AS m JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
WHERE m.namespace = %s
"""
_MEMORIES_BY_KEY = Select(f"{_SELECT_MEMORIES} AND m.key = ANY(%s)", _MemoryRecord.parse)
_MEMORIES_BY_ID = Select(f"{_SELECT_MEMORIES} AND m.id = ANY(%s)", _MemoryRecord.parse)
_COUNTS = Select(
    """
    SELECT s.accessed_at, s.access_count,
        (SELECT count(*) FROM links AS l WHERE l.namespace = s.namespace AND l.source = %s)
    FROM shelf AS s WHERE s.namespace = %s AND s.id = %s
    """,
    _Counts._make,
)

_SELECT_LINKS = f"SELECT {LINK_COLUMNS} FROM links AS l WHERE l.namespace = %s AND l.source = %s"
_ALL_LINKS = Select(_SELECT_LINKS, LinkRecord._make)
_LINKS_TO = Select(
    f"{_SELECT_LINKS} AND l.target = ANY(%s) ORDER BY l.target, l.type", LinkRecord._make
)
_BEST_LINKS = Select(f"{_SELECT_LINKS} {BEST_FIRST} LIMIT %s OFFSET %s", LinkRecord._make)
_BACKLINKS = Select(
    f"""
    SELECT {LINK_COLUMNS} FROM links AS l WHERE l.namespace = %s AND l.target = %s
    ORDER BY l.source, l.type LIMIT %s OFFSET %s
    """,
    LinkRecord._make,
)
_COUNT_BACKLINKS = Select(
    "SELECT count(*) FROM links WHERE namespace = %s AND target = %s", to_number
)


async def find_row_by_key(connection: Connection, namespace: str, key: str) -> Row | None:
    """Return a memory's row, or None if there is no such key. Raises Refused if it is damaged."""
    record = await _ROW_BY_KEY.fetch_first(connection, namespace, key)
    return _verify(record)


async def find_row_by_id(connection: Connection, namespace: str, memory_id: str) -> Row | None:
    """Return a memory's row, or None if there is no such id. Raises Refused if it is damaged."""
    record = await _ROW_BY_ID.fetch_first(connection, namespace, memory_id)
    return _verify(record)


def _verify(record: _RowRecord | None) -> Row | None:
    if record is None:
        return None

    return verify_row(record.row, record.hash)


async def read_links_to(
    connection: Connection, namespace: str, source: str, targets: Sequence[str]
) -> list[LinkRow]:
    """Return a memory's links to some others, damaged or not, by target and type."""
    links = await _LINKS_TO.fetch(connection, namespace, source, list(targets))
    return [link.row for link in links]


async def read_all_links(
    connection: Connection, namespace: str, source: str
) -> tuple[list[LinkRow], int]:
    """Return every sound link of a memory, by target and type, and the number of damaged ones."""
    links = await _ALL_LINKS.fetch(connection, namespace, source)
    sound = _select_sound(links)

    damaged = len(links) - len(sound)
    return sorted(sound), damaged


async def load_memory(
    connection: Connection, row: Row, limit: int, offset: int = 0
) -> StoredMemory:
    """Complete a row to a memory, with ``limit`` of its links, best first, after ``offset``."""
    namespace, key = row.namespace, row.key
    counts = await _COUNTS.fetch_first(connection, key, namespace, row.id)
    if counts is None:
        counts = _Counts(row.created_at, 0, 0)

    links: list[LinkRow] = []
    if limit:
        best = await _BEST_LINKS.fetch(connection, namespace, key, limit, offset)
        links = _select_sound(best)

    return StoredMemory(
        row,
        links=tuple(links),
        links_total=counts.links_total,
        accessed_at=counts.accessed_at,
        access_count=counts.access_count,
    )


async def read_linked(
    connection: Connection, namespace: str, key: str, offset: int, limit: int
) -> StoredMemory:
    """Return a memory with a page of its links.

    Raises Refused: memory_not_found, checksum_mismatch, invalid_stored_value.
    """
    row = await find_row_by_key(connection, namespace, key)
    if row is None:
        raise Refused("memory_not_found")

    return await load_memory(connection, row, limit, offset)


async def read_backlinks(
    connection: Connection, namespace: str, key: str, offset: int, limit: int
) -> Backlinks:
    """Return a page of the links to a key and their total, which includes the damaged ones."""
    links = await _BACKLINKS.fetch(connection, namespace, key, limit, offset)
    sound = _select_sound(links)

    total = await _COUNT_BACKLINKS.fetch_only(connection, namespace, key)
    return Backlinks(tuple(sound), total)


async def read(
    connection: Connection, namespace: str, keys: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Return memories by key, without their links; a Refused stands for one that cannot be read."""
    unique = list(set(keys))
    records = await _MEMORIES_BY_KEY.fetch(connection, namespace, unique)

    memories: dict[str, StoredMemory | Exception] = {}
    for record in records:
        memories[record.memory.row.key] = record.verify()

    return _arrange(memories, keys)


async def read_ids(
    connection: Connection, namespace: str, ids: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Return memories by id, as `read` does by key."""
    records = await _MEMORIES_BY_ID.fetch(connection, namespace, list(ids))

    memories: dict[str, StoredMemory | Exception] = {}
    for record in records:
        memories[record.memory.row.id] = record.verify()

    return _arrange(memories, ids)


def _arrange(
    memories: Mapping[str, StoredMemory | Exception], names: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Return one memory per name, in the order of the names."""
    arranged: list[StoredMemory | Exception] = []
    for name in names:
        memory = memories.get(name) or Refused("memory_not_found")
        arranged.append(memory)

    return arranged


def _select_sound(links: Sequence[LinkRecord]) -> list[LinkRow]:
    return [link.row for link in links if link.is_sound]
