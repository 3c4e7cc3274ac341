"""The links that `recall` follows in an SQLite store, in a snapshot of the caller."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence

from abilities.helpers.search.recall import Filters
from abilities.helpers.search.spreading import MOST_INCOMING, MOST_OUTGOING, Links, keep_best
from abilities.helpers.stores.model import LinkRecord, is_sound_link, rank_link
from abilities.helpers.stores.sqlite.queries import select_passing
from abilities.helpers.stores.sqlite.ranking import BestLinks

_RECORD = ", ".join(f"l.{name}" for name in LinkRecord._fields)

_COUNTS = """
SELECT c.key, c.outgoing, c.incoming FROM json_each(?) AS asked
CROSS JOIN link_counts AS c ON c.namespace = ? AND c.key = asked.value
"""
_OUTGOING = f"""
SELECT {_RECORD} FROM json_each(?) AS asked
CROSS JOIN links AS l ON l.namespace = ? AND l.source = asked.value
"""
_INCOMING = f"""
SELECT {_RECORD} FROM json_each(?) AS asked
CROSS JOIN links AS l INDEXED BY links_incoming ON l.namespace = ? AND l.target = asked.value
"""
_ARCHIVED_SCORE = "SELECT score FROM memories WHERE namespace = ? AND key = ? AND archived = 1"
_PASSING = """
SELECT m.key FROM json_each(?) AS asked
CROSS JOIN memories AS m ON m.namespace = ? AND m.key = asked.value
CROSS JOIN shelf AS s INDEXED BY shelf_memory ON s.memory = m.rowid
WHERE s.namespace = m.namespace AND {condition}
"""

Ends = dict[str, float]
"""The keys of the memories at the other ends of links, with the best weights."""


class RecallLinks:
    """Reads links whose other ends pass the filters of a request."""

    def __init__(self, connection: sqlite3.Connection, namespace: str, filters: Filters) -> None:
        self._connection = connection
        self._namespace = namespace
        self._filters = filters
        self._outgoing = BestLinks(connection, namespace, "target")
        self._incoming = BestLinks(connection, namespace, "source")
        self._passing: dict[str, bool] = {}

        condition, self._values = select_passing(filters)
        self._passes = _PASSING.format(condition=condition)

    def read(self, keys: Sequence[str]) -> dict[str, Links]:
        """Return the links of each memory."""
        counts: dict[str, tuple[int, int]] = dict.fromkeys(keys, (0, 0))
        for key, outgoing_count, incoming_count in self._select(_COUNTS, keys):
            counts[key] = (outgoing_count, incoming_count)

        few = [key for key, (count, _) in counts.items() if count <= MOST_OUTGOING]
        led_to = [key for key, (_, count) in counts.items() if 0 < count <= MOST_INCOMING]

        outgoing = self._read_outgoing(few)
        incoming = self._read_incoming(led_to)
        for key, (count, _) in counts.items():
            if count > MOST_OUTGOING:
                outgoing[key] = self._read_best(key)

        return {key: Links(outgoing[key], incoming[key]) for key in keys}

    def _select(self, statement: str, keys: Sequence[str], *values: object) -> sqlite3.Cursor:
        """Return the rows of a statement that takes keys, the namespace and further values."""
        return self._connection.execute(statement, (json.dumps(keys), self._namespace, *values))

    def _read_outgoing(self, keys: Sequence[str]) -> dict[str, Ends]:
        """Return the links of memories that have no more than are followed, in any order."""
        links: dict[str, Ends] = defaultdict(dict)

        for columns in self._select(_OUTGOING, keys):
            source, target, _, weight, _, rank, _, _ = columns
            if is_sound_link(columns) and self._is_target_there(target, rank):
                keep_best(links[source], target, weight)

        return self._keep_passing(links)

    def _is_target_there(self, key: str, rank: int) -> bool:
        if self._outgoing.is_present(key, rank):
            return True

        return self._filters.archived and self._find_archived_score(key) is not None

    def _read_incoming(self, keys: Sequence[str]) -> dict[str, Ends]:
        """Return the links that lead to memories."""
        links: dict[str, Ends] = defaultdict(dict)

        for columns in self._select(_INCOMING, keys):
            source, target, _, weight, _, _, back_rank, _ = columns
            if not is_sound_link(columns):
                continue
            if self._filters.archived or self._incoming.is_present(source, back_rank):
                keep_best(links[target], source, weight)

        return self._keep_passing(links)

    def _read_best(self, key: str) -> Ends:
        """Return the best links of a memory that has many."""
        if self._filters.archived:
            return self._rank_all(key)

        passing: Ends = {}
        count = 0
        for record in self._outgoing.stream(key):
            if record.rank < 0 or count == MOST_OUTGOING:
                break
            if record.is_sound and self._does_pass(record.target):
                keep_best(passing, record.target, record.weight)
                count += 1

        return passing

    def _rank_all(self, key: str) -> Ends:
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

        best: Ends = {}
        for _, weight, target in sorted(ranked)[:MOST_OUTGOING]:
            keep_best(best, target, -weight)

        return best

    def _find_archived_score(self, key: str) -> float | None:
        found: tuple[float] | None = self._connection.execute(
            _ARCHIVED_SCORE, (self._namespace, key)
        ).fetchone()
        if found is None:
            return None

        (score,) = found
        return score

    def _keep_passing(self, links: dict[str, Ends]) -> dict[str, Ends]:
        """Return the links whose other ends, which are present, pass the filters."""
        if self._filters.pass_all:
            return links

        self._look_up({other for ends in links.values() for other in ends})
        kept: dict[str, Ends] = defaultdict(dict)
        for key, ends in links.items():
            kept[key] = {other: weight for other, weight in ends.items() if self._passing[other]}

        return kept

    def _does_pass(self, key: str) -> bool:
        """Return whether a memory that is present passes the filters."""
        if self._filters.pass_all:
            return True

        self._look_up([key])
        return self._passing[key]

    def _look_up(self, keys: Iterable[str]) -> None:
        """Find out which memories pass the filters."""
        unknown = {key: False for key in keys if key not in self._passing}
        if unknown:
            passing = self._select(self._passes, list(unknown), *self._values)
            self._passing |= unknown | {key: True for (key,) in passing}
