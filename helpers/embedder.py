"""A foreign embedder, on a thread of its own, and the vectors that it made.

The thread is a daemon, and nobody waits for it longer than a deadline: an embedder may load a model
or ask a server, and may hang. Vectors are kept by a hash of their text, so that what was embedded
before a deadline need not be embedded again.
"""

import asyncio
import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import islice
from operator import mul
from time import monotonic
from typing import NamedTuple, Protocol, TypeAlias

from abilities.declarations.refusals import AbilitiesError
from abilities.helpers.threads.turns import ServingThreads
from abilities.helpers.threads.workers import Call

EMBED_SECONDS = 5.0
"""Seconds that a question waits for its similarities."""

BATCH = 32
"""Texts that are embedded at once; a deadline is looked at between batches."""

MAX_TEXT_CHARS = 2_000
"""Characters of a text that are embedded: models read no more than about 512 tokens."""

MAX_DIMENSIONS = 8_192
"""Numbers in a vector."""

KEPT_NUMBERS = 8_000_000
"""Numbers in all vectors that are kept, of 4 bytes each."""

SIMILARITY_ONE = 1_000_000
"""What a cosine of 1 is written as.

Models give slightly different vectors in other company; rounding makes these equal.
"""

_MAX_ERROR = 300
"""Characters of what an embedder says of an error."""

_Vector: TypeAlias = "array[float]"


class Embedder(Protocol):
    """What turns texts into vectors: one per text, in order, always of the same length."""

    def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return the vectors of texts. Called on one thread only."""
        ...


class EmbedderFailed(AbilitiesError):
    """No similarities can be had; the text says why, in one line."""


class Comparison(NamedTuple):
    """A text, and the texts whose similarity with it is asked for."""

    text: str
    others: Sequence[str]


class _Job(NamedTuple):
    """Comparisons to compute until a time of the monotonic clock."""

    comparisons: Sequence[Comparison]
    end: float


_Comparing: TypeAlias = Call[_Job, list[list[int]]]


class EmbedderThread:
    """Compares texts by an embedder. Calls may come from any event loop and any thread."""

    def __init__(self, load: Callable[[], Embedder], seconds: float = EMBED_SECONDS) -> None:
        self._vectors = _Vectors(load)
        self._seconds = seconds
        self._thread: ServingThreads[_Comparing] = ServingThreads("abilities-embedder", self._serve)
        self._running: _Job | None = None

    async def compare(self, comparisons: Sequence[Comparison]) -> list[list[int]]:
        """Return per comparison how similar each of the other texts is, from -1 to 1 million.

        Raises EmbedderFailed.
        """
        running = self._running
        if running is not None and monotonic() > running.end:
            raise EmbedderFailed("it is still busy with an earlier call")

        call: _Comparing = Call(_Job(comparisons, monotonic() + self._seconds))
        self._thread.put("", call)
        if not self._thread.is_started:
            raise EmbedderFailed("no thread can be started")

        try:
            async with asyncio.timeout(self._seconds):
                return await call.wait()
        except TimeoutError:
            raise EmbedderFailed("it did not answer in time") from None
        finally:
            call.give_up()

    def close(self) -> None:
        """Let the thread end when it has nothing to do. It is not waited for."""
        self._thread.end()

    def _serve(self, call: _Comparing) -> None:
        if not call.begin(self):
            return

        self._running = call.work
        similarities: list[list[int]] = []
        failure: EmbedderFailed | None = None

        try:
            similarities = self._vectors.compare(call.work)
        except EmbedderFailed as error:
            failure = error
        except BaseException as error:  # it is foreign, and may raise SystemExit too
            failure = EmbedderFailed(_describe(error))

        # Whoever hears of the outcome may ask again at once.
        self._running = None
        if failure is not None:
            call.fail(failure)
        else:
            call.settle(similarities)


class _Vectors:
    """Vectors by the hashes of their texts, those that were used last. Used on one thread."""

    def __init__(self, load: Callable[[], Embedder]) -> None:
        self._load = load
        self._embedder: Embedder | None = None
        self._dimensions = 0  # unknown before the first vector
        self._kept: OrderedDict[bytes, _Vector] = OrderedDict()

    def compare(self, job: _Job) -> list[list[int]]:
        """Return the similarities of a job's texts. Raises EmbedderFailed, and anything else."""
        texts: dict[bytes, str] = {}
        for comparison in job.comparisons:
            texts[_hash(comparison.text)] = comparison.text
        for comparison in job.comparisons:
            texts.update((_hash(text), text) for text in comparison.others)

        vectors = self._find_vectors(texts, job.end)

        similarities: list[list[int]] = []
        for text, others in job.comparisons:
            vector = vectors[_hash(text)]
            similarities.append([_compute_cosine(vector, vectors[_hash(o)]) for o in others])

        return similarities

    def _find_vectors(self, texts: dict[bytes, str], end: float) -> dict[bytes, _Vector]:
        """Return the vectors of texts, those that are not known batch by batch until the end."""
        vectors: dict[bytes, _Vector] = {}
        for name in texts:
            if name in self._kept:
                vectors[name] = self._kept[name]
                self._kept.move_to_end(name)

        missing = [name for name in texts if name not in vectors]
        for start in range(0, len(missing), BATCH):
            if monotonic() > end:
                raise EmbedderFailed("it did not answer in time")

            names = missing[start : start + BATCH]
            embedded = self._embed([texts[name][:MAX_TEXT_CHARS] for name in names])
            vectors.update(zip(names, embedded, strict=True))
            self._keep(names, embedded)

        return vectors

    def _keep(self, names: Sequence[bytes], vectors: Sequence[_Vector]) -> None:
        self._kept.update(zip(names, vectors, strict=True))

        while len(self._kept) * self._dimensions > KEPT_NUMBERS:
            self._kept.popitem(last=False)

    def _embed(self, texts: Sequence[str]) -> list[_Vector]:
        if self._embedder is None:
            self._embedder = self._load()

        rows = self._embedder.embed(texts)
        if len(rows) != len(texts):
            raise EmbedderFailed(f"it gave {len(rows)} vectors for {len(texts)} texts")

        vectors = [_normalize(row) for row in islice(rows, len(texts))]
        dimensions = self._dimensions or len(vectors[0])
        if any(len(vector) != dimensions for vector in vectors):
            raise EmbedderFailed("its vectors differ in length")

        self._dimensions = dimensions
        return vectors


