"""Compare texts with a foreign embedder, which runs on one thread.

An embedder may load a model or ask a server, and may hang. So its thread is a daemon, and no caller
waits for it beyond a deadline. Vectors are cached by a hash of their text: texts that were embedded
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
"""Texts that are embedded at once. The deadline is checked between batches."""

MAX_TEXT_CHARS = 2_000
"""Characters of a text that are embedded, because models read at most about 512 tokens."""

MAX_DIMENSIONS = 8_192
"""Numbers in a vector."""

KEPT_NUMBERS = 8_000_000
"""Numbers in all cached vectors, of 4 bytes each."""

SIMILARITY_ONE = 1_000_000
"""The integer for a cosine of 1.

Models give slightly different vectors for a text in another batch; rounding makes these equal.
"""

_MAX_ERROR = 300
"""Characters of an embedder's error message that are shown."""

_Vector: TypeAlias = "array[float]"


class Embedder(Protocol):
    """Turns texts into vectors: one per text, in order, always of the same length."""

    def embed(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return the vectors of texts. Called on one thread only."""
        ...


class EmbedderFailed(AbilitiesError):
    """The embedder gave no similarities; the text says why, in one line."""


class Comparison(NamedTuple):
    """A text, and the texts to compare it with."""

    text: str
    others: Sequence[str]


class _Job(NamedTuple):
    """Comparisons to compute before ``end``, a time of the monotonic clock."""

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
        """Return the similarity of each comparison's other texts with its text, in their order.

        A similarity is a cosine in millionths, from -1 million to 1 million.

        Raises EmbedderFailed if the embedder fails, or does not answer in time.
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
        """Let the thread end when it has nothing left to do, without waiting for it."""
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
        except BaseException as error:  # foreign code may raise SystemExit too
            failure = EmbedderFailed(_describe_error(error))

        # First, because the caller may ask again as soon as it has the outcome.
        self._running = None
        if failure is not None:
            call.fail(failure)
        else:
            call.settle(similarities)


class _Vectors:
    """An embedder, and a cache of its most recently used vectors. Used on one thread."""

    def __init__(self, load: Callable[[], Embedder]) -> None:
        self._load = load
        self._embedder: Embedder | None = None
        self._dimensions = 0  # unknown before the first vector
        self._kept: OrderedDict[bytes, _Vector] = OrderedDict()

    def compare(self, job: _Job) -> list[list[int]]:
        """Return the similarities of a job's texts, embedding new texts batch by batch.

        Raises EmbedderFailed if the job's time is over, and any exception of the embedder.
        """
        texts: dict[bytes, str] = {}
        for comparison in job.comparisons:
            texts[_hash(comparison.text)] = comparison.text
        for comparison in job.comparisons:
            texts.update((_hash(text), text) for text in comparison.others)

        vectors: dict[bytes, _Vector] = {}
        for name in texts:
            if name in self._kept:
                vectors[name] = self._kept[name]
                self._kept.move_to_end(name)

        missing = [name for name in texts if name not in vectors]
        for start in range(0, len(missing), BATCH):
            if monotonic() > job.end:
                raise EmbedderFailed("it did not answer in time")

            names = missing[start : start + BATCH]
            embedded = self._embed([texts[name][:MAX_TEXT_CHARS] for name in names])
            new_vectors = dict(zip(names, embedded, strict=True))
            vectors |= new_vectors
            self._kept |= new_vectors
            while len(self._kept) * self._dimensions > KEPT_NUMBERS:
                self._kept.popitem(last=False)

        similarities: list[list[int]] = []
        for text, others in job.comparisons:
            vector = vectors[_hash(text)]
            in_millionths: list[int] = []
            for other in others:
                cosine: float = sum(map(mul, vector, vectors[_hash(other)]))
                in_millionths.append(round(SIMILARITY_ONE * cosine))
            similarities.append(in_millionths)

        return similarities

    def _embed(self, texts: Sequence[str]) -> list[_Vector]:
        """Return the vectors of texts, scaled to length 1; zeros stay zeros."""
        if self._embedder is None:
            self._embedder = self._load()

        rows = self._embedder.embed(texts)
        if len(rows) != len(texts):
            raise EmbedderFailed(f"it gave {len(rows)} vectors for {len(texts)} texts")

        vectors: list[_Vector] = []
        for row in islice(rows, len(texts)):
            vector = array("f", islice(row, MAX_DIMENSIONS + 1))
            if not 1 <= len(vector) <= MAX_DIMENSIONS:
                raise EmbedderFailed(f"a vector must have 1 to {MAX_DIMENSIONS} numbers")
            if not all(map(math.isfinite, vector)):
                raise EmbedderFailed("a vector has a number that is not finite")

            length = math.sqrt(sum(map(mul, vector, vector)))
            if length:
                vector = array("f", [number / length for number in vector])
            vectors.append(vector)

        dimensions = self._dimensions or len(vectors[0])
        if any(len(vector) != dimensions for vector in vectors):
            raise EmbedderFailed("its vectors differ in length")

        self._dimensions = dimensions
        return vectors


def _describe_error(error: BaseException) -> str:
    """Describe an embedder's exception in one line."""
    try:
        text = str(error)
    except BaseException:  # the exception's class may be foreign code too
        text = ""

    shown = "".join(char if char.isprintable() else " " for char in text[:_MAX_ERROR])
    return f"it raised {type(error).__name__}: {shown}".removesuffix(": ")


def _hash(text: str) -> bytes:
    """Return a hash of the embedded part of a text (BLAKE2b, 128 bits)."""
    shown = text[:MAX_TEXT_CHARS].encode("utf-8", "surrogatepass")
    return blake2b(shown, digest_size=16).digest()
