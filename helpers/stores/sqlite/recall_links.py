"""The links that `recall` follows in an SQLite store, in a snapshot of the caller."""

import sqlite3
from collections.abc import Sequence

from abilities.helpers.search.recall import Filters
from abilities.helpers.search.spreading import MOST_INCOMING, MOST_OUTGOING, Links
from abilities.helpers.stores.model import rank_link
from abilities.helpers.stores.sqlite.queries import select_passing
from abilities.helpers.stores.sqlite.ranking import BestLinks

_INCOMING = "SELECT incoming FROM link_counts WHERE namespace = ? AND key = ?"
_ARCHIVED_SCORE = "SELECT score FROM memories WHERE namespace = ? AND key = ? AND archived = 1"

Link = tuple[str, float]
"""The key of the memory at the other end, and the weight."""


class RecallLinks:
    """Reads links whose other ends pass the filters of a request."""

    def __init__(self, connection: sqlite3.Connection, namespace: str, filters: Filters) -> None:
        self._connection = connection
        self._namespace = namespace
        self._filters = filters
        self._outgoing = BestLinks(connection, namespace, "target")
        self._incoming = BestLinks(connection, namespace, "source")
        self._passing: dict[str, bool] = {}

        condition, values = select_passing(filters)
        self._passes = (
            "SELECT 1 FROM memories AS m CROSS JOIN shelf AS s INDEXED BY shelf_memory"
            " ON s.memory = m.rowid WHERE m.namespace = ? AND m.key = ?"
            f" AND s.namespace = m.namespace AND {condition}"
        )
        self._values = values

    def read(self, keys: Sequence[str]) -> dict[str, Links]:
        """Return the links of each memory."""
        links: dict[str, Links] = {}
        for key in keys:
            links[key] = Links(self._read_outgoing(key), self._read_incoming(key))

        return links

    def _read_outgoing(self, key: str) -> list[Link]:
        """Return the best links of a memory."""
        if self._filters.archived:
            return self._rank_all(key)

        passing: list[Link] = []
        for record in self._outgoing.stream(key):
            if record.rank < 0 or len(passing) == MOST_OUTGOING:
                break
            if record.is_sound and self._does_pass(record.target):
                passing.append((record.target, record.weight))

        return passing

    def _rank_all(self, key: str) -> list[Link]:
        """Return the best links of a memory, those to archived memories among them.

        Stored ranks know no archived targets, so that all links have to be read.
        """
        ranked: list[tuple[int, float, str]] = []
        for record in self._outgoing.stream(key):
            rank = record.rank
            if rank < 0:
                rank = rank_link(record.weight, self._find_archived_score(record.target))

            if rank >= 0 and record.is_sound and self._does_pass(record.target):
                ranked.append((-rank, -record.weight, record.target))

        return [(target, -weight) for _, weight, target in sorted(ranked)[:MOST_OUTGOING]]

    def _find_archived_score(self, key: str) -> float | None:
        found: tuple[float] | None = self._connection.execute(
            _ARCHIVED_SCORE, (self._namespace, key)
        ).fetchone()
        if found is None:
            return None

        (score,) = found
        return score

    def _read_incoming(self, key: str) -> list[Link]:
        """Return the links that lead to a memory, or none if they are many."""
        (count,) = self._connection.execute(_INCOMING, (self._namespace, key)).fetchone() or (0,)
        if not 0 < count <= MOST_INCOMING:
            return []

        passing: list[Link] = []
        for record in self._incoming.read(key, MOST_INCOMING):
            is_present = record.back_rank >= 0 or self._filters.archived
            if is_present and record.is_sound and self._does_pass(record.source):
                passing.append((record.source, record.weight))

        return passing

    def _does_pass(self, key: str) -> bool:
        """Return whether a memory that is present passes the filters."""
        if self._filters.pass_all:
            return True

        if key not in self._passing:
            found = self._connection.execute(self._passes, (self._namespace, key, *self._values))
            self._passing[key] = found.fetchone() is not None

        return self._passing[key]
