"""List files as `FileReader` would read them: both roots as one sorted list, the agent's first."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from abilities.helpers.files.confinement import Policy
from abilities.helpers.files.file_walk import FileWalk, FoundFile
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.known_folders import FolderMemory
from abilities.helpers.files.roots import Root
from abilities.helpers.threads.workers import Worker, WorkerPool

SECONDS = 1.2
"""After that long no further folder is entered: the next call lists the rest. A call has 2 s."""


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
        (outcome,) = await self._workers.map(self._open_session, _list_files, [request])
        if isinstance(outcome, Exception):
            raise outcome

        return outcome

    def _open_session(self, worker: Worker) -> FileWalk:
        return FileWalk(self._roots, self._policy, worker, self._memory, SECONDS)


def _list_files(walk: FileWalk, request: ListingRequest) -> Listing:
    """Walk through the roots until the limit is reached or time is over."""
    listing = Listing()
    start = request.after
    if start:
        start += "\0"  # no position stands between that of a file and this

    with closing(walk.find_files(request.glob, start)) as files:
        for file in files:
            if len(listing.files) == request.limit:
                listing.after = listing.files[-1].position
                break

            listing.files.append(file)
        else:
            listing.after = walk.stopped_at

    listing.skipped = walk.skipped
    listing.folders = walk.folders
    return listing
