"""Repair of the links of one namespace in PostgreSQL, and of their numbers."""

from collections.abc import Callable
from typing import NamedTuple

from abilities.helpers.stores.mending import mend_link
from abilities.helpers.stores.model import LinkRecord, LinkRow
from abilities.helpers.stores.originals import OriginalsFile, RepairReport
from abilities.helpers.stores.postgres.ranking import LINK_COLUMNS
from abilities.helpers.stores.postgres.statements import Connection, Select, Statement, stream
from abilities.helpers.stores.ranking import ARE_STALE, LinkEnds

_COLUMNS = ("namespace", *LinkRecord._fields)
_LINKS = f"""
SELECT {LINK_COLUMNS}, t.archived, t.score, s.archived, s.score, {ARE_STALE}
FROM links AS l
LEFT JOIN memories AS t ON t.namespace = l.namespace AND t.key = l.target
LEFT JOIN memories AS s ON s.namespace = l.namespace AND s.key = l.source
WHERE l.namespace = %s
"""
_DELETE_LINK = Statement(
    "DELETE FROM links WHERE namespace = %s AND source = %s AND target = %s AND type = %s"
)
_ADD_LINK = Statement(
    f"INSERT INTO links ({', '.join(_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_COLUMNS))})"
    " ON CONFLICT DO NOTHING"
)


class _Ranked(NamedTuple):
    """A memory at one end of a link, as far as it decides a rank; None if it is missing."""

    archived: int | None
    score: float | None


_END = Select(
    "SELECT archived, score FROM memories WHERE namespace = %s AND key = %s", _Ranked._make
)
_CLEAR_COUNTS = Statement("DELETE FROM link_counts WHERE namespace = %s")
_COUNT_AGAIN = Statement("""
    INSERT INTO link_counts (namespace, key, outgoing, incoming)
    SELECT namespace, key, sum(outgoing), sum(incoming) FROM (
        SELECT namespace, source AS key, 1 AS outgoing, 0 AS incoming FROM links
        WHERE namespace = %s
        UNION ALL SELECT namespace, target, 0, 1 FROM links WHERE namespace = %s
    ) AS ends GROUP BY namespace, key
""")


async def mend_links(
    connection: Connection,
    namespace: str,
    originals: OriginalsFile,
    report: RepairReport,
    progress: Callable[[int], None],
) -> None:
    """Mend damaged links and wrong ranks, and count all links again."""
    wrong: list[LinkRecord] = []
    async for columns in stream(connection, _LINKS, namespace):
        progress(1)
        record = LinkRecord._make(columns[: len(LinkRecord._fields)])
        ends = LinkEnds._make(columns[len(LinkRecord._fields) :])
        if not record.is_sound or not ends.confirm_ranks(record):
            wrong.append(record)

    for record in wrong:
        link = record.row
        if not record.is_sound:
            originals.add("links", {"namespace": namespace, **record._asdict()})
            report.mended_links += 1
            link = mend_link(link)

        await _replace_link(connection, namespace, record, link)

    # At last, because the triggers have counted along from wrong numbers.
    await _CLEAR_COUNTS.execute(connection, namespace)
    await _COUNT_AGAIN.execute(connection, namespace, namespace)


async def _replace_link(
    connection: Connection, namespace: str, before: LinkRecord, after: LinkRow
) -> None:
    await _DELETE_LINK.execute(connection, namespace, before.source, before.target, before.type)

    target = await _END.fetch_first(connection, namespace, after.target) or _Ranked(None, None)
    source = await _END.fetch_first(connection, namespace, after.source) or _Ranked(None, None)
    record = LinkEnds(*target, *source).build_record(after)
    await _ADD_LINK.execute(connection, namespace, *record)
