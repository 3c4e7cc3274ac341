"""Walk through the files of both roots in one order, as a reader would find them.

Folders that links lead to are not entered; a file that a link leads to is found if it may be read.
"""

import os
import stat
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Literal, NamedTuple, Self

from abilities.declarations.refusals import Refused
from abilities.helpers.files.confinement import (
    MAX_COMPONENTS,
    Policy,
    express_path,
    open_directory,
    open_file,
    translate_os_error,
)
from abilities.helpers.files.globs import Glob, States
from abilities.helpers.files.own_files import SETTLED_SECONDS, Snapshot
from abilities.helpers.files.roots import Root
from abilities.helpers.threads.workers import Worker

MAX_ENTRIES = 100_000
"""Names of a folder that are looked at; a larger folder is skipped."""

Kind = Literal["file", "folder", "link", "other"]

KindsByRoot = dict[int, Kind]
"""What each root has by one name, under the root's index."""


class Folder(NamedTuple):
    """A folder, open in each root that has it.

    ``path`` ends in a slash, except for the roots themselves, where it is empty. ``descriptors``
    are under the roots' indexes, in the roots' order.
    """

    path: str
    depth: int
    descriptors: dict[int, int]


def read_kinds(descriptor: int) -> dict[str, Kind] | None:
    """Return the names in a folder with their kinds.

    Returns None if there are too many, or if the folder may not be read.

    Raises Refused: resource_exhausted.
    """
    kinds: dict[str, Kind] = {}

    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if len(kinds) >= MAX_ENTRIES:
                    return None
                kinds[entry.name] = _find_kind(entry)
    except OSError as error:
        refused = translate_os_error(error)
        if refused.reason == "resource_exhausted":
            raise refused from None
        return None

    return kinds


def _find_kind(entry: "os.DirEntry[str]") -> Kind:
    if entry.is_symlink():
        return "link"

    if entry.is_dir(follow_symlinks=False):
        return "folder"

    if entry.is_file(follow_symlinks=False):
        return "file"

    return "other"


def list_keys(kinds_by_name: dict[str, KindsByRoot]) -> Iterator[str]:
    """Yield names of files and links, and names of folders with a slash: so they sort as paths do.

    A name that is a file in one root and a folder in another yields both: files in the folder can
    be read too, because nothing can lie beneath a file, and the file, because a folder hides none.
    """
    for name, kinds in kinds_by_name.items():
        if "folder" in kinds.values():
            yield name + "/"

        root = find_first_root(kinds)
        if root is not None and kinds[root] in ("file", "link"):
            yield name


def find_first_root(kinds: KindsByRoot) -> int | None:
    """Return the first root in which a name is no folder, where a reader would stop; or None."""
    for root in sorted(kinds):
        if kinds[root] != "folder":
            return root

    return None


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


SHOWN_FOLDERS = 10
"""Skipped folders that a walk names; the others are only counted."""

_SHOWN_BYTES = 100  # of a skipped folder's path; a longer one is only counted


class FoundFile(NamedTuple):
    """A file that is read by ``path`` from the root ``source``, with its status.

    ``position`` is its place in the order of a walk. It differs from ``path`` if the name itself
    ends like a range: the file ``name#L2`` is read by ``name#L2#L1-``.
    """

    path: str
    position: str
    source: str
    stat: os.stat_result


