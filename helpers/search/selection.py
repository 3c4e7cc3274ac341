"""Selection: the memories of an index that score best for a question.

After Ding and Suel, "Faster Top-k Document Retrieval Using Block-Max Indexes", 2011: blocks come in
the order of the best score that they could hold, and the search ends with the first one that cannot
reach the 256th best. Within a block, only memories with a term are scored without which none can
reach it (Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995). The score that
256 memories reach by a single term is known before any block is searched. Memories that hold only
one of the terms needed come last, when those that hold more have raised the score.

The memories that score best, of all that a search comes across.

Finds the memories of a block that may reach a score, all 1,024 of them at once.

The weights of a term in a block become 1,024 bytes, a lane per memory. Long integers then add the
lanes of all terms in a few operations, as vector instructions would. A lane has seven bits, so it
holds a share of the score that is rounded up: no memory that reaches the score is missed, and a few
that do not reach it are found too.
"""

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from abilities.helpers.search.postings import BLOCK_DOCS, block_of, decode, list_weights
from abilities.helpers.search.ranking import HIGHEST_WEIGHT, compute_score

MOST_TIED = 4_096
"""Memories that are kept beyond the best because they score as much as the last of these."""

_DOC_BITS = 40
"""Bits of a place in a ranking that hold a memory's number; the score stands above them."""

_LAST_DOC = (1 << _DOC_BITS) - 1

Selected = tuple[int, int]
"""A memory's number and its score. Of thousands, records with names would take twice as long."""


class BestMemories:
    """The best memories so far; ``least_score`` is a score that at least ``most`` reach.

    A place is a number by which memories are sorted: by falling score and then by number.
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
        """Add a memory that scores ``least_score`` at least."""
        self._places.append(doc - (score << _DOC_BITS))
        if len(self._scores) < self._most:
            heapq.heappush(self._scores, score)
            if len(self._scores) == self._most:
                self.least_score = self._scores[0]
        elif score > self._scores[0]:
            heapq.heapreplace(self._scores, score)
            self.least_score = self._scores[0]

        if len(self._places) == self._room:
            self._places = self._cut()
            if len(self._places) == self._most + MOST_TIED:
                self._last_tied = _read_place(self._places[-1])

    def find_least(self, doc: int) -> int:
        """Return the score that memories from this number on need."""
        # If enough memories of lower numbers tie with the last, one more tie changes nothing.
        last, score = self._last_tied
        if score == self.least_score and last < doc:
            return self.least_score + 1

        return self.least_score

    def rank(self) -> list[Selected]:
        """Return the best, and those that tie with the last of them."""
        return list(map(_read_place, self._cut()))

    def _cut(self) -> list[int]:
        last = _LAST_DOC - (self.least_score << _DOC_BITS)
        ranked = sorted([place for place in self._places if place <= last])
        return ranked[: self._most + MOST_TIED]


def _read_place(place: int) -> Selected:
    return place & _LAST_DOC, -(place >> _DOC_BITS)


MOST_TERMS = 64
"""Terms whose weights are added; what more terms may give is bounded."""

_FULL = 127
"""The largest sum in a lane; the eighth bit says that a sum is large enough."""

_EVERY_LANE = int.from_bytes(b"\1" * BLOCK_DOCS, "little")
_LOW_BYTES = int.from_bytes(b"\0\xff" * BLOCK_DOCS, "big")
_ALL_BYTES = bytes(range(256))
_ZEROS = bytes(256)


def spread_weights(docs: bytes) -> bytes:
    """Return the weight of a term in each of the 1,024 memories of a block, 0 if it has none."""
    weights = list_weights(docs)
    if len(weights) == BLOCK_DOCS:  # every memory has one
        return weights

    numbers = int.from_bytes(docs, "big") >> 6 & _LOW_BYTES
    low_numbers = numbers.to_bytes(len(docs), "big")[1::2]

    # A table maps 256 bytes, so each quarter of the block is one; later pairs replace the zeros.
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
    """Tells which memories may reach a score, for one question."""

    def __init__(self, idfs: Sequence[int]) -> None:
        places = sorted(range(len(idfs)), key=lambda place: -idfs[place])
        highest = [HIGHEST_WEIGHT * idfs[place] for place in places]

        self._added = places[:MOST_TERMS]
        self._bound_of_others = sum(highest[MOST_TERMS:])

        # Each term rounds up by less than one, so that the sum stays below the eighth bit.
        room = _FULL - len(self._added)
        self._unit = -(-sum(highest[:MOST_TERMS]) // room)
        self._tables = {place: self._make_table(idfs[place]) for place in self._added}

    def _make_table(self, idf: int) -> bytes:
        """Return the share of the score that each weight gives, in units, rounded up."""
        return bytes(-(-(byte & HIGHEST_WEIGHT) * idf // self._unit) for byte in range(256))

    def find(self, weights: Mapping[int, bytes], least_total: int) -> Iterator[int]:
        """Yield the numbers of memories that may have this sum of weight times idf, in order.

        ``weights`` are those of `spread_weights`, by the places of the terms.
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


