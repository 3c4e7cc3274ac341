"""The protocols of memory stores.

Every store is a `MemoryStore`. `TransferableStore` adds export and import, `HistoryStore` earlier
versions, `AboutStore` the memories about files, `CheckableStore` an integrity check, and
`MarkableStore` marks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from abilities.declarations.memory import Direction
from abilities.helpers.search.ranking import Ranking
from abilities.helpers.search.recall import RecallRequest
from abilities.helpers.search.terms import Language
from abilities.helpers.store import history
from abilities.helpers.store.changes import Change, Outcome
from abilities.helpers.store.model import (
    DamagedMemory,
    IncomingMemory,
    LinkRow,
    MemoryLine,
    MemoryPage,
    Query,
    StoredMemory,
)
from abilities.helpers.walk import WalkLimits, WalkOutcome

Mark = Literal["tokens"]
"""A fact that a store remembers for good. "tokens": a token for a server was created once."""

MAX_TOUCHES = 10_000
"""Memories whose accesses a store buffers before writing them; further ones are not counted."""


class WriteResult(NamedTuple):
    """The result of a change.

    ``stored`` is the memory after the change, or None if the change deleted it. ``created`` is True
    if the change created it, and ``updated`` names the changed fields. If the memory was damaged,
    ``mended`` names the fields that got defaults before the change; otherwise it is None.
    ``version`` and ``id`` are the memory's after the change. ``replaced`` is the version whose
    content a "store" replaced, or 0.
    """

    stored: StoredMemory | None
    created: bool
    updated: tuple[str, ...]
    mended: tuple[str, ...] | None = None
    version: int = 0
    id: str = ""
    replaced: int = 0


class WalkResult(NamedTuple):
    """A walk, with the memory of each step or the exception that reading it raised."""

    outcome: WalkOutcome
    memories: tuple[StoredMemory | Exception, ...]


class Recalled(NamedTuple):
    """One ranking per question, and the loaded memories by key.

    A memory that cannot be read is an exception. Memories for which there was no room are missing.
    ``others`` has those of other namespaces, by namespace and key, if several were asked.
    """

    rankings: tuple[Ranking, ...]
    memories: Mapping[str, StoredMemory | Exception]
    others: Mapping[str, Mapping[str, StoredMemory | Exception]] = {}


class IntegrityFinding(NamedTuple):
    """The result of an integrity check for one part of a store, such as its links.

    ``number`` counts the affected items, ``examples`` names some of them, and ``words`` is a
    sentence for people.
    """

    name: str
    state: Literal["sound", "note", "damaged"]
    number: int
    words: str
    examples: tuple[str, ...] = ()


class Stats(NamedTuple):
    """Statistics of a namespace, without its archived memories unless a field says otherwise."""

    total: int
    by_type: dict[str, int]
    by_importance: dict[str, int]
    archived: int
    size_bytes: int
    """UTF-8 bytes of all contents and summaries, including those of archived memories."""
    oldest: str | None
    newest: str | None
    """Creation times of the oldest and the newest memory; None in an empty namespace."""
    most_accessed: StoredMemory | None
    top_tags: tuple[tuple[str, int], ...]
    """The ten most used tags with their numbers of memories, most used first."""


class Backlinks(NamedTuple):
    """A page of the links to a key, best first, and the total number of links to it."""

    links: tuple[LinkRow, ...]
    total: int


class MemoryStore(Protocol):
    """A store that keeps, changes, reads, walks, finds and counts memories.

    A store serves any event loop and any number of processes. Every method isolates its namespace
    and is one transaction: a read sees one snapshot, and a change is atomic and durable when the
    method returns. If one of several memories cannot be read, the result has a Refused in its
    place. A method raises Refused if the store cannot answer: busy, storage_full, storage_error,
    storage_moved, read_only, corrupted, schema_too_new, unavailable, timeout.
    """

    @property
    def queue_size(self) -> int:
        """The number of calls that wait for the store right now."""
        ...

    async def prepare(self) -> None:
        """Open the store and migrate one of an older version, however long that takes.

        The other methods open it too, but raise Refused("busy") if that takes more than seconds.
        """
        ...

    async def change(self, namespace: str, change: Change) -> WriteResult:
        """Make one change. A change that has begun is finished even if its caller is cancelled.

        Each change that alters a memory gives it the next version of its namespace, starting at 1.
        A version is never reused, even after the memory was deleted. If a memory is renamed, links
        to it follow; their sources get no new version.

        Memories past their ``expires_at`` are archived first.

        Also raises Refused: id_not_found, memory_not_found, key_taken, version_conflict, too_long
        (the result of an "append"), memory_archived and missing_argument ("supersede"),
        version_not_found and purged ("restore"), storage_quota, checksum_mismatch.
        """
        ...

    async def change_many(
        self, namespace: str, changes: Sequence[Change], *, atomic: bool
    ) -> list[WriteResult | Exception]:
        """Make changes one after another in one transaction; return one outcome each, in order.

        A change that fails leaves the others alone. If they are ``atomic``, it undoes them all: its
        outcome is its Refused, and the outcome of each other change is Refused("rolled_back").
        """
        ...

    async def list_memories(
        self, namespace: str, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        """Return up to ``limit`` memories after a key whose keys begin with a prefix, by key.

        Keys are ordered by their Unicode code points. ``archived`` includes archived memories.
        """
        ...

    async def read(
        self, namespace: str, keys: Sequence[str], *, dated: bool = False
    ) -> list[StoredMemory | Exception]:
        """Return one item per key, in order; Refused("memory_not_found") for a missing memory.

        If ``dated`` is set, each memory has its ``since``, as `recall` reads it.
        Each memory has its ``links_total``. Its links, backlinks and access counters may be
        omitted.
        """
        ...

    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> StoredMemory:
        """Return one memory with up to ``limit`` of its links, best first, after ``offset`` links.

        Raises Refused: memory_not_found, or checksum_mismatch or invalid_stored_value if the memory
        is damaged.
        """
        ...

    async def read_backlinks(self, namespace: str, key: str, offset: int, limit: int) -> Backlinks:
        """Return up to ``limit`` of the links to a key, best first, after ``offset`` links.

        A link ranks by its weight times the score of its source, and then by weight, source and
        type. The key need not exist. Damaged links are counted but not returned.
        """
        ...

    async def walk(
        self, namespace: str, key: str, limits: WalkLimits, direction: Direction = "out"
    ) -> WalkResult:
        """Walk along the links from a memory, in one snapshot.

        If two links are equal in rank, weight, key and type, an outgoing one comes first.
        Raises Refused if the first memory cannot be read.
        """
        ...

    async def read_language(self) -> Language:
        """Return the language of the recall index."""
        ...

    async def recall(
        self, namespace: str, request: RecallRequest, room: int, starts: Sequence[int]
    ) -> Recalled:
        """Rank the memories that answer questions, in one snapshot, and load some of them.

        Memories are loaded in turns: the first of each ranking, then the second of each, and so on,
        each ranking from its offset in ``starts``, until their contents exceed ``room`` bytes.
        """
        ...

    async def find_alike(
        self, namespace: str, contents: Mapping[str, str], language: Language
    ) -> dict[str, list[StoredMemory]]:
        """Return the memories that say nearly the same as others, given by key and content.

        They are by these keys, a few at most, the most alike first; archived and damaged ones are
        left out. ``language`` is that of the recall index.
        """
        ...

    async def query(self, namespace: str, query: Query) -> MemoryPage:
        """Return a page of matching memories and the exact number of matches."""
        ...

    async def read_stats(self, namespace: str) -> Stats:
        """Return the statistics of a namespace."""
        ...

    async def ping(self) -> None:
        """Raise Refused within 2 seconds if the store does not answer.

        A ping waits for no other call, however slow.
        """
        ...

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access to a memory, later and with best effort; never raise, never block."""
        ...

    async def close(self) -> None:
        """Finish the calls that have begun, and release all resources."""
        ...


