"""Writing links with their ranks, and the numbers of links per key."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set

from abilities.helpers.store import ranking
from abilities.helpers.store.changes import rename_link, rename_links
from abilities.helpers.store.engine import Columns, Statement, Transaction, split
from abilities.helpers.store.model import LinkChange, LinkRecord, LinkRow, Row, index_links
from abilities.helpers.store.ranking import LINK_COLUMNS, OWN, RANKS, SIDES, Side, StaleMark
from abilities.helpers.store.reads import select_sound

_RECORD = ", ".join(LinkRecord._fields)
_PLACES = ", ".join("?" * (len(LinkRecord._fields) + 1))
_SAVE = f"""
INSERT INTO links (namespace, {_RECORD}) VALUES ({_PLACES})
ON CONFLICT (namespace, source, target, type) DO UPDATE SET weight = excluded.weight,
    term = excluded.term, rank = excluded.rank, back_rank = excluded.back_rank,
    hash = excluded.hash
"""
_DELETE = "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND type = ?"
_DELETE_FROM = "DELETE FROM links WHERE namespace = ? AND source = ? RETURNING target"
SCORES = """
SELECT key, score FROM memories
WHERE namespace = ? AND key = ANY (?) AND archived = 0 AND score BETWEEN 0 AND 1
"""
_COUNT = """
INSERT INTO link_counts AS c (namespace, key, outgoing, incoming) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace, key) DO UPDATE
SET outgoing = c.outgoing + excluded.outgoing, incoming = c.incoming + excluded.incoming
"""
_CLEAR_COUNT = """
DELETE FROM link_counts WHERE namespace = ? AND key = ? AND outgoing = 0 AND incoming = 0
"""
_FROM_INDEX: dict[Side, str] = {
    "target": f"SELECT namespace, {_RECORD} FROM links INDEXED BY links_incoming",
    "source": f"SELECT namespace, {_RECORD} FROM links",
}
_ALL_AT = {side: f"{text} WHERE namespace = ? AND {side} = ?" for side, text in _FROM_INDEX.items()}
_SCORED = f"""
SELECT {LINK_COLUMNS}, t.score, s.score FROM ({{links}}) AS l
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
    AND t.archived = 0 AND t.score BETWEEN 0 AND 1
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
    AND s.archived = 0 AND s.score BETWEEN 0 AND 1
"""
_SOME_AT = {side: _SCORED.format(links=f"{text} LIMIT ?") for side, text in _ALL_AT.items()}


def _write_behind(side: Side) -> tuple[str, ...]:
    """Return statements for the links behind a mark, one per range of the index, in its order.

    The last three values of each are the namespace, the key and a limit.
    """
    other, rank = OWN[side], RANKS[OWN[side]]
    select = f"{_FROM_INDEX[side]} WHERE {{range}} AND namespace = ? AND {side} = ? ORDER BY"
    order = f"{rank} DESC, weight DESC, {other}, type LIMIT ?"
    ranges = (
        f"{rank} = ? AND weight = ? AND ({other}, type) > (?, ?)",
        f"{rank} = ? AND weight < ?",
        f"{rank} < ?",
    )
    return tuple(
        _SCORED.format(links=f"{select.format(range=each)} {order}")
        + f" ORDER BY l.{rank} DESC, l.weight DESC, l.{other}, l.type"
        for each in ranges
    )


_BEHIND = {side: _write_behind(side) for side in SIDES}
_UPDATE = """
UPDATE links SET rank = ?, back_rank = ?, hash = ?
WHERE namespace = ? AND source = ? AND target = ? AND type = ?
"""
_MARK_COLUMNS = ", ".join(StaleMark._fields)
_MARK = f"""
INSERT INTO stale_ranks (namespace, {_MARK_COLUMNS}, since)
VALUES (
    ?, ?, ?, {2**31 - 1}, 1.0, '', '',
    coalesce((SELECT number FROM versions WHERE namespace = ?), 0)
)
ON CONFLICT (namespace, side, key) DO UPDATE SET last_rank = excluded.last_rank,
    last_weight = excluded.last_weight, last_key = excluded.last_key,
    last_type = excluded.last_type, since = excluded.since