MOST_SELECTED = 256
"""Memories that are selected."""

_FEW = 25
"""Postings per term of a block up to which adding them one by one is faster than in lanes."""

_TOTAL_BITS = 40
"""Bits of a sum below the number of terms in it."""

_MATCHED = 1 << _TOTAL_BITS


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

    They are the ``most`` best and up to 4,096 more that score as much as the last of those, the
    lowest numbers first. If ``allowed`` is given, only these memories are selected.
    """
    weights = _join_weights(blocks)
    highest = {place: _find_highest(joined) * idfs[place] for place, joined in weights.items()}

    if allowed is None:
        best = BestMemories(most, _find_first_bound(weights, idfs, highest, most))
        allowed_numbers = None
    else:
        best = BestMemories(most)
        allowed_numbers = _group_by_block(allowed)

    search = _Search(idfs, highest, best)
    for score, block in _order_by_bound(blocks, highest, len(idfs)):
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

    ``highest`` is the most that each term gives a memory. A sum is that of a memory's weights times
    idf, and above 40 bits the number of its terms.
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

    @cached_property
    def _lane_filter(self) -> LaneFilter:
        return LaneFilter(self._idfs)

    def search(self, block: BlockPostings, allowed: Collection[int] | None = None) -> None:
        """Add the memories of a block; if ``allowed`` is given, only those with these numbers."""
        least = self._best.find_least(block.block * BLOCK_DOCS)
        needed, others = self._divide(block.docs, least)

        is_few = sum(len(block.docs[place]) for place in needed) <= 2 * _FEW * len(block.docs)
        if is_few:
            sums = self._add_up(block.docs, needed)
            if allowed is not None:
                sums = {number: sums[number] for number in sums.keys() & allowed}
            sums = self._keep_some(block, sums, others, least)
            sums = self._complete(block.docs, sums, others)
        elif allowed is not None:
            sums = self._complete(block.docs, dict.fromkeys(allowed, 0), list(block.docs))
        else:
            sums = self._add_up_lanes(block.docs, least)

        self._add(block, sums)

    def finish(self) -> None:
        """Add the memories that are left."""
        for block, others, sums in self._waiting:
            least = self._best.find_least(block.block * BLOCK_DOCS)
            cuts = self._find_cuts(others, least)
            self._add(block, self._complete(block.docs, cuts.filter(sums), others))

    def _add(self, block: BlockPostings, sums: Mapping[int, int]) -> None:
        """Add the memories of a block with these sums if they are among the best."""
        first = block.block * BLOCK_DOCS
        best = self._best
        scores = self._scores

        for number, amount in sums.items():
            score = scores.get(amount) or self._score(amount)
            if score >= best.least_score:
                best.add(first + number, score)

    def _score(self, amount: int) -> int:
        """Return the score of a sum, and keep it, since many memories have equal sums."""
        matched, total = divmod(amount, _MATCHED)
        score = self._scores[amount] = compute_score(total, matched, self._asked)
        return score

    def _divide(self, docs: Mapping[int, bytes], least: int) -> tuple[list[int], list[int]]:
        """Return terms of which a memory needs one to reach a score, and the others."""
        known, needed_places = self._needed
        if known != least:
            needed_places = self._find_needed(least)
            self._needed = (least, needed_places)

        needed: list[int] = []
        others: list[int] = []
        for place, postings in docs.items():
            # Adding a few postings takes less than looking up several memories in them.
            if place in needed_places or len(postings) <= 2 * _FEW:
                needed.append(place)
            else:
                others.append(place)

        return needed, others

    def _find_needed(self, least: int) -> set[int]:
        """Return terms without which no memory reaches a score, whatever others it holds."""
        total = 0
        for count, place in enumerate(self._rising):
            total += self._highest[place]
            if compute_score(total, count + 1, self._asked) >= least:
                return set(self._rising[count:])

        return set()

    def _add_up(self, docs: Mapping[int, bytes], places: Iterable[int]) -> dict[int, int]:
        """Return the sums of all memories that hold one of these terms, by their numbers."""
        sums: dict[int, int] = {}

        for place in places:
            gains = self._gains[place]
            for value in decode(docs[place]):
                number = value >> 6
                sums[number] = sums.get(number, 0) + gains[value & HIGHEST_WEIGHT]

        return sums

    def _keep_some(
        self, block: BlockPostings, sums: Mapping[int, int], others: list[int], least: int
    ) -> dict[int, int]:
        """Return the sums of several terms that may reach a score; those of one term wait."""
        passing = self._find_cuts(others, least).filter(sums)

        waiting = {number: amount for number, amount in passing.items() if amount < 2 * _MATCHED}
        if waiting:
            self._waiting.append((block, others, waiting))

        return {number: amount for number, amount in passing.items() if number not in waiting}

    def _complete(
        self, docs: Mapping[int, bytes], sums: dict[int, int], places: Sequence[int]
    ) -> dict[int, int]:
        """Return the sums with what these terms add to them."""
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
        """Return which sums may still reach a score, if these terms are to be added to them."""
        known = (least, *places)  # most blocks have the same ones
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
        """Return the sums of all memories that may reach a score."""
        weights = {place: spread_weights(postings) for place, postings in docs.items()}
        terms = [(self._gains[place], lanes) for place, lanes in weights.items()]
        sums: dict[int, int] = {}

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
    """The least sums that may reach a score: of all, and by the number of terms in a sum."""

    lowest: int
    by_count: Mapping[int, int]

    def filter(self, sums: Mapping[int, int]) -> dict[int, int]:
        """Return the sums that may reach the score."""
        lowest, by_count = self
        # Damage can repeat a memory's number, and so count a term twice.
        return {
            number: amount
            for number, amount in sums.items()
            if amount >= lowest and amount >= by_count.get(amount >> _TOTAL_BITS, 0)
        }


def _join_weights(blocks: Iterable[BlockPostings]) -> dict[int, bytes]:
    """Return all weights of each term, a byte each."""
    postings: dict[int, list[bytes]] = defaultdict(list)
    for block in blocks:
        for place, docs in block.docs.items():
            postings[place].append(docs)

    return {place: list_weights(b"".join(lists)) for place, lists in postings.items()}


def _find_highest(weights: bytes) -> int:
    """Return the highest weight."""
    # Faster than max(), since most memories have one of a few weights.
    for weight in range(HIGHEST_WEIGHT, 0, -1):
        if weight in weights:
            return weight

    return 0


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


def _order_by_bound(
    blocks: Iterable[BlockPostings], highest: Mapping[int, int], asked: int
) -> list[tuple[int, BlockPostings]]:
    """Return the blocks with the best score that each could hold, best first, then by number."""
    bounded: list[tuple[int, BlockPostings]] = []

    for block in blocks:
        total = sum([highest[place] for place in block.docs])
        bounded.append((compute_score(total, len(block.docs), asked), block))

    bounded.sort(key=lambda one: (-one[0], one[1].block))
    return bounded


def _find_least_total(score: int, matched: int, asked: int) -> int:
    """Return the least sum with which a memory that holds so many words reaches a score."""
    if asked == 1:
        return score

    steps = 2 * (asked - 1)
    return -(-score * steps // (steps + matched - 1))


def _group_by_block(docs: Iterable[int]) -> dict[int, set[int]]:
    """Return the numbers within each block."""
    numbers: dict[int, set[int]] = defaultdict(set)
    for doc in docs:
        numbers[block_of(doc)].add(doc % BLOCK_DOCS)

    return numbers