class TransferableStore(MemoryStore, Protocol):
    """A store whose memories can be exported and imported whole, across all namespaces."""

    async def read_page(
        self, after: tuple[str, str], limit: int
    ) -> list[StoredMemory | DamagedMemory]:
        """Return up to ``limit`` memories of all namespaces, with all their links.

        They are ordered by namespace and key, and follow the (namespace, key) in ``after``, which
        is ("", "") at first. A damaged memory is a DamagedMemory. A memory with damaged links comes
        without them, after a DamagedMemory.
        """
        ...

    async def count_memories(self) -> int:
        """Return the number of memories in all namespaces, including archived ones."""
        ...

    async def import_batch(
        self, memories: Sequence[IncomingMemory], *, replace: bool = False, dry_run: bool = False
    ) -> list[Outcome | Exception]:
        """Store memories as they are, with their ids, times and counters; return one outcome each.

        Each memory is one transaction, or shares one with its neighbors. If a different memory is
        stored under the key, it is kept, or replaced if ``replace`` is set. A dry run changes
        nothing. If a memory cannot be stored, its outcome is a Refused: key_taken (another key has
        its id), storage_quota, checksum_mismatch.
        """
        ...


@runtime_checkable
class HistoryStore(MemoryStore, Protocol):
    """A store that keeps earlier versions of its memories, within its `HistoryLimits`."""

    async def read_history(
        self, namespace: str, name: history.MemoryName, before: int | None, limit: int
    ) -> history.MemoryHistory:
        """Return the newest entries of a memory with versions less than ``before``.

        A deleted memory has a history too. Raises Refused: memory_not_found, id_not_found.
        """
        ...

    async def read_version(
        self, namespace: str, name: history.MemoryName, moment: int | str
    ) -> StoredMemory:
        """Return a memory with all its links in a version or at a time.

        Raises Refused: memory_not_found, id_not_found, version_not_found, checksum_mismatch.
        """
        ...

    async def read_changes(self, namespace: str, since: int, limit: int) -> history.ChangePage:
        """Return the changes of a namespace after a version, including any that committed late.

        Of each memory, only the last change of the page is returned.
        """
        ...

    async def read_latest_changes(
        self, namespace: str, before: int | None, limit: int
    ) -> list[history.MemoryChange]:
        """Return the latest changes, or the latest before a version, newest first.

        Changes that only relinked a memory are omitted.
        """
        ...

    async def compact(self, now: str) -> int:
        """Delete the entries that the limits no longer allow; return their number."""
        ...

    async def read_entries(
        self, after: tuple[str, str, int], limit: int
    ) -> list[history.Entry | history.DamagedEntry]:
        """Return entries of all namespaces after a (namespace, id, version), in this order."""
        ...

    async def import_entries(self, entries: Sequence[history.Entry]) -> int:
        """Store the history of memories that have none here; return the number of stored entries.

        Pass all entries of each memory by rising version, before the memory itself is imported.
        The entries get new versions of this store. Purged memories are skipped.
        """
        ...


@runtime_checkable
class AboutStore(Protocol):
    """A store that knows which memories are about a file."""

    async def find_about(
        self, namespace: str, paths: Sequence[str]
    ) -> dict[str, list[StoredMemory]]:
        """Return the best memories about files, by their paths, with the files that have any.

        There are none if the store does not answer at once. A store that does not exist yet is not
        created.
        """
        ...


class CheckableStore(MemoryStore, Protocol):
    """A store that can check its own integrity."""

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check every memory and link, and all data derived from them.

        ``progress`` is called with the number of rows checked since the last call, from any thread.
        ``full`` checks the internals of the search index too, which may block writers.
        """
        ...


@runtime_checkable
class MarkableStore(MemoryStore, Protocol):
    """A store that remembers facts for good; a backup includes them, an export does not."""

    async def set_mark(self, mark: Mark) -> None:
        """Set a mark, durably. Setting it again changes nothing."""
        ...

    async def has_mark(self, mark: Mark) -> bool:
        """Return whether a mark is set."""
        ...


class ServableStore(
    TransferableStore, HistoryStore, AboutStore, CheckableStore, MarkableStore, Protocol
):
    """A store with all of these abilities, as a server needs; the built-in stores are such."""
