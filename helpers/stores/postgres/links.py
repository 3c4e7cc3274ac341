"""Writing links to PostgreSQL, and keeping their ranks."""

from collections.abc import Sequence
from typing import NamedTuple

from abilities.helpers.stores.model import LinkRow, Row, hash_values
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    to_columns,
)

_UNREACHABLE = -1.0
"""The rank of a link to a memory that is missing or archived."""


class _Score(NamedTuple):
    key: str
    score: float


class _Ranked(NamedTuple):
    """A link to a memory, as ``_UPDATE_RANKS`` takes it."""

    source: str
    type: str
    rank: float
    hash: int


class _Inserted(NamedTuple):
    """A link of a memory, as ``_SAVE_LINKS`` takes it."""

    target: str
    type: str
    weight: float
    rank: float
    hash: int


_SAVE_LINKS = Statement("""
    INSERT INTO links (namespace, source, target, type, weight, rank, hash)
    SELECT %s, %s, * FROM unnest(%s::text[], %s::text[], %s::float8[], %s::float8[], %s::int8[])
    ON CONFLICT (namespace, source, target, type)
    DO UPDATE SET weight = EXCLUDED.weight, rank = EXCLUDED.rank, hash = EXCLUDED.hash
""")
_DELETE_LINKS = Statement("""
    DELETE FROM links WHERE namespace = %s AND source = %s
    AND (target, type) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
""")
_DELETE_ALL_LINKS = Statement("DELETE FROM links WHERE namespace = %s AND source = %s")
_SCORES = Select(
    "SELECT key, score FROM memories WHERE namespace = %s AND key = ANY(%s) AND archived = 0",
    _Score._make,
)
_BACKLINKS = Select(
    f"SELECT {', '.join(LinkRow._fields)} FROM links WHERE namespace = %s AND target = %s",
    LinkRow._make,
)
_UPDATE_RANKS = Statement("""
    UPDATE links AS l SET rank = new.rank, hash = new.hash
    FROM unnest(%s::text[], %s::text[], %s::float8[], %s::int8[]) AS new (source, type, rank, hash)
    WHERE l.namespace = %s AND l.target = %s AND l.source = new.source AND l.type = new.type
""")


async def update_ranks(connection: Connection, target: Row, score: float | None) -> None:
    """Update the rank of every link to a memory; ``score`` is None if it is archived or deleted."""
    links = await _BACKLINKS.fetch(connection, target.namespace, target.key)
    if not links:
        return

    # Not in SQL, because the hash of a link covers its rank, and only Python computes it.
    ranked: list[_Ranked] = []
    for link in links:
        rank = _rank(link.weight, score)
        ranked.append(
            _Ranked(
                source=link.source,
                type=link.type,
                rank=rank,
                hash=hash_values((*link, rank)),
            )
        )

    columns = to_columns(ranked)
    await _UPDATE_RANKS.execute(connection, *columns, target.namespace, target.key)


async def save_links(
    connection: Connection, row: Row, before: Sequence[LinkRow], after: Sequence[LinkRow]
) -> None:
    """Write those links of a memory that were added, changed or removed."""
    # A memory has at most one link per target and type.
    existing = {(link.target, link.type) for link in before}
    remaining = {(link.target, link.type) for link in after}

    removed = existing - remaining
    if removed:
        columns = to_columns(removed)
        await _DELETE_LINKS.execute(connection, row.namespace, row.key, *columns)

    changed = sorted(set(after) - set(before))
    if changed:
        await _insert_links(connection, row, changed)


async def _insert_links(connection: Connection, row: Row, links: Sequence[LinkRow]) -> None:
    """Write links that are new, or whose weight changed, in one statement."""
    # Targets that are missing or archived are not among the scores.
    targets = [link.target for link in links]
    scores = await _SCORES.fetch(connection, row.namespace, targets)
    score_by_key = dict(scores)

    inserted: list[_Inserted] = []
    for link in links:
        score = score_by_key.get(link.target)
        rank = _rank(link.weight, score)
        inserted.append(
            _Inserted(
                target=link.target,
                type=link.type,
                weight=link.weight,
                rank=rank,
                hash=hash_values((*link, rank)),
            )
        )

    columns = to_columns(inserted)
    await _SAVE_LINKS.execute(connection, row.namespace, row.key, *columns)


async def delete_links(connection: Connection, row: Row) -> None:
    """Delete every link of a memory; the links of others to it stay."""
    await _DELETE_ALL_LINKS.execute(connection, row.namespace, row.key)


def _rank(weight: float, score: float | None) -> float:
    """Return a link's rank; ``score`` is its target's, or None if that is missing or archived."""
    if score is None:
        return _UNREACHABLE

    return weight * score
