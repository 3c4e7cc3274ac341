"""The links along which `recall` spreads, for many memories in one round trip."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from abilities.helpers.search.recall import Filters
from abilities.helpers.search.spreading import MOST_INCOMING, MOST_OUTGOING, Links, keep_best
from abilities.helpers.stores.model import is_sound_link
from abilities.helpers.stores.postgres.filters import select_passing
from abilities.helpers.stores.postgres.ranking import ANY_MARK, BEST_FIRST, LINK_COLUMNS
from abilities.helpers.stores.postgres.statements import Connection, Select
from abilities.helpers.walk import RANK_ONE

# The rank is computed here, because the one of a link to an archived memory, and a stale one, are
# not kept. PostgreSQL refuses a product that is too small for a float; from 1e-100 down, every
# rank is 0 anyway.
_COMPUTED_FIRST = f"""
ORDER BY floor(greatest(l.weight, 1e-100) * greatest(m.score, 1e-100) * {RANK_ONE} + 0.5) DESC,
    l.weight DESC, l.target, l.type
"""


class _FoundLink(NamedTuple):
    """A link of a memory or to it; ``mark`` is None in a namespace without stale ranks.

    ``columns`` are those of a `LinkRecord`; most links need no more than some of them.
    """

    key: str
    incoming: bool
    mark: float | None
    columns: tuple[Any, ...]

    @classmethod
    def parse(cls, columns: Sequence[Any]) -> "_FoundLink":
        """Make a record of a key, a direction, a mark and the columns of a link."""
        key, incoming, mark, *values = columns
        return cls(key, incoming, mark, tuple(values))


class _Ends(NamedTuple):
    """How the other ends of outgoing and incoming links are selected, and the order of the first.

    ``values`` are bound once per direction.
    """

    outgoing: str
    incoming: str
    values: tuple[object, ...]
    order: str


# The rank of a link tells whether its end is there, unless it is stale.
_PRESENT = _Ends("WHERE l.rank >= 0", "WHERE l.back_rank >= 0", (), BEST_FIRST)


async def fetch_links(
    connection: Connection, namespace: str, filters: Filters, keys: Sequence[str]
) -> dict[str, Links]:
    """Return the links of memories whose other ends pass the filters."""
    is_plain = filters.pass_all and not filters.archived
    ends = _PRESENT if is_plain else _select_ends(filters)
    links = await _fetch(connection, namespace, keys, ends)

    if ends.order == BEST_FIRST and any(link.mark is not None for link in links):
        computed = _select_ends(filters)._replace(order=_COMPUTED_FIRST)
        links = await _fetch(connection, namespace, keys, computed)

    outgoing: dict[str, dict[str, float]] = {key: {} for key in keys}
    incoming: dict[str, dict[str, float]] = {key: {} for key in keys}
    for link in links:
        if not is_sound_link(link.columns):
            continue

        source, target, _, weight, *_ = link.columns
        if link.incoming:
            keep_best(incoming[link.key], source, weight)
        else:
            keep_best(outgoing[link.key], target, weight)

    return {key: Links(outgoing[key], incoming[key]) for key in keys}


def _select_ends(filters: Filters) -> _Ends:
    """Return how ends are selected that pass filters, from the memories themselves."""
    passing = select_passing("m", filters)
    present = f"m.score BETWEEN 0 AND 1 AND {passing.condition}"
    join = "JOIN memories AS m ON m.namespace = l.namespace AND m.key ="

    return _Ends(
        f"{join} l.target WHERE {present}",
        f"{join} l.source WHERE {present}",
        passing.values,
        _COMPUTED_FIRST if filters.archived else BEST_FIRST,
    )


async def _fetch(
    connection: Connection, namespace: str, keys: Sequence[str], ends: _Ends
) -> list[_FoundLink]:
    # Limits in LATERAL keep the planner at one look-up per memory, however many are asked.
    statement = Select(
        f"""
        SELECT asked.key, false, {ANY_MARK}, found.* FROM unnest(%s::text[]) AS asked (key)
        CROSS JOIN LATERAL (
            SELECT {LINK_COLUMNS} FROM links AS l {ends.outgoing}
            AND l.namespace = %s AND l.source = asked.key {ends.order} LIMIT {MOST_OUTGOING}
        ) AS found
        UNION ALL
        SELECT asked.key, true, {ANY_MARK}, found.* FROM unnest(%s::text[]) AS asked (key)
        CROSS JOIN LATERAL (
            SELECT c.key FROM link_counts AS c WHERE c.namespace = %s AND c.key = asked.key
            AND c.incoming BETWEEN 1 AND {MOST_INCOMING} OFFSET 0
        ) AS few
        CROSS JOIN LATERAL (
            SELECT {LINK_COLUMNS} FROM links AS l {ends.incoming}
            AND l.namespace = %s AND l.target = few.key LIMIT {MOST_INCOMING}
        ) AS found
        """,
        _FoundLink.parse,
        is_binary=True,
    )
    asked = list(keys)
    return await statement.fetch(
        connection,
        namespace,
        asked,
        *ends.values,
        namespace,
        namespace,
        asked,
        namespace,
        *ends.values,
        namespace,
    )
