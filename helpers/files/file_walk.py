"""Walk through the files of all roots in one order, as a reader would find them, and list them.

Folders behind links are not entered. A file behind a link is found if it may be read. For a path
that was misspelled, the listing has the one that was meant.
"""

import os
import re
import stat
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Literal, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.documents.documents import Documents
from abilities.helpers.documents.reader import is_numbered
from abilities.helpers.files import confinement
from abilities.helpers.files.confinement import Policy
from abilities.helpers.files.deny import SETTLED_SECONDS, Snapshot
from abilities.helpers.files.globs import Glob, States
from abilities.helpers.files.reader import Root
from abilities.helpers.threads.workers import Worker

SECONDS = 1.2
"""Seconds after which no further folder is entered: the next call goes on. A call has 2."""

MAX_ENTRIES = 100_000
"""The most names in a folder; a larger folder is skipped."""

LARGE = 1_000
"""A folder with at least as many names is cached; a smaller one is read in no time."""

SHOWN_FOLDERS = 10
"""The most skipped folders that a walk names; the others are only counted."""

_SHOWN_BYTES = 100  # of a skipped folder's path; a longer one is only counted

Kind = Literal["file", "folder", "link", "other"]

KindsByRoot = dict[int, Kind]
"""The kind of a name in each root that has it, by the root's index."""

Stamp = tuple[tuple[int, ...], ...]
"""Identity and times of a folder in each root; it differs once a name has changed."""


class FoundFile(NamedTuple):
    """A file that is read by ``path`` from the root ``source``, with its status.

    ``position`` is its place in the order of a walk. It differs from ``path`` if the name itself
    ends like a range: the file ``name#L2`` is read by ``name#L2#L1-``.
    """

    path: str
    position: str
    source: str
    stat: os.stat_result


class Folder(NamedTuple):
    """A folder, open in each root that has it.

    ``path`` ends in a slash, but is empty for the roots themselves. ``descriptors`` are by the
    roots' indices, in the roots' order.
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

                kind: Kind = "other"
                if entry.is_symlink():
                    kind = "link"
                elif entry.is_dir(follow_symlinks=False):
                    kind = "folder"
                elif entry.is_file(follow_symlinks=False):
                    kind = "file"
                kinds[entry.name] = kind
    except OSError as error:
        refused = confinement.translate_os_error(error)
        if refused.reason == "resource_exhausted":
            raise refused from None
        return None

    return kinds


def find_first_root(kinds: KindsByRoot) -> int | None:
    """Return the first root in which a name is not a folder, where a reader would stop; or None."""
    for root in sorted(kinds):
        if kinds[root] != "folder":
            return root

    return None


class FolderNames(NamedTuple):
    """The names in a folder.

    ``keys`` are the sorted names of files and links, and the names of folders with a slash, so that
    they sort as paths do. ``kinds`` are the kinds of each name in the roots.
    """

    keys: Sequence[str]
    kinds: Mapping[str, KindsByRoot]

    @classmethod
    def merge(cls, kinds_by_root: Mapping[int, Mapping[str, Kind]]) -> Self:
        """Merge the names of a folder in some roots.

        A name that is a file in one root and a folder in another has both keys, because a reader
        finds both: a file has nothing beneath it, and a folder hides no file.
        """
        merged: dict[str, KindsByRoot] = {}
        for index, kinds in kinds_by_root.items():
            for name, kind in kinds.items():
                merged.setdefault(name, {})[index] = kind

        keys: list[str] = []
        for name, kinds_of_name in merged.items():
            if "folder" in kinds_of_name.values():
                keys.append(name + "/")

            root = find_first_root(kinds_of_name)
            if root is not None and kinds_of_name[root] in ("file", "link"):
                keys.append(name)

        return cls(sorted(keys), merged)

    def list_from(self, folder: str, position: str) -> Sequence[str]:
        """Return the keys from a position on, and the key before, whose folder may contain it.

        Positions are relative to a root, and ``folder`` is the position of this folder.
        """
        if not position.startswith(folder):
            return self.keys  # all of them come after it, or the folder would not be read

        start = bisect_left(self.keys, position[len(folder) :])
        return self.keys[max(start - 1, 0) :]


class FolderMemory:
    """Reads folders, and caches the last large one. Threads may share it."""

    def __init__(self) -> None:
        self._last: tuple[Stamp, FolderNames] | None = None  # replaced in one assignment

    def read(
        self,
        descriptors: Mapping[int, int],
        read_kinds: Callable[[int, int], Mapping[str, Kind] | None],
    ) -> FolderNames:
        """Return the names of a folder that is open in some roots.

        ``read_kinds(root, descriptor)`` returns the names in one root, or None if it cannot be
        read. Then later roots are ignored, because a reader would not reach their files.
        """
        stamp = _stamp_folder(descriptors)
        last = self._last
        if stamp is not None and last is not None and last[0] == stamp:
            return last[1]

        kinds_by_root: dict[int, Mapping[str, Kind]] = {}
        for index, descriptor in descriptors.items():
            kinds = read_kinds(index, descriptor)
            if kinds is None:
                return FolderNames.merge(kinds_by_root)
            kinds_by_root[index] = kinds

        names = FolderNames.merge(kinds_by_root)
        if stamp is not None and len(names.keys) >= LARGE:
            self._last = (stamp, names)

        return names


def _stamp_folder(descriptors: Mapping[int, int]) -> Stamp | None:
    """Return the stamp of an open folder, given its descriptors by root.

    Returns None if it changed so recently that another change might not show.
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


