"""Reading memories and links from PostgreSQL, on a connection that the caller holds."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import LinkRecord, LinkRow, Row, StoredMemory, verify_row
from abilities.helpers.stores.postgres.ranking import (
    ANY_MARK,
    BEST_FIRST,
    BEST_INCOMING_FIRST,
    LINK_COLUMNS,
    MARKS,
    OWN,
    ScoredLink,
    merge_scored,
    select_ordinary,
    select_stale,
)
from abilities.helpers.stores.postgres.statements import Connection, Select, split, to_number
from abilities.helpers.stores.protocol import Backlinks
from abilities.helpers.stores.ranking import Side

COLUMNS = ", ".join(f"m.{name}" for name in Row._fields)
"""The columns of a `Row`, from memories AS m."""


class RowRecord(NamedTuple):
    """A memory's row, and the hash that is stored beside it."""

    row: Row
    hash: int

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "RowRecord":
        """Make a record of the columns of ``_SELECT_ROW``."""
        *values, stored_hash = columns
        row = Row._make(values)
        return cls(row, stored_hash)


class LinkPage(NamedTuple):
    """Up to ``limit`` of the links of a key, or to it, after the first ``offset`` ones."""

    namespace: str
    key: str
    limit: int
    offset: int


class _Counts(NamedTuple):
    """What changes without a change of the memory; it is outside of the row and its hash."""

    accessed_at: str
    access_count: int
    links_total: int
    backlinks_total: int


class MemoryRecord(NamedTuple):
    """A memory without its links, and the hash that is stored beside its row."""

    memory: StoredMemory
    hash: int

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "MemoryRecord":
        """Make a record of the columns of ``_SELECT_MEMORIES``, or of others in the same order."""
        # Take the columns apart by the fields of their types, so that no position is written down.
        values = iter(columns)
        row = Row._make(islice(values, len(Row._fields)))
        stored_hash = next(values)
        counts = _Counts._make(values)

        memory = _complete(row, counts)
        return cls(memory, stored_hash)

    def verify(self) -> StoredMemory | Refused:
        """Return the memory, or a Refused if it is damaged."""
        try:
            verify_row(self.memory.row, self.hash)
        except Refused as error:
            return error

        return self.memory


LINK_TOTALS = "coalesce(c.outgoing, 0), coalesce(c.incoming, 0)"
_SELECT_ROW = f"SELECT {COLUMNS}, m.hash FROM memories AS m WHERE m.namespace = %s"
_ROW_BY_KEY = Select(f"{_SELECT_ROW} AND m.key = %s", RowRecord.parse)
_ROW_BY_ID = Select(f"{_SELECT_ROW} AND m.id = %s", RowRecord.parse)

_SELECT_MEMORIES = f"""
SELECT {COLUMNS}, m.hash, s.accessed_at, s.access_count, {LINK_TOTALS}
FROM memories AS m JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id
LEFT JOIN link_counts AS c ON c.namespace = m.namespace AND c.key = m.key
WHERE m.namespace = %s
"""
_MEMORIES_BY_KEY = Select(f"{_SELECT_MEMORIES} AND m.key = ANY(%s)", MemoryRecord.parse)
_MEMORIES_BY_ID = Select(f"{_SELECT_MEMORIES} AND m.id = ANY(%s)", MemoryRecord.parse)
_COUNTS = Select(
    f"""
    SELECT s.accessed_at, s.access_count, {LINK_TOTALS} FROM shelf AS s
    LEFT JOIN link_counts AS c ON c.namespace = s.namespace AND c.key = %s
    WHERE s.namespace = %s AND s.id = %s
    """,
    _Counts._make,
)

_SELECT_LINKS = f"SELECT {LINK_COLUMNS} FROM links AS l WHERE l.namespace = %s AND l.source = %s"
_ALL_LINKS = Select(f"{_SELECT_LINKS} ORDER BY l.target, l.type", LinkRecord._make)
_LINKS_TO = Select(
    f"{_SELECT_LINKS} AND l.target = ANY(%s) ORDER BY l.target, l.type", LinkRecord._make
)


