"""A small embedder that always gives the same vectors, and embedders that do everything wrong."""

import math
import re
import sys
import threading
from collections.abc import Sequence
from typing import Any
from zlib import crc32

DIMENSIONS = 2_048

SYNONYMS = (
    ("car", "automobile", "vehicle"),
    ("doctor", "physician", "surgeon"),
    ("tea", "beverage", "drink"),
    ("house", "home", "residence"),
)
"""Words of one meaning."""

_MEANINGS = {word: group[0] for group in SYNONYMS for word in group}
_COMMON = frozenset(("a", "an", "the", "is", "of", "in", "where", "which", "what", "her", "who"))


class SynonymEmbedder:
    """Counts meanings: each word, or the first of its synonyms, is one number of the vector."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        return [_embed(text) for text in texts]


def _embed(text: str) -> list[float]:
    vector = [0.0] * DIMENSIONS
    words: list[str] = re.findall(r"\w+", text.lower())
    for word in words:
        if word not in _COMMON:
            meaning = _MEANINGS.get(word, word)
            vector[crc32(meaning.encode()) % DIMENSIONS] += 1.0
    return vector


class BadEmbedder:
    """Does what it is told; ``release`` lets it go on where it hangs."""

    def __init__(self, how: str = "hang") -> None:
        self.how = how
        self.release = threading.Event()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        match self.how:
            case "exit":
                sys.exit("secret")
            case "interrupt":
                raise KeyboardInterrupt
            case "stop":
                raise StopIteration
            case "unspeakable":
                raise UnspeakableError
            case "hang":
                self.release.wait()

        vectors: Sequence[Sequence[float]] = WRONG.get(self.how, SynonymEmbedder().embed(texts))
        return vectors


class UnspeakableError(Exception):
    """Cannot even be described."""

    def __str__(self) -> str:
        raise SystemExit


WRONG: dict[str, Any] = {
    "none": None,
    "no vectors": [],
    "many vectors": [[1.0]] * 1_000,
    "empty": [[], []],
    "differing": [[1.0, 0.0], [1.0]],
    "nan": [[math.nan], [1.0]],
    "infinite": [[1.0], [math.inf]],
    "overflowing": [[1e300], [1.0]],
    "texts": ["a", "b"],
    "numbers": [1.0, 2.0],
    "long": [range(10_000), range(10_000)],
}
"""What cannot be the vectors of two texts."""
