"""Walks along links in PostgreSQL: they fetch the links of many memories in one round trip."""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from psycopg.rows import TupleRow

from abilities.declarations.faults import Refused
from abilities.declarations.memory import Direction
from abilities.helpers.stores.model import LinkRecord, StoredMemory
from abilities.helpers.stores.postgres.ranking import (
    ANY_MARK,
    BEST_FIRST,
    BEST_INCOMING_FIRST,
    LINK_COLUMNS,
    MARKS,
    ScoredLink,
    merge_scored,
    select_ordinary,
    select_stale,
)
from abilities.helpers.stores.postgres.reads import read
from abilities.helpers.stores.postgres.statements import Connection, Select
from abilities.helpers.stores.protocol import WalkResult
from abilities.helpers.stores.ranking import Side
from abilities.helpers.walk import (
    LinkRequest,
    Walk,
    WalkLimits,
    WalkLink,
    WalkOutcome,
)

PAGE = 32
"""Links of a memory that are fetched before it is known how many are needed."""

_OUTGOING = f"""
SELECT false AS incoming, {LINK_COLUMNS} FROM links AS l
WHERE l.namespace = given.namespace AND l.source = requested.key {BEST_FIRST} LIMIT given.page
"""
_INCOMING = f"""
SELECT true AS incoming, {LINK_COLUMNS} FROM links AS l
WHERE l.namespace = given.namespace AND l.target = requested.key
{BEST_INCOMING_FIRST} LIMIT given.page
"""
_REST_OUTGOING = f"""
(SELECT false AS incoming, {LINK_COLUMNS} FROM links AS l
WHERE l.namespace = given.namespace AND l.source = requested.key AND l.target = ANY (given.among))
UNION ALL (SELECT false AS incoming, {LINK_COLUMNS} FROM links AS l
WHERE l.namespace = given.namespace AND l.source = requested.key AND l.rank < 0 LIMIT given.page)
"""
_REST_INCOMING = f"""
(SELECT true AS incoming, {LINK_COLUMNS} FROM links AS l
WHERE l.namespace = given.namespace AND l.target = requested.key AND l.source = ANY (given.among))
UNION ALL (SELECT true AS incoming, {LINK_COLUMNS} FROM links AS l
WHERE l.namespace = given.namespace AND l.target = requested.key AND l.back_rank < 0
LIMIT given.page)
"""
_GUESSED_KEYS = "reached(given.namespace, %s, %s, %s, %s, given.page)"


def _write_both(outgoing: str, incoming: str) -> str:
    # Both parts are limited before they are merged, so that no number of links makes them slow.
    return f"""
    SELECT * FROM (({outgoing}) UNION ALL ({incoming})) AS l ORDER BY
        CASE WHEN l.incoming THEN l.back_rank ELSE l.rank END DESC, l.weight DESC,
        CASE WHEN l.incoming THEN l.source ELSE l.target END, l.type, l.incoming
    LIMIT given.page
    """


def _write_marked() -> dict[Direction, str]:
    """Return what selects links in a namespace with marks: those with stale ranks come last."""
    outgoing = _OUTGOING.replace("ORDER BY", f"AND {select_ordinary('target')} ORDER BY")
    incoming = _INCOMING.replace("ORDER BY", f"AND {select_ordinary('source')} ORDER BY")
    ordinary: dict[Direction, str] = {
        "out": outgoing,
        "in": incoming,
        "both": _write_both(outgoing, incoming),
    }

    names = ("given.namespace", "requested.key")
    stale_outgoing = select_stale("target", f"marks.score, false, {LINK_COLUMNS}", *names)
    stale_incoming = select_stale("source", f"marks.score, true, {LINK_COLUMNS}", *names)
    stale: dict[Direction, str] = {
        "out": stale_outgoing,
        "in": stale_incoming,
        "both": f"{stale_outgoing} UNION ALL {stale_incoming}",
    }

    marked: dict[Direction, str] = {}
    for direction, links in ordinary.items():
        scored = f"SELECT NULL::float8 AS score, l.* FROM ({links}) AS l"
        marked[direction] = f"{scored} UNION ALL {stale[direction]}"

    return marked


def _select_links(links: str, keys: str = "%s::text[]") -> Select[TupleRow]:
    """Return a statement for the links of keys by the ranks that they keep.

    It takes the namespace twice, a limit and the keys. Each link has a score if the namespace has
    marks; the ranks may then be stale. For a memory without links, it returns one row of nulls.
    """
    return Select(
        f"""
        SELECT requested.key, {ANY_MARK}, l.*
        FROM (SELECT %s::text AS namespace, %s::int AS page) AS given
        CROSS JOIN unnest({keys}) AS requested (key)
        LEFT JOIN LATERAL ({links}) AS l ON true
        """,
        tuple,
    )


