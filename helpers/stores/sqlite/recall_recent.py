"""The terms of a recent memory as one text, from which they move to the blocks of the recall index.

Each term is a line: the term, a tab, and a character that stands for its weight.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from abilities.helpers.search.ranking import HIGHEST_WEIGHT

_NO_WEIGHT = ord("0")

_BETWEEN = b"\0"
"""Stands between two texts. No term holds it."""


def pack_terms(weights: Mapping[str, int]) -> str:
    r"""Return terms with their weights as one text.

    >>> pack_terms({"tea": 1, "cup": 2})
    '\ntea\t1\ncup\t2'
    """
    lines: list[str] = []
    for term, weight in weights.items():
        lines.append(f"\n{term}\t{chr(_NO_WEIGHT + weight)}")

    return "".join(lines)


def unpack_terms(text: str) -> dict[str, int]:
    """Return the terms of a text from `pack_terms` with their weights, without damaged ones."""
    weights: dict[str, int] = {}
    for line in text.split("\n")[1:]:
        term, _, character = line.partition("\t")
        weight = _read_weight(character)
        if weight:
            weights[term] = weight

    return weights


class RecentTerms:
    """The terms of many recent memories, in which one search finds all that hold a term.

    They are given by the numbers of the memories, in order, each as the bytes of a text from
    `pack_terms`.
    """

    def __init__(self, texts: Iterable[tuple[int, bytes]]) -> None:
        self._docs: list[int] = []
        self._starts: list[int] = []
        parts: list[bytes] = []
        start = 0

        for doc, text in texts:
            self._docs.append(doc)
            self._starts.append(start)
            parts.append(text)
            start += len(text) + len(_BETWEEN)

        self._starts.append(start)
        self._text = _BETWEEN.join(parts)

    def find(self, term: str) -> Iterator[tuple[int, int]]:
        """Yield each memory that holds a term with the weight, unless that is damaged."""
        line = f"\n{term}\t".encode()
        start = self._text.find(line)

        while start >= 0:
            end = start + len(line)
            index = bisect_right(self._starts, start)
            weight = self._text[end] - _NO_WEIGHT if end < len(self._text) else 0
            if 0 < weight <= HIGHEST_WEIGHT:  # a byte of one that damage made longer is above
                yield self._docs[index - 1], weight

            # A memory has a term once; only damage repeats it.
            start = self._text.find(line, self._starts[index] - len(_BETWEEN))


def _read_weight(character: str) -> int:
    """Return the weight that a character stands for; 0 if it stands for none."""
    if len(character) != 1:
        return 0

    weight = ord(character) - _NO_WEIGHT
    return weight if 0 < weight <= HIGHEST_WEIGHT else 0
