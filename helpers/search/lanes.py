"""Finds the memories of a block that may reach a score, all 1,024 of them at once.

The weights of a term in a block become 1,024 bytes, a lane per memory. Long integers then add the
lanes of all terms in a few operations, as vector instructions would. A lane has seven bits, so it
holds a share of the score that is rounded up: no memory that reaches the score is missed, and a few
that do not reach it are found too.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from abilities.helpers.search.postings import BLOCK_DOCS, list_weights
from abilities.helpers.search.ranking import HIGHEST_WEIGHT

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
