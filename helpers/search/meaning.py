"""Join a ranking by words with the similarity of texts to the question.

The two are added as in Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
Retrieval", 2023, rather than joined by ranks: measured with a small model, reciprocal ranks answer
fewer questions than words alone. docs/recall.md has the figures.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from abilities.helpers.search.ranking import SCORE_ONE, Confidence, RankedEntry
from abilities.helpers.search.selection import MOST_SELECTED

SIMILARITY_ONE = 1_000_000
"""The integer for a cosine of 1."""

_ABOUT = 450_000
"""The certainty from which on a question is about something that is stored.

Chosen so that hardly more questions about something else are answered than by words alone.
"""


class Similarity(NamedTuple):
    """The similarity of memories and notes to a question: cosines, in millionths.

    ``memories`` are keys with their similarities, best first, and ``notes`` chunks of notes by
    their names. ``usual`` is the mean of all similarities but the best, and at least 0.
    """

    memories: Sequence[tuple[str, int]]
    notes: Mapping[str, int]
    usual: int


class Near:
    """What is similar to a question and passes its filters.

    ``is_about`` is whether any of it is so similar that it may answer the question.
    """

    def __init__(self, memories: Mapping[str, int], similarity: Similarity) -> None:
        self._values = {(key, False): value for key, value in memories.items()}
        self._values |= {(name, True): value for name, value in similarity.notes.items()}
        falling = sorted(self._values.values(), reverse=True)

        self._usual = similarity.usual
        self._best = falling[0] if falling else 0
        if len(falling) >= MOST_SELECTED:
            self._least = falling[MOST_SELECTED - 1]
        else:
            self._least = min([similarity.usual, *falling[-1:]])

        # Models differ in what is usual: for some, any two texts have a cosine of 0.7.
        above = max(self._best - similarity.usual, 0)
        self._certainty = SIMILARITY_ONE * above // max(SIMILARITY_ONE - similarity.usual, 1)
        self.is_about = self._certainty >= _ABOUT

    def add_to(
        self, ranked: Sequence[tuple[Any, ...]], confidence: Confidence
    ) -> list[tuple[Any, ...]]:
        """Return ranked entries with what similarity adds to their scores, in no order.

        The most similar one gets three quarters of the highest score by words, times the certainty:
        how far it is from a usual similarity to the highest possible one. If words deserve no
        ``confidence`` but it may answer, it gets all of that score. The others get less, down to
        nothing for the 256th or the least similar. What is not even as similar as usual is not
        added to the entries.
        """
        most = max((RankedEntry._make(columns).score for columns in ranked), default=SCORE_ONE)
        if confidence != "none" or not self.is_about:
            most = 3 * most * self._certainty // (4 * SIMILARITY_ONE)

        span = max(self._best - self._least, 1)
        gains = {
            name: most * (value - self._least) // span
            for name, value in self._values.items()
            if value > self._least
        }
        joined: list[tuple[Any, ...]] = []
        for entry in map(RankedEntry._make, ranked):
            gain = gains.pop((entry.name, entry.is_note), 0)
            joined.append(tuple(entry._replace(score=entry.score + gain, own=entry.own + gain)))
        for (key, is_note), gain in gains.items():
            if gain and self._values[key, is_note] > self._usual:
                joined.append(tuple(RankedEntry(key, is_note, gain, gain)))

        return joined
