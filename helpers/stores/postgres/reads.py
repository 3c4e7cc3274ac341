"""How memories and links are read from PostgreSQL, on a connection that the caller holds."""

from collections.abc import Sequence
from typing import Any

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import (
    LinkRecord,
    LinkRow,
    Row,
    StoredMemory,
    verify_row,
)
from abilities.helpers.stores.postgres.server import Connection
from abilities.helpers.stores.protocol import Backlinks, WalkResult
from abilities.helpers.walk import LinkRequest, Walk, WalkLimits, WalkLink, WalkOutcome

COLUMNS = ", ".join(f"m.{name}" for name in Row._fields)
_LINK = "l.source, l.target, l.type, l.weight, l.rank, l.hash"
_BEST = "ORDER BY rank DESC, weight DESC, target, type"
_SELECT = f"SELECT {COLUMNS}, m.hash FROM memories AS m WHERE m.namespace = %s"
_COUNTED = f"""
SELECT {COLUMNS}, m.hash, s.accessed_at, s.access_count,
    (SELECT count(*) FROM links AS l WHERE l.namespace = m.namespace AND l.source = m.key)
FROM memories AS m JOIN shelf AS s ON s.namespace = m.namespace AND s.id = m.id WHERE m.namespace = %s
"""
_PAGE = f"SELECT {_LINK} FROM links AS l WHERE l.namespace = %s AND l.source = %s {_BEST} LIMIT %s OFFSET %s"
_PAGES = f"""
SELECT asked.key, {_LINK.removeprefix("l.source, ")} FROM unnest(%s::text[]) AS asked (key) LEFT JOIN LATERAL (
    SELECT * FROM links WHERE namespace = %s AND source = asked.key {_BEST} LIMIT %s
) AS l ON true
"""
_GUESSED = _PAGES.replace("%s::text[]", "reached(%s, %s, %s, %s, %s, %s)")
PAGE = 32
"""Links of a memory that are fetched before it is known how many are needed."""


