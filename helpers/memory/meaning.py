"""The similarity of a namespace's memories and notes to questions, by the vectors of an embedder.

All of it happens on the event loop of one thread, because an embedder may load a model or ask a
server, and may hang: no caller waits for it beyond a deadline. Vectors are kept in memory. Before a
question is compared, the changes since the last one are read from the store, and only texts that
are new are embedded. If there are too many for the deadline, that goes on in the background.
"""

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abilities.declarations.refusals import Refused
from abilities.helpers.embedder import SCALE, EmbedderFailed, Vectorizer, Vectors, hash_text
from abilities.helpers.memory.targets import NotePart
from abilities.helpers.search.meaning import SIMILARITY_ONE, Similarity
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.protocol import HistoryStore, MemoryStore
from abilities.helpers.threads.loops import LoopThread

EMBED_SECONDS = 5.0
"""Seconds that a question waits for its similarities."""

BATCH = 64
"""Texts that are embedded at once. Other questions wait no longer than for one batch."""

PAGE = 1_000
"""Changes, or lines of a list, that are read at once."""

MAX_MEMORIES = 100_000
"""Memories of a namespace that are compared: the first that were found."""

MAX_NUMBERS = 64_000_000
"""Numbers in all vectors that are kept, of 2 bytes each."""

MAX_NEAR = 4_096
"""The most similar memories that are named; filters choose among them."""

LOG_SECONDS = 60.0
"""Seconds between two log lines about a failing embedder, at least."""

_BLOCK = 8_192
"""Vectors that are compared at once, so that few are in memory as floats."""

_LAST_VERSION = 2**62
_PER_MILLIONTH = SCALE * SCALE // SIMILARITY_ONE

_log = logging.getLogger("abilities")


class _Entry(NamedTuple):
    """A memory that has a vector; ``hashed`` is the hash of the embedded text."""

    key: str
    id: str
    version: int
    hashed: bytes


