"""The protocols of a memory store: what every store does, and three optional powers.

`MemoryStore` is the core. `TransferableStore` adds export and import, `CheckableStore` an integrity
check, and `MarkableStore` marks. `abilities.helpers.stores.conformance` tests any store against
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from abilities.declarations.memory import Direction
from abilities.helpers.search.recall import Ranking, RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.stores.changes import Change, Outcome
from abilities.helpers.stores.model import (
    IMPORTANCES,
    DamagedMemory,
    IncomingMemory,
    LinkRow,
    StoredMemory,
)
from abilities.helpers.walk import WalkLimits, WalkOutcome

Mark = Literal["tokens"]
"""What a store remembers beside memories: "tokens", that tokens of a server were ever made."""

MAX_TOUCHES = 10_000
"""Memories whose accesses a store holds back until it writes them; further ones are not counted."""


class WriteResult(NamedTuple):
    """The result of a change.

    ``stored`` is the memory as it is now, or None if it was deleted for good. ``created`` says
    whether the change created it; ``updated`` names the fields that changed. ``mended`` is None,
    unless the memory was damaged: then it names the fields that got defaults before the change.
    """

    stored: StoredMemory | None
    created: bool
    updated: tuple[str, ...]
    mended: tuple[str, ...] | None = None


class WalkResult(NamedTuple):
    """A walk, and for each of its steps the memory or the exception that reading it raised."""

    outcome: WalkOutcome
    memories: tuple[StoredMemory | Exception, ...]


class Recalled(NamedTuple):
    """Rankings, one per question, and memories in them by their keys.

    In the place of a memory that cannot be read is the exception that says why. What there was no
    room for is left out.
    """

    rankings: tuple[Ranking, ...]
    memories: dict[str, StoredMemory | Exception]


class IntegrityFinding(NamedTuple):
    """What an integrity check found about one kind of thing, such as the links.

    ``number`` is how many are affected, ``words`` a sentence for people, and ``examples`` names
    some of them.
    """

    name: str
    state: Literal["sound", "note", "damaged"]
    number: int
    words: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """Which memories to return, and in which order.

    A filter that is None matches every memory; of ``tags``, a memory must have all. ``search`` are
    case-folded terms that the memory's searchable text must all contain, see
    `abilities.helpers.stores.search_text`. ``archived`` includes archived memories. ``sort_by`` is
    created_at, updated_at, accessed_at, importance or access_count; ties are broken by id.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    importance: str | None = None
    category: str | None = None
    archived: bool = False
    limit: int = 10
    offset: int = 0
    sort_by: str = "accessed_at"
    descending: bool = True

    @property
    def filters(self) -> list[tuple[str, str | int]]:
        """The columns that must have a value; importance as its index in `IMPORTANCES`."""
        filters: list[tuple[str, str | int]] = []

        if self.type is not None:
            filters.append(("type", self.type))
        if self.importance is not None:
            filters.append(("importance", IMPORTANCES.index(self.importance)))
        if self.category is not None:
            filters.append(("category", self.category))

        return filters

    @property
    def counter(self) -> tuple[str, str] | None:
        """The name and value of the counter that knows how many memories match; None if none does.

        Counters know the memories by at most one of type, importance and tag.
        """
        if self.search or self.category is not None:
            return None

        filters = self.filters
        for tag in self.tags:
            filters.append(("tag", tag))

        if not filters:
            return "all", ""
        if len(filters) > 1:
            return None

        ((name, value),) = filters
        return name, str(value)


class MemoryPage(NamedTuple):
    """A page of matching memories, and how many match in all."""

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
    """When the oldest and the newest memory were created; None in an empty namespace."""
    most_accessed: StoredMemory | None
    top_tags: tuple[tuple[str, int], ...]
    """The ten most used tags with their numbers of memories, most used first."""


class Backlinks(NamedTuple):
    """A page of the links that lead to a key, best first, and how many there are in all."""

    links: tuple[LinkRow, ...]
    total: int


