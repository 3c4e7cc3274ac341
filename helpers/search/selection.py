"""Selection: the memories of an index that score best for a question.

After Ding and Suel, "Faster Top-k Document Retrieval Using Block-Max Indexes", 2011: blocks come in
the order of the best score that they could contain, and the search ends with the first block that
cannot reach the 256th best. Within a block, a score is only computed for memories with a term
without which none can reach it (Turtle and Flood, "Query Evaluation: Strategies and Optimizations",
1995). The score that 256 memories reach by a single term is known before any block is searched.
Memories with only one of the needed terms come last, when memories with more terms have raised the
score.

A block with many postings is searched by `LaneFilter`, for all 1,024 memories at once. The weights
of a term in a block become 1,024 bytes, a lane per memory. Long integers then add the lanes of all
terms in a few operations, like vector instructions. A lane has seven bits, so it contains a share
of the score that is rounded up. So no memory that reaches the score is missed, but a few others are
found too.
"""

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from abilities.helpers.search.postings import BLOCK_DOCS, block_of, decode, list_weights
from abilities.helpers.search.ranking import HIGHEST_WEIGHT, compute_score

MOST_TIED = 4_096
"""The most memories that are kept beyond the best because they tie with the last of these."""

MOST_TERMS = 64
"""Terms whose weights are added; the contribution of more terms is bounded."""

MOST_SELECTED = 256
"""The number of memories that are selected."""

_FEW = 25
"""Postings per term of a block up to which adding them one by one is faster than in lanes."""

_TOTAL_BITS = 40
"""The bits of a sum below the number of its terms."""

_MATCHED = 1 << _TOTAL_BITS

_DOC_BITS = 40
"""The bits of a place in a ranking for a memory's number; the score is above them."""

_LAST_DOC = (1 << _DOC_BITS) - 1

_FULL = 127
"""The largest sum in a lane; the eighth bit is set if a sum is large enough."""

_EVERY_LANE = int.from_bytes(b"\1" * BLOCK_DOCS, "little")
_LOW_BYTES = int.from_bytes(b"\0\xff" * BLOCK_DOCS, "big")
_ALL_BYTES = bytes(range(256))
_ZEROS = bytes(256)

Selected = tuple[int, int]
"""A memory's number and its score. With thousands, named tuples would take twice as long."""


class BestMemories:
    """The best memories so far. At least ``most`` memories of the index reach ``least_score``.

    A place is an integer that sorts memories by falling score and then by number.
    """

    def __init__(self, most: int, least_score: int = 1) -> None:
        self._most = most
        self._room = (most + MOST_TIED) * 5 // 4 + 1
        self._scores: list[int] = []
        self._places: list[int] = []
        self._last_tied: Selected = (0, 0)
        self.least_score = least_score
        """The score that a memory needs."""

    def add(self, doc: int, score: int) -> None:
        """Add a memory whose score is at least ``least_score``."""
        self._places.append(doc - (score << _DOC_BITS))
        if len(self._scores) < self._most:
            heapq.heappush(self._scores, score)
            if len(self._scores) == self._most:
                self.least_score = self._scores[0]
        elif score > self._scores[0]:
            heapq.heapreplace(self._scores, score)
            self.least_score = self._scores[0]

        if len(self._places) == self._room:
            self._places = self._list_best_places()
            if len(self._places) == self._most + MOST_TIED:
                self._last_tied = _read_place(self._places[-1])

    def find_least(self, doc: int) -> int:
        """Return the score that memories with this number or a higher one need."""
        # If enough memories with lower numbers tie with the last, another tie changes nothing.
        last, score = self._last_tied
        if score == self.least_score and last < doc:
            return self.least_score + 1

        return self.least_score

    def rank(self) -> list[Selected]:
        """Return the best, and others that tie with the last of them."""
        return list(map(_read_place, self._list_best_places()))

    def _list_best_places(self) -> list[int]:
        last = _LAST_DOC - (self.least_score << _DOC_BITS)
        ranked = sorted([place for place in self._places if place <= last])
        return ranked[: self._most + MOST_TIED]


