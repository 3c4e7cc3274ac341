"""The links along which `recall` spreads, for many memories in one round trip."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from abilities.helpers.search.recall import Filters
from abilities.helpers.search.spreading import MOST_INCOMING, MOST_OUTGOING, Links
from abilities.helpers.stores.model import LinkRecord
from abilities.helpers.stores.postgres.filters import select_passing
from abilities.helpers.stores.postgres.ranking import ANY_MARK, BEST_FIRST, LINK_COLUMNS
from abilities.helpers.stores.postgres.statements import Connection, Select
from abilities.helpers.walk import RANK_ONE

# LATERAL with a limit keeps the planner at one look-up per memory, however many are asked.
#
# The rank is computed here, because the one of a link to an archived memory, and a stale one, are
# not kept.
_COMPUTED_FIRST = f"""
ORDER BY floor(l.weight * m.score * {RANK_ONE} + 0.5) DESC, l.weight DESC, l.target, l.type
"""


class _FoundLink(NamedTuple):
    """A link of a memory or to it; ``mark`` is None in a namespace without stale ranks."""

    key: str
    incoming: bool
    mark: float | None
    record: LinkRecord

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_FoundLink":
        """Make a record of a key, a direction, a mark and the columns of a link."""
        key, incoming, mark, *values = columns
        return cls(key, incoming, mark, LinkRecord._make(values))


async def fetch_links(
    connection: Connection, namespace: str, filters: Filters, keys: Sequence[str]
) -> dict[str, Links]:
    """Return the links of memories whose other ends pass the filters."""
    order = _COMPUTED_FIRST if filters.archived else BEST_FIRST
    links = await _fetch(connection, namespace, filters, keys, order)
    if any(link.mark is not None for link in links) and order != _COMPUTED_FIRST:
        links = await _fetch(connection, namespace, filters, keys, _COMPUTED_FIRST)

    outgoing: dict[str, list[tuple[str, float]]] = {key: [] for key in keys}
    incoming: dict[str, list[tuple[str, float]]] = {key: [] for key in keys}
    for link in links:
        record = link.record
        if not record.is_sound:
            continue
        if link.incoming:
            incoming[link.key].append((record.source, record.weight))
        else:
            outgoing[link.key].append((record.target, record.weight))

    return {key: Links(outgoing[key], incoming[key]) for key in keys}


async def _fetch(
    connection: Connection, namespace: str, filters: Filters, keys: Sequence[str], order: str
) -> list[_FoundLink]:
    passing = select_passing("m", filters)
    statement = Select(
        f"""
        SELECT asked.key, false, {ANY_MARK}, found.* FROM unnest(%s::text[]) AS asked (key)
        CROSS JOIN LATERAL (
            SELECT {LINK_COLUMNS} FROM links AS l
            JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.target
            WHERE l.namespace = %s AND l.source = asked.key AND {passing.condition}
            {order} LIMIT {MOST_OUTGOING}
        ) AS found
        UNION ALL
        SELECT asked.key, true, {ANY_MARK}, found.* FROM unnest(%s::text[]) AS asked (key)
        CROSS JOIN LATERAL (
            SELECT c.key FROM link_counts AS c WHERE c.namespace = %s AND c.key = asked.key
            AND c.incoming BETWEEN 1 AND {MOST_INCOMING} OFFSET 0
        ) AS few
        CROSS JOIN LATERAL (
            SELECT {LINK_COLUMNS} FROM links AS l
            JOIN memories AS m ON m.namespace = l.namespace AND m.key = l.source
            WHERE l.namespace = %s AND l.target = few.key AND {passing.condition}
            LIMIT {MOST_INCOMING}
        ) AS found
        """,
        _FoundLink.parse,
    )
    asked = list(keys)
    return await statement.fetch(
        connection,
        namespace,
        asked,
        namespace,
        *passing.values,
        namespace,
        asked,
        namespace,
        namespace,
        *passing.values,
    )