def _select_page(side: Side, order: str) -> Select[ScoredLink]:
    """Return a statement for a page of a key's links by the ranks of a side.

    It takes the namespace twice, the key, a limit and an offset. It returns all links with stale
    ranks, and so many others that the page can be cut out of both once they are merged.
    """
    stale = select_stale(side, f"marks.score, {LINK_COLUMNS}", "given.namespace", "given.key")
    return Select(
        f"""
        WITH {MARKS},
        given AS (SELECT %s::text AS namespace, %s::text AS key, %s::int8 AS most,
            %s::int8 AS skipped),
        stale AS MATERIALIZED ({stale.replace("FROM marks", "FROM given CROSS JOIN marks")})
        SELECT * FROM stale UNION ALL (
            SELECT NULL, {LINK_COLUMNS} FROM links AS l
            WHERE l.namespace = (SELECT namespace FROM given)
            AND l.{OWN[side]} = (SELECT key FROM given) AND {select_ordinary(side)} {order}
            LIMIT (SELECT most FROM given) + (SELECT count(*) FROM stale)
            OFFSET greatest(0, (SELECT skipped FROM given) - (SELECT count(*) FROM stale))
        )
        """,
        ScoredLink.parse,
    )


class _Pages(NamedTuple):
    """The statements for pages of links by the ranks of a side, without marks and with some."""

    plain: Select[ScoredLink]
    marked: Select[ScoredLink]


def _build_pages(side: Side, order: str) -> _Pages:
    plain = f"""
    SELECT {ANY_MARK}, {LINK_COLUMNS} FROM links AS l
    WHERE l.namespace = %s AND l.{OWN[side]} = %s {order} LIMIT %s OFFSET %s
    """
    return _Pages(Select(plain, ScoredLink.parse), _select_page(side, order))


_PAGES: dict[Side, _Pages] = {
    "target": _build_pages("target", BEST_FIRST),
    "source": _build_pages("source", BEST_INCOMING_FIRST),
}
_COUNT_BACKLINKS = Select(
    """
    SELECT coalesce(sum(incoming), 0)::int8 FROM link_counts WHERE namespace = %s AND key = %s
    """,
    to_number,
)


async def find_row_by_key(connection: Connection, namespace: str, key: str) -> Row | None:
    """Return a memory's row, or None if there is no such key. Raises Refused if it is damaged."""
    record = await _ROW_BY_KEY.fetch_first(connection, namespace, key)
    return _verify(record)


async def find_row_by_id(connection: Connection, namespace: str, memory_id: str) -> Row | None:
    """Return a memory's row, or None if there is no such id. Raises Refused if it is damaged."""
    record = await _ROW_BY_ID.fetch_first(connection, namespace, memory_id)
    return _verify(record)


def _verify(record: RowRecord | None) -> Row | None:
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
    sound = await select_all_sound(links)

    damaged = len(links) - len(sound)
    return sound, damaged


async def select_all_sound(links: Sequence[LinkRecord]) -> list[LinkRow]:
    """Return the sound ones of any number of links, which are hashed in portions."""
    sound: list[LinkRow] = []
    async for portion in split(links):
        sound += _select_sound(portion)

    return sound


async def load_memory(
    connection: Connection, row: Row, limit: int, offset: int = 0
) -> StoredMemory:
    """Complete a row to a memory, with ``limit`` of its links, best first, after ``offset``."""
    namespace, key = row.namespace, row.key
    counts = await _COUNTS.fetch_first(connection, key, namespace, row.id)
    if counts is None:
        counts = _Counts(row.created_at, 0, 0, 0)

    links: list[LinkRow] = []
    if limit:
        page = LinkPage(namespace, key, limit, offset)
        links = await _read_page(connection, "target", page)

    return _complete(row, counts, tuple(links))


def _complete(row: Row, counts: _Counts, links: tuple[LinkRow, ...] = ()) -> StoredMemory:
    return StoredMemory(
        row,
        links=links,
        links_total=counts.links_total,
        backlinks_total=counts.backlinks_total,
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
    """Return a page of the links to a key, best first, and their total, with the damaged ones."""
    total = await _COUNT_BACKLINKS.fetch_only(connection, namespace, key)

    page = LinkPage(namespace, key, limit, offset)
    sound = await _read_page(connection, "source", page)
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


async def _read_page(connection: Connection, side: Side, page: LinkPage) -> list[LinkRow]:
    """Return the sound links of a page."""
    statements = _PAGES[side]
    links = await statements.plain.fetch(connection, page.namespace, *page)
    if not links or links[0].score is None:
        return _select_sound([link.record for link in links])

    links = await statements.marked.fetch(connection, page.namespace, *page)
    stale = sum(link.score is not None for link in links)

    # However the links merge, no more than the stale ones stand before the ordinary ones here.
    start = page.offset - max(0, page.offset - stale)
    merged = merge_scored(links, side)
    return _select_sound(merged[start : start + page.limit])


def _select_sound(links: Sequence[LinkRecord]) -> list[LinkRow]:
    return [link.row for link in links if link.is_sound]
