"""List files as `FileReader` would read them: the agent's directory first, then the workspace, one sorted list."""

import os
import stat
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

from abilities.declarations.faults import Refused
from abilities.helpers.files.confinement import (
    Policy,
    Root,
    open_directory,
    open_file,
    translate_os_error,
)
from abilities.helpers.files.globs import Glob, States
from abilities.helpers.files.paths import MAX_COMPONENTS, parse_path
from abilities.helpers.workers import Worker, WorkerPool

MAX_ENTRIES = 100_000
"""Names of a folder that are looked at; a larger folder is passed over, and said to be."""
SECONDS = 1.2
"""After that long no further folder is entered; the rest is listed by the next call. A call has 2 s."""
SHOWN_FOLDERS = 10
_SHOWN_BYTES = 100

Kind = Literal["file", "folder", "link", "other"]


class FoundFile(NamedTuple):
    """A file that is read by ``path``, and what the system says of it; ``position`` is its place in the order."""

    path: str
    position: str
    source: str
    stat: os.stat_result


@dataclass
class Listing:
    """Some files in the order of their paths; ``after`` is where to go on, None at the end.

    ``skipped`` counts what could not be listed: names that no path can carry, and folders that may not be
    read or are too large; ``folders`` names some of those folders.
    """

    files: list[FoundFile] = field(default_factory=list[FoundFile])
    after: str | None = None
    skipped: int = 0
    folders: list[str] = field(default_factory=list[str])


class ListingRequest(NamedTuple):
    """What to list: the files that match, whose positions come after one, and how many at most."""

    glob: Glob
    after: str
    limit: int


class FileLister:
    """The one way to lists of files. Holds no descriptor between calls.

    A folder that a link leads to is not entered; a file that a link leads to is listed where it may be read.
    """

    def __init__(self, roots: Sequence[Root], policy: Policy, workers: WorkerPool) -> None:
        self._roots = roots
        self._policy = policy
        self._workers = workers

    def for_root(self, source: str) -> "FileLister":
        """A lister of one root alone."""
        return FileLister(
            [root for root in self._roots if root.name == source], self._policy, self._workers
        )

    async def list_files(self, wanted: ListingRequest) -> Listing:
        """The files that match, beginning after a path. Raises Refused: timeout, root_unavailable, access_denied."""
        (outcome,) = await self._workers.map(
            self._session, lambda session, asked: session.find(asked), [wanted]
        )
        if isinstance(outcome, Exception):
            raise outcome
        found: Listing = outcome
        return found

    def _session(self, watch: Worker) -> "_Session":
        return _Session(self._roots, self._policy, watch)


class _Level(NamedTuple):
    """A folder as all roots have it: a descriptor for each root that has one, the roots in their order."""

    path: str
    depth: int
    places: tuple[tuple[int, int], ...]  # (root's number, descriptor)