def _normalize(row: Sequence[float]) -> _Vector:
    """Return a vector as one of length 1; zeros stay zeros. Raises EmbedderFailed."""
    vector = array("f", islice(row, MAX_DIMENSIONS + 1))
    if not 1 <= len(vector) <= MAX_DIMENSIONS:
        raise EmbedderFailed(f"a vector must have 1 to {MAX_DIMENSIONS} numbers")
    if not all(map(math.isfinite, vector)):
        raise EmbedderFailed("a vector holds what is no finite number")

    length = math.sqrt(sum(map(mul, vector, vector)))
    if not length:
        return vector

    return array("f", [number / length for number in vector])


def _describe(error: BaseException) -> str:
    """Return what an embedder raised as a sentence in one line."""
    try:
        text = str(error)
    except BaseException:  # exceptions of foreign code are foreign code
        text = ""

    shown = "".join(char if char.isprintable() else " " for char in text[:_MAX_ERROR])
    return f"it raised {type(error).__name__}: {shown}".removesuffix(": ")


def _hash(text: str) -> bytes:
    """Return a hash of the part of a text that is embedded (BLAKE2b, 128 bits)."""
    shown = text[:MAX_TEXT_CHARS].encode("utf-8", "surrogatepass")
    return blake2b(shown, digest_size=16).digest()


def _compute_cosine(first: _Vector, second: _Vector) -> int:
    """Return the cosine of two vectors of length 1, in millionths."""
    cosine: float = sum(map(mul, first, second))
    return round(SIMILARITY_ONE * cosine)
