"""Spreading activation: what is linked to a hit may answer too.

After Collins and Loftus, "A Spreading-Activation Theory of Semantic Processing", 1975, and
Crestani, "Application of Spreading Activation Techniques in Information Retrieval", 1997:
activation is bounded in steps and in fan-out, and falls with each step. All is computed in
integers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

SEEDS = 30
"""The best hits, which give a share of their scores to what they are linked with."""

MOST_OUTGOING = 10
"""Links of a memory that are followed: the ones that rank best."""

MOST_INCOMING = 64
"""Links that may lead to a memory if they are to be followed backwards."""

TENTHS = (5, 3)
"""Tenths of a seed's score that a memory gets one link away, and two links away."""

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


class _Way(NamedTuple):
    """A step to a memory: its weight, and the best weight among those it was chosen from."""

    key: str
    weight: int
    best: int


def list_neighbors(links: Mapping[str, Links], seeds: Iterable[str]) -> list[str]:
    """Return the keys one link away from any seed, each once, seeds left out."""
    keys = list(seeds)
    neighbors = {way.key: None for key in keys for way in _list_ways(links, key)}

    return [key for key in neighbors if key not in links]


def spread(
    seeds: Sequence[tuple[str, int]], links: Mapping[str, Links], hops: int
) -> dict[str, Gift]:
    """Return what each memory gets from the seeds; of equal givers the first is named.

    ``seeds`` are keys with scores, best first. A memory gets a seed's share once, by the way on
    which it gets most; what several seeds give adds up.
    """
    gifts: dict[str, Gift] = {}
    largest: dict[str, int] = {}

    for seed, score in seeds:
        for key, given in _give(seed, score, links, hops).items():
            if given > largest.get(key, 0):
                largest[key] = given
                giver = seed
            else:
                giver = gifts[key].giver

            before = gifts.get(key, Gift(0, seed)).score
            gifts[key] = Gift(before + given, giver)

    return gifts


def _give(seed: str, score: int, links: Mapping[str, Links], hops: int) -> dict[str, int]:
    """Return what one seed gives to each memory within so many links, if it is more than zero."""
    given: dict[str, int] = {}

    if hops >= 1:
        for first in _list_ways(links, seed):
            _keep_larger(given, first.key, score * TENTHS[0] * first.weight // (10 * first.best))

            if hops == 2:
                for second in _list_ways(links, first.key):
                    share = score * TENTHS[1] * first.weight * second.weight
                    _keep_larger(given, second.key, share // (10 * first.best * second.best))

    given.pop(seed, None)
    return given


def _keep_larger(given: dict[str, int], key: str, amount: int) -> None:
    if amount > given.get(key, 0):
        given[key] = amount


def _list_ways(links: Mapping[str, Links], key: str) -> Iterator[_Way]:
    """Yield the steps from a memory; of several links to one other memory the best counts."""
    if key not in links:
        return

    for side in links[key]:
        weights: dict[str, int] = {}
        for other, weight in side:
            if other != key:
                amount = int(weight * _WEIGHT_ONE + 0.5)
                weights[other] = max(amount, weights.get(other, 0))

        best = max(weights.values(), default=0)
        if best:
            for other, amount in weights.items():
                yield _Way(other, amount, best)
