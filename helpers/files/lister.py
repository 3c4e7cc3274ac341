"""List files as `FileReader` would read them: both roots as one sorted list, the agent's first."""

import os
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Self

from abilities.declarations.faults import Refused
from abilities.helpers.batch import Worker
from abilities.helpers.files.confinement import Policy, open_directory, open_file
from abilities.helpers.files.folders import (
    Folder,
    Kind,
    KindsByRoot,
    find_first_root,
    read_kinds,
)
from abilities.helpers.files.globs import Glob, States
from abilities.helpers.files.known_folders import FolderMemory
from abilities.helpers.files.own_files import Snapshot
from abilities.helpers.files.paths import MAX_COMPONENTS, express_path
from abilities.helpers.files.roots import Root
from abilities.helpers.workers import WorkerPool

SECONDS = 1.2
"""After that long no further folder is entered: the next call lists the rest. A call has 2 s."""

SHOWN_FOLDERS = 10
"""Skipped folders that a listing names; the others are only counted."""

_SHOWN_BYTES = 100  # of a skipped folder's path; a longer one is only counted


class FoundFile(NamedTuple):
    """A file that is read by ``path`` from the root ``source``, with its status.

    ``position`` is its place in the order of a listing. It differs from ``path`` if the name itself
    ends like a range: the file ``name#L2`` is read by ``name#L2#L1-``.
    """

    path: str
    position: str
    source: str
    stat: os.stat_result


@dataclass
class Listing:
    """Some files in the order of their positions.

    ``after`` is the position to continue after, None at the end. ``skipped`` counts names that no
    path can express, and folders that are too large, too deep or may not be read; ``folders`` names
    some of those folders.
    """

    files: list[FoundFile] = field(default_factory=list[FoundFile])
    after: str | None = None
    skipped: int = 0
    folders: list[str] = field(default_factory=list[str])


class ListingRequest(NamedTuple):
    """What to list: files that match ``glob``, behind the position ``after``, ``limit`` at most."""

    glob: Glob
    after: str
    limit: int


class FileLister:
    """The one way to lists of files. Holds no descriptor between calls.

    Folders that links lead to are not entered; a file that a link leads to is listed if it may be
    read.
    """

    def __init__(self, roots: Sequence[Root], policy: Policy, workers: WorkerPool) -> None:
        self._roots = roots
        self._policy = policy
        self._workers = workers
        self._memory = FolderMemory()

    @property
    def has_workspace(self) -> bool:
        """Whether there is a workspace besides the agent directory."""
        return any(root.name == "workspace" for root in self._roots)

    def for_root(self, source: str) -> "FileLister":
        """Return a lister of one root alone."""
        roots = [root for root in self._roots if root.name == source]
        return FileLister(roots, self._policy, self._workers)

    async def list_files(self, request: ListingRequest) -> Listing:
        """List the files that match, as far as the limit and the time allow.

        Raises Refused: timeout, root_unavailable, access_denied, resource_exhausted.
        """
        (outcome,) = await self._workers.map(
            self._open_session, _ListingSession.list_files, [request]
        )
        if isinstance(outcome, Exception):
            raise outcome

        return outcome

    def _open_session(self, worker: Worker) -> "_ListingSession":
        return _ListingSession(self._roots, self._policy, worker, self._memory)


class _ListingSession:
    """One listing on one thread. Leaves no descriptor behind."""

    def __init__(
        self, roots: Sequence[Root], policy: Policy, worker: Worker, memory: FolderMemory
    ) -> None:
        self._roots = roots
        self._policy = policy
        self._worker = worker
        self._memory = memory
        self._root_descriptors: dict[int, int] = {}
        self._closing = ExitStack()
        self._deadline = time.monotonic() + SECONDS
        self._listing = Listing()
        self._own = Snapshot()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def list_files(self, request: ListingRequest) -> Listing:
        """Walk through the roots until the limit is reached or time is over."""
        self._own = self._policy.own.refresh(self._worker.enter)
        self._open_roots()
        top = Folder("", 0, self._root_descriptors)
        listing = self._listing

        # Closing the walk closes the descriptors of the folders that it is in.
        with closing(self._walk(top, request.glob.start, request)) as files:
            for file in files:
                if len(listing.files) == request.limit:
                    listing.after = listing.files[-1].position
                    break

                listing.files.append(file)

        return listing

    def _open_roots(self) -> None:
        for index, root in enumerate(self._roots):
            self._worker.enter(root.find_place(("",)))
            descriptor = root.open()
            if descriptor is not None:
                self._closing.callback(os.close, descriptor)
                self._root_descriptors[index] = descriptor

    def _walk(
        self, folder: Folder, states: States, request: ListingRequest
    ) -> Generator[FoundFile]:
        """Yield the files beneath a folder, in the order of their positions.

        When time is over, the walk stops and ``after`` of the listing is the position to go on.
        """
        names = self._memory.read(folder.descriptors, partial(self._read_kinds, folder.path))

        for key in names.list_from(folder.path, request.after):
            name = key.removesuffix("/")
            is_folder = key != name
            position = folder.path + key

            contains_start = is_folder and request.after.startswith(position)
            if position <= request.after and not contains_start:
                continue

            states_below = request.glob.step(states, name)
            if not is_folder:
                if request.glob.accepts(states_below):
                    file = self._find_file(folder, name, names.kinds[name])
                    if file is not None:
                        yield file
                continue

            if not states_below or not self._may_enter(folder, name):
                continue

            if not contains_start and time.monotonic() > self._deadline:
                self._listing.after = position
                return

            yield from self._walk_below(folder, name, names.kinds[name], states_below, request)
            if self._listing.after is not None:
                return  # time was over further down

    def _walk_below(
        self,
        folder: Folder,
        name: str,
        kinds: KindsByRoot,
        states: States,
        request: ListingRequest,
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
                yield from self._walk(below, states, request)

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
        self._listing.skipped += 1
        if len(self._listing.folders) >= SHOWN_FOLDERS:
            return

        size = len(path.encode("utf-8", "surrogateescape"))
        if size <= _SHOWN_BYTES and express_path(path[:-1]) is not None:
            self._listing.folders.append(path)

    def _may_enter(self, folder: Folder, name: str) -> bool:
        """Whether files may be looked for in a folder; one that is too deep counts as skipped."""
        if name == ".git" or self._policy.deny.denies(folder.path + name):
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
            self._listing.skipped += 1
            return None

        index = find_first_root(kinds)
        if index is None:
            return None

        try:
            self._enter(index, position)
        except Refused:
            self._listing.skipped += 1
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
