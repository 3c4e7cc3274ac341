"""Files of the package itself, told by identity: no name of theirs is ever shared with an agent.

An identity is a device and an inode, so a hard link, a link, another case and a bind mount make no
difference. Files that are made or replaced later are found when their folder has changed.
"""

import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from abilities.declarations.refusals import Refused
from abilities.helpers.threads.circuit_breaker import WorkPlace

SETTLED_SECONDS = 2.0
"""A time stamp of a file system may stand for any moment within so long (FAT)."""

FRESH_SECONDS = 1.0
"""What was found is not looked for again within so long, unless a file has changed since."""

HEADER_BYTES = 100
"""The header of an SQLite database, whose size is a multiple of `PAGE_BYTES`."""

PAGE_BYTES = 512

MIN_STORE_BYTES = 8 * PAGE_BYTES
"""A store has more tables than this holds, each with a page of its own."""

Identity = tuple[int, int]
"""Device and inode of a file."""

Stamp = tuple[int, ...]

_PLACE = "own files"


class OwnPlace(NamedTuple):
    """A file of the package, by its absolute path, and what may follow its name in other names.

    For example ``-`` for ``memory.db``: ``memory.db-wal`` belongs to it too.
    """

    path: str
    suffixes: tuple[str, ...] = ()


class Snapshot(NamedTuple):
    """The own files as they were found at a time, and the stamps of where they were found.

    A file may have got its name, or have been made, after this was taken if its status has changed
    (``st_ctime``) after ``known_until``.
    """

    identities: frozenset[Identity] = frozenset()
    taken_at: float = 0.0
    known_until: float = 0.0
    stamps: tuple[tuple[str, Stamp], ...] = ()
    is_settled: bool = False


@dataclass(slots=True)
class OwnFiles:
    """The files of the package itself: settings, tokens, the store and all that lies beside it.

    ``is_store`` tells by a file's header whether it is a store or a copy of one, wherever it lies.
    Threads share an object: what it has found is replaced in one assignment.
    """

    places: Sequence[OwnPlace] = ()
    is_store: Callable[[bytes], bool] = lambda _: False
    _snapshot: Snapshot = field(default_factory=Snapshot)

    def find(self, enter: Callable[[WorkPlace], None]) -> Snapshot:
        """Return the own files as they were a second ago or later; ``enter`` as for `refresh`."""
        if abs(time.time() - self._snapshot.taken_at) < FRESH_SECONDS:
            return self._snapshot

        return self.refresh(enter)

    def refresh(self, enter: Callable[[WorkPlace], None]) -> Snapshot:
        """Return the own files as they are now.

        ``enter`` is called before the disk is touched, and may raise Refused if it does not answer.
        Then what was found last counts: nobody can read a file on such a disk.
        """
        if not self.places:
            return self._snapshot

        try:
            enter(WorkPlace(_PLACE, (self.places[0].path,)))
        except Refused:
            return self._snapshot

        now = time.time()
        known = self._snapshot
        is_same = all(_stamp(path) == stamp for path, stamp in known.stamps)

        if known.is_settled and is_same:
            self._snapshot = known._replace(taken_at=now, known_until=now - SETTLED_SECONDS)
        else:
            self._snapshot = _take_snapshot(self.places, now)

        return self._snapshot

    def is_copy(self, descriptor: int, size: int) -> bool:
        """Return whether an open file of a size is a store or a copy of one. Raises OSError."""
        if size < MIN_STORE_BYTES or size % PAGE_BYTES:
            return False

        return self.is_store(os.pread(descriptor, HEADER_BYTES, 0))


def _take_snapshot(places: Sequence[OwnPlace], now: float) -> Snapshot:
    identities: set[Identity] = set()
    watched: dict[str, Stamp] = {}

    for place in places:
        real_path = os.path.realpath(place.path)
        if real_path != place.path:
            watched[place.path] = _stamp(place.path)  # a link may lead elsewhere tomorrow

        for path in {place.path, real_path}:
            folder, name = os.path.split(path)
            watched[folder] = _stamp(folder)  # before it is read: a change meanwhile shows
            identities |= _find_family(folder, name, place.suffixes)

    newest = max((stamp[-1] for stamp in watched.values() if stamp), default=0)
    known_until = now - SETTLED_SECONDS
    is_settled = newest / 1e9 < known_until
    return Snapshot(frozenset(identities), now, known_until, tuple(watched.items()), is_settled)


def _find_family(folder: str, name: str, suffixes: tuple[str, ...]) -> set[Identity]:
    """Return the identities of a file and of those whose names continue its name."""
    beginnings = tuple(name + suffix for suffix in suffixes)
    identities: set[Identity] = set()

    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == name or entry.name.startswith(beginnings):
                with suppress(OSError):
                    status = entry.stat()
                    identities.add((status.st_dev, status.st_ino))

    # The file system may ignore case, and the setting may be in another one.
    with suppress(OSError):
        status = os.stat(os.path.join(folder, name))
        identities.add((status.st_dev, status.st_ino))

    return identities


def _stamp(path: str) -> Stamp:
    """Return what differs if a folder's names change, or a link leads elsewhere."""
    try:
        status = os.stat(path)
    except OSError:
        return ()

    identity = (status.st_dev, status.st_ino)
    if not stat.S_ISDIR(status.st_mode):
        return (*identity, 0)

    return (*identity, status.st_mtime_ns)
