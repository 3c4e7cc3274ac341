"""Walks along links in PostgreSQL: they fetch the links of many memories in one round trip."""

from collections.abc import Sequence

from psycopg.rows import TupleRow

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import LinkRecord, StoredMemory
from abilities.helpers.stores.postgres.reads import BEST_FIRST, LINK_COLUMNS, read
from abilities.helpers.stores.postgres.statements import Connection, Select
from abilities.helpers.stores.protocol import WalkResult
from abilities.helpers.walk import LinkRequest, Walk, WalkLimits, WalkLink, WalkOutcome

PAGE = 32
"""Links of a memory that are fetched before it is known how many are needed."""

_JOIN_LINKS = f"""
LEFT JOIN LATERAL (
    SELECT {LINK_COLUMNS} FROM links AS l
    WHERE l.namespace = %s AND l.source = requested.key {BEST_FIRST} LIMIT %s
) AS l ON true
"""
_COLUMNS = LINK_COLUMNS.replace("l.source", "requested.key")
_SELECT_LINKS = Select(
    f"SELECT {_COLUMNS} FROM unnest(%s::text[]) AS requested (key) {_JOIN_LINKS}", tuple
)
_SELECT_GUESSED_LINKS = Select(
    f"""
    SELECT {_COLUMNS}
    FROM unnest(reached(%s, %s, %s, %s, %s, %s)) AS requested (key) {_JOIN_LINKS}
    """,
    tuple,
)


async def walk(connection: Connection, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
    """Walk from a memory. Raises Refused if the memory itself cannot be read.

    A memory with an impossible score is only noticed when it is read; the walk is then repeated
    without it.
    """
    links = _WalkLinks(connection, namespace)
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
    it is tried again, until it misses none. The first links are those that the database guesses
    the walk to need; later ones come one level at a time. Usually the guess is enough.

    ``invalid`` are the keys of memories that cannot be walked to.
    """

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace
        # Rows become records only when the walk asks for them, because the guess has the links of
        # all memories that the walk comes to, and those at its limit of depth are never asked for.
        self._links: dict[str, list[TupleRow]] = {}
        self._complete: set[str] = set()  # the memories whose links are all known
        self.invalid: set[str] = set()

    async def walk(self, key: str, limits: WalkLimits) -> WalkOutcome:
        """Walk from a memory, fetching links until no link is missing."""
        if not self._links:
            guess = (self._namespace, key, *limits, PAGE)
            await self._fetch(PAGE, _SELECT_GUESSED_LINKS, *guess)

        while True:
            missing: dict[str, int] = {}
            outcome = self._try_walk(key, limits, missing)
            if not missing:
                return outcome

            limit = max(missing.values())
            await self._fetch(limit, _SELECT_LINKS, list(missing))

    def _try_walk(self, key: str, limits: WalkLimits, missing: dict[str, int]) -> WalkOutcome:
        """Walk over the known links; note in ``missing`` how many to fetch of which memory."""
        conversation = Walk(key, limits).run()
        try:
            request = next(conversation)
            while True:
                request = conversation.send(self._answer(request, missing))
        except StopIteration as end:
            outcome: WalkOutcome = end.value
            return outcome

    def _answer(self, request: LinkRequest, missing: dict[str, int]) -> list[WalkLink]:
        links = self._links.get(request.key, [])
        has_answer = request.offset < len(links) or request.key in self._complete
        if not has_answer:
            # All of a memory's links are fetched again, but four times as many as last time, so
            # that even ten thousand take few round trips.
            missing[request.key] = max(PAGE, len(links) * 4)
            return []

        remaining = map(LinkRecord._make, links[request.offset :])
        return [link.to_walk_link(self.invalid) for link in remaining]

    async def _fetch(self, limit: int, select: Select[TupleRow], *requested: object) -> None:
        """Fetch up to ``limit`` links of each memory that the values in ``requested`` select."""
        rows = await select.fetch(
            self._connection,
            *requested,
            self._namespace,
            limit,
        )

        fetched: dict[str, list[TupleRow]] = {}
        for row in rows:
            source, target, _type, _weight, _rank, _hash = row
            links = fetched.setdefault(source, [])

            # For a memory without links, the left join returns one row of nulls.
            if target is not None:
                links.append(row)

        self._links |= fetched
        for key, links in fetched.items():
            if len(links) < limit:
                self._complete.add(key)
