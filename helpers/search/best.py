"""The memories that score best, of all that a search comes across."""

import heapq

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
