"""The links along which `recall` spreads, in a snapshot of the caller."""

from collections.abc import Iterable, Sequence

from abilities.helpers.search.recall import Filters
from abilities.helpers.search.spreading import MOST_INCOMING, MOST_OUTGOING, Links, keep_best
from abilities.helpers.stores.best_links import LINK_COLUMNS, BestLinks, Pages, Wanted
from abilities.helpers.stores.filters import select_passing
from abilities.helpers.stores.model import LinkRecord, rank_link
from abilities.helpers.stores.transaction import Columns, ForEach, Transaction

_FEW_INCOMING = f"""
SELECT {LINK_COLUMNS} FROM links AS l INDEXED BY links_incoming
WHERE l.namespace = ? AND EXISTS (
    SELECT 1 FROM link_counts AS c WHERE c.namespace = ? AND c.key = asked.key
    AND c.incoming BETWEEN 1 AND {MOST_INCOMING}
) AND l.target = asked.key LIMIT {MOST_INCOMING}
"""
_PASSING = """
SELECT m.key FROM memories AS m CROSS JOIN shelf AS s
WHERE m.namespace = ? AND m.key = ANY (?) AND m.score BETWEEN 0 AND 1
    AND s.namespace = m.namespace AND s.id = m.id AND {condition}
"""
_SCORES = """
SELECT key, score FROM memories
WHERE namespace = ? AND key = ANY (?) AND score BETWEEN 0 AND 1
"""
_ALL = 2**62
"""More links than any memory has."""

Ends = dict[str, float]
"""The keys of the memories at the other ends of links, with the best weights."""


async def read_links(
    transaction: Transaction, namespace: str, filters: Filters, keys: Sequence[str]
) -> dict[str, Links]:
    """Return the links of memories whose other ends pass the filters.

    These are the best ones that a memory has, and all that lead to it, if they are few.
    """
    reader = _LinkReader(transaction, namespace, filters)
    limit = _ALL if filters.archived else MOST_OUTGOING
    few = ForEach(_FEW_INCOMING, keys, (namespace, namespace))
    (pages,), (rows,) = await reader.best.fetch_beside([Wanted("target", keys, limit)], few)
    if filters.archived:
        outgoing = await reader.rank_all(pages)
    else:
        outgoing = await reader.choose_best(keys, pages)

    incoming = await reader.choose_incoming(keys, rows)
    return {key: Links(outgoing[key], incoming[key]) for key in keys}


class _LinkReader:
    """Reads links whose other ends pass the filters of a request."""

    def __init__(self, transaction: Transaction, namespace: str, filters: Filters) -> None:
        self._transaction = transaction
        self._namespace = namespace
        self._filters = filters
        self.best = BestLinks(transaction, namespace)
        self._passing: dict[str, bool] = {}

        condition = select_passing(filters)
        self._passes = _PASSING.format(condition=condition.filter)
        self._values = condition.values

    async def choose_best(self, keys: Sequence[str], pages: Pages) -> dict[str, Ends]:
        """Return the best links of memories; the first ones of each are known."""
        ends: dict[str, Ends] = {}
        limit = MOST_OUTGOING
        while wanted := [key for key in keys if key not in ends]:
            if limit > MOST_OUTGOING:
                (pages,) = await self.best.fetch([Wanted("target", wanted, limit)])
            present = {key: _select_present(map(LinkRecord._make, pages[key])) for key in wanted}
            await self._look_up(link.target for links in present.values() for link in links)

            for key, links in present.items():
                passing = [link for link in links if self._passing.get(link.target, True)]
                is_complete = len(pages[key]) < limit or len(links) < limit
                if is_complete or len(passing) >= MOST_OUTGOING:
                    ends[key] = _collect((each.target, each.weight) for each in passing)
            limit *= 4

        return ends

    async def rank_all(self, pages: Pages) -> dict[str, Ends]:
        """Return the best links of memories, those to archived memories among them.

        Stored ranks know no archived targets, so that all links have to be read.
        """
        sound = {
            key: [link for link in map(LinkRecord._make, page) if link.is_sound]
            for key, page in pages.items()
        }
        targets = sorted({link.target for links in sound.values() for link in links})
        scores: dict[str, float] = {}
        for key, score in await self._transaction.fetch(_SCORES, self._namespace, targets):
            scores[key] = score

        await self._look_up(scores)
        ends: dict[str, Ends] = {}
        for key, links in sound.items():
            ranked: list[tuple[int, float, str]] = []
            for link in links:
                if link.target in scores and self._passing.get(link.target, True):
                    rank = rank_link(link.weight, scores[link.target])
                    ranked.append((-rank, -link.weight, link.target))
            ends[key] = _collect((target, -weight) for _, weight, target in sorted(ranked))

        return ends

    async def choose_incoming(
        self, keys: Sequence[str], rows: Sequence[Columns]
    ) -> dict[str, Ends]:
        """Return the links that lead to memories, of those to which few lead."""
        records: list[LinkRecord] = []
        for _, *columns in rows:
            record = LinkRecord._make(columns)
            if record.is_sound and self._is_source_there(record):
                records.append(record)

        await self._look_up(record.source for record in records)
        ends: dict[str, Ends] = {key: {} for key in keys}
        for record in records:
            if self._passing.get(record.source, True):
                keep_best(ends[record.target], record.source, record.weight)

        return ends

    def _is_source_there(self, record: LinkRecord) -> bool:
        if self._filters.archived:
            return True

        return self.best.is_present("source", record.source, record.back_rank)

    async def _look_up(self, keys: Iterable[str]) -> None:
        """Find out which memories pass the filters, if not all that are present do."""
        unknown = sorted({key for key in keys if key not in self._passing})
        if unknown and not self._filters.pass_all:
            values = (self._namespace, unknown, *self._values)
            found = {key for (key,) in await self._transaction.fetch(self._passes, *values)}
            self._passing |= {key: key in found for key in unknown}


def _select_present(records: Iterable[LinkRecord]) -> list[LinkRecord]:
    """Return the sound links to memories that are there."""
    return [record for record in records if record.is_sound and record.rank >= 0]


def _collect(links: Iterable[tuple[str, float]]) -> Ends:
    """Return the ends of the first links, up to the number that is followed."""
    ends: Ends = {}
    for place, (key, weight) in enumerate(links):
        if place == MOST_OUTGOING:
            break
        keep_best(ends, key, weight)

    return ends