class MemoryStore(Protocol):
    """What every store does: keep, change, read, walk, find and count memories.

    A store serves any event loop and any number of processes. Every method isolates its namespace
    and is one transaction: a read sees one snapshot; a change is made completely or not at all, and
    is durable when the method returns. If one memory among several cannot be read, a Refused in its
    place says why. A method raises Refused if the store cannot answer: busy, storage_full,
    storage_error, storage_moved, read_only, corrupted, schema_too_new, unavailable, timeout.

    `TransferableStore`, `CheckableStore` and `MarkableStore` are optional powers beyond this.
    """

    @property
    def queue_size(self) -> int:
        """How many calls wait for the store right now."""
        ...

    async def prepare(self) -> None:
        """Open the store, however long that takes: one of an older version is brought forward.

        The other methods open it too, but raise Refused("busy") if that takes more than seconds.
        """
        ...

    async def change(self, namespace: str, change: Change) -> WriteResult:
        """Make one change. A change that has begun is finished even if its caller is cancelled.

        Each change that alters a memory gives it the next version of its namespace, beginning with
        1; a version is never given twice, not even after the memory was deleted. Links that lead to
        a memory follow when it is renamed; that gives their sources no new version.

        Also raises Refused: id_not_found, key_taken, storage_quota, checksum_mismatch.
        """
        ...

    async def read(self, namespace: str, keys: Sequence[str]) -> list[StoredMemory | Exception]:
        """Return one item per key, in that order; Refused("memory_not_found") for a missing memory.

        Each memory has its ``links_total``; its links, backlinks and access counters may be left
        out.
        """
        ...

    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        """Return one memory with up to ``limit`` of its links, best first, after ``offset`` links.

        Raises Refused if the memory is missing or damaged: memory_not_found, checksum_mismatch,
        invalid_stored_value.
        """
        ...

    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        """Return up to ``limit`` of the links that lead to a key, after ``offset`` links.

        Best first: they rank by their weight times the score of the memory that they come from, and
        then by weight, source and type. The key need not exist. Damaged links are counted but not
        returned.
        """
        ...

    async def walk(
        self, namespace: str, key: str, limits: WalkLimits, direction: Direction = "out"
    ) -> WalkResult:
        """Walk along the links from a memory, in one snapshot.

        Of two links that rank alike, by rank, weight, key and type, an outgoing one comes first.

        Raises Refused if that first memory cannot be read.
        """
        ...

    async def read_language(self) -> Language:
        """Return the language that the index of words is kept in."""
        ...

    async def recall(
        self, namespace: str, request: RecallRequest, room: int, starts: Sequence[int]
    ) -> Recalled:
        """Rank what answers questions, in one snapshot.

        The memories are loaded in turns, the first of each ranking, then the second of each, and so
        on, each ranking from its place in ``starts``, until their contents exceed ``room`` bytes.
        """
        ...

    async def query(self, namespace: str, query: Query) -> MemoryPage:
        """Return a page of matching memories and the exact number of matches."""
        ...

    async def read_stats(self, namespace: str) -> Stats:
        """Return the statistics of a namespace."""
        ...

    async def ping(self) -> None:
        """Raise Refused if the store does not answer. That is told within 2 seconds.

        Pings wait for no other call, however slow these are.
        """
        ...

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access to a memory soon, best effort; never raises and never waits."""
        ...

    async def close(self) -> None:
        """Finish the calls that have begun and release everything."""
        ...


class TransferableStore(MemoryStore, Protocol):
    """A store whose memories can be exported and imported whole, across all namespaces."""

    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        """Return memories of all namespaces with all their links, ordered by namespace and key.

        The page starts after the (namespace, key) given in ``after``, ("", "") at first, and holds
        up to ``limit`` memories. A damaged memory appears as a DamagedMemory; a memory with damaged
        links follows one.
        """
        ...

    async def count_memories(self) -> int:
        """Return the number of memories in all namespaces, archived ones included."""
        ...

    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        """Store memories as they are, with their ids, times and counters; return one outcome each.

        Each memory is one transaction, or shares one with its neighbors. A memory that exists and
        differs is kept, or replaced if ``replace`` is set; a dry run changes nothing. If a memory
        cannot be stored, a Refused in its place says why: key_taken (its id belongs to another
        key), storage_quota, checksum_mismatch.
        """
        ...


class CheckableStore(MemoryStore, Protocol):
    """A store that can check its own integrity."""

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check every memory and link, and everything that is derived from them.

        ``progress`` is called with the number of rows checked since the last call, from any thread.
        ``full`` checks the inside of the search index too, for which writers may have to wait.
        """
        ...


class MarkableStore(MemoryStore, Protocol):
    """A store that remembers facts for all namespaces, which are set once and for good.

    A backup has the marks of its store. An export has none.
    """

    async def set_mark(self, mark: Mark) -> None:
        """Set a mark, durably. Setting it again changes nothing."""
        ...

    async def has_mark(self, mark: Mark) -> bool:
        """Return whether a mark is set."""
        ...


class ServableStore(TransferableStore, CheckableStore, MarkableStore, Protocol):
    """A store with all powers, as servers need it; the built-in stores have them all."""