async def fetch(
    connection: Connection, statement: bytes, values: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """All rows of a statement."""
    return await (await connection.execute(statement, values)).fetchall()


async def read_row(connection: Connection, namespace: str, column: str, value: str) -> Row | None:
    """A memory's row by its ``key`` or ``id``. Raises Refused when it is damaged."""
    statement = f"{_SELECT} AND m.{'key' if column == 'key' else 'id'} = %s"
    found = await fetch(connection, statement.encode(), (namespace, value))
    return parse_row(found[0]) if found else None


def parse_row(raw: tuple[Any, ...]) -> Row:
    """A row that is as it was written. Raises Refused."""
    width = len(Row._fields)
    return verify_row(Row(*raw[:width]), raw[width])


async def link_rows(
    connection: Connection, namespace: str, source: str, targets: Sequence[str]
) -> list[LinkRow]:
    """A memory's links to some others, by target and type."""
    statement = f"SELECT {_LINK} FROM links AS l WHERE l.namespace = %s AND l.source = %s AND l.target = ANY(%s)"
    found = await fetch(connection, statement.encode(), (namespace, source, list(targets)))
    return sorted((LinkRow(*link[:4]) for link in found), key=lambda link: (link.target, link.type))


async def all_links(
    connection: Connection, namespace: str, source: str
) -> tuple[list[LinkRow], int]:
    """Every sound link of a memory, by target and type, and the number of damaged ones."""
    statement = f"SELECT {_LINK} FROM links AS l WHERE l.namespace = %s AND l.source = %s"
    found = await fetch(connection, statement.encode(), (namespace, source))
    sound = sorted(link.row for link in map(LinkRecord._make, found) if link.is_sound)
    return sound, len(found) - len(sound)


async def load_memory(
    connection: Connection, row: Row, limit: int, offset: int = 0
) -> StoredMemory:
    """A memory with some of its links, best first, and its counters."""
    found = await fetch(connection, f"{_COUNTED} AND m.key = %s".encode(), (row.namespace, row.key))
    accessed_at, count, total = found[0][-3:] if found else (row.created_at, 0, 0)
    best = (
        await fetch(connection, _PAGE.encode(), (row.namespace, row.key, limit, offset))
        if limit
        else []
    )
    return StoredMemory(
        row,
        tuple(link.row for link in map(LinkRecord._make, best) if link.is_sound),
        total,
        accessed_at,
        count,
    )


async def read_linked(
    connection: Connection, namespace: str, key: str, offset: int, limit: int
) -> StoredMemory:
    """One memory with a page of its links. Raises Refused."""
    row = await read_row(connection, namespace, "key", key)
    if row is None:
        raise Refused("memory_not_found")
    return await load_memory(connection, row, limit, offset)


async def backlinks(
    connection: Connection, namespace: str, key: str, offset: int, limit: int
) -> Backlinks:
    """A page of the links that lead to a key."""
    statement = f"SELECT {_LINK} FROM links AS l WHERE l.namespace = %s AND l.target = %s ORDER BY l.source, l.type"
    page = f"{statement} LIMIT %s OFFSET %s".encode()
    found = await fetch(connection, page, (namespace, key, limit, offset))
    counted = b"SELECT count(*) FROM links WHERE namespace = %s AND target = %s"
    ((total,),) = await fetch(connection, counted, (namespace, key))
    return Backlinks(
        tuple(link.row for link in map(LinkRecord._make, found) if link.is_sound), total
    )


async def read(
    connection: Connection, namespace: str, keys: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Memories by key with the number of their links; a Refused in the place of one that cannot be read."""
    found = await fetch(
        connection, f"{_COUNTED} AND m.key = ANY(%s)".encode(), (namespace, list(set(keys)))
    )
    memories = {raw[1]: parse_memory(raw) for raw in found}
    return [memories.get(key) or Refused("memory_not_found") for key in keys]


async def read_ids(
    connection: Connection, namespace: str, ids: Sequence[str]
) -> list[StoredMemory | Exception]:
    """Memories by id, likewise."""
    found = await fetch(
        connection, f"{_COUNTED} AND m.id = ANY(%s)".encode(), (namespace, list(ids))
    )
    memories = {raw[2]: parse_memory(raw) for raw in found}
    return [memories.get(name) or Refused("memory_not_found") for name in ids]


def parse_memory(raw: tuple[Any, ...]) -> StoredMemory | Exception:
    """A memory without its links, or why it cannot be read."""
    try:
        return StoredMemory(parse_row(raw), (), raw[-1], raw[-3], raw[-2])
    except Refused as error:
        return error


async def walk(connection: Connection, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
    """Walk from a memory. Raises Refused when it cannot be read itself.

    A memory with a score that cannot be is seen when it is read, and the walk is made again without it.
    """
    known = _Known(connection, namespace)
    while True:
        walked = await known.walk(key, limits)
        memories = await read(connection, namespace, [step.key for step in walked.steps])
        if isinstance(memories[0], Exception):
            raise memories[0]
        found = {
            step.key
            for step, memory in zip(walked.steps, memories, strict=True)
            if _has_invalid_score(memory)
        }
        if not found:
            return WalkResult(walked, tuple(memories))
        known.invalid |= found


def _has_invalid_score(memory: StoredMemory | Exception) -> bool:
    return isinstance(memory, Refused) and memory.reason == "invalid_stored_value"


class _Known:
    """The links that were fetched so far, and walks over them.

    A walk is tried with what is known, and what it missed is fetched in one round trip, until it misses nothing: the
    links that the database guessed first, then those of a level at a time. Usually the guess is all.
    """

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._links: dict[str, list[tuple[Any, ...]]] = {}
        self._whole: set[str] = set()
        self.invalid: set[str] = set()

    async def walk(self, key: str, limits: WalkLimits) -> WalkOutcome:
        """The walk, and nothing missing from it."""
        if not self._links:
            await self._fetch(_GUESSED, (self._namespace, key, *limits, PAGE), PAGE)
        while True:
            missed: dict[str, int] = {}
            walked = self._tried(key, limits, missed)
            if not missed:
                return walked
            await self._fetch(_PAGES, (list(missed),), max(missed.values()))

    def _tried(self, key: str, limits: WalkLimits, missed: dict[str, int]) -> WalkOutcome:
        conversation = Walk(key, limits).run()
        try:
            asked = next(conversation)
            while True:
                asked = conversation.send(self._told(asked, missed))
        except StopIteration as end:
            walked: WalkOutcome = end.value
            return walked

    def _told(self, asked: LinkRequest, missed: dict[str, int]) -> list[WalkLink]:
        found = self._links.get(asked.key, [])
        if asked.offset >= len(found) and asked.key not in self._whole:
            missed[asked.key] = max(PAGE, len(found) * 4)
            return []
        return [LinkRecord._make(link).to_walk_link(self.invalid) for link in found[asked.offset :]]

    async def _fetch(self, statement: str, asked: tuple[Any, ...], most: int) -> None:
        told: dict[str, list[tuple[Any, ...]]] = {}
        for link in await fetch(
            self._connection, statement.encode(), (*asked, self._namespace, most)
        ):
            links = told.setdefault(link[0], [])
            if link[1] is not None:
                links.append(link)
        self._links |= told
        self._whole |= {key for key, links in told.items() if len(links) < most}
