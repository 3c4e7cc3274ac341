"""Scores: BM25 in integers, so that every store gives the same ones.

After Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with
two changes. A constant stands for the average length, so that a write changes the weights of one
memory only. And a memory gains with each further word of the question that it holds.
"""

import math

HIGHEST_WEIGHT = 63
"""The weight that a word approaches in a memory, the more often it occurs there."""

IDF_ONE = 1_024
"""What an inverse document frequency of 1 is written as."""

SCORE_ONE = HIGHEST_WEIGHT * IDF_ONE
"""What a score of 1 is written as."""

LONGEST = 1_000
"""Words after which a memory's length counts no further."""


def compute_weight(count: int, length: int) -> int:
    """Return the weight, from 1 to 63, of a word in a text of so many words.

    This is 63·tf / (tf + k1·(1 - b + b·length/100)) with k1 = 1.2 and b = 0.5, rounded half up.
    """
    numerator = HIGHEST_WEIGHT * 500 * count
    denominator = 500 * count + 300 + 3 * min(length, LONGEST)

    return max(1, (2 * numerator + denominator) // (2 * denominator))


def compute_idf(size: int, holders: int) -> int:
    """Return what a word counts that ``holders`` of ``size`` memories hold; at least 1."""
    rarity = math.log(1 + (size - holders + 0.5) / (holders + 0.5))

    return max(1, int(IDF_ONE * rarity + 0.5))


def compute_score(total: int, matched: int, asked: int) -> int:
    """Return the score of a memory that holds ``matched`` of the ``asked`` words of a question.

    ``total`` is the sum of weight times idf over them. All words count half as much again as one.
    """
    if asked == 1:
        return total

    steps = 2 * (asked - 1)
    return total * (steps + matched - 1) // steps
