"""Selection: the memories of an index that score best for a question.

After Ding and Suel, "Faster Top-k Document Retrieval Using Block-Max Indexes", 2011: blocks come in
the order of the best score that they could hold, and the search ends with the first one that cannot
reach the 256th best. Within a block, only memories with a term are scored without which none can
reach it (Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995).
"""

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from abilities.helpers.search.lanes import LaneFilter, spread_weights
from abilities.helpers.search.postings import BLOCK_DOCS, block_of, decode, list_weights
from abilities.helpers.search.ranking import HIGHEST_WEIGHT, compute_score

MOST_SELECTED = 256
"""Memories that are selected."""

MOST_TIED = 4_096
"""Memories that are selected beyond them because they score as much as the last one."""

_FEW = 48
"""Candidates in a block that are scored one by one."""

_SHORT = 256
"""Bytes of postings in which the highest weight is looked up; in longer ones it is high."""


class Selected(NamedTuple):
    """A memory's number and its score."""

    doc: int
    score: int


class BlockPostings(NamedTuple):
    """The postings of a question's terms in one block, by the places of the terms."""

    block: int
    docs: Mapping[int, bytes]


class _Bounded(NamedTuple):
    """A block with the most that each of its terms gives, and the best score it could hold."""

    block: BlockPostings
    highest: Mapping[int, int]
    score: int


def select_best(
    blocks: Iterable[BlockPostings],
    idfs: Sequence[int],
    most: int = MOST_SELECTED,
    allowed: Collection[int] | None = None,
) -> list[Selected]:
    """Return the memories that score best, by falling score and then by number.

    They are the ``most`` best and up to 4,096 more that score as much as the last of those, the
    lowest numbers first. If ``allowed`` is given, only these memories are selected.
    """
    best = _Best(most)
    lanes = LaneFilter(idfs)
    allowed_numbers = None if allowed is None else _group_by_block(allowed)

    for bounded in _order_by_bound(blocks, idfs):
        if bounded.score < best.least_score:
            break

        block, docs = bounded.block
        if allowed_numbers is not None:
            candidates: Iterable[int] | None = allowed_numbers.get(block, ())
        else:
            candidates = _list_few(bounded, best.least_score, len(idfs))

        if candidates is not None:
            _score_each(bounded.block, candidates, idfs, best)
        else:
            weights = {place: spread_weights(postings) for place, postings in docs.items()}
            least_total = _find_least_total(best.least_score, len(docs), len(idfs))
            numbers = lanes.find(weights, least_total)
            _score_spread(block, weights, numbers, idfs, best)

    return best.rank()


class _Best:
    """The best memories so far."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._scores: list[int] = []
        self._kept: list[tuple[int, int]] = []
        self.least_score = 1
        """The score that a memory needs."""

    def add(self, doc: int, score: int) -> None:
        """Add a memory; one that scores less than ``least_score`` changes nothing."""
        if score < self.least_score:
            return

        self._kept.append((-score, doc))
        if len(self._scores) < self._most:
            heapq.heappush(self._scores, score)
        else:
            heapq.heappushpop(self._scores, score)

        if len(self._scores) == self._most:
            self.least_score = self._scores[0]
        if len(self._kept) > 4 * (self._most + MOST_TIED):
            self._kept = self._cut()

    def rank(self) -> list[Selected]:
        """Return the best, and those that tie with the last of them."""
        return [Selected(doc, -negative) for negative, doc in self._cut()]

    def _cut(self) -> list[tuple[int, int]]:
        ranked = sorted(one for one in self._kept if -one[0] >= self.least_score)
        return ranked[: self._most + MOST_TIED]


def _order_by_bound(blocks: Iterable[BlockPostings], idfs: Sequence[int]) -> list[_Bounded]:
    """Return the blocks, the one with the best possible score first, of equal ones the first."""
    bounded: list[_Bounded] = []

    for block in blocks:
        highest = {place: _find_highest(docs) * idfs[place] for place, docs in block.docs.items()}
        score = compute_score(sum(highest.values()), len(highest), len(idfs))
        bounded.append(_Bounded(block, highest, score))

    bounded.sort(key=lambda one: (-one.score, one.block.block))
    return bounded


def _find_highest(docs: bytes) -> int:
    """Return a weight that no posting exceeds."""
    if len(docs) > _SHORT:
        return HIGHEST_WEIGHT

    return max(list_weights(docs))


def _list_few(bounded: _Bounded, least_score: int, asked: int) -> Collection[int] | None:
    """Return the numbers of all memories in a block that may reach a score, or None if not few."""
    rising = sorted(bounded.highest, key=lambda place: bounded.highest[place])
    total = 0
    needed: list[int] = []

    for count, place in enumerate(rising, start=1):
        total += bounded.highest[place]
        if compute_score(total, count, asked) >= least_score:
            needed = rising[count - 1 :]
            break

    if sum(len(bounded.block.docs[place]) for place in needed) > 2 * _FEW:
        return None

    return {value >> 6 for place in needed for value in decode(bounded.block.docs[place])}


def _find_least_total(score: int, matched: int, asked: int) -> int:
    """Return the least sum with which a memory that holds so many words reaches a score."""
    if asked == 1:
        return score

    steps = 2 * (asked - 1)
    return score * steps // (steps + matched - 1)


def _score_each(
    postings: BlockPostings, numbers: Iterable[int], idfs: Sequence[int], best: _Best
) -> None:
    """Score memories of a block by looking each of them up in the postings of each term."""
    terms = [(idfs[place], decode(docs)) for place, docs in postings.docs.items()]
    first = postings.block * BLOCK_DOCS

    for number in numbers:
        total = matched = 0
        for idf, values in terms:
            position = bisect_left(values, number << 6)
            if position < len(values) and values[position] >> 6 == number:
                total += idf * (values[position] & HIGHEST_WEIGHT)
                matched += 1

        if matched:
            best.add(first + number, compute_score(total, matched, len(idfs)))


def _score_spread(
    block: int,
    weights: Mapping[int, bytes],
    numbers: Iterable[int],
    idfs: Sequence[int],
    best: _Best,
) -> None:
    """Score memories of a block whose weights stand in lanes."""
    terms = [(idfs[place], lanes) for place, lanes in weights.items()]

    for number in numbers:
        total = matched = 0
        for idf, lanes in terms:
            weight = lanes[number]
            if weight:
                total += idf * weight
                matched += 1

        best.add(block * BLOCK_DOCS + number, compute_score(total, matched, len(idfs)))


def _group_by_block(docs: Iterable[int]) -> dict[int, list[int]]:
    """Return the numbers within each block."""
    numbers: dict[int, list[int]] = {}
    for doc in docs:
        numbers.setdefault(block_of(doc), []).append(doc % BLOCK_DOCS)

    return numbers
