"""Join a ranking by words with the similarity of texts to the question.

The two are added as in Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
Retrieval", 2023, rather than joined by ranks: measured with a small model, reciprocal ranks answer
fewer questions than words alone. docs/embedders.md has the figures.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from abilities.helpers.search.ranking import SCORE_ONE, Confidence, RankedEntry
from abilities.helpers.search.selection import MOST_SELECTED

SIMILARITY_ONE = 1_000_000
"""The integer for a cosine of 1."""

_ABOUT = 400_000
"""The certainty from which on a question is about something that is stored."""


class Similarity(NamedTuple):
    """The similarity of memories and notes to a question: cosines, in millionths.

    ``memories`` are keys with their similarities, best first, and ``notes`` chunks of notes by
    their names. ``best`` is the highest of all similarities, and ``usual`` the mean of the others,
    at least 0. Memories that the filters leave out count in both.
    """

    memories: Sequence[tuple[str, int]]
    notes: Mapping[str, int]
    best: int
    usual: int

    @property
    def certainty(self) -> int:
        """How far the best similarity is from the usual one to the highest possible one.

        Models differ in what is usual: for some, any two texts have a cosine of 0.7.
        """
        above = max(self.best - self.usual, 0)
        return SIMILARITY_ONE * above // max(SIMILARITY_ONE - self.usual, 1)


def is_about(similarity: Similarity) -> bool:
    """Return whether a text is so similar to the question that it may answer it."""
    return similarity.certainty >= _ABOUT


def add_similar(
    ranked: Sequence[tuple[Any, ...]],
    near: Mapping[str, int],
    similarity: Similarity,
    confidence: Confidence,
) -> list[tuple[Any, ...]]:
    """Return ranked entries with what their similarity adds to the scores, in no order.

    ``near`` are the similarities of memories that may answer. Of these and the notes, the 256 most
    similar count. The best gets the highest score by words times half the certainty, or the whole
    of it if words deserve no ``confidence``; the others get less, down to nothing for the last.
    """
    values = {(key, False): value for key, value in near.items()}
    values |= {(name, True): value for name, value in similarity.notes.items()}
    falling = sorted(values.values(), reverse=True)[:MOST_SELECTED]
    if not falling:
        return list(ranked)

    most = max((RankedEntry._make(columns).score for columns in ranked), default=SCORE_ONE)
    if confidence != "none":
        most = most * similarity.certainty // (2 * SIMILARITY_ONE)

    span = falling[0] - falling[-1]
    gains: dict[tuple[str, bool], int] = {}
    for name, value in values.items():
        gain = most
        if span:
            gain = most * (value - falling[-1]) // span
        if gain > 0:
            gains[name] = gain

    joined: list[tuple[Any, ...]] = []
    for entry in map(RankedEntry._make, ranked):
        gain = gains.pop((entry.name, entry.is_note), 0)
        joined.append(tuple(entry._replace(score=entry.score + gain, own=entry.own + gain)))
    for (key, is_note), gain in gains.items():
        joined.append(tuple(RankedEntry(key, is_note, gain, gain)))

    return joined