"""
_MOVE_MARK = """
UPDATE stale_ranks SET last_rank = ?, last_weight = ?, last_key = ?, last_type = ?
WHERE namespace = ? AND side = ? AND key = ?
"""
UNMARK = "DELETE FROM stale_ranks WHERE namespace = ? AND side = ? AND key = ?"
_OLD_MARKS = f"""
SELECT {_MARK_COLUMNS} FROM (
    SELECT *, row_number() OVER (ORDER BY since DESC) AS place
    FROM stale_ranks WHERE namespace = ?
) AS marks WHERE place > ? OR since <= (SELECT number FROM versions WHERE namespace = ?) - ?
ORDER BY since LIMIT ?
"""

LinkId = tuple[str, str, str]
"""Source, target and type of a link, which identify it in its namespace."""


async def save_links(transaction: Transaction, row: Row, links: LinkChange) -> None:
    """Write the links of a memory that were added, changed or removed."""
    former, present = set(links.before.values()), set(links.after.values())
    if former == present:
        return

    changed = await _rank(transaction, row, sorted(present - former))
    former_ids, present_ids = set(map(_get_id, former)), set(map(_get_id, present))
    await _write(transaction, row.namespace, changed, former_ids, present_ids)


async def delete_links(transaction: Transaction, row: Row) -> None:
    """Delete all links of a memory; links of others to it stay."""
    targets = await transaction.fetch(_DELETE_FROM, row.namespace, row.key)
    gone = [(row.key, target, "") for (target,) in targets]
    await _count(transaction, row.namespace, [], gone)


async def move_links(transaction: Transaction, row: Row, new_key: str) -> dict[str, LinkChange]:
    """Give all links of a memory and to it the memory's new key.

    ``row`` is the memory before the rename. Links that led to the new key before get new ranks.
    Damaged links move too and stay damaged, but they never replace a sound link. Returns the
    changes of sound links by the memories that have them, that of the memory itself in any case.
    """
    namespace = row.namespace
    found = await transaction.fetch_each(
        (_ALL_AT["source"], namespace, row.key),
        (_ALL_AT["target"], namespace, row.key),
        (_ALL_AT["target"], namespace, new_key),
    )
    records = {LinkRecord._make(columns) for rows in found for _, *columns in rows}
    sound = await select_sound(transaction, sorted(records))
    renamed = rename_links(sound, row.key, new_key)

    moved: dict[LinkId, LinkRecord] = {}
    for record in await _rank(transaction, row._replace(key=new_key), renamed):
        moved[_get_id(record)] = record

    sound_ids = set(map(_get_id, sound))
    for record in records:
        if _get_id(record) not in sound_ids:
            damaged = rename_link(record, row.key, new_key)
            moved.setdefault(_get_id(damaged), damaged)

    former = set(map(_get_id, records))
    await _write(transaction, namespace, moved.values(), former, moved.keys())
    return _divide_moves(sound, renamed, row.key, new_key)


def _divide_moves(
    before: Iterable[LinkRow], after: Iterable[LinkRow], old_key: str, new_key: str
) -> dict[str, LinkChange]:
    """Return the changes of a rename by the memories that have the links."""
    former: defaultdict[str, list[LinkRow]] = defaultdict(list)
    present: defaultdict[str, list[LinkRow]] = defaultdict(list)
    for link in before:
        former[new_key if link.source == old_key else link.source].append(link)
    for link in after:
        present[link.source].append(link)

    moves: dict[str, LinkChange] = {}
    for key in {*former, new_key}:
        change = LinkChange(index_links(former[key]), index_links(present[key]))
        if key == new_key or change.before != change.after:
            moves[key] = change

    return moves


async def _rank(transaction: Transaction, row: Row, links: Sequence[LinkRow]) -> list[LinkRecord]:
    """Return the records of links; the memory of ``row`` has the state that it will have."""
    scores = {row.key: get_rank_score(row)}
    others = {key for link in links for key in (link.source, link.target)} - scores.keys()
    if others:
        for key, score in await transaction.fetch(SCORES, row.namespace, sorted(others)):
            scores[key] = score

    records: list[LinkRecord] = []
    async for portion in split(transaction, links):
        for link in portion:
            target_score, source_score = scores.get(link.target), scores.get(link.source)
            records.append(LinkRecord.build(link, target_score, source_score))

    return records


async def _write(
    transaction: Transaction,
    namespace: str,
    records: Iterable[LinkRecord],
    former: Set[LinkId],
    present: Set[LinkId],
) -> None:
    """Write records, and delete the former links that are no longer present."""
    gone: list[Columns] = [(namespace, *name) for name in sorted(former - present)]
    if gone:
        await transaction.run_many(_DELETE, gone)

    rows: list[Columns] = [(namespace, *record) for record in records]
    if rows:
        await transaction.run_many(_SAVE, rows)

    await _count(transaction, namespace, present - former, former - present)


async def _count(
    transaction: Transaction, namespace: str, added: Iterable[LinkId], gone: Iterable[LinkId]
) -> None:
    """Update the numbers of links from and to each key."""
    outgoing: Counter[str] = Counter()
    incoming: Counter[str] = Counter()
    for names, sign in ((added, 1), (gone, -1)):
        for source, target, _ in names:
            outgoing[source] += sign
            incoming[target] += sign

    rows: list[Columns] = []
    for key in sorted(outgoing.keys() | incoming.keys()):
        if outgoing[key] or incoming[key]:
            rows.append((namespace, key, outgoing[key], incoming[key]))
    if rows:
        await transaction.run_many(_COUNT, rows)

    decreased = [(namespace, key) for _, key, *amounts in rows if min(amounts) < 0]
    if decreased:
        await transaction.run_many(_CLEAR_COUNT, decreased)


def _get_id(link: LinkRow | LinkRecord) -> LinkId:
    return link.source, link.target, link.type


async def update_ranks(transaction: Transaction, row: Row) -> None:
    """Update the ranks of the links of a memory and to it after a change of its score.

    Archiving, adding and deleting a memory change its score too. If it has many links at one side,
    their ranks are marked as stale instead. Damaged links stay as they are.
    """
    namespace, most = row.namespace, ranking.MOST_UPDATED + 1
    at_sides = await transaction.fetch_each(
        *((_SOME_AT[side], namespace, row.key, most) for side in SIDES)
    )
    few = [rows for rows in at_sides if len(rows) < most]
    await _save_ranks(transaction, namespace, (columns for rows in few for columns in rows))

    for side, rows in zip(SIDES, at_sides, strict=True):
        if len(rows) == most:
            await transaction.run(_MARK, namespace, side, row.key, namespace)
        else:
            await transaction.run(UNMARK, namespace, side, row.key)


async def refresh_stale_ranks(transaction: Transaction, namespace: str) -> None:
    """Update a block of ranks behind each old mark of a namespace."""
    bounds = (ranking.MOST_STALE, namespace, ranking.LONGEST_STALE, ranking.MOST_REFRESHED)
    marks = await transaction.fetch(_OLD_MARKS, namespace, *bounds)
    for mark in map(StaleMark._make, marks):
        if not mark.is_sound:
            continue

        side, key, *last = mark
        statements: list[Statement] = []
        for text, values in zip(_BEHIND[side], (last, last[:2], last[:1]), strict=True):
            given = [*values, namespace, key, ranking.BLOCK]
            statements.append((text, *given))

        found = await transaction.fetch_each(*statements)
        links = [columns for rows in found for columns in rows][: ranking.BLOCK]
        await _save_ranks(transaction, namespace, links)
        if len(links) < ranking.BLOCK:
            await transaction.run(UNMARK, namespace, side, key)
            continue

        # The mark moves behind the last sound link, and stays if there is none.
        for *columns, _, _ in reversed(links):
            record = LinkRecord._make(columns)
            if record.is_sound:
                place = (getattr(record, RANKS[OWN[side]]), record.weight)
                name = (getattr(record, OWN[side]), record.type)
                await transaction.run(_MOVE_MARK, *place, *name, namespace, side, key)
                break


async def _save_ranks(transaction: Transaction, namespace: str, links: Iterable[Columns]) -> None:
    """Write the ranks of sound links, given as records with the scores of target and source."""
    # Both ranks, so that a link that moves in an index has no stale rank left; and in Python,
    # because the hash of a link covers its ranks and SQL cannot compute it.
    rows: list[Columns] = []
    for *columns, target_score, source_score in links:
        record = LinkRecord._make(columns)
        if not record.is_sound:
            continue

        new = LinkRecord.build(record.row, target_score, source_score)
        if new != record:
            name = (namespace, new.source, new.target, new.type)
            rows.append((new.rank, new.back_rank, new.hash, *name))

    if rows:
        await transaction.run_many(_UPDATE, rows)


def get_rank_score(row: Row | None) -> float | None:
    """Return the score for ranking links to or from a memory, or None if they rank last."""
    if row is None or row.archived:
        return None

    return row.score
