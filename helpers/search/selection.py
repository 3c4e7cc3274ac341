"""Selection: the memories of an index that score best for a question."""

import heapq
from collections.abc import Collection, Mapping
from typing import NamedTuple

from abilities.helpers.search.postings import BLOCK_DOCS, decode
from abilities.helpers.search.ranking import compute_score

MOST_SELECTED = 256
"""Memories that are selected."""

MOST_TIED = 4_096
"""Memories that are selected beyond them because they score as much as the last one."""


class Selected(NamedTuple):
    """A memory's number, its score and the places of the question's words that it holds."""

    doc: int
    score: int
    words: tuple[int, ...]


class BlockPostings(NamedTuple):
    """The postings of a question's words in one block, by the words' places in the question."""

    block: int
    docs: Mapping[int, bytes]


def select_best(
    blocks: Collection[BlockPostings],
    idfs: list[int],
    most: int = MOST_SELECTED,
    allowed: Collection[int] | None = None,
) -> list[Selected]:
    """Return the memories that score best, by falling score and then by number.

    They are the ``most`` best and up to 4,096 more that score as much as the last of those. If
    ``allowed`` is given, only these memories are selected.
    """
    scored: list[Selected] = []

    for block, docs in blocks:
        totals: dict[int, int] = {}
        words: dict[int, tuple[int, ...]] = {}
        for place, postings in docs.items():
            for value in decode(postings):
                doc = block * BLOCK_DOCS + (value >> 6)
                totals[doc] = totals.get(doc, 0) + (value & 63) * idfs[place]
                words[doc] = (*words.get(doc, ()), place)

        for doc, total in totals.items():
            if allowed is None or doc in allowed:
                score = compute_score(total, len(words[doc]), len(idfs))
                scored.append(Selected(doc, score, words[doc]))

    best = heapq.nsmallest(most + MOST_TIED, scored, key=lambda one: (-one.score, one.doc))
    if len(best) <= most:
        return best

    last = best[most - 1].score
    return [one for one in best if one.score >= last]
