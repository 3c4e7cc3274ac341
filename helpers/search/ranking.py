"""Scores, and the rankings by them: BM25 in integers, so that every store gives the same scores.

After Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with
two changes. The average length is a constant, so that a write changes the weights of one memory
only. And a memory scores more with each further word of the question that it contains.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, overload

HIGHEST_WEIGHT = 63
"""The limit of a word's weight in a memory, as the word occurs more often."""

IDF_ONE = 1_024
"""The integer for an inverse document frequency of 1."""

SCORE_ONE = HIGHEST_WEIGHT * IDF_ONE
"""The integer for a score of 1."""

LONGEST = 1_000
"""The most words that count as a memory's length."""


def compute_weight(count: int, length: int) -> int:
    """Return the weight, from 1 to 63, of a word with ``count`` occurrences in ``length`` words.

    This is 63·tf / (tf + k1·(1 - b + b·length/100)) with k1 = 1.2 and b = 0.5, rounded half up.

    >>> compute_weight(1, 100)
    29
    """
    numerator = HIGHEST_WEIGHT * 500 * count
    denominator = 500 * count + 300 + 3 * min(length, LONGEST)

    return max(1, (2 * numerator + denominator) // (2 * denominator))


def compute_idf(size: int, holders: int) -> int:
    """Return the value, at least 1, of a word that ``holders`` of ``size`` memories contain."""
    rarity = math.log(1 + (size - holders + 0.5) / (holders + 0.5))

    return max(1, int(IDF_ONE * rarity + 0.5))


def compute_score(total: int, matched: int, asked: int) -> int:
    """Return the score of a memory with ``matched`` of the ``asked`` words of a question.

    ``total`` is the sum of weight times idf over these words. A memory with all words of a question
    gets 1.5 times the total.
    """
    if asked == 1:
        return total

    steps = 2 * (asked - 1)
    return total * (steps + matched - 1) // steps


class RankedEntry(NamedTuple):
    """A memory in a ranking, or a chunk of a note; ``name`` is its key or the chunk's name.

    ``own`` is the part of ``score`` from its own words. ``words`` are its words of the question, as
    they were asked. ``via`` is the key of the hit whose links led here, if no word did.
    """

    name: str
    is_note: bool
    score: int
    own: int
    via: str | None = None
    words: tuple[str, ...] = ()


class Entries(Sequence[RankedEntry]):
    """The entries of a ranking, from plain tuples of their fields.

    An entry is made only on access. Thousands of entries per question would start full runs of the
    garbage collector, which plain tuples do not.
    """

    def __init__(self, columns: Sequence[tuple[Any, ...]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, place: int) -> RankedEntry: ...
    @overload
    def __getitem__(self, place: slice) -> "Entries": ...
    def __getitem__(self, place: int | slice) -> "RankedEntry | Entries":
        if isinstance(place, slice):
            return Entries(self.columns[place])

        return RankedEntry._make(self.columns[place])

    def __iter__(self) -> Iterator[RankedEntry]:
        return map(RankedEntry._make, self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast(Sequence[object], other))

    def __hash__(self) -> int:
        return hash(tuple(self.columns))


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answers to a question, by falling score and then by name.

    ``unknown_words`` are the words of the question that no memory and no note contains. ``also``
    has the names of further answers, which are in the ranking of another question.
    """

    entries: Sequence[RankedEntry]
    unknown_words: tuple[str, ...]
    also: tuple[str, ...] = ()


def keep_once(rankings: Sequence[Ranking]) -> tuple[Ranking, ...]:
    """Keep each entry only in the ranking with its best place; of equal ones, in the first."""
    if len(rankings) == 1:
        return tuple(rankings)

    best: dict[tuple[bool, str], tuple[int, int]] = {}

    for number, ranking in enumerate(rankings):
        for place, entry in enumerate(ranking.entries):
            name = entry.is_note, entry.name
            best[name] = min(best.get(name, (place, number)), (place, number))

    kept: list[Ranking] = []
    for number, ranking in enumerate(rankings):
        own: list[RankedEntry] = []
        also = list(ranking.also)
        for entry in ranking.entries:
            if best[entry.is_note, entry.name][1] == number:
                own.append(entry)
            else:
                also.append(entry.name)
        kept.append(Ranking(tuple(own), ranking.unknown_words, tuple(also)))

    return tuple(kept)
