"""Writing links to PostgreSQL with their ranks at both ends."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from abilities.helpers.stores import changes
from abilities.helpers.stores.model import LinkRecord, LinkRow, Row
from abilities.helpers.stores.postgres.ranking import LINK_COLUMNS
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    split,
    to_columns,
)


class _Score(NamedTuple):
    key: str
    score: float


class _LinkName(NamedTuple):
    """What names a link in its namespace."""

    source: str
    target: str
    type: str


_SAVE_LINKS = Statement(f"""
    INSERT INTO links (namespace, {", ".join(LinkRecord._fields)})
    SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::float8[], %s::text[],
        %s::int4[], %s::int4[], %s::int8[])
    ON CONFLICT (namespace, source, target, type) DO UPDATE SET weight = EXCLUDED.weight,
        term = EXCLUDED.term, rank = EXCLUDED.rank, back_rank = EXCLUDED.back_rank,
        hash = EXCLUDED.hash
""")
_DELETE_LINKS = Statement("""
    DELETE FROM links AS l
    USING unnest(%s::text[], %s::text[], %s::text[]) AS old (source, target, type)
    WHERE l.namespace = %s AND (l.source, l.target, l.type) = (old.source, old.target, old.type)
""")
_DELETE_ALL_LINKS = Statement("DELETE FROM links WHERE namespace = %s AND source = %s")
# Damage can make a score impossible; nothing can be ranked by such a one.
_SCORES = Select(
    """
    SELECT key, score FROM memories
    WHERE namespace = %s AND key = ANY(%s) AND archived = 0 AND score BETWEEN 0 AND 1
    """,
    _Score._make,
)
_LINKS_AT = Select(
    f"""
    SELECT {LINK_COLUMNS} FROM links AS l WHERE l.namespace = %s AND l.source = %s
    UNION SELECT {LINK_COLUMNS} FROM links AS l WHERE l.namespace = %s AND l.target = ANY(%s)
    """,
    LinkRecord._make,
)


def get_rank_score(row: Row) -> float | None:
    """Return the score that ranks the links of a memory and to it, or None if it is archived."""
    if row.archived:
        return None

    return row.score


async def save_links(
    connection: Connection, row: Row, before: Sequence[LinkRow], after: Sequence[LinkRow]
) -> None:
    """Write those links of a memory that were added, changed or removed."""
    existing = {_name(link) for link in before}
    remaining = {_name(link) for link in after}

    removed = sorted(existing - remaining)
    if removed:
        await _delete_links(connection, row, removed)

    changed = sorted(set(after) - set(before))
    async for portion in split(changed):
        targets = [link.target for link in portion]
        scores = await _fetch_scores(connection, row, targets)
        scores[row.key] = get_rank_score(row)

        records = _rank_links(portion, scores)
        await _insert_links(connection, row, records)


class RenamedLinks(NamedTuple):
    """The sound links that a rename touched, before and after it."""

    before: list[LinkRow]
    after: list[LinkRow]


async def rename_links(connection: Connection, row: Row, new_key: str) -> RenamedLinks:
    """Give every link of a memory and to it the memory's new key.

    ``row`` is the memory before. Links that led to the new key already find it now. Damaged links
    move too and stay damaged, unless they would stand in the place of a sound one.
    """
    existing = await _fetch_links_at(connection, row, [row.key, new_key])
    sound: list[LinkRow] = []
    damaged: list[LinkRecord] = []
    ends: set[str] = set()
    async for portion in split(existing):
        for link in portion:
            ends |= {link.source, link.target}
            if link.is_sound:
                sound.append(link.row)
            else:
                damaged.append(_replace_key(link, row.key, new_key))

    scores = await _fetch_scores(connection, row, sorted(ends))
    scores[new_key] = get_rank_score(row)
    renamed = changes.rename_links(sound, row.key, new_key)

    moved: dict[_LinkName, LinkRecord] = {}
    async for part in split(renamed):
        for record in _rank_links(part, scores):
            moved.setdefault(_name(record.row), record)
    for record in damaged:
        moved.setdefault(_name(record.row), record)

    names = [_name(link.row) for link in existing]
    await _delete_links(connection, row, names)
    await _insert_links(connection, row, list(moved.values()))
    return RenamedLinks(sound, renamed)


def _replace_key(link: LinkRecord, old_key: str, new_key: str) -> LinkRecord:
    if link.source == old_key:
        link = link._replace(source=new_key)
    if link.target == old_key:
        link = link._replace(target=new_key)

    return link


async def delete_links(connection: Connection, row: Row) -> None:
    """Delete every link of a memory; the links of others to it stay."""
    await _DELETE_ALL_LINKS.execute(connection, row.namespace, row.key)


async def _fetch_links_at(
    connection: Connection, row: Row, targets: Sequence[str]
) -> list[LinkRecord]:
    """Return every link of a memory, and every one that leads to one of some keys."""
    namespace = row.namespace
    return await _LINKS_AT.fetch(connection, namespace, row.key, namespace, list(targets))


async def _fetch_scores(
    connection: Connection, row: Row, keys: Sequence[str]
) -> dict[str, float | None]:
    """Return the scores of the present memories among some keys of the row's namespace."""
    found: dict[str, float | None] = {}
    async for portion in split(keys):
        for key, score in await _SCORES.fetch(connection, row.namespace, list(portion)):
            found[key] = score

    return found


def _rank_links(links: Iterable[LinkRow], scores: Mapping[str, float | None]) -> list[LinkRecord]:
    """Return the records of links; memories that are missing or archived have no score."""
    records: list[LinkRecord] = []
    for link in links:
        target_score = scores.get(link.target)
        source_score = scores.get(link.source)
        records.append(LinkRecord.build(link, target_score, source_score))

    return records


async def _insert_links(connection: Connection, row: Row, links: Sequence[LinkRecord]) -> None:
    async for portion in split(links):
        columns = to_columns(portion)
        await _SAVE_LINKS.execute(connection, row.namespace, *columns)


async def _delete_links(connection: Connection, row: Row, names: Sequence[_LinkName]) -> None:
    async for portion in split(names):
        columns = to_columns(portion)
        await _DELETE_LINKS.execute(connection, *columns, row.namespace)


def _name(link: LinkRow) -> _LinkName:
    return _LinkName(link.source, link.target, link.type)
