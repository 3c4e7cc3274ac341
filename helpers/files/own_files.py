"""Recognize the package's own files, which are never shared with an agent by any name.

They are recognized by device and inode, so a hard link, a link, another case or a bind mount makes
no difference. Files that are created or replaced later are found once their folder has changed.
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
"""The coarsest resolution of a file system's time stamps (FAT)."""

FRESH_SECONDS = 1.0
"""The age up to which a snapshot is used without another look, unless a file has changed since."""

HEADER_BYTES = 100
"""The length of an SQLite database's header."""

PAGE_BYTES = 512
"""The smallest page of an SQLite database, whose size is a multiple of its page size."""

MIN_STORE_BYTES = 8 * PAGE_BYTES
"""A store is larger, because each of its tables has at least one page."""

Identity = tuple[int, int]
"""Device and inode of a file."""

Stamp = tuple[int, ...]

_PLACE = "own files"


class OwnPlace(NamedTuple):
    """A file of the package, by its absolute path, and the suffixes of related files.

    For example, the suffix ``-`` of ``memory.db`` also covers ``memory.db-wal``.
    """

    path: str
    suffixes: tuple[str, ...] = ()


class Snapshot(NamedTuple):
    """The package's files at one time, and the stamps of the folders they were found in.

    If a file's status has changed (``st_ctime``) after ``known_until``, the file may have been
    created or renamed after the snapshot was taken.
    """

    identities: frozenset[Identity] = frozenset()
    taken_at: float = 0.0
    known_until: float = 0.0
    stamps: tuple[tuple[str, Stamp], ...] = ()
    is_settled: bool = False


@dataclass(slots=True)
class OwnFiles:
    """The package's own files: settings, tokens, the store and related files beside them.

    ``is_store`` returns whether a file's header is that of a store, or of a copy anywhere. Threads
    may share an object, because its snapshot is replaced in one assignment.
    """

    places: Sequence[OwnPlace] = ()
    is_store: Callable[[bytes], bool] = lambda _: False
    _snapshot: Snapshot = field(default_factory=Snapshot)

    def find(self, enter: Callable[[WorkPlace], None]) -> Snapshot:
        """Return the own files, as of one second ago at the earliest; ``enter`` as in `refresh`."""
        if abs(time.time() - self._snapshot.taken_at) < FRESH_SECONDS:
            return self._snapshot

        return self.refresh(enter)

    def refresh(self, enter: Callable[[WorkPlace], None]) -> Snapshot:
        """Return the own files as they are now.

        ``enter`` is called before the disk is touched, and may raise Refused if the disk does not
        answer. Then the last snapshot is returned, because no file on such a disk can be read.
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

        known_until = now - SETTLED_SECONDS
        if known.is_settled and is_same:
            self._snapshot = known._replace(taken_at=now, known_until=known_until)
            return self._snapshot

        identities: set[Identity] = set()
        watched: dict[str, Stamp] = {}
        for place in self.places:
            real_path = os.path.realpath(place.path)
            if real_path != place.path:
                watched[place.path] = _stamp(place.path)  # a link may lead elsewhere later

            for path in {place.path, real_path}:
                folder, name = os.path.split(path)
                watched[folder] = _stamp(folder)  # before it is read, so that later changes show
                identities |= _find_family(folder, name, place.suffixes)

        newest = max((stamp[-1] for stamp in watched.values() if stamp), default=0)
        is_settled = newest / 1e9 < known_until
        stamps = tuple(watched.items())
        self._snapshot = Snapshot(frozenset(identities), now, known_until, stamps, is_settled)
        return self._snapshot

    def is_copy(self, descriptor: int, size: int) -> bool:
        """Return whether an open file of a size is a store or a copy of one. Raises OSError."""
        if size < MIN_STORE_BYTES or size % PAGE_BYTES:
            return False

        return self.is_store(os.pread(descriptor, HEADER_BYTES, 0))


def _find_family(folder: str, name: str, suffixes: tuple[str, ...]) -> set[Identity]:
    """Return the identities of a file and of its related files."""
    beginnings = tuple(name + suffix for suffix in suffixes)
    identities: set[Identity] = set()

    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == name or entry.name.startswith(beginnings):
                with suppress(OSError):
                    status = entry.stat()
                    identities.add((status.st_dev, status.st_ino))

    # If the file system ignores case, the setting may spell the name in another case.
    with suppress(OSError):
        status = os.stat(os.path.join(folder, name))
        identities.add((status.st_dev, status.st_ino))

    return identities


def _stamp(path: str) -> Stamp:
    """Return a value that differs once a folder's names change, or a link leads elsewhere."""
    try:
        status = os.stat(path)
    except OSError:
        return ()

    identity = (status.st_dev, status.st_ino)
    if not stat.S_ISDIR(status.st_mode):
        return (*identity, 0)

    return (*identity, status.st_mtime_ns)
