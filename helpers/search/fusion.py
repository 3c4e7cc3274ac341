"""Two rankings joined into one by reciprocal rank.

After Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion Outperforms Condorcet and Individual
Rank Learning Methods", 2009: an entry gets 1 / (60 + its rank) from each ranking that it stands in.
Ranks begin with 1; entries of equal value share the first of their ranks. The sums are multiplied
so that the best possible one, for the first of both rankings, is `SCORE_ONE`.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from abilities.helpers.search.ranking import SCORE_ONE
from abilities.helpers.search.rankings import RankedEntry, Ranking
from abilities.helpers.search.selection import MOST_SELECTED

DAMPING = 60
"""The constant k of the paper: the larger, the less the first ranks stand out."""

_FINENESS = 1 << 24
"""Parts of one of a score, so that neighbors in long rankings are told apart."""

_WHOLE = SCORE_ONE * _FINENESS * (DAMPING + 1) // 2

Name = TypeVar("Name")


class EntryName(NamedTuple):
    """What tells an entry from all others: a memory's key, or the name of a part of a note."""

    name: str
    is_note: bool


def join_rankings(first: Mapping[Name, int], second: Mapping[Name, int]) -> dict[Name, int]:
    """Return what each name gets from two rankings in all; their values order them.

    The sums are in parts of a score, finer than scores are shown.
    """
    shares = _share(first)
    for name, share in _share(second).items():
        shares[name] = shares.get(name, 0) + share

    return shares


def fuse(ranking: Ranking, similarities: Mapping[EntryName, int]) -> Ranking:
    """Return a ranking joined with that by similarity, in which entries may stand that it lacks.

    Only similarities above 0 count, down to the 256th rank. In a score, ``own`` is all but what an
    entry gets because links led to it.
    """
    found = {EntryName(entry.name, entry.is_note): entry for entry in ranking.entries}
    by_words = {name: entry.score for name, entry in found.items()}
    by_meaning = _keep_best(similarities)

    joined = join_rankings(by_words, by_meaning)
    from_meaning = _share(by_meaning)

    entries: list[RankedEntry] = []
    for name in sorted(joined, key=lambda name: (-joined[name], name)):
        score = own = joined[name] // _FINENESS
        entry = found.get(name)
        if entry is None:
            entries.append(RankedEntry(*name, score, own))
            continue

        if not entry.own:
            own = from_meaning.get(name, 0) // _FINENESS
        entries.append(entry._replace(score=score, own=own))

    names = {entry.name for entry in entries}
    also = tuple(name for name in ranking.also if name not in names)
    return Ranking(tuple(entries), ranking.unknown_words, also)


def _share(values: Mapping[Name, int]) -> dict[Name, int]:
    """Return what each name gets from one ranking."""
    return {name: _WHOLE // (DAMPING + rank) for name, rank in _rank(values).items()}


def _keep_best(similarities: Mapping[EntryName, int]) -> dict[EntryName, int]:
    similar = {name: value for name, value in similarities.items() if value > 0}
    ranks = _rank(similar)

    return {name: value for name, value in similar.items() if ranks[name] <= MOST_SELECTED}


def _rank(values: Mapping[Name, int]) -> dict[Name, int]:
    """Return the rank of each name, by falling value; equal values have equal ranks."""
    ranks: dict[int, int] = {}
    for rank, value in enumerate(sorted(values.values(), reverse=True), start=1):
        ranks.setdefault(value, rank)

    return {name: ranks[value] for name, value in values.items()}
