"""Writing links with their ranks and numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from abilities.helpers.stores.changes import rename_links
from abilities.helpers.stores.deriving import get_rank_score
from abilities.helpers.stores.model import LinkRecord, LinkRow, Row
from abilities.helpers.stores.transaction import Columns, Transaction, split

RECORD = ", ".join(LinkRecord._fields)
"""The columns of a `LinkRecord`."""

_PLACES = ", ".join("?" * (len(LinkRecord._fields) + 1))
_SAVE = f"""
INSERT INTO links (namespace, {RECORD}) VALUES ({_PLACES})
ON CONFLICT (namespace, source, target, type) DO UPDATE SET weight = excluded.weight,
    term = excluded.term, rank = excluded.rank, back_rank = excluded.back_rank,
    hash = excluded.hash
"""
_DELETE = "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND type = ?"
_DELETE_FROM = "DELETE FROM links WHERE namespace = ? AND source = ? RETURNING target"
_SCORES = """
SELECT key, score FROM memories
WHERE namespace = ? AND key = ANY (?) AND archived = 0 AND score BETWEEN 0 AND 1
"""
_FROM = f"SELECT {RECORD} FROM links WHERE namespace = ? AND source = ?"
_TO = f"SELECT {RECORD} FROM links INDEXED BY links_incoming WHERE namespace = ? AND target = ?"
_COUNT = """
INSERT INTO link_counts AS c (namespace, key, outgoing, incoming) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace, key) DO UPDATE
SET outgoing = c.outgoing + excluded.outgoing, incoming = c.incoming + excluded.incoming
"""
_CLEAR_COUNT = """
DELETE FROM link_counts WHERE namespace = ? AND key = ? AND outgoing = 0 AND incoming = 0
"""

LinkName = tuple[str, str, str]
"""Source, target and type of a link, which name it in its namespace."""


class LinkMoves(NamedTuple):
    """The sound links that a rename replaces, and those that it puts in their place."""

    before: list[LinkRow]
    after: list[LinkRow]


async def save_links(
    transaction: Transaction, row: Row, before: Iterable[LinkRow], after: Iterable[LinkRow]
) -> None:
    """Write the links of a memory that were added, changed or removed."""
    before, after = list(before), list(after)
    if before == after:
        return

    former, present = set(map(_name, before)), set(map(_name, after))
    await _delete(transaction, row.namespace, former - present)

    changed = sorted(set(after) - set(before))
    scores = await _fetch_scores(transaction, row.namespace, [link.target for link in changed])
    scores[row.key] = get_rank_score(row)
    await _save(transaction, row.namespace, await rank_links(transaction, changed, scores))
    await _count(transaction, row.namespace, present - former, former - present)


async def delete_links(transaction: Transaction, row: Row) -> None:
    """Delete every link of a memory; the links of others to it stay."""
    targets = [target for (target,) in await transaction.fetch(_DELETE_FROM, *row[:2])]
    gone = [(row.key, target, "") for target in targets]
    await _count(transaction, row.namespace, [], gone)


async def move_links(transaction: Transaction, row: Row, new_key: str) -> LinkMoves:
    """Give every link of a memory and to it the memory's new key.

    ``row`` is the memory before. Links that led to the new key already find it now. Damaged links
    move too and stay damaged, unless they would stand in the place of a sound one.
    """
    namespace = row.namespace
    found = await transaction.fetch_each(
        (_FROM, namespace, row.key), (_TO, namespace, row.key), (_TO, namespace, new_key)
    )
    records = {LinkRecord._make(columns) for rows in found for columns in rows}
    sound = await select_sound(transaction, sorted(records))
    renamed = rename_links(sound, row.key, new_key)

    ends = {key for link in renamed for key in (link.source, link.target)}
    scores = await _fetch_scores(transaction, namespace, sorted(ends))
    scores[new_key] = get_rank_score(row)
    ranked = await rank_links(transaction, renamed, scores)
    moved = {_name(record): record for record in ranked}
    stayed = set(map(_name, sound))
    for record in records:
        if _name(record) not in stayed:
            damaged = _replace_key(record, row.key, new_key)
            moved.setdefault(_name(damaged), damaged)

    former = set(map(_name, records))
    await _delete(transaction, namespace, former)
    await _save(transaction, namespace, moved.values())
    await _count(transaction, namespace, moved.keys() - former, former - moved.keys())
    return LinkMoves(sound, renamed)


def _replace_key(record: LinkRecord, old_key: str, new_key: str) -> LinkRecord:
    if record.source == old_key:
        record = record._replace(source=new_key)
    if record.target == old_key:
        record = record._replace(target=new_key)

    return record


async def rank_links(
    transaction: Transaction, links: Sequence[LinkRow], scores: Mapping[str, float | None]
) -> list[LinkRecord]:
    """Return the records of links; memories that are missing or archived have no score."""
    records: list[LinkRecord] = []
    async for portion in split(transaction, links):
        for link in portion:
            target_score, source_score = scores.get(link.target), scores.get(link.source)
            records.append(LinkRecord.build(link, target_score, source_score))

    return records


async def select_sound(transaction: Transaction, records: Sequence[LinkRecord]) -> list[LinkRow]:
    """Return the sound ones of any number of links."""
    sound: list[LinkRow] = []
    async for portion in split(transaction, records):
        sound += [record.row for record in portion if record.is_sound]

    return sound


async def _fetch_scores(
    transaction: Transaction, namespace: str, keys: Sequence[str]
) -> dict[str, float | None]:
    """Return the scores of the present memories among some keys."""
    if not keys:
        return {}

    scores: dict[str, float | None] = {}
    for key, score in await transaction.fetch(_SCORES, namespace, list(keys)):
        scores[key] = score

    return scores


async def _save(transaction: Transaction, namespace: str, records: Iterable[LinkRecord]) -> None:
    rows: list[Columns] = [(namespace, *record) for record in records]
    if rows:
        await transaction.run_many(_SAVE, rows)


async def _delete(transaction: Transaction, namespace: str, names: Iterable[LinkName]) -> None:
    rows: list[Columns] = [(namespace, *name) for name in sorted(names)]
    if rows:
        await transaction.run_many(_DELETE, rows)


async def _count(
    transaction: Transaction, namespace: str, added: Iterable[LinkName], gone: Iterable[LinkName]
) -> None:
    """Keep the numbers of links that keys have and that lead to them."""
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

    less = [(namespace, key) for _, key, *amounts in rows if min(amounts) < 0]
    if less:
        await transaction.run_many(_CLEAR_COUNT, less)


def _name(link: LinkRow | LinkRecord) -> LinkName:
    return link.source, link.target, link.type
