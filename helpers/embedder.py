"""Turn texts into vectors with a foreign embedder, which may do everything wrong.

Vectors become whole numbers: of length 1, times `SCALE`, and rounded. The product of two vectors is
then exact in 32-bit floats, in whatever order it is summed, so that similarities are the same on
every machine.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from abilities.declarations.refusals import AbilitiesError

MAX_TEXT_CHARS = 2_000
"""Characters of a text that are embedded, because models read at most about 512 tokens."""

MAX_DIMENSIONS = 8_192
"""Numbers in a vector."""

SCALE = 4_000
"""The length of a vector. With all rounding errors, its square is below 2 to the power of 24."""

_MAX_ERROR = 300
"""Characters of an embedder's error message that are shown."""

Vectors: TypeAlias = "NDArray[np.int16]"
"""One vector per row."""


class Embedder(Protocol):
    """Turns texts into vectors: one per text, in order, always of the same length."""

    def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return the vectors of texts. Called on one thread only."""
        ...


class EmbedderFailed(AbilitiesError):
    """The embedder gave no similarities; the text says why, in one line."""


class Vectorizer:
    """An embedder, which is loaded when it is first used. Used on one thread."""

    def __init__(self, load: Callable[[], Embedder]) -> None:
        self._load = load
        self._embedder: Embedder | None = None
        self._dimensions = 0  # unknown before the first vector

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some texts; a vector of zeros stays one.

        Raises EmbedderFailed whatever the embedder does.
        """
        try:
            if self._embedder is None:
                self._embedder = self._load()

            found: Any = self._embedder.embed([text[:MAX_TEXT_CHARS] for text in texts])
            with np.errstate(over="ignore"):
                rows: NDArray[np.float32] = np.asarray(found, dtype=np.float32)
        except BaseException as error:  # foreign code may raise SystemExit too
            raise EmbedderFailed(_describe_error(error)) from None

        if rows.ndim != 2 or len(rows) != len(texts):
            raise EmbedderFailed(f"it gave no {len(texts)} vectors for {len(texts)} texts")
        if not 1 <= rows.shape[1] <= MAX_DIMENSIONS:
            raise EmbedderFailed(f"a vector must have 1 to {MAX_DIMENSIONS} numbers")
        if rows.shape[1] != (self._dimensions or rows.shape[1]):
            raise EmbedderFailed("its vectors differ in length")
        if not np.isfinite(rows).all():
            raise EmbedderFailed("a vector has a number that is not finite")

        self._dimensions = rows.shape[1]
        exact = rows.astype(np.float64)
        lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
        lengths[lengths == 0] = 1.0
        vectors: Vectors = np.rint(exact * (SCALE / lengths)).astype(np.int16)
        return vectors


def hash_text(text: str) -> bytes:
    """Return a hash of the embedded part of a text (BLAKE2b, 128 bits)."""
    shown = text[:MAX_TEXT_CHARS].encode("utf-8", "surrogatepass")
    return blake2b(shown, digest_size=16).digest()


def _describe_error(error: BaseException) -> str:
    """Describe an embedder's exception in one line."""
    try:
        text = str(error)
    except BaseException:  # the exception's class may be foreign code too
        text = ""

    shown = "".join(char if char.isprintable() else " " for char in text[:_MAX_ERROR])
    return f"it raised {type(error).__name__}: {shown}".removesuffix(": ")
