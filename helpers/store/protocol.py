"""The protocols of a memory store: what every store does, and four optional powers.

`MemoryStore` is the core. `TransferableStore` adds export and import, `HistoryStore` earlier
versions, `CheckableStore` an integrity check, and `MarkableStore` marks.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from abilities.declarations.memory import Direction
from abilities.helpers.search.ranking import Ranking
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.store.changes import Change, Outcome
from abilities.helpers.store.history import (
    ChangePage,
    DamagedEntry,
    Entry,
    MemoryChange,
    MemoryHistory,
    MemoryName,
)
from abilities.helpers.store.model import DamagedMemory, IncomingMemory, LinkRow, StoredMemory
from abilities.helpers.store.query import MemoryLine, MemoryPage, Query
from abilities.helpers.walk import WalkLimits, WalkOutcome

Mark = Literal["tokens"]
"""What a store remembers beside memories: "tokens", that tokens of a server were ever made."""

MAX_TOUCHES = 10_000
"""Memories whose accesses a store holds back until it writes them; further ones are not counted."""


class WriteResult(NamedTuple):
    """The result of a change.

    ``stored`` is the memory as it is now, None if it was deleted for good. ``created`` says whether
    the change created it; ``updated`` names the fields that changed. ``mended`` is None, unless the
    memory was damaged: then it names the fields that got defaults before. ``version`` and ``id``
    are the memory's after the change. ``replaced`` is the version whose content a "store" replaced.
    """

    stored: StoredMemory | None
    created: bool
    updated: tuple[str, ...]
    mended: tuple[str, ...] | None = None
    version: int = 0
    id: str = ""
    replaced: int = 0


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

        A memory past its ``expires_at`` is archived before anything else looks at it.

        Also raises Refused: id_not_found, memory_not_found, key_taken, version_conflict, too_long
        (what "append" makes), version_not_found and purged ("restore"), storage_quota,
        checksum_mismatch.
        """
        ...

    async def change_many(
        self, namespace: str, changes: Sequence[Change], *, atomic: bool
    ) -> list[WriteResult | Exception]:
        """Make changes one after another in one transaction; return one outcome each, in order.

        A change that cannot be made leaves the others alone. If they are ``atomic`` it undoes them
        all: then its Refused stands in its place, and Refused("rolled_back") in all others.
        """
        ...

    async def list_memories(
        self, namespace: str, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        """Return up to ``limit`` memories whose keys begin with a prefix, after a key, by key.

        Keys are ordered by their Unicode code points. ``archived`` includes archived memories.
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


@runtime_checkable
class HistoryStore(MemoryStore, Protocol):
    """A store that keeps what its changes replaced, within its `HistoryLimits`."""

    async def read_history(
        self, namespace: str, name: MemoryName, before: int | None, limit: int
    ) -> MemoryHistory:
        """Return the newest entries of a memory, those with versions less than ``before``.

        A deleted one has a history too. Raises Refused: memory_not_found, id_not_found.
        """
        ...

    async def read_version(
        self, namespace: str, name: MemoryName, moment: int | str
    ) -> StoredMemory:
        """Return a memory with all its links in a version, or as it was at a time.

        Raises Refused: memory_not_found, id_not_found, version_not_found, checksum_mismatch.
        """
        ...

    async def read_changes(self, namespace: str, since: int, limit: int) -> ChangePage:
        """Return the changes of a namespace after a version; no change that commits late is missed.

        Of each memory only the last change of the page is returned.
        """
        ...

    async def read_latest_changes(
        self, namespace: str, before: int | None, limit: int
    ) -> list[MemoryChange]:
        """Return the latest changes, or those before a version, newest first; none "relinked"."""
        ...

    async def compact(self, now: str) -> int:
        """Forget what the limits no longer allow; return how many entries were forgotten."""
        ...

    async def read_entries(
        self, after: tuple[str, str, int], limit: int
    ) -> list[Entry | DamagedEntry]:
        """Return entries of all namespaces, after a (namespace, id, version), in that order."""
        ...

    async def import_entries(self, entries: Sequence[Entry]) -> int:
        """Store the history of memories that have none here; return how many entries were stored.

        The entries are those of whole memories, by rising version, and come before the memories
        themselves. The versions are this store's own. Purged memories are left out.
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


@runtime_checkable
class MarkableStore(MemoryStore, Protocol):
    """A store that remembers facts for good; a backup has them too, and an export has none."""

    async def set_mark(self, mark: Mark) -> None:
        """Set a mark, durably. Setting it again changes nothing."""
        ...

    async def has_mark(self, mark: Mark) -> bool:
        """Return whether a mark is set."""
        ...


class ServableStore(TransferableStore, HistoryStore, CheckableStore, MarkableStore, Protocol):
    """A store with all powers, as servers need it; the built-in stores have them all."""