def _select_marked_links(links: str) -> Select[TupleRow]:
    """Return a statement as `_select_links` does, for a namespace with marks.

    Up to the limit it returns links with right ranks, and in any case those with stale ones; only
    these have a score.
    """
    return Select(
        f"""
        WITH {MARKS}
        SELECT requested.key, l.* FROM (SELECT %s::text AS namespace, %s::int AS page) AS given
        CROSS JOIN unnest(%s::text[]) AS requested (key)
        LEFT JOIN LATERAL ({links}) AS l ON true
        """,
        tuple,
    )


_SELECT_LINKS: dict[Direction, Select[TupleRow]] = {
    "out": _select_links(_OUTGOING),
    "in": _select_links(_INCOMING),
    "both": _select_links(_write_both(_OUTGOING, _INCOMING)),
}
_SELECT_MARKED_LINKS: dict[Direction, Select[TupleRow]] = {
    direction: _select_marked_links(links) for direction, links in _write_marked().items()
}


def _select_rest(links: str) -> Select[TupleRow]:
    """Return a statement for the links of keys to some memories, and to absent ones.

    It takes the namespace, a limit, those memories and the keys.
    """
    return Select(
        f"""
        SELECT requested.key, NULL::float8 AS score, l.*
        FROM (SELECT %s::text AS namespace, %s::int AS page, %s::text[] AS among) AS given
        CROSS JOIN unnest(%s::text[]) AS requested (key) CROSS JOIN LATERAL ({links}) AS l
        """,
        tuple,
    )


_SELECT_REST: dict[Direction, Select[TupleRow]] = {
    "out": _select_rest(_REST_OUTGOING),
    "in": _select_rest(_REST_INCOMING),
    "both": _select_rest(f"{_REST_OUTGOING} UNION ALL {_REST_INCOMING}"),
}
_SELECT_GUESSED_LINKS = _select_links(_OUTGOING, _GUESSED_KEYS)


async def walk(
    connection: Connection, namespace: str, key: str, limits: WalkLimits, direction: Direction
) -> WalkResult:
    """Walk from a memory. Raises Refused if the memory itself cannot be read.

    A memory with an impossible score is only noticed when it is read; the walk is then repeated
    without it.
    """
    links = _WalkLinks(connection, namespace, direction)
    while True:
        outcome = await links.walk(key, limits)
        keys = [step.key for step in outcome.steps]
        memories = await read(connection, namespace, keys)

        if isinstance(memories[0], Exception):  # the memory that the walk begins with
            raise memories[0]

        invalid = _find_invalid(keys, memories)
        if not invalid:
            return WalkResult(outcome, tuple(memories))
        links.invalid |= invalid


def _find_invalid(keys: Sequence[str], memories: Sequence[StoredMemory | Exception]) -> set[str]:
    """Return the keys of the memories whose scores are impossible."""
    invalid: set[str] = set()
    for key, memory in zip(keys, memories, strict=True):
        if isinstance(memory, Refused) and memory.reason == "invalid_stored_value":
            invalid.add(key)

    return invalid


