"""A folder that several roots have: one list of names, each with its kind in each root."""

import os
from collections.abc import Iterator
from typing import Literal, NamedTuple

from abilities.helpers.files.confinement import translate_os_error

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