class VectorIndex:
    """The vectors of the memories of one namespace. Used on one loop.

    ``make_room`` is called when it has grown.
    """

    def __init__(
        self, vectorizer: Vectorizer, namespace: str, make_room: Callable[[], None]
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self.begun_at = 0.0
        self.is_dropped = False
        self._vectorizer = vectorizer
        self._namespace = namespace
        self._make_room = make_room
        self._version: int | None = None
        self._entries: list[_Entry] = []
        self._vectors: Vectors = np.zeros((0, 0), dtype=np.int16)  # the first rows are the entries'
        self._rows: dict[str, int] = {}  # by id
        self._notes: dict[bytes, Vectors] = {}

    def __len__(self) -> int:
        """Return the number of memories that have a vector."""
        return len(self._entries)

    @property
    def size(self) -> int:
        """The numbers in all vectors, including room for further ones."""
        return self._vectors.size

    async def refresh(self, store: MemoryStore) -> None:
        """Read what changed, and embed what is new. Raises EmbedderFailed and Refused."""
        while self._version is not None and isinstance(store, HistoryStore):
            page = await store.read_changes(self._namespace, self._version, PAGE)
            if not page.is_complete:
                break

            for change in page.changes:
                if change.action == "deleted":
                    self._remove(change.id)  # makes room for those that follow
            found = await self._read(store, [change.key for change in page.changes if change.key])
            for change in page.changes:
                if change.id not in found:
                    self._remove(change.id)
            self._version = page.next
            if not page.has_more:
                return

        await self._read_all(store)

    async def _read_all(self, store: MemoryStore) -> None:
        """Embed the memories that are new or changed, and drop those that are gone."""
        version: int | None = None
        if isinstance(store, HistoryStore):
            page = await store.read_changes(self._namespace, _LAST_VERSION, 1)
            version = page.next

        known = {(entry.key, entry.version): entry.id for entry in self._entries}
        present: set[str] = set()
        after, count = "", 0
        while count < MAX_MEMORIES:
            lines = await store.list_memories(self._namespace, "", after, PAGE, archived=True)
            if not lines:
                break

            changed: list[str] = []
            for line in lines:
                if isinstance(line, DamagedMemory) or (line.key, line.version) not in known:
                    changed.append(line.key)
                else:
                    present.add(known[line.key, line.version])
            present |= await self._read(store, changed)
            after, count = lines[-1].key, count + len(lines)

        for memory_id in self._rows.keys() - present:
            self._remove(memory_id)
        self._version = version

    async def _read(self, store: MemoryStore, keys: Iterable[str]) -> set[str]:
        """Read memories, and embed their texts if these are new; return the ids of those found."""
        present: set[str] = set()
        names = list(dict.fromkeys(keys))
        for start in range(0, len(names), BATCH):
            if self.is_dropped:
                raise EmbedderFailed("the vectors of other namespaces need the memory")

            changed: list[tuple[str, _Entry]] = []
            for memory in await store.read(self._namespace, names[start : start + BATCH]):
                if not isinstance(memory, StoredMemory):
                    continue

                row = memory.row
                present.add(row.id)
                text = f"{row.summary}\n{row.content}".strip()
                entry = _Entry(row.key, row.id, row.version, hash_text(text))
                place = self._rows.get(row.id)
                if place is not None and self._entries[place].hashed == entry.hashed:
                    self._entries[place] = entry
                elif place is not None or len(self) < self._limit:
                    changed.append((text, entry))

            if changed:
                vectors = self._vectorizer.embed([text for text, _ in changed])
                for (_, entry), vector in zip(changed, vectors, strict=True):
                    self._put(entry, vector)

        return present

    @property
    def _limit(self) -> int:
        return min(MAX_MEMORIES, MAX_NUMBERS // (self._vectors.shape[1] or 1))

    def _put(self, entry: _Entry, vector: Vectors) -> None:
        self._remove(entry.id)

        row = len(self._entries)
        if row == len(self._vectors):
            rows = min(max(2 * row, PAGE), MAX_NUMBERS // len(vector))
            grown = np.zeros((rows, len(vector)), dtype=np.int16)
            if row:
                grown[:row] = self._vectors
            self._vectors = grown
            self._make_room()

        self._vectors[row] = vector
        self._entries.append(entry)
        self._rows[entry.id] = row

    def _remove(self, memory_id: str) -> None:
        """Drop a memory, if it has a vector; the last one takes its row."""
        row = self._rows.pop(memory_id, None)
        if row is None:
            return

        last = self._entries.pop()
        if row < len(self._entries):
            self._entries[row] = last
            self._vectors[row] = self._vectors[len(self._entries)]
            self._rows[last.id] = row

    def compare(self, queries: Sequence[str], parts: Sequence[NotePart]) -> list[Similarity]:
        """Return the similarity of the memories and of parts of notes to each question.

        Raises EmbedderFailed.
        """
        texts = {part.name: f"{part.heading}\n{part.content}".strip() for part in parts}
        hashes = {name: hash_text(text) for name, text in texts.items()}
        new = {hashes[name]: text for name, text in texts.items()}
        new = {hashed: text for hashed, text in new.items() if hashed not in self._notes}

        wanted = [*queries, *new.values()]
        batches = range(0, len(wanted), BATCH)
        vectors = np.concatenate(
            [self._vectorizer.embed(wanted[start : start + BATCH]) for start in batches]
        )
        known = {**self._notes, **dict(zip(new, vectors[len(queries) :], strict=True))}
        self._notes = {hashed: known[hashed] for hashed in hashes.values()}

        asked = vectors[: len(queries)].T.astype(np.float32)
        rows = self._vectors[: len(self)]
        if hashes:
            notes = np.stack([self._notes[hashed] for hashed in hashes.values()])
            rows = np.concatenate([rows.reshape(-1, len(asked)), notes])

        products = [
            rows[start : start + _BLOCK].astype(np.float32) @ asked
            for start in range(0, len(rows), _BLOCK)
        ]
        if not products:
            return [Similarity((), {}, 0)] * len(queries)

        millionths = np.concatenate(products).astype(np.int64) // _PER_MILLIONTH
        return [self._describe(column, list(hashes)) for column in millionths.T]

    def _describe(self, values: "NDArray[np.int64]", notes: Sequence[str]) -> Similarity:
        """Return the similarities to one question, given those by row and then of the notes."""
        best = int(values.max())
        others = int(values.sum()) - best
        usual = max(others // max(len(values) - 1, 1), 0)

        count = len(self)
        least = -SIMILARITY_ONE
        if count > MAX_NEAR:
            least = int(np.partition(values[:count], -MAX_NEAR)[-MAX_NEAR])

        near: list[tuple[int, str]] = []
        for row in np.flatnonzero(values[:count] >= least).tolist():
            near.append((-int(values[row]), self._entries[row].key))

        near.sort()
        memories = [(key, -negative) for negative, key in near[:MAX_NEAR]]
        by_note = dict(zip(notes, values[count:].tolist(), strict=True))
        return Similarity(memories, by_note, usual)


class VectorMeaning:
    """Compares questions with memories and notes for an application.

    Calls may come from any event loop and any thread.
    """

    def __init__(self, vectorizer: Vectorizer, seconds: float = EMBED_SECONDS) -> None:
        self._vectorizer = vectorizer
        self._seconds = seconds
        self._thread = LoopThread("abilities-embedder", "the embedder")
        self._indexes: OrderedDict[str, VectorIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._logged_at: float | None = None

    async def compare(
        self,
        store: MemoryStore,
        namespace: str,
        queries: Sequence[str],
        parts: Sequence[NotePart],
    ) -> tuple[Similarity, ...]:
        """Return the similarities to each question, or nothing if the embedder fails."""
        try:
            similarities, _ = await self.measure(store, namespace, queries, parts)
        except (EmbedderFailed, Refused) as error:
            now = time.monotonic()
            with self._lock:
                is_due = self._logged_at is None or now >= self._logged_at + LOG_SECONDS
                if is_due:
                    self._logged_at = now
            if is_due:
                _log.warning("the embedder failed, and recall ranks by words alone: %s", error)
            return ()

        return tuple(similarities)

    async def measure(
        self,
        store: MemoryStore | None,
        namespace: str,
        queries: Sequence[str],
        parts: Sequence[NotePart],
    ) -> tuple[list[Similarity], int]:
        """Return the similarities to each question, and the number of memories with a vector.

        Without a store there are no memories. Raises EmbedderFailed, also if there is no answer in
        time, and Refused from the store.
        """
        if self._thread.is_stuck:
            raise EmbedderFailed("it is still busy with an earlier call")

        try:
            self._thread.start()
        except (OSError, RuntimeError):  # no descriptors or threads are left
            raise EmbedderFailed("no thread can be started") from None

        try:
            async with asyncio.timeout(self._seconds):
                return await self._thread.run(
                    partial(self._measure, store, namespace, queries, parts)
                )
        except TimeoutError:
            done = len(self._indexes.get(namespace, ()))
            raise EmbedderFailed(
                f"it did not answer in time; {done:,} memories have vectors"
            ) from None

    def close(self) -> None:
        """Let the thread end, without waiting for it."""
        self._thread.end()

    async def _measure(
        self,
        store: MemoryStore | None,
        namespace: str,
        queries: Sequence[str],
        parts: Sequence[NotePart],
    ) -> tuple[list[Similarity], int]:
        index = self._indexes.get(namespace)
        if index is None:
            index = VectorIndex(self._vectorizer, namespace, self._make_room)
            self._indexes[namespace] = index
        self._indexes.move_to_end(namespace)

        if store is not None:
            if index.task is None or index.task.done():
                index.begun_at = time.monotonic()
                index.task = asyncio.create_task(index.refresh(store))
                index.task.add_done_callback(_ignore_failure)
            elif time.monotonic() > index.begun_at + self._seconds:
                raise EmbedderFailed(f"it still embeds; {len(index):,} memories have vectors")

            # Not cancelled with the question: it goes on in the background.
            await asyncio.shield(index.task)

        return index.compare(queries, parts), len(index)

    def _make_room(self) -> None:
        """Drop the vectors of the namespaces that were asked least recently."""
        while len(self._indexes) > 1:
            if sum(index.size for index in self._indexes.values()) <= MAX_NUMBERS:
                return
            _, index = self._indexes.popitem(last=False)
            index.is_dropped = True


def _ignore_failure(task: "asyncio.Task[None]") -> None:
    """Mark a task's exception as seen; a question that waits for the task raises it."""
    if not task.cancelled():
        task.exception()
