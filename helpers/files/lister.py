"""List files as `FileReader` would read them: both roots as one sorted list, the agent's first."""

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.files.confinement import Policy
from abilities.helpers.files.file_walk import FileWalk, FolderMemory, FoundFile
from abilities.helpers.files.globs import Glob
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


MAX_LISTED = 5_000
"""Files that are looked through for a suggestion, however many there are."""

MAX_BYTES = 120
"""Bytes of a suggestion; a longer one is left out."""

_MENDABLE: tuple[Reason, ...] = (
    "not_found",
    "absolute_path",
    "parent_traversal",
    "backslash",
    "drive_path",
    "trailing_slash",
    "control_character",
    "is_directory",
    "invalid_range",
)
"""Why a path may be refused that is only written otherwise."""

_CLOSE = 0.8
"""The least similarity (difflib's ratio) of a name that is taken for a misspelling."""

_LINES = re.compile(r"(.+?)\s*[:#]\s*[Ll]?(\d{1,9})(?:\s*(?:-|:|,|\.\.)\s*[Ll]?(\d{1,9}))?")
"""A path with lines as editors, compilers and other tools write them."""


class _Meant(NamedTuple):
    """A path as it was probably meant, and the suffix that asks for some of its lines."""

    path: str
    suffix: str


async def suggest_paths(
    paths: Sequence[str],
    outcomes: Sequence[object],
    lister: FileLister,
    name_glob: Callable[[str], str],
) -> dict[int, Refused]:
    """Return refusals that say what to send instead, by their places among the outcomes.

    ``name_glob`` says how the caller's ability asks for the files of a pattern. All paths are
    looked up in one listing, of up to `MAX_LISTED` files.
    """
    mended: dict[int, Refused] = {}
    places = [place for place, outcome in enumerate(outcomes) if _is_mendable(outcome)]
    if not places:
        return mended

    try:
        listing = await lister.list_files(ListingRequest(Glob("**"), "", MAX_LISTED))
    except Refused:
        return mended

    names = _Names([file.path for file in listing.files], name_glob)
    for place in places:
        refusal = outcomes[place]
        assert isinstance(refusal, Refused)
        if refusal.reason == "is_directory":
            meant = names.find_folder(paths[place])
        else:
            meant = names.find(paths[place])
        if meant is not None and meant != paths[place] and len(meant.encode()) <= MAX_BYTES:
            mended[place] = Refused(
                refusal.reason, refusal.field, expected=refusal.expected, did_you_mean=meant
            )

    return mended


def _is_mendable(outcome: object) -> bool:
    return isinstance(outcome, Refused) and outcome.reason in _MENDABLE


class _Names:
    """The paths of the files that a caller may list."""

    def __init__(self, paths: Sequence[str], name_glob: Callable[[str], str]) -> None:
        self._paths = paths
        self._name_glob = name_glob
        self._by_folded: dict[str, str] = {}
        for path in paths:
            self._by_folded.setdefault(path.casefold(), path)

    def find(self, sent: str) -> str | None:
        """Return what a path was probably meant to be, or None."""
        text = _unwrap(sent)
        if any(mark in text for mark in "*?{"):
            return self._find_pattern(text)

        # A name may end like lines; so the text as it is comes first.
        for wanted in (_Meant(text, ""), _split_lines(text)):
            found = self._find_file(wanted.path)
            if found is not None:
                return f"{found}{wanted.suffix}"

        folder = self.find_folder(text)
        if folder is not None:
            return folder

        wanted = _split_lines(text)
        found = self._find_elsewhere(_split_parts(wanted.path))
        return None if found is None else f"{found}{wanted.suffix}"

    def _find_pattern(self, text: str) -> str | None:
        """Return how to ask for the files of a pattern, here or in any folder, if any match."""
        for pattern in (text, f"**/{text}"):
            try:
                glob = Glob(pattern)
            except Refused:
                return None
            if any(_matches(glob, path) for path in self._paths):
                return self._name_glob(pattern)

        return None

    def _find_file(self, text: str) -> str | None:
        """Return the file with a path, without the folders in front that lead to the root."""
        parts = _split_parts(text)
        for first in range(len(parts)):
            found = self._by_folded.get("/".join(parts[first:]).casefold())
            if found is not None:
                return found

        return None

    def _find_elsewhere(self, parts: Sequence[str]) -> str | None:
        """Return the only file beneath another folder, or the one whose name is alike."""
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
        alike = get_close_matches(path, beside, n=1, cutoff=_CLOSE)
        if not alike:
            # Of another ending is what was written in another format.
            stem, dot, _ = path.rpartition(".")
            alike = [other for other in beside if dot and other.rpartition(".")[0] == stem][:1]

        return self._by_folded[alike[0]] if alike else None

    def find_folder(self, sent: str) -> str | None:
        """Return how to ask for the files of a folder, or None."""
        parts = _split_parts(_unwrap(sent))
        for first in range(len(parts)):
            beginning = "/".join(parts[first:]).casefold() + "/"
            for path in self._paths:
                if path.casefold().startswith(beginning):
                    return self._name_glob(f"{path[: len(beginning)]}**")

        return None


def _split_parts(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".", "..")]


def _unwrap(sent: str) -> str:
    """Return a path without quotes, as files' URLs and other systems have it."""
    text = sent.strip().strip("\"'`")
    if text.lower().startswith("file:"):
        text = unquote(urlsplit(text).path)

    return text.replace("\\", "/")


def _split_lines(text: str) -> _Meant:
    match = _LINES.fullmatch(text)
    if match is None:
        return _Meant(text, "")

    path, *numbers = match.groups()
    lines = sorted(max(int(number), 1) for number in numbers if number is not None)
    return _Meant(path, f"#L{lines[0]}-L{lines[-1]}")


def _matches(glob: Glob, path: str) -> bool:
    states = glob.start
    for name in path.split("/"):
        states = glob.step(states, name)

    return glob.accepts(states)