class FileWalk:
    """One walk through the roots on one thread. Leaves no descriptor behind.

    After ``seconds`` no further folder is entered: the walk stops, and ``stopped_at`` is the
    position to go on from. ``skipped`` counts names that no path can express, and folders that are
    too large, too deep or may not be read; ``folders`` names some of those folders. ``memory``
    outlives the walk.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        policy: Policy,
        worker: Worker,
        memory: FolderMemory,
        seconds: float,
    ) -> None:
        self.stopped_at: str | None = None
        self.skipped = 0
        self.folders: list[str] = []
        self._roots = roots
        self._policy = policy
        self._worker = worker
        self._memory = memory
        self._root_descriptors: dict[int, int] = {}
        self._closing = ExitStack()
        self._deadline = time.monotonic() + seconds
        self._own = Snapshot()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def is_over_time(self) -> bool:
        """Whether the walk's seconds have passed."""
        return time.monotonic() > self._deadline

    def find_files(self, glob: Glob, start: str) -> Generator[FoundFile]:
        """Yield the files that match, from the position ``start`` on, in their order.

        Whoever does not take all files closes the generator, which closes the folders it is in.

        Raises Refused: timeout, root_unavailable, access_denied, resource_exhausted.
        """
        self._own = self._policy.own.refresh(self._worker.enter)
        self._open_roots()
        top = Folder("", 0, self._root_descriptors)
        yield from self._walk(top, glob.start, glob, start)

    def _open_roots(self) -> None:
        for index, root in enumerate(self._roots):
            self._worker.enter(root.find_place(("",)))
            descriptor = root.open()
            if descriptor is not None:
                self._closing.callback(os.close, descriptor)
                self._root_descriptors[index] = descriptor

    def _walk(self, folder: Folder, states: States, glob: Glob, start: str) -> Generator[FoundFile]:
        """Yield the files beneath a folder, in the order of their positions."""
        names = self._memory.read(folder.descriptors, partial(self._read_kinds, folder.path))

        for key in names.list_from(folder.path, start):
            name = key.removesuffix("/")
            is_folder = key != name
            position = folder.path + key

            contains_start = is_folder and start.startswith(position)
            if position < start and not contains_start:
                continue

            if not is_folder:
                if glob.accepts(glob.step(states, name)):
                    file = self._find_file(folder, name, names.kinds[name])
                    if file is not None:
                        yield file
                continue

            states_below = glob.step(states, name, self._policy.skip)
            if not states_below or not self._may_enter(folder, name):
                continue

            if not contains_start and self.is_over_time:
                self.stopped_at = position
                return

            kinds = names.kinds[name]
            yield from self._walk_below(folder, name, kinds, states_below, glob, start)
            if self.stopped_at is not None:
                return  # time was over further down

    def _walk_below(
        self,
        folder: Folder,
        name: str,
        kinds: KindsByRoot,
        states: States,
        glob: Glob,
        start: str,
    ) -> Generator[FoundFile]:
        """Walk through a folder, in every root in which a reader would look for its files."""
        self._worker.check()
        path = f"{folder.path}{name}/"

        with ExitStack() as closing_folders:
            descriptors: dict[int, int] = {}
            for index, parent in folder.descriptors.items():
                kind = kinds.get(index)
                if kind == "link":
                    break  # a reader follows it, and tries no further root

                if kind == "folder":
                    descriptor = self._open_folder(index, name, parent, path)
                    if descriptor is None:
                        break  # after a refusal, a reader tries no further root either
                    closing_folders.callback(os.close, descriptor)
                    descriptors[index] = descriptor

            if descriptors:
                below = Folder(path, folder.depth + 1, descriptors)
                yield from self._walk(below, states, glob, start)

    def _open_folder(self, index: int, name: str, parent: int, path: str) -> int | None:
        """Open a folder in one root; one that may not be opened is skipped, and is None."""
        try:
            self._enter(index, path)
            return open_directory(name, parent)
        except Refused as error:
            if error.reason == "resource_exhausted":
                raise

        self._skip_folder(path)
        return None

    def _read_kinds(self, path: str, index: int, descriptor: int) -> dict[str, Kind] | None:
        """Return the names of a folder in one root; None for one that cannot be read: skipped."""
        try:
            self._enter(index, path)
        except Refused:
            if not path:
                raise  # there is nothing beside the root itself
            kinds = None
        else:
            kinds = read_kinds(descriptor)

        if kinds is None:
            self._skip_folder(path)
        return kinds

    def _enter(self, index: int, path: str) -> None:
        """Go on in a folder or file. Raises Abandoned; Refused: timeout."""
        self._worker.enter(self._roots[index].find_place(tuple(path.split("/"))))

    def _skip_folder(self, path: str) -> None:
        """Count a folder that cannot be listed, and name it if its path is short enough to show."""
        self.skipped += 1
        if len(self.folders) >= SHOWN_FOLDERS:
            return

        size = len(path.encode("utf-8", "surrogateescape"))
        if size <= _SHOWN_BYTES and express_path(path[:-1]) is not None:
            self.folders.append(path)

    def _may_enter(self, folder: Folder, name: str) -> bool:
        """Whether files may be looked for in a folder; one that is too deep counts as skipped."""
        if name == ".git" or self._policy.deny.denies(f"{folder.path}{name}/"):
            return False

        if folder.depth + 1 < MAX_COMPONENTS:
            return True

        self._skip_folder(f"{folder.path}{name}/")
        return False

    def _find_file(self, folder: Folder, name: str, kinds: KindsByRoot) -> FoundFile | None:
        """Return the file that reading this name would give; None if it would give none."""
        position = folder.path + name
        if self._policy.deny.denies(position):
            return None

        path = express_path(position)
        if path is None:
            self.skipped += 1
            return None

        index = find_first_root(kinds)
        if index is None:
            return None

        try:
            self._enter(index, position)
        except Refused:
            self.skipped += 1
            return None

        if kinds[index] == "link":
            status = self._read_link_status(index, position)
        else:
            status = _read_status(name, folder.descriptors[index])

        if status is None or not stat.S_ISREG(status.st_mode):
            return None

        if (status.st_dev, status.st_ino) in self._own.identities:
            return None

        if self._policy.deny_hardlinks and status.st_nlink > 1:
            return None

        return FoundFile(path, position, self._roots[index].name, status)

    def _read_link_status(self, index: int, position: str) -> os.stat_result | None:
        """Return the status of the file that a link leads to; None if reading it is refused."""
        try:
            opened = open_file(self._root_descriptors[index], position.split("/"), self._policy)
        except Refused:
            return None

        if isinstance(opened, str):
            return None

        descriptor, status = opened
        os.close(descriptor)
        return status


def _read_status(name: str, parent: int) -> os.stat_result | None:
    """Return a file's status; None if it is gone by now."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None