class _Session:
    """One listing on one thread."""

    def __init__(self, roots: Sequence[Root], policy: Policy, watch: Worker) -> None:
        self._roots = roots
        self._policy = policy
        self._watch = watch
        self._tops: dict[int, int] = {}
        self._closing = ExitStack()
        self._end = time.monotonic() + SECONDS
        self._listing = Listing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def find(self, wanted: ListingRequest) -> Listing:
        for number, root in enumerate(self._roots):
            self._watch.place = root.name
            self._watch.refuse_stuck()
            if (descriptor := root.open()) is not None:
                self._closing.callback(os.close, descriptor)
                self._tops[number] = descriptor
        files = self._listing.files
        top = _Level("", 0, tuple(self._tops.items()))
        with closing(self._walk(top, wanted.glob.start, wanted)) as walk:
            for found in walk:
                if isinstance(found, str) or len(files) == wanted.limit:
                    self._listing.after = found if isinstance(found, str) else files[-1].position
                    break
                files.append(found)
        return self._listing

    def _walk(
        self, level: _Level, states: States, wanted: ListingRequest
    ) -> Generator[FoundFile | str]:
        """Files in the order of their paths; the position to go on from where time is over."""
        glob, after = wanted.glob, wanted.after
        kinds = self._kinds(level)
        for key in sorted(_keys(kinds)):
            name, position = key.removesuffix("/"), level.path + key
            if position <= after and not (key != name and after.startswith(position)):
                continue
            inside = glob.step(states, name)
            if key == name:
                file = self._file(level, name, kinds[name]) if glob.accepts(inside) else None
                if file is not None:
                    yield file
            elif (
                inside and level.depth + 1 < MAX_COMPONENTS and not self._refuses(level.path + name)
            ):
                if position > after and time.monotonic() > self._end:
                    yield position
                    return
                yield from self._beneath(level, name, kinds[name], inside, wanted)

    def _beneath(
        self,
        level: _Level,
        name: str,
        kinds: dict[int, Kind],
        states: States,
        wanted: ListingRequest,
    ) -> Generator[FoundFile | str]:
        self._watch.check()
        path = f"{level.path}{name}/"
        with ExitStack() as descriptors:
            places: list[tuple[int, int]] = []
            for number, descriptor in level.places:
                kind = kinds.get(number)
                if kind == "link":
                    break  # a reader resolves it, and asks no further root
                if kind == "folder":
                    below = self._enter(name, descriptor, path)
                    if below is None:
                        break  # nor after a refusal
                    descriptors.callback(os.close, below)
                    places.append((number, below))
            if places:
                yield from self._walk(_Level(path, level.depth + 1, tuple(places)), states, wanted)

    def _enter(self, name: str, at: int, path: str) -> int | None:
        try:
            return open_directory(name, at)
        except Refused as error:
            if error.reason == "resource_exhausted":
                raise
            self._skip(path)
            return None

    def _kinds(self, level: _Level) -> dict[str, dict[int, Kind]]:
        """What each root has by each name; a folder that cannot be listed hides those of further roots."""
        kinds: dict[str, dict[int, Kind]] = {}
        for number, descriptor in level.places:
            self._watch.place = self._roots[number].name
            found = self._entries(descriptor)
            if found is None:
                self._skip(level.path)
                break
            for name, kind in found:
                kinds.setdefault(name, {})[number] = kind
        return kinds

    def _entries(self, descriptor: int) -> list[tuple[str, Kind]] | None:
        """The names in a folder; None where there are too many, or the system refuses."""
        found: list[tuple[str, Kind]] = []
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    if len(found) >= MAX_ENTRIES:
                        return None
                    found.append((entry.name, _kind(entry)))
        except OSError as error:
            if (refused := translate_os_error(error)).reason == "resource_exhausted":
                raise refused from None
            return None
        return found

    def _skip(self, path: str) -> None:
        self._listing.skipped += 1
        shown = (
            len(path.encode("utf-8", "surrogateescape")) <= _SHOWN_BYTES
            and _asked(path[:-1]) is not None
        )
        if shown and len(self._listing.folders) < SHOWN_FOLDERS:
            self._listing.folders.append(path)

    def _refuses(self, path: str) -> bool:
        return path.rpartition("/")[2] == ".git" or self._policy.deny.denies(path)

    def _file(self, level: _Level, name: str, kinds: dict[int, Kind]) -> FoundFile | None:
        """The file that reading this path gives: the first root's that has something there."""
        path, number = level.path + name, min(kinds)
        if kinds[number] not in ("file", "link") or self._policy.deny.denies(path):
            return None
        if (asked := _asked(path)) is None:
            self._listing.skipped += 1
            return None
        try:
            if kinds[number] == "link":
                found = self._linked(number, path)
            else:
                found = os.stat(name, dir_fd=dict(level.places)[number], follow_symlinks=False)
        except OSError:
            return None  # gone meanwhile
        if (
            found is None
            or not stat.S_ISREG(found.st_mode)
            or (self._policy.deny_hardlinks and found.st_nlink > 1)
        ):
            return None
        return FoundFile(asked, path, self._roots[number].name, found)

    def _linked(self, number: int, path: str) -> os.stat_result | None:
        """What a link leads to, resolved as a reader does it; None where reading is refused."""
        try:
            opened = open_file(self._tops[number], path.split("/"), self._policy)
        except Refused:
            return None
        if opened is None:
            return None
        os.close(opened[0])
        return opened[1]


def _keys(kinds: dict[str, dict[int, Kind]]) -> Iterator[str]:
    """What sorts as paths do: names, and folders with the slash that follows them."""
    for name, by_root in kinds.items():
        if "folder" in by_root.values():
            yield name + "/"
        if by_root[min(by_root)] in ("file", "link"):
            yield name


def _kind(entry: "os.DirEntry[str]") -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _asked(path: str) -> str | None:
    """The path to ask for: a name that ends like a range needs one behind it; None where no path can say it."""
    for asked in (path, f"{path}#L1-"):
        with suppress(Refused):
            if parse_path(asked).name == path:
                return asked
    return None
