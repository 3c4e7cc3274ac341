"""The names of a folder, and the large folder that was read last: a listing goes on in it."""

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from abilities.helpers.files.folders import Kind, KindsByRoot, list_keys
from abilities.helpers.files.own_files import SETTLED_SECONDS

LARGE = 1_000
"""A folder with at least so many names is remembered; a smaller one is read in no time."""

Stamp = tuple[tuple[int, ...], ...]
"""What differs, for each root, if a folder is another one or its names have changed."""


class FolderNames(NamedTuple):
    """The names in a folder.

    ``keys`` are sorted, those of folders with a slash; ``kinds`` says what each root has.
    """

    keys: Sequence[str]
    kinds: Mapping[str, KindsByRoot]

    def list_from(self, folder: str, position: str) -> Sequence[str]:
        """Return the keys from a position on, and the one before, which may be a folder it is in.

        Positions are counted from a root, and ``folder`` is this folder's own.
        """
        if not position.startswith(folder):
            return self.keys  # all of them lie behind it, or the folder would not be read

        start = bisect_left(self.keys, position[len(folder) :])
        return self.keys[max(start - 1, 0) :]


def _stamp_folder(descriptors: Mapping[int, int]) -> Stamp | None:
    """Return the stamp of an open folder, given its descriptors by their roots.

    None if it has changed so lately that another change may not show.
    """
    latest = time.time_ns() - int(SETTLED_SECONDS * 1e9)
    stamp: list[tuple[int, ...]] = []

    for index, descriptor in descriptors.items():
        try:
            status = os.fstat(descriptor)
        except OSError:
            return None

        times = (status.st_mtime_ns, status.st_ctime_ns)
        if max(times) >= latest:
            return None
        stamp.append((index, status.st_dev, status.st_ino, *times))

    return tuple(stamp)


def _merge_kinds(kinds_by_root: Mapping[int, Mapping[str, Kind]]) -> FolderNames:
    merged: dict[str, KindsByRoot] = {}
    for index, kinds in kinds_by_root.items():
        for name, kind in kinds.items():
            merged.setdefault(name, {})[index] = kind

    return FolderNames(sorted(list_keys(merged)), merged)


class FolderMemory:
    """Reads folders, and remembers the large one that was read last. Threads may share it."""

    def __init__(self) -> None:
        self._last: tuple[Stamp, FolderNames] | None = None  # replaced in one assignment

    def read(
        self,
        descriptors: Mapping[int, int],
        read_kinds: Callable[[int, int], Mapping[str, Kind] | None],
    ) -> FolderNames:
        """Return the names of a folder that is open in some roots.

        ``read_kinds(root, descriptor)`` returns those of one root, or None if it cannot be read.
        Then later roots are ignored: a reader would not reach their files.
        """
        stamp = _stamp_folder(descriptors)
        last = self._last
        if stamp is not None and last is not None and last[0] == stamp:
            return last[1]

        kinds_by_root: dict[int, Mapping[str, Kind]] = {}
        for index, descriptor in descriptors.items():
            kinds = read_kinds(index, descriptor)
            if kinds is None:
                return _merge_kinds(kinds_by_root)
            kinds_by_root[index] = kinds

        names = _merge_kinds(kinds_by_root)
        if stamp is not None and len(names.keys) >= LARGE:
            self._last = (stamp, names)

        return names
