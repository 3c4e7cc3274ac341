"""List files as one sorted list of all roots, and find the paths of those that were misspelled."""

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from abilities.declarations.refusals import Reason, Refused
from abilities.helpers.documents.documents import Documents
from abilities.helpers.documents.reader import is_numbered
from abilities.helpers.files.file_walk import FileWalk, FoundFile
from abilities.helpers.files.globs import Glob

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