class FileWalk:
    """One walk through the roots on one thread. Leaves no descriptor behind.

    After `SECONDS` the walk enters no further folder but stops, and ``stopped_at`` is the
    position to continue from. ``skipped`` counts names that no path can express, and folders that
    are too large, too deep or may not be read; ``folders`` names some of those folders. ``memory``
    outlives the walk.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        policy: Policy,
        memory: FolderMemory,
        worker: Worker,
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
        self._deadline = time.monotonic() + SECONDS
        self._own = Snapshot()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def find_files(self, glob: Glob, start: str) -> Generator[FoundFile]:
        """Yield the files that match, from the position ``start`` on, in their order.

        A caller that does not take all files must close the generator, which closes the folders.

        Raises Refused: timeout, root_unavailable, access_denied, resource_exhausted.
        """
        self._own = self._policy.own.refresh(self._worker.enter)
        for index, root in enumerate(self._roots):
            self._worker.enter(root.find_place(("",)))
            descriptor = root.open()
            if descriptor is not None:
                self._closing.callback(os.close, descriptor)
                self._root_descriptors[index] = descriptor

        top = Folder("", 0, self._root_descriptors)
        yield from self._walk(top, glob.start, glob, start)

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
            if not states_below or name == ".git" or self._policy.deny.denies(position):
                continue

            if folder.depth + 1 >= confinement.MAX_COMPONENTS:
                self._skip_folder(position)
                continue

            if not contains_start and time.monotonic() > self._deadline:
                self.stopped_at = position
                return

            self._worker.check()
            with ExitStack() as closing_folders:
                below = self._open_folder(folder, name, names.kinds[name], closing_folders)
                if below.descriptors:
                    yield from self._walk(below, states_below, glob, start)

            if self.stopped_at is not None:
                return  # the time was over further down

    def _open_folder(
        self, parent: Folder, name: str, kinds: KindsByRoot, closing_folders: ExitStack
    ) -> Folder:
        """Open a folder in every root in which a reader would look for its files."""
        path = f"{parent.path}{name}/"
        descriptors: dict[int, int] = {}

        for index, parent_descriptor in parent.descriptors.items():
            kind = kinds.get(index)
            if kind == "link":
                break  # a reader follows it, and tries no further root

            if kind != "folder":
                continue

            try:
                self._enter(index, path)
                descriptor = confinement.open_directory(name, parent_descriptor)
            except Refused as error:
                if error.reason == "resource_exhausted":
                    raise

                self._skip_folder(path)
                break  # after a refusal, a reader tries no further root either

            closing_folders.callback(os.close, descriptor)
            descriptors[index] = descriptor

        return Folder(path, parent.depth + 1, descriptors)

    def _read_kinds(self, path: str, index: int, descriptor: int) -> dict[str, Kind] | None:
        """Return the names of a folder in one root; skip it and return None if it is unreadable."""
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
        if size <= _SHOWN_BYTES and confinement.express_path(path[:-1]) is not None:
            self.folders.append(path)

    def _find_file(self, folder: Folder, name: str, kinds: KindsByRoot) -> FoundFile | None:
        """Return the file that a reader would get by this name; None if it would get none."""
        position = folder.path + name
        if self._policy.deny.denies(position):
            return None

        path = confinement.express_path(position)
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

        status: os.stat_result | None = None
        if kinds[index] == "link":
            root = self._root_descriptors[index]
            with suppress(Refused):
                opened = confinement.open_file(root, position.split("/"), self._policy)
                if not isinstance(opened, str):
                    descriptor, status = opened
                    os.close(descriptor)
        else:
            with suppress(OSError):  # it may be gone by now
                status = os.stat(name, dir_fd=folder.descriptors[index], follow_symlinks=False)

        if status is None or not stat.S_ISREG(status.st_mode):
            return None

        if (status.st_dev, status.st_ino) in self._own.identities:
            return None

        if self._policy.deny_hardlinks and status.st_nlink > 1:
            return None

        return FoundFile(path, position, self._roots[index].name, status)


MAX_LISTED = 5_000
"""The most files that are compared with a path to find a suggestion."""

MAX_BYTES = 120
"""The longest suggestion in bytes; a longer one is left out."""

MENDABLE: tuple[Reason, ...] = (
    "not_found", "absolute_path", "parent_traversal", "backslash", "drive_path", "trailing_slash",
    "control_character", "is_directory", "invalid_range",
)  # fmt: skip
"""Refusals of paths that may only be spelled differently."""

_CLOSE = 0.8
"""The least similarity (difflib's ratio) of a misspelled name."""

_LINES = re.compile(r"(.+?)\s*[:#]\s*[Ll]?(\d{1,9})(?:\s*(?:-|:|,|\.\.)\s*[Ll]?(\d{1,9}))?")
"""A path with lines as editors, compilers and other tools write them."""


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
    """A request for ``limit`` files at most that match ``glob``, after the position ``after``."""

    glob: Glob
    after: str
    limit: int


def list_files(walk: FileWalk, request: ListingRequest) -> Listing:
    """List the files that match, as far as the limit and the time of the walk allow.

    Raises Refused: timeout, root_unavailable, access_denied, resource_exhausted.
    """
    listing = Listing()
    start = request.after
    if start:
        start += "\0"  # no position is between a file's and this one

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


class PathNames:
    """The paths of the files that a caller may list, to find the one that a caller meant.

    ``name_glob`` returns how the caller's ability requests the files of a pattern.
    """

    def __init__(
        self, paths: Sequence[str], documents: Documents, name_glob: Callable[[str], str]
    ) -> None:
        self._paths = paths
        self._documents = documents
        self._name_glob = name_glob
        self._by_folded: dict[str, str] = {}
        for path in paths:
            self._by_folded.setdefault(path.casefold(), path)

    def find(self, sent: str) -> str | None:
        """Return the path that was probably meant, or None."""
        text = _clean(sent)
        if any(mark in text for mark in "*?{"):
            for pattern in (text, f"**/{text}"):
                try:
                    glob = Glob(pattern)
                except Refused:
                    return None
                if any(map(glob.matches, self._paths)):
                    return self._name_glob(pattern)

            return None

        # A file's name may end like lines, so the whole text is tried first.
        path, suffix = _split_lines(text)
        for wanted, ending in ((text, ""), (path, suffix)):
            parts = _split_parts(wanted)
            # Without the folders in front, which may lead to the root.
            for first in range(len(parts)):
                found = self._by_folded.get("/".join(parts[first:]).casefold())
                if found is not None:
                    return self._join(found, ending)

        folder = self.find_folder(text)
        if folder is not None:
            return folder

        found = self._find_similar(_split_parts(path))
        return None if found is None else self._join(found, suffix)

    def _join(self, path: str, suffix: str) -> str:
        """Return a path with lines, or with a part of a document; only documents have parts."""
        if suffix.startswith("#p") and self._documents.split_part(path + suffix) is None:
            return path

        return path + suffix

    def find_folder(self, sent: str) -> str | None:
        """Return how to request the files of a folder, or None."""
        parts = _split_parts(_clean(sent))
        for first in range(len(parts)):
            beginning = "/".join(parts[first:]).casefold() + "/"
            for path in self._paths:
                if path.casefold().startswith(beginning):
                    return self._name_glob(f"{path[: len(beginning)]}**")

        return None

    def _find_similar(self, parts: Sequence[str]) -> str | None:
        """Return the only file with this path in another folder, or one with a similar name."""
        if not parts:
            return None

        ending = "/" + "/".join(parts).casefold()
        beneath = [path for path in self._paths if path.casefold().endswith(ending)]
        if len(beneath) == 1:
            return beneath[0]
        if beneath:
            return None

        folder = "".join(f"{part}/" for part in parts[:-1]).casefold()
        beside = [
            path
            for path in self._by_folded
            if path.startswith(folder) and "/" not in path[len(folder) :]
        ]
        path = "/".join(parts).casefold()
        similar = get_close_matches(path, beside, n=1, cutoff=_CLOSE)
        if not similar:
            # The file may have another ending, because it is in another format.
            stem, dot, _ = path.rpartition(".")
            similar = [other for other in beside if dot and other.rpartition(".")[0] == stem]

        return self._by_folded[similar[0]] if similar else None


def _split_parts(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".", "..")]


def _clean(sent: str) -> str:
    """Return a path without quotes, the scheme of a file URL, and backslashes."""
    text = sent.strip().strip("\"'`")
    if text.lower().startswith("file:"):
        text = unquote(urlsplit(text).path)

    return text.replace("\\", "/")


def _split_lines(text: str) -> tuple[str, str]:
    """Split a path from lines or parts behind it, and return these as a suffix.

    >>> _split_lines("src/app.py:12-10"), _split_lines("plan.docx#p3")
    (('src/app.py', '#L10-L12'), ('plan.docx', '#p3'))
    """
    path, mark, part = text.rpartition("#")
    if mark and is_numbered(part):
        return path, mark + part

    match = _LINES.fullmatch(text)
    if match is None:
        return text, ""

    path, *numbers = match.groups()
    lines = sorted(max(int(number), 1) for number in numbers if number is not None)
    return path, f"#L{lines[0]}-L{lines[-1]}"
