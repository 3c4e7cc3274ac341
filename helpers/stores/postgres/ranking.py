"""Ranks of links in PostgreSQL: updating few, marking many as stale, and merging these in order."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from abilities.helpers.stores import ranking
from abilities.helpers.stores.model import LinkRecord, Row
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    split,
    to_columns,
)
from abilities.helpers.stores.ranking import SIDES, Side, StaleMark, correct_ranks, merge_links

LINK_COLUMNS = ", ".join(f"l.{name}" for name in LinkRecord._fields)
"""The columns of a `LinkRecord`, from links AS l."""
BEST_FIRST = "ORDER BY l.rank DESC, l.weight DESC, l.target, l.type"
BEST_INCOMING_FIRST = "ORDER BY l.back_rank DESC, l.weight DESC, l.source, l.type"

MARKS = """
marks AS MATERIALIZED (
    SELECT s.side, s.key, coalesce(m.score, -1) AS score FROM stale_ranks AS s
    LEFT JOIN memories AS m ON m.namespace = s.namespace AND m.key = s.key
        AND m.archived = 0 AND m.score BETWEEN 0 AND 1
    WHERE s.namespace = %s
)
"""
"""The marks of a namespace with the scores that rank links by now, -1 for what ranks last."""

ANY_MARK = "(SELECT 0::float8 FROM stale_ranks WHERE namespace = %s LIMIT 1)"
"""Null in a namespace without marks. In the place of scores, so that it costs no statement."""

OWN: dict[Side, Side] = {"target": "source", "source": "target"}
"""The end at which a memory's links are listed by the ranks of a side."""


class ScoredLink(NamedTuple):
    """A link, and the score by which it ranks if its rank is stale, else None; -1 ranks it last."""

    score: float | None
    record: LinkRecord

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "ScoredLink":
        """Make a record of a score and the columns of a link."""
        score, *values = columns
        return cls(score, LinkRecord._make(values))


def select_ordinary(side: Side) -> str:
    """Return the end of a condition that leaves out the links with stale ranks of a side."""
    return f"l.{side} <> ALL (ARRAY(SELECT key FROM marks WHERE side = '{side}'))"


def select_stale(side: Side, columns: str, namespace: str, key: str) -> str:
    """Return a SELECT of columns of a key's links with stale ranks of a side: one look-up each.

    ``namespace`` and ``key`` are expressions.
    """
    # Without OFFSET 0, all links of the key might be read to find the few.
    return f"""
    SELECT {columns} FROM marks CROSS JOIN LATERAL (
        SELECT * FROM links AS found WHERE found.namespace = {namespace}
        AND found.{OWN[side]} = {key} AND found.{side} = marks.key OFFSET 0
    ) AS l WHERE marks.side = '{side}'
    """


def merge_scored(links: Iterable[ScoredLink], side: Side) -> list[LinkRecord]:
    """Return links in one order, those with stale ranks with their right ones."""
    ordinary: list[LinkRecord] = []
    stale: list[LinkRecord] = []
    scores: dict[str, float | None] = {}

    for score, record in links:
        if score is None:
            ordinary.append(record)
            continue

        stale.append(record)
        scores[getattr(record, side)] = score
        if score < 0:
            scores[getattr(record, side)] = None

    if not stale:
        return ordinary
    return merge_links(ordinary, correct_ranks(stale, scores, side), side)


class _RankedLink(NamedTuple):
    """A link at a side of a memory, and the scores of now of its target and source."""

    side: Side
    target_score: float | None
    source_score: float | None
    record: LinkRecord

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_RankedLink":
        """Make a record of a side, two scores and the columns of a link."""
        side, target_score, source_score, *values = columns
        return cls(side, target_score, source_score, LinkRecord._make(values))


class _Ranks(NamedTuple):
    """A link's name and its new ranks, as ``_UPDATE_RANKS`` takes them."""

    source: str
    target: str
    type: str
    rank: int
    back_rank: int
    hash: int


_SCORES = """
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
    AND t.archived = 0 AND t.score BETWEEN 0 AND 1
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
    AND s.archived = 0 AND s.score BETWEEN 0 AND 1
"""


def _select_at(side: Side) -> str:
    return f"""
    SELECT '{side}' AS side, at.* FROM given CROSS JOIN LATERAL (
        SELECT * FROM links AS l
        WHERE l.namespace = given.namespace AND l.{side} = given.key LIMIT given.most
    ) AS at
    """


