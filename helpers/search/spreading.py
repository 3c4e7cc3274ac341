"""Spreading activation: what is linked to a hit may answer too.

After Collins and Loftus, "A Spreading-Activation Theory of Semantic Processing", 1975, and
Crestani, "Application of Spreading Activation Techniques in Information Retrieval", 1997:
activation is bounded in steps and in fan-out, and falls with each step. All is computed in
integers.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

SEEDS = 30
"""The best hits, which give a share of their scores to what they are linked with."""

MOST_RELAYS = 32
"""Memories one link away from seeds, and no seeds themselves, whose links are followed too.

So a question reads the links of at most 62 memories, however densely these are linked.
"""

MOST_OUTGOING = 10
"""Links of a memory that are followed: the ones that rank best."""

MOST_INCOMING = 64
"""Links that may lead to a memory if they are to be followed backwards."""

TENTHS = (5, 3)
"""Tenths of a seed's score that a memory gets one link away, and two links away."""

LIFTED_TENTHS = 9
"""Tenths of its best giver's own score that links lift a memory to at most.

Without a bound, a memory that everything is linked with would stand first for every question, and
neighbors of a good answer before the next one.
"""

_WEIGHT_ONE = 1_000_000


class Links(NamedTuple):
    """The links of a memory that can be followed, by the other memory's key: the best weight.

    ``incoming`` is empty if more than 64 lead to the memory.
    """

    outgoing: Mapping[str, float] = {}
    incoming: Mapping[str, float] = {}


class Gifts(NamedTuple):
    """What each memory gets in all, and the seed that gives most of it."""

    scores: Mapping[str, int]
    givers: Mapping[str, str]


class Steps(NamedTuple):
    """The steps from a memory along its links one way: their weights by key, and the best one."""

    weights: Mapping[str, int]
    best: int


Ways = Mapping[str, Sequence[Steps]]
"""The steps from each memory whose links are known."""

Seeds = Sequence[tuple[str, int]]
"""Keys of hits with their scores, best first."""


def keep_best(links: dict[str, float], key: str, weight: float) -> None:
    """Add a link to a memory; of several links to one the best counts."""
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
    """Return the memories through which ways of two links lead.

    They are the seeds, and of the others one link away the `MOST_RELAYS` that get most; of equal
    ones the first by key.
    """
    names = {seed for seed, _ in seeds}
    near = spread(seeds, ways, ())
    others = [(-given, key) for key, given in near.scores.items() if key not in names]

    return frozenset(names.union(key for _, key in heapq.nsmallest(MOST_RELAYS, others)))


def spread(seeds: Seeds, ways: Ways, relays: Collection[str]) -> Gifts:
    """Return what each memory gets from the seeds; of equal givers the first is named.

    A memory gets a seed's share once, by the way on which it gets most; what several seeds give
    adds up. Ways of two links lead through ``relays`` only.
    """
    sums: dict[str, int] = {}
    largest: dict[str, int] = {}
    givers: dict[str, str] = {}

    for seed, score in seeds:
        for key, given in _give(seed, score, ways, relays).items():
            sums[key] = sums.get(key, 0) + given
            if given > largest.get(key, 0):
                largest[key] = given
                givers[key] = seed

    return Gifts(sums, givers)


def lift(own: Mapping[str, int], gifts: Gifts) -> dict[str, int]:
    """Return the scores of the memories that were given something; ``own`` are those by words.

    Links lift a memory to `LIFTED_TENTHS` of its best giver's own score, and never lower it.
    """
    lifted: dict[str, int] = {}
    for key, given in gifts.scores.items():
        score = own.get(key, 0)
        most = own[gifts.givers[key]] * LIFTED_TENTHS // 10
        lifted[key] = max(score, min(score + given, most))

    return lifted


def _give(seed: str, score: int, ways: Ways, relays: Collection[str]) -> dict[str, int]:
    """Return what one seed gives to each memory, if it is more than zero."""
    given: dict[str, int] = {}
    near, far = (score * tenths for tenths in TENTHS)
    steps = ways.get(seed, ())

    _give_along(given, steps, near, 10)
    for weights, best in steps:
        for key, weight in weights.items():
            if key in relays:
                _give_along(given, ways.get(key, ()), far * weight, 10 * best)

    given.pop(seed, None)
    return given


def _give_along(given: dict[str, int], ways: Iterable[Steps], share: int, whole: int) -> None:
    """Give a share, as a fraction of the whole, along the steps from a memory."""
    for weights, best in ways:
        divisor = whole * best
        for key, weight in weights.items():
            amount = share * weight // divisor
            if amount > given.get(key, 0):  # not a call: this is the innermost loop
                given[key] = amount
