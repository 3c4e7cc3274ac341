"""Spreading activation: what is linked to a hit may answer too.

After Collins and Loftus, "A Spreading-Activation Theory of Semantic Processing", 1975, and
Crestani, "Application of Spreading Activation Techniques in Information Retrieval", 1997:
activation is bounded in steps and in fan-out, and falls with each step. All is computed in
integers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

SEEDS = 30
"""The best hits, which give a share of their scores to what they are linked with."""

MOST_OUTGOING = 10
"""Links of a memory that are followed: the ones that rank best."""

MOST_INCOMING = 64
"""Links that may lead to a memory if they are to be followed backwards."""

TENTHS = (5, 3)
"""Tenths of a seed's score that a memory gets one link away, and two links away."""

MOST_TENTHS = 7
"""Tenths of the best hit's score that a memory gets at most, however many seeds lead to it.

Without a bound, a memory that everything is linked with would stand first for every question.
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


def list_neighbors(ways: Ways, seeds: Iterable[str]) -> list[str]:
    """Return the keys one step away from any seed whose own steps are not known, each once."""
    neighbors: dict[str, None] = {}
    for seed in seeds:
        for steps in ways.get(seed, ()):
            neighbors |= dict.fromkeys(steps.weights)

    return [key for key in neighbors if key not in ways]


def spread(seeds: Sequence[tuple[str, int]], ways: Ways, hops: int) -> Gifts:
    """Return what each memory gets from the seeds; of equal givers the first is named.

    ``seeds`` are keys with scores, best first. A memory gets a seed's share once, by the way on
    which it gets most; what several seeds give adds up, as far as `MOST_TENTHS` allows.
    """
    most = max((score * MOST_TENTHS // 10 for _, score in seeds), default=0)
    sums: dict[str, int] = {}
    largest: dict[str, int] = {}
    givers: dict[str, str] = {}

    for seed, score in seeds:
        for key, given in _give(seed, score, ways, hops).items():
            sums[key] = sums.get(key, 0) + given
            if given > largest.get(key, 0):
                largest[key] = given
                givers[key] = seed

    return Gifts({key: min(amount, most) for key, amount in sums.items()}, givers)


def _give(seed: str, score: int, ways: Ways, hops: int) -> dict[str, int]:
    """Return what one seed gives to each memory within so many steps, if it is more than zero."""
    given: dict[str, int] = {}
    near, far = (score * tenths for tenths in TENTHS)

    if hops >= 1:
        _give_along(given, ways.get(seed, ()), near, 10)
    if hops == 2:
        for weights, best in ways.get(seed, ()):
            for key, weight in weights.items():
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