_LINKS_AT = Select(
    f"""
    WITH given AS (SELECT %s::text AS namespace, %s::text AS key, %s::int AS most)
    SELECT l.side, t.score, s.score, {LINK_COLUMNS}
    FROM (({_select_at("target")}) UNION ALL ({_select_at("source")})) AS l {_SCORES}
    """,
    _RankedLink.parse,
)
_UPDATE_RANKS = Statement("""
    UPDATE links AS l SET rank = new.rank, back_rank = new.back_rank, hash = new.hash
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::int4[], %s::int4[], %s::int8[])
        AS new (source, target, type, rank, back_rank, hash)
    WHERE l.namespace = %s AND (l.source, l.target, l.type) = (new.source, new.target, new.type)
""")
_MARK_COLUMNS = ", ".join(StaleMark._fields)
_MARK = Statement(f"""
    INSERT INTO stale_ranks (namespace, {_MARK_COLUMNS}, since)
    VALUES (%s, %s, %s, %s, %s, %s, %s,
        coalesce((SELECT number FROM versions WHERE namespace = %s), 0))
    ON CONFLICT (namespace, side, key) DO UPDATE SET last_rank = EXCLUDED.last_rank,
        last_weight = EXCLUDED.last_weight, last_key = EXCLUDED.last_key,
        last_type = EXCLUDED.last_type, since = EXCLUDED.since
""")
_MOVE_MARK = Statement("""
    UPDATE stale_ranks SET last_rank = %s, last_weight = %s, last_key = %s, last_type = %s
    WHERE namespace = %s AND side = %s AND key = %s
""")
_UNMARK = Statement("DELETE FROM stale_ranks WHERE namespace = %s AND side = %s AND key = %s")
_OLD_MARKS = Select(
    f"""
    WITH given AS (SELECT %s::text AS namespace, %s::int AS most, %s::int AS longest)
    SELECT {_MARK_COLUMNS} FROM (
        SELECT s.*, given.most, v.number - given.longest AS last_old,
            row_number() OVER (ORDER BY s.since DESC) AS place
        FROM given JOIN stale_ranks AS s ON s.namespace = given.namespace
        LEFT JOIN versions AS v ON v.namespace = given.namespace
    ) AS placed WHERE place > most OR since <= last_old
    ORDER BY since LIMIT %s
    """,
    StaleMark._make,
)


def _select_behind(side: Side, rank: str) -> Select[_RankedLink]:
    """Return a statement for the links behind a mark, a range of the index for each part."""
    other = OWN[side]
    order = f"ORDER BY {rank} DESC, weight DESC, {other}, type LIMIT given.most"
    select = f"""
    SELECT * FROM links WHERE namespace = given.namespace AND {side} = given.key
    """
    return Select(
        f"""
        WITH given AS (SELECT %s::text AS namespace, %s::text AS key, %s::int AS rank,
            %s::float8 AS weight, %s::text AS other, %s::text AS type, %s::int AS most)
        SELECT '{side}', t.score, s.score, {LINK_COLUMNS} FROM (
            SELECT behind.* FROM given CROSS JOIN LATERAL (
                ({select} AND {rank} = given.rank AND weight = given.weight
                    AND ({other}, type) > (given.other, given.type) {order})
                UNION ALL
                ({select} AND {rank} = given.rank AND weight < given.weight {order})
                UNION ALL ({select} AND {rank} < given.rank {order})
                {order}
            ) AS behind
        ) AS l {_SCORES} ORDER BY l.{rank} DESC, l.weight DESC, l.{other}, l.type
        """,
        _RankedLink.parse,
    )


_BEHIND: dict[Side, Select[_RankedLink]] = {
    "target": _select_behind("target", "back_rank"),
    "source": _select_behind("source", "rank"),
}


async def update_ranks(connection: Connection, row: Row) -> None:
    """Update the ranks of the links of a memory and to it, after its score or archived state.

    Those at a side where it has many are marked as stale instead. Damaged links stay as they are.
    """
    namespace = row.namespace
    most = ranking.MOST_UPDATED + 1
    links = await _LINKS_AT.fetch(connection, namespace, row.key, most)

    for side in SIDES:
        at_side = [link for link in links if link.side == side]
        if len(at_side) == most:
            mark = StaleMark.build(side, row.key)
            await _MARK.execute(connection, namespace, *mark, namespace)
        else:
            await _save_ranks(connection, namespace, at_side)
            await _UNMARK.execute(connection, namespace, side, row.key)


async def refresh_stale_ranks(connection: Connection, namespace: str) -> None:
    """Update some of the ranks behind the marks that a namespace does not keep."""
    marks = await _OLD_MARKS.fetch(
        connection,
        namespace,
        ranking.MOST_STALE,
        ranking.LONGEST_STALE,
        ranking.MOST_REFRESHED,
    )
    for mark in marks:
        await _refresh_behind(connection, namespace, mark)


async def _refresh_behind(connection: Connection, namespace: str, mark: StaleMark) -> None:
    side, *place = mark
    behind = _BEHIND[side]
    links = await behind.fetch(connection, namespace, *place, ranking.BLOCK)
    await _save_ranks(connection, namespace, links)

    if len(links) < ranking.BLOCK:
        await _UNMARK.execute(connection, namespace, side, mark.key)
        return

    moved = mark.move_behind([link.record for link in links])
    if moved is not None:
        _, key, *last = moved
        await _MOVE_MARK.execute(connection, *last, namespace, side, key)


async def _save_ranks(connection: Connection, namespace: str, links: Sequence[_RankedLink]) -> None:
    """Write the ranks of sound links that follow from the scores of now.

    Both ranks, so that no link whose place in an index changes has a stale rank left.
    """
    # Not in SQL, because the hash of a link covers its ranks, and only Python computes it.
    async for portion in split(links):
        ranks: list[_Ranks] = []
        for link in portion:
            if not link.record.is_sound:
                continue

            record = LinkRecord.build(link.record.row, link.target_score, link.source_score)
            ranks.append(
                _Ranks(
                    record.source,
                    record.target,
                    record.type,
                    record.rank,
                    record.back_rank,
                    record.hash,
                )
            )

        if ranks:
            columns = to_columns(ranks)
            await _UPDATE_RANKS.execute(connection, *columns, namespace)
