"""The repair of the links of a namespace, and of all that is counted there, on every engine."""

from collections.abc import Callable

from abilities.helpers.store.examining import (
    COUNT_LINKS,
    COUNT_MEMORIES,
    MARKS,
    examine_links,
)
from abilities.helpers.store.mending import mend_link, mend_namespace
from abilities.helpers.store.model import LinkRecord, LinkRow
from abilities.helpers.store.originals import OriginalsFile, RepairReport
from abilities.helpers.store.ranking import LinkEnds, StaleMark
from abilities.helpers.store.transaction import Transaction

_COUNT_MEMORIES = f"""
INSERT INTO counters (namespace, name, archived, value, number)
{COUNT_MEMORIES.format(where="WHERE namespace = ?")}
"""
_COUNT_LINKS = f"""
INSERT INTO link_counts (namespace, key, outgoing, incoming)
{COUNT_LINKS.format(where="WHERE namespace = ?")}
"""
_UNMARK = "DELETE FROM stale_ranks WHERE namespace = ? AND side = ? AND key = ?"
_DELETE_LINK = "DELETE FROM links WHERE namespace = ? AND source = ? AND target = ? AND type = ?"
_ADD_LINK = f"""
INSERT INTO links (namespace, {", ".join(LinkRecord._fields)})
VALUES ({", ".join("?" * (len(LinkRecord._fields) + 1))}) ON CONFLICT DO NOTHING
"""
_END = "SELECT archived, score FROM memories WHERE namespace = ? AND key = ?"


async def mend_links(
    transaction: Transaction,
    namespace: str,
    originals: OriginalsFile,
    report: RepairReport,
    progress: Callable[[int], None],
) -> set[str]:
    """Mend damaged links and wrong ranks; return the other namespaces that links were moved to."""
    place = mend_namespace(namespace)
    await _delete_damaged_marks(transaction, namespace, place)

    wrong: list[LinkRecord] = []
    async for link in examine_links(transaction, namespace):
        progress(1)
        if not link.is_ranked or place != namespace:
            wrong.append(link.record)

    for record in wrong:
        mended = record.row
        if not record.is_sound or place != namespace:
            originals.add("links", {"namespace": namespace, **record._asdict()})
            report.mended_links += 1
            mended = mend_link(mended)

        await transaction.run(_DELETE_LINK, namespace, *record[:3])
        await _add_link(transaction, place, mended)

    return {place} - {namespace} if wrong else set()


async def _delete_damaged_marks(transaction: Transaction, namespace: str, place: str) -> None:
    for _, *columns in await transaction.fetch(f"{MARKS} WHERE namespace = ?", namespace):
        mark = StaleMark._make(columns)
        if place != namespace or not mark.is_sound:
            await transaction.run(_UNMARK, namespace, mark.side, mark.key)


async def _add_link(transaction: Transaction, namespace: str, link: LinkRow) -> None:
    ends: list[object] = []
    for key in (link.target, link.source):
        found = await transaction.fetch(_END, namespace, key)
        ends += found[0] if found else (None, None)

    record = LinkEnds(*ends).build_record(link)
    await transaction.run(_ADD_LINK, namespace, *record)


async def count_again(transaction: Transaction, namespace: str) -> None:
    """Count memories and links, once all that is counted is right."""
    for table, statement in (("counters", _COUNT_MEMORIES), ("link_counts", _COUNT_LINKS)):
        await transaction.run(f"DELETE FROM {table} WHERE namespace = ?", namespace)
        await transaction.run(statement, *[namespace] * statement.count("?"))
