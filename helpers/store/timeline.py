"""What stores answer about the past of memories, and how long they know it."""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from abilities.declarations.memory import Action
from abilities.helpers.store.history import Entry
from abilities.helpers.store.model import Row


class MemoryName(NamedTuple):
    """A memory, named by its id or its key; a key that it no longer has names it too."""

    id: str | None = None
    key: str | None = None


class MemoryHistory(NamedTuple):
    """A page of a memory's history, newest first.

    ``row`` is the memory as it is now, None if it was deleted. ``has_more`` says that older entries
    follow; ``earliest`` is the oldest version that can be restored.
    """

    row: Row | None
    entries: tuple[Entry, ...]
    has_more: bool
    earliest: int


class MemoryChange(NamedTuple):
    """A change as those learn of it who keep a copy of a namespace.

    ``key`` is the memory's key now, or the last one of a deleted memory. ``action`` is "purged"
    for a memory whose history is gone; then only its id is known.
    """

    version: int
    id: str
    key: str
    action: Action | Literal["purged"]
    made_at: str
    caller: str


class ChangePage(NamedTuple):
    """Changes of a namespace in the order of their versions.

    ``next`` is the version to go on from. ``is_complete`` is False if older changes after the
    version asked for are no longer known.
    """

    changes: tuple[MemoryChange, ...]
    next: int
    has_more: bool
    is_complete: bool


class HistoryLimits(NamedTuple):
    """How long a namespace keeps its history, and up to how many bytes; older entries go first."""

    days: int = 90
    max_bytes: int = 256 * 2**20

    def find_cutoff(self, now: str) -> str:
        """Return the time from which on entries are young enough; empty if all are."""
        try:
            cutoff = datetime.fromisoformat(now) - timedelta(days=self.days)
        except OverflowError:
            return ""

        return cutoff.isoformat(timespec="milliseconds").replace("+00:00", "Z")
