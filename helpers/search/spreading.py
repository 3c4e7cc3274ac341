"""Spreading activation: memories that are linked to a hit may also be answers.

After Collins and Loftus, "A Spreading-Activation Theory of Semantic Processing", 1975, and
Crestani, "Application of Spreading Activation Techniques in Information Retrieval", 1997:
activation is bounded in steps and in fan-out, and falls with each step. All arithmetic is in
integers.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

SEEDS = 30
"""The number of best hits that give a share of their scores to linked memories."""

MOST_RELAYS = 32
"""The most memories one link away from seeds whose links are followed too.

With the seeds, a question reads the links of at most 62 memories, however densely they are linked.
"""

MOST_OUTGOING = 10
"""The number of a memory's best-ranked links that are followed."""

MOST_INCOMING = 64
"""Links are followed backwards only to a memory with at most this number of incoming links."""

TENTHS = (5, 3)
"""The share of a seed's score, in tenths, for memories one and two links away."""

LIFTED_TENTHS = 9
"""The limit for a score raised by links, in tenths of the best giver's own score.

Without a limit, a memory that everything is linked with would be first for every question, and
neighbors of a good answer would come before the next good answer.
"""

_WEIGHT_ONE = 1_000_000


class Links(NamedTuple):
    """The links of a memory that can be followed: the best weight by the other memory's key.

    ``incoming`` is empty if more than 64 links lead to the memory.
    """

    outgoing: Mapping[str, float] = {}
    incoming: Mapping[str, float] = {}


class Gifts(NamedTuple):
    """The total that each memory gets from all seeds, and the seed that gives most of it."""

    scores: Mapping[str, int]
    givers: Mapping[str, str]


class Steps(NamedTuple):
    """The steps from a memory along its links one way: weights by key, and the best weight."""

    weights: Mapping[str, int]
    best: int


Ways = Mapping[str, Sequence[Steps]]
"""The steps from each memory whose links are known."""

Seeds = Sequence[tuple[str, int]]
"""Keys of hits with their scores, best first."""


def keep_best(links: dict[str, float], key: str, weight: float) -> None:
    """Add a link; of several links to the same memory, the best counts."""
    if weight > links.get(key, -1.0):
        links[key] = weight


def find_steps(key: str, links: Links) -> list[Steps]:
    """Return the steps from a memory to others."""
    steps: list[Steps] = []

    for side in links:
        weights = {other: int(weight * _WEIGHT_ONE + 0.5) for other, weight in side.items()}
        weights.pop(key, None)

        best = max(weights.values(), default=0)
        if best:
            steps.append(Steps(weights, best))

    return steps


def choose_relays(seeds: Seeds, ways: Ways) -> frozenset[str]:
    """Return the memories through which ways of two links may lead.

    They are the seeds, and the `MOST_RELAYS` other memories one link away that get most; of equal
    ones, the first by key.
    """
    names = {seed for seed, _ in seeds}
    near = spread(seeds, ways, ())
    others = [(-given, key) for key, given in near.scores.items() if key not in names]
    best = heapq.nsmallest(MOST_RELAYS, others)

    return frozenset(names.union(key for _, key in best))


def spread(seeds: Seeds, ways: Ways, relays: Collection[str]) -> Gifts:
    """Return the score that each memory gets from the seeds; of equal givers, the first is named.

    From each seed, a memory gets the share of the best way to it; shares of several seeds add up.
    Ways of two links lead only through ``relays``.
    """
    sums: dict[str, int] = {}
    largest: dict[str, int] = {}
    givers: dict[str, str] = {}

    for seed, score in seeds:
        shares: dict[str, int] = {}
        near, far = (score * tenths for tenths in TENTHS)
        steps = ways.get(seed, ())

        _give_along(shares, steps, near, 10)
        for weights, best in steps:
            for key, weight in weights.items():
                if key in relays:
                    _give_along(shares, ways.get(key, ()), far * weight, 10 * best)
        shares.pop(seed, None)

        for key, given in shares.items():
            sums[key] = sums.get(key, 0) + given
            if given > largest.get(key, 0):
                largest[key] = given
                givers[key] = seed

    return Gifts(sums, givers)


def lift(own: Mapping[str, int], gifts: Gifts) -> dict[str, int]:
    """Return the new scores of the memories that got a gift; ``own`` are the scores by words.

    Links raise a score up to `LIFTED_TENTHS` of the best giver's own score, and never lower it.
    """
    lifted: dict[str, int] = {}
    for key, given in gifts.scores.items():
        score = own.get(key, 0)
        most = own[gifts.givers[key]] * LIFTED_TENTHS // 10
        lifted[key] = max(score, min(score + given, most))

    return lifted


def _give_along(given: dict[str, int], ways: Iterable[Steps], share: int, whole: int) -> None:
    """Give a share, as a fraction of the whole, along the steps from a memory."""
    for weights, best in ways:
        divisor = whole * best
        for key, weight in weights.items():
            amount = share * weight // divisor
            if amount > given.get(key, 0):  # not a call: this is the innermost loop
                given[key] = amount