class _WalkLinks:
    """The links that were fetched so far, and walks over them.

    A walk is tried over the known links. Those that it misses are fetched in one round trip, and
    it is tried again, until it misses none. Along outgoing links, the first are those that the
    database guesses the walk to need; usually they are enough. All others come one level at a time.

    ``invalid`` are the keys of memories that cannot be walked to.
    """

    def __init__(self, connection: Connection, namespace: str, direction: Direction) -> None:
        self._connection = connection
        self._namespace = namespace
        self._direction: Direction = direction
        self._has_marks: bool | None = None  # until the first links are fetched
        # Rows become records only when the walk asks for them: it seldom needs all of a page.
        self._links: dict[str, list[TupleRow]] = {}
        self._complete: set[str] = set()  # the memories whose links are all known
        self._rest: dict[LinkRequest, list[TupleRow]] = {}
        self.invalid: set[str] = set()

    async def walk(self, key: str, limits: WalkLimits) -> WalkOutcome:
        """Walk from a memory, fetching links until no link is missing."""
        if self._has_marks is None:
            await self._fetch_first(key, limits)

        while True:
            missing: list[LinkRequest] = []
            outcome = self._try_walk(key, limits, missing)
            if not missing:
                return outcome

            await self._fetch_missing(missing)

    async def _fetch_missing(self, missing: Sequence[LinkRequest]) -> None:
        """Fetch what a walk missed: first the links that decide it."""
        wanted: dict[str, int] = {}
        for request in missing:
            # All of a memory's links are fetched again, but four times as many as last time, so
            # that even ten thousand take few round trips.
            if request.among is None or self._has_marks:
                wanted[request.key] = max(PAGE, len(self._links.get(request.key, [])) * 4)

        if wanted:
            await self._fetch(max(wanted.values()), list(wanted))
        else:
            await self._fetch_rest(missing)

    async def _fetch_rest(self, requests: Sequence[LinkRequest]) -> None:
        """Fetch the links that requests have in common: those to the same memories."""
        among = requests[0].among or frozenset()
        by_key = {request.key: self._rest.setdefault(request, []) for request in requests}

        rows = await _SELECT_REST[self._direction].fetch(
            self._connection, self._namespace, requests[0].needed, list(among), list(by_key)
        )
        for key, *columns in rows:
            by_key[key].append(tuple(columns))

    def _try_walk(self, key: str, limits: WalkLimits, missing: list[LinkRequest]) -> WalkOutcome:
        """Walk over the known links; note the requests for others in ``missing``."""
        conversation = Walk(key, limits).run()
        try:
            request = next(conversation)
            while True:
                request = conversation.send(self._answer(request, missing))
        except StopIteration as end:
            outcome: WalkOutcome = end.value
            return outcome

    def _answer(self, request: LinkRequest, missing: list[LinkRequest]) -> list[WalkLink]:
        requested = self._rest.get(request)
        if requested is None:
            links = self._links.get(request.key, [])
            is_partial = request.among is None and request.offset < len(links)
            if not is_partial and request.key not in self._complete:
                missing.append(request)
                return []

            requested = links[request.offset :]
            if request.among is None:
                requested = requested[: request.needed]

        return [self._to_walk_link(columns) for columns in requested]

    def _to_walk_link(self, columns: TupleRow) -> WalkLink:
        _, incoming, *values = columns
        record = LinkRecord._make(values)
        return record.to_walk_link(self.invalid, incoming=incoming)

    async def _fetch_first(self, key: str, limits: WalkLimits) -> None:
        """Fetch the links that can be guessed, and find out whether there are marks."""
        values: tuple[object, ...] = ([key],)
        select = _SELECT_LINKS[self._direction]
        if self._direction == "out":
            values = (key, *limits)
            select = _SELECT_GUESSED_LINKS

        rows = await self._select(select, PAGE, *values)
        _, score, *_ = rows[0]
        self._has_marks = score is not None

        if self._has_marks:
            await self._fetch(PAGE, list({key: None for key, *_ in rows}))
        else:
            self._learn(rows, PAGE)

    async def _fetch(self, limit: int, keys: list[str]) -> None:
        """Fetch ``limit`` links of each of some memories, and those with stale ranks."""
        select = _SELECT_LINKS[self._direction]
        if self._has_marks:
            select = _SELECT_MARKED_LINKS[self._direction]

        rows = await self._select(select, limit, keys)
        self._learn(rows, limit)

    async def _select(
        self, select: Select[TupleRow], limit: int, *requested: object
    ) -> list[TupleRow]:
        return await select.fetch(
            self._connection, self._namespace, self._namespace, limit, *requested
        )

    def _learn(self, rows: Sequence[TupleRow], limit: int) -> None:
        """Keep the links that were fetched, up to ``limit`` or more of each memory."""
        fetched: dict[str, list[TupleRow]] = {}
        for key, *columns in rows:
            links = fetched.setdefault(key, [])
            _, incoming, *_ = columns
            if incoming is not None:
                links.append(tuple(columns))

        for key, links in fetched.items():
            known = _KnownLinks.merge(links, limit)
            self._links[key] = known.links
            if known.is_complete:
                self._complete.add(key)


class _KnownLinks(NamedTuple):
    """The best links of a memory, and whether these are all."""

    links: list[TupleRow]
    is_complete: bool

    @classmethod
    def merge(cls, links: list[TupleRow], limit: int) -> "_KnownLinks":
        """Take the links that were fetched, of which those with a score stand last."""
        if not links or links[-1][0] is None:
            return cls(links, len(links) < limit)

        ordinary = [link for link in links if link[0] is None]
        is_complete = len(ordinary) < limit

        merged = list(
            heapq.merge(
                _place(ordinary),
                _place(_correct(links, "target", incoming=False)),
                _place(_correct(links, "source", incoming=True)),
                key=lambda placed: placed.place,
            )
        )

        # Behind the last ordinary link, others that were not fetched may come first.
        while not is_complete and merged[-1].link[0] is not None:
            merged.pop()
        return cls([placed.link for placed in merged], is_complete)


Place = tuple[float, float, str, str, bool]


class _PlacedColumns(NamedTuple):
    place: Place
    link: TupleRow


def _correct(links: Sequence[TupleRow], side: Side, *, incoming: bool) -> Iterator[TupleRow]:
    """Yield the links with stale ranks in one direction, with their right ranks, best first."""
    scored: list[ScoredLink] = []
    for score, is_incoming, *values in links:
        if score is not None and is_incoming == incoming:
            scored.append(ScoredLink(score, LinkRecord._make(values)))

    for record in merge_scored(scored, side):
        yield (0.0, incoming, *record)


def _place(links: Iterable[TupleRow]) -> Iterator[_PlacedColumns]:
    """Yield links, which are best first, with their places."""
    place: Place = (-math.inf, 0.0, "", "", False)
    for columns in links:
        _, incoming, *values = columns
        link = LinkRecord._make(values).to_walk_link((), incoming=incoming)

        # A damaged link stays behind the one before it, whatever its values are now.
        if link.state != "invalid":
            place = (-link.rank, -link.weight, link.key, link.type, incoming)

        yield _PlacedColumns(place, columns)
