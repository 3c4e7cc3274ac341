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
    """The links of a memory that can be followed, each as the other memory's key and its weight.

    ``incoming`` is empty if more than 64 lead to the memory.
    """

    outgoing: Sequence[tuple[str, float]] = ()
    incoming: Sequence[tuple[str, float]] = ()


class Gift(NamedTuple):
    """What a memory gets in all, and the seed that gives most of it."""

    score: int
    giver: str


class Way(NamedTuple):
    """A step to a memory: its weight, and the best weight among those it was chosen from."""

    key: str
    weight: int
    best: int


Ways = Mapping[str, Sequence[Way]]
"""The steps from each memory whose links are known."""


def find_ways(key: str, links: Links) -> list[Way]:
    """Return the steps from a memory to others; of several links to one of them the best counts."""
    ways: list[Way] = []

    for side in links:
        weights: dict[str, int] = {}
        for other, weight in side:
            if other != key:
                amount = int(weight * _WEIGHT_ONE + 0.5)
                weights[other] = max(amount, weights.get(other, 0))

        best = max(weights.values(), default=0)
        if best:
            ways += [Way(other, amount, best) for other, amount in weights.items()]

    return ways


def list_neighbors(ways: Ways, seeds: Iterable[str]) -> list[str]:
    """Return the keys one step away from any seed whose own steps are not known, each once."""
    neighbors = {way.key: None for seed in seeds for way in ways.get(seed, ())}

    return [key for key in neighbors if key not in ways]


def spread(seeds: Sequence[tuple[str, int]], ways: Ways, hops: int) -> dict[str, Gift]:
    """Return what each memory gets from the seeds; of equal givers the first is named.

    ``seeds`` are keys with scores, best first. A memory gets a seed's share once, by the way on
    which it gets most; what several seeds give adds up, as far as `MOST_TENTHS` allows.
    """
    most = max((score * MOST_TENTHS // 10 for _, score in seeds), default=0)
    gifts: dict[str, Gift] = {}
    largest: dict[str, int] = {}

    for seed, score in seeds:
        for key, given in _give(seed, score, ways, hops).items():
            if given > largest.get(key, 0):
                largest[key] = given
                giver = seed
            else:
                giver = gifts[key].giver

            before = gifts.get(key, Gift(0, seed)).score
            gifts[key] = Gift(min(before + given, most), giver)

    return gifts


def _give(seed: str, score: int, ways: Ways, hops: int) -> dict[str, int]:
    """Return what one seed gives to each memory within so many steps, if it is more than zero."""
    given: dict[str, int] = {}
    near, far = (score * tenths for tenths in TENTHS)

    if hops >= 1:
        for key, weight, best in ways.get(seed, ()):
            _keep_larger(given, key, near * weight // (10 * best))

            if hops == 2:
                _give_further(given, ways.get(key, ()), far * weight, 10 * best)

    given.pop(seed, None)
    return given


def _give_further(given: dict[str, int], ways: Iterable[Way], share: int, whole: int) -> None:
    """Give a share, as a fraction of the whole, to the memories a further step away."""
    for key, weight, best in ways:
        amount = share * weight // (whole * best)
        if amount > given.get(key, 0):  # not a call: this is the innermost loop
            given[key] = amount


def _keep_larger(given: dict[str, int], key: str, amount: int) -> None:
    if amount > given.get(key, 0):
        given[key] = amount
