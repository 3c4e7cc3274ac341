"""What a store of memories can do; `conformance.py` holds any store against it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from abilities.helpers.stores.changes import Change, Outcome
from abilities.helpers.stores.model import (
    IMPORTANCES,
    TYPES,
    DamagedMemory,
    IncomingMemory,
    LinkRow,
    StoredMemory,
)
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


class Stats(NamedTuple):
    """Statistics of a namespace; archived memories count only where a field says so."""

    total: int
    by_type: dict[str, int]
    by_importance: dict[str, int]
    archived: int
    size_bytes: int
    """UTF-8 bytes of all contents and summaries, archived memories included."""
    oldest: str | None
    newest: str | None
    """When the first and the last memory were created; None in an empty namespace."""
    most_accessed: StoredMemory | None
    top_tags: tuple[tuple[str, int], ...]
    """The ten most used tags with their numbers of memories, most used first."""


class Backlinks(NamedTuple):
    """Some of the links that lead to a key, by source and type, and how many there are."""

    links: tuple[LinkRow, ...]
    total: int


class MemoryStore(Protocol):
    """What every store of memories can do: keep, change, read, walk, find and count them.

    A store serves any event loop and any number of processes. Every method isolates its namespace and is one
    transaction: a read sees one snapshot; a change is wholly there or not at all, and is durable when the method
    returns. If one memory among several cannot be read, a Refused in its place says why. A method raises Refused
    if the store cannot answer: busy, storage_full, storage_error, storage_moved, read_only, corrupted,
    schema_too_new, unavailable.

    `TransferableStore` and `CheckableStore` are optional powers beyond this.
    """

    @property
    def queue_size(self) -> int:
        """How many calls wait for the store at this moment."""
        ...

    async def change(self, namespace: str, change: Change) -> WriteResult:
        """Make one change. Raises Refused also for: id_not_found, key_taken, storage_quota, checksum_mismatch.

        A change that has begun is finished, even if its caller is cancelled.
        """
        ...

    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """Return memories by key, in the order asked; Refused("memory_not_found") stands for a missing one."""
        ...

    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        """Return one memory with ``limit`` of its links, best first, after ``offset``. Raises Refused."""
        ...

    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        """Return ``limit`` of the links that lead to a key, ordered by source, after ``offset``.

        Damaged links are counted but not returned.
        """
        ...

    async def walk(self, namespace: str, key: str, limits: WalkLimits) -> WalkResult:
        """Walk from a memory in one snapshot. Raises Refused if the first memory cannot be read."""
        ...

    async def query(self, namespace: str, query: Query) -> MemoryPage:
        """Return a page of memories and the exact number of matches."""
        ...

    async def read_stats(self, namespace: str) -> Stats:
        """Return the statistics of a namespace."""
        ...

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access, at some time soon; never fails and never waits."""
        ...

    async def close(self) -> None:
        """Finish what has begun and release everything."""
        ...


class TransferableStore(MemoryStore, Protocol):
    """A store whose memories can be exported and imported whole, across all namespaces."""

    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        """Return memories of all namespaces with all their links, ordered by namespace and key.

        The page starts after the (namespace, key) given in ``after`` and holds up to ``limit`` memories. A damaged
        memory, or a damaged link beside its memory, appears as a DamagedMemory.
        """
        ...

    async def count_memories(self) -> int:
        """Return the number of memories in all namespaces, archived ones included."""
        ...

    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        """Store memories as they are, with their ids, times and counters; return one outcome each.

        Each memory is one transaction, or shares one with its neighbours. A memory that exists and differs is kept,
        or replaced if asked; a dry run changes nothing. If one cannot be stored, its place holds the Refused:
        key_taken (its id belongs to another key), storage_quota, checksum_mismatch.
        """
        ...


class CheckableStore(MemoryStore, Protocol):
    """A store that can check its own integrity."""

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check every memory and link.

        ``progress`` is called with the number of rows checked since the last call, from any thread. ``full`` checks
        the search index too, for which writers may have to wait.
        """
        ...


class ServableStore(TransferableStore, CheckableStore, Protocol):
    """Everything that the command line needs of a store; both of ours are one."""


def build_stats(
    counters: dict[tuple[str, int, str], int],
    span: tuple[str | None, str | None],
    most_accessed: StoredMemory | None,
    tags: Iterable[tuple[str, int]],
) -> Stats:
    """Build statistics from a store's counters, which are keyed by (name, archived, value).

    ``span`` is when the oldest and the newest memory were created.
    """
    by_importance = {
        name: counters.get(("importance", 0, str(place)), 0)
        for place, name in reversed(list(enumerate(IMPORTANCES)))
    }

    return Stats(
        total=counters.get(("all", 0, ""), 0),
        by_type={name: counters.get(("type", 0, name), 0) for name in TYPES},
        by_importance=by_importance,
        archived=counters.get(("all", 1, ""), 0),
        size_bytes=counters.get(("size", 0, ""), 0) + counters.get(("size", 1, ""), 0),
        oldest=span[0],
        newest=span[1],
        most_accessed=most_accessed,
        top_tags=tuple(tags),
    )
