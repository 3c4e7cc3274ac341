"""What a store of memories can do; `conformance.py` holds any store against it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from abilities.helpers.stores.merge import Change
from abilities.helpers.stores.rows import Stored
from abilities.helpers.traversal import Limits, Walked


class Written(NamedTuple):
    """What became of a change: the memory as it is now (None when deleted for good) and what changed."""

    stored: Stored | None
    created: bool
    updated: tuple[str, ...]


class WalkResult(NamedTuple):
    """A walk, and for each of its steps the memory or why it could not be read."""

    walked: Walked
    memories: tuple[Stored | Exception, ...]


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


class Page(NamedTuple):
    """A page of matching memories and how many match in all."""

    memories: tuple[Stored | Exception, ...]
    total: int


class MemoryStore(Protocol):
    """A durable store of memories, for any event loop and any number of processes.

    Every method isolates its namespace, and is one transaction: reads see one snapshot, a change is
    wholly there or not at all, and is durable when the method returns. Where one memory among several
    cannot be read, its place holds the Refused that says why; otherwise Refused is raised: busy,
    storage_full, storage_error, storage_moved, read_only, corrupted, schema_too_new, unavailable.
    """

    async def change(self, namespace: str, change: Change) -> Written:
        """Make one change. Raises Refused too: id_not_found, key_taken, storage_quota, checksum_mismatch.

        A change once begun is finished, even if its caller is cancelled.
        """
        ...

    async def read(self, namespace: str, keys: Sequence[str]) -> list[Stored | Exception]:
        """Memories by key, in the order asked; Refused("memory_not_found") in the place of one that is not there."""
        ...

    async def read_linked(self, namespace: str, key: str, offset: int, limit: int) -> Stored:
        """One memory with ``limit`` of its links, best first, after ``offset``. Raises Refused."""
        ...

    async def walk(self, namespace: str, key: str, limits: Limits) -> WalkResult:
        """Walk from a memory in one snapshot. Raises Refused when the first memory cannot be read."""
        ...

    async def query(self, namespace: str, query: Query) -> Page:
        """A page of memories and the exact number of matches."""
        ...

    async def stats(self, namespace: str) -> dict[str, Any]:
        """Figures of a namespace, named as `get_memory_stats` answers them; most_accessed is a Stored or None."""
        ...

    def touch(self, namespace: str, key: str, now: str) -> None:
        """Count an access, at some time soon; never fails and never waits."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of everything."""
        ...