def _read_place(place: int) -> Selected:
    return place & _LAST_DOC, -(place >> _DOC_BITS)


def spread_weights(docs: bytes) -> bytes:
    """Return the weight of a term in each of the 1,024 memories of a block, or 0."""
    weights = list_weights(docs)
    if len(weights) == BLOCK_DOCS:  # every memory has one
        return weights

    numbers = int.from_bytes(docs, "big") >> 6 & _LOW_BYTES
    low_numbers = numbers.to_bytes(len(docs), "big")[1::2]

    # A table maps 256 bytes, so each quarter of a block is a table; later pairs replace the zeros.
    firsts = docs[::2]
    tables: list[bytes] = []
    start = 0
    for last in (64, 128, 192, 256):
        end = bisect_left(firsts, last, start)
        table = bytes.maketrans(_ALL_BYTES + low_numbers[start:end], _ZEROS + weights[start:end])
        tables.append(table)
        start = end

    return b"".join(tables)


class LaneFilter:
    """Finds the memories of a block that may reach a score, for one question."""

    def __init__(self, idfs: Sequence[int]) -> None:
        places = sorted(range(len(idfs)), key=lambda place: -idfs[place])
        highest = [HIGHEST_WEIGHT * idfs[place] for place in places]

        self._added = places[:MOST_TERMS]
        self._bound_of_others = sum(highest[MOST_TERMS:])

        # Each term is rounded up by less than one, so that the sum stays below the eighth bit.
        room = _FULL - len(self._added)
        unit = -(-sum(highest[:MOST_TERMS]) // room)
        self._unit = unit

        # The share of the score from each weight, in units and rounded up.
        self._tables: dict[int, bytes] = {}
        for place in self._added:
            idf = idfs[place]
            shares = [-(-(byte & HIGHEST_WEIGHT) * idf // unit) for byte in range(256)]
            self._tables[place] = bytes(shares)

    def find(self, weights: Mapping[int, bytes], least_total: int) -> Iterator[int]:
        """Yield, in order, the numbers of memories that may have this sum of weight times idf.

        ``weights`` are from `spread_weights`, by the places of the terms.
        """
        least = max(1, -(-(least_total - self._bound_of_others) // self._unit))
        if least > _FULL:
            return

        sums = (_FULL + 1 - least) * _EVERY_LANE
        for place in self._added:
            if place in weights:
                sums += int.from_bytes(weights[place].translate(self._tables[place]), "little")

        large_enough = sums & (_FULL + 1) * _EVERY_LANE
        if not large_enough:
            return

        flags = large_enough.to_bytes(BLOCK_DOCS, "little")
        number = flags.find(_FULL + 1)
        while number >= 0:
            yield number
            number = flags.find(_FULL + 1, number + 1)


class BlockPostings(NamedTuple):
    """The postings of a question's terms in one block, by the places of the terms."""

    block: int
    docs: Mapping[int, bytes]


def select_best(
    blocks: Sequence[BlockPostings],
    idfs: Sequence[int],
    most: int = MOST_SELECTED,
    allowed: Collection[int] | None = None,
) -> list[Selected]:
    """Return the memories that score best, by falling score and then by number.

    These are the ``most`` best memories, and up to 4,096 more that tie with the last of them, by
    rising number. If ``allowed`` is given, only these memories are selected.
    """
    postings: dict[int, list[bytes]] = defaultdict(list)
    for block in blocks:
        for place, docs in block.docs.items():
            postings[place].append(docs)

    weights = {place: list_weights(b"".join(lists)) for place, lists in postings.items()}
    highest: dict[int, int] = {}
    for place, joined in weights.items():
        # Faster than max(), since most memories have one of a few weights.
        weight = HIGHEST_WEIGHT
        while weight and weight not in joined:
            weight -= 1
        highest[place] = weight * idfs[place]

    allowed_numbers: dict[int, set[int]] | None = None
    if allowed is None:
        best = BestMemories(most, _find_first_bound(weights, idfs, highest, most))
    else:
        best = BestMemories(most)
        allowed_numbers = defaultdict(set)
        for doc in allowed:
            allowed_numbers[block_of(doc)].add(doc % BLOCK_DOCS)

    # The best score that each block could contain; best first, then by number.
    bounded: list[tuple[int, BlockPostings]] = []
    for block in blocks:
        total = sum([highest[place] for place in block.docs])
        bounded.append((compute_score(total, len(block.docs), len(idfs)), block))
    bounded.sort(key=lambda one: (-one[0], one[1].block))

    search = _Search(idfs, highest, best)
    for score, block in bounded:
        if score < best.least_score:
            break

        if allowed_numbers is None:
            search.search(block)
        elif block.block in allowed_numbers:
            search.search(block, allowed_numbers[block.block])

    search.finish()
    return best.rank()


class _Search:
    """Finds the memories of blocks that may be among the best.

    ``highest`` is the largest weight times idf of each term. A sum is the total of weight times idf
    in a memory, with the number of its terms above 40 bits.
    """

    def __init__(self, idfs: Sequence[int], highest: Mapping[int, int], best: BestMemories) -> None:
        self._asked = len(idfs)
        self._highest = highest
        self._rising = sorted(highest, key=lambda place: highest[place])
        self._gains = [
            [_MATCHED + idf * weight for weight in range(HIGHEST_WEIGHT + 1)] for idf in idfs
        ]
        self._idfs = idfs
        self._best = best
        self._needed: tuple[int, set[int]] = (0, set())
        self._cuts: dict[tuple[int, ...], _Cuts] = {}
        self._scores: dict[int, int] = {}
        self._waiting: list[tuple[BlockPostings, list[int], dict[int, int]]] = []
        self._lane_filter: LaneFilter | None = None

    def search(self, block: BlockPostings, allowed: Collection[int] | None = None) -> None:
        """Add the memories of a block; if ``allowed`` is given, only those with these numbers."""
        least = self._best.find_least(block.block * BLOCK_DOCS)
        needed, others = self._divide(block.docs, least)

        sums: dict[int, int] = {}
        is_few = sum(len(block.docs[place]) for place in needed) <= 2 * _FEW * len(block.docs)
        if is_few:
            for place in needed:
                gains = self._gains[place]
                for value in decode(block.docs[place]):
                    number = value >> 6
                    sums[number] = sums.get(number, 0) + gains[value & HIGHEST_WEIGHT]

            if allowed is not None:
                sums = {number: sums[number] for number in sums.keys() & allowed}

            # Memories with a single needed term wait until others have raised the least score.
            passing = self._find_cuts(others, least).filter(sums)
            waiting: dict[int, int] = {}
            sums = {}
            for number, amount in passing.items():
                if amount < 2 * _MATCHED:
                    waiting[number] = amount
                else:
                    sums[number] = amount
            if waiting:
                self._waiting.append((block, others, waiting))

            sums = self._complete(block.docs, sums, others)
        elif allowed is not None:
            sums = self._complete(block.docs, dict.fromkeys(allowed, 0), list(block.docs))
        else:
            sums = self._add_up_lanes(block.docs, least)

        self._add(block, sums)

    def finish(self) -> None:
        """Add the memories that wait."""
        for block, others, sums in self._waiting:
            least = self._best.find_least(block.block * BLOCK_DOCS)
            cuts = self._find_cuts(others, least)
            self._add(block, self._complete(block.docs, cuts.filter(sums), others))

    def _add(self, block: BlockPostings, sums: Mapping[int, int]) -> None:
        """Add the memories of a block that are among the best, from the sums by number."""
        first = block.block * BLOCK_DOCS
        best = self._best
        scores = self._scores

        for number, amount in sums.items():
            score = scores.get(amount)
            if score is None:  # many memories have equal sums
                matched, total = divmod(amount, _MATCHED)
                score = scores[amount] = compute_score(total, matched, self._asked)
            if score >= best.least_score:
                best.add(first + number, score)

    def _divide(self, docs: Mapping[int, bytes], least: int) -> tuple[list[int], list[int]]:
        """Return the terms of which a memory needs one to reach a score, and the other terms."""
        known, needed_places = self._needed
        if known != least:
            # All terms before these together do not reach the score.
            first = len(self._rising)
            total = 0
            for count, place in enumerate(self._rising):
                total += self._highest[place]
                if compute_score(total, count + 1, self._asked) >= least:
                    first = count
                    break

            needed_places = set(self._rising[first:])
            self._needed = (least, needed_places)

        needed: list[int] = []
        others: list[int] = []
        for place, postings in docs.items():
            # It is faster to add a few postings than to look up several memories in them.
            if place in needed_places or len(postings) <= 2 * _FEW:
                needed.append(place)
            else:
                others.append(place)

        return needed, others

    def _complete(
        self, docs: Mapping[int, bytes], sums: dict[int, int], places: Sequence[int]
    ) -> dict[int, int]:
        """Add the gains of these terms to the sums, and return them."""
        if not sums:
            return sums

        terms = [(self._gains[place], decode(docs[place])) for place in places]
        for number in sums:
            for gains, values in terms:
                position = bisect_left(values, number << 6)
                if position < len(values) and values[position] >> 6 == number:
                    sums[number] += gains[values[position] & HIGHEST_WEIGHT]

        return sums

    def _find_cuts(self, places: Collection[int], least: int) -> "_Cuts":
        """Return the least sums that may still reach a score when these terms are added to them."""
        known = (least, *places)  # the same for most blocks
        if known in self._cuts:
            return self._cuts[known]

        addable = sum(self._highest[place] for place in places)
        most = max(self._highest.values())
        least_sums: dict[int, int] = {}
        lowest = self._asked * _MATCHED

        for matched in range(self._asked, -1, -1):
            least_total = _find_least_total(least, matched + len(places), self._asked)
            needed = max(0, least_total - addable)
            least_sums[matched] = matched * _MATCHED + needed
            if needed <= matched * most:
                lowest = least_sums[matched]

        cuts = _Cuts(lowest, least_sums)
        self._cuts = {known: cuts}
        return cuts

    def _add_up_lanes(self, docs: Mapping[int, bytes], least: int) -> dict[int, int]:
        """Return the sums of the memories that may reach a score, found by a `LaneFilter`."""
        weights = {place: spread_weights(postings) for place, postings in docs.items()}
        terms = [(self._gains[place], lanes) for place, lanes in weights.items()]
        sums: dict[int, int] = {}

        if self._lane_filter is None:
            self._lane_filter = LaneFilter(self._idfs)

        least_total = _find_least_total(least, len(docs), self._asked)
        for number in self._lane_filter.find(weights, least_total):
            amount = 0
            for gains, lanes in terms:
                weight = lanes[number]
                if weight:
                    amount += gains[weight]
            sums[number] = amount

        return sums


class _Cuts(NamedTuple):
    """The least sums that may reach a score: the lowest, and by the number of terms in a sum."""

    lowest: int
    by_count: Mapping[int, int]

    def filter(self, sums: Mapping[int, int]) -> dict[int, int]:
        """Return the sums that may reach the score."""
        lowest, by_count = self
        # Damaged postings may repeat a memory's number, and so count a term twice.
        return {
            number: amount
            for number, amount in sums.items()
            if amount >= lowest and amount >= by_count.get(amount >> _TOTAL_BITS, 0)
        }


def _find_first_bound(
    weights: Mapping[int, bytes], idfs: Sequence[int], highest: Mapping[int, int], most: int
) -> int:
    """Return a score that ``most`` memories reach by a single term, or 1 if there is none."""
    bound = 1

    for place in sorted(weights, key=lambda place: -idfs[place]):
        joined = weights[place]
        count = 0
        weight = highest[place] // idfs[place]
        while count < most and weight * idfs[place] > bound:
            count += joined.count(weight)
            if count >= most:
                bound = weight * idfs[place]
            weight -= 1

    return bound


def _find_least_total(score: int, matched: int, asked: int) -> int:
    """Return the least sum with which a memory with ``matched`` words reaches a score."""
    if asked == 1:
        return score

    steps = 2 * (asked - 1)
    return -(-score * steps // (steps + matched - 1))
