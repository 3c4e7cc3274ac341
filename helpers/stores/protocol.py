"""What a store of memories can do; `conformance.py` holds any store against it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from abilities.helpers.stores.changes import Change, Outcome
from abilities.helpers.stores.model import IMPORTANCES, DamagedMemory, IncomingMemory, LinkRow, StoredMemory
from abilities.helpers.walk import WalkLimits, WalkOutcome

MAX_TOUCHES = 10_000
"""Accesses a store holds back until they are written; more are forgotten, counting is best effort."""


class WriteResult(NamedTuple):
    """What became of a change: the memory as it is now (None when deleted for good) and what changed."""

    stored: StoredMemory | None
    created: bool
    updated: tuple[str, ...]


class WalkResult(NamedTuple):
    """A walk, and for each of its steps the memory or why it could not be read."""

    outcome: WalkOutcome
    memories: tuple[StoredMemory | Exception, ...]


class IntegrityFinding(NamedTuple):
    """What a check found of one thing: in words, how many are concerned, and some of them by name."""

    name: str
    state: Literal["sound", "note", "damaged"]
    number: int
    words: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """Which memories, in which order; None leaves a filter out. ``search`` is case-folded already."""

    type: str | None = None
    tags: tuple[str, ...] = ()
    search: str | None = None
    importance: str | None = None
    category: str | None = None
    archived: bool = False
    limit: int = 10
    offset: int = 0
    sort_by: str = "accessed_at"
    descending: bool = True

    @property
    def filters(self) -> list[tuple[str, Any]]:
        """The columns that must have a value; importance as its place in the rising order."""
        importance = None if self.importance is None else IMPORTANCES.index(self.importance)
        named = (("type", self.type), ("importance", importance), ("category", self.category))
        return [(name, value) for name, value in named if value is not None]

    @property
    def counter(self) -> tuple[str, str] | None:
        """The counter that knows how many match, by name and value; None where no counter does.

        Counters know the memories by at most one of type, importance and tag.
        """
        filters = [*self.filters, *(("tag", tag) for tag in self.tags)]
        if self.search is not None or self.category is not None or len(filters) > 1:
            return None
        name, value = filters[0] if filters else ("all", "")
        return name, str(value)


class MemoryPage(NamedTuple):
    """A page of matching memories and how many match in all."""

    memories: tuple[StoredMemory | Exception, ...]
    total: int


class Backlinks(NamedTuple):
    """Some of the links that lead to a key, by source and type, and how many there are."""

    links: tuple[LinkRow, ...]
    total: int


class MemoryStore(Protocol):
    """A durable store of memories, for any event loop and any number of processes.

    Every method isolates its namespace, and is one transaction: reads see one snapshot, a change is
    wholly there or not at all, and is durable when the method returns. Where one memory among several
    cannot be read, its place holds the Refused that says why; otherwise Refused is raised: busy,
    storage_full, storage_error, storage_moved, read_only, corrupted, schema_too_new, unavailable.
    """

    @property
    def queue_size(self) -> int:
        """How many calls wait for the store at this moment."""
        ...

    async def change(self, namespace: str, change: Change) -> WriteResult:
        """Make one change. Raises Refused too: id_not_found, key_taken, storage_quota, checksum_mismatch.

        A change once begun is finished, even if its caller is cancelled.
        """
        ...

    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """Memories by key, in the order asked; Refused("memory_not_found") in the place of one that is not there."""
        ...

    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        """One memory with ``limit`` of its links, best first, after ``offset``. Raises Refused."""
        ...

    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        """``limit`` of the links that lead to a key, by source, after ``offset``; damaged ones are only counted."""
        ...

    async def walk(self, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
        """Walk from a memory in one snapshot. Raises Refused when the first memory cannot be read."""
        ...

    async def query(self, namespace: str, query: Query) -> MemoryPage:
        """A page of memories and the exact number of matches."""
        ...

    async def read_stats(self, namespace: str) -> dict[str, Any]:
        """Figures of a namespace, named as `get_memory_stats` answers them; most_accessed is a Stored or None."""
        ...

    async def read_page(self, after: tuple[str, str], limit: int) -> list[StoredMemory | DamagedMemory]:
        """Memories of all namespaces with all of their links, by namespace and key, beginning after those of ``after``.

        ``limit`` counts memories; a damaged one, or a damaged link beside its memory, comes as Damaged.
        """
        ...

    async def count_memories(self) -> int:
        """How many memories there are, of all namespaces, archived ones too."""
        ...

    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        """Keep memories as they are, with their ids, times and counters; one outcome each.

        Each is one transaction, or shares one with its neighbours. What is there already and differs is kept,
        or replaced where asked; a dry run only tells. Where one cannot be kept, its place holds the Refused:
        key_taken (its id belongs to another key), storage_quota, checksum_mismatch.
        """
        ...

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Look at every memory and link; ``progress`` is told how many more were looked at, from any thread.

        ``full`` looks at the search index too, for which writers may have to wait.
        """
        ...

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access, at some time soon; never fails and never waits."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of everything."""
        ...
