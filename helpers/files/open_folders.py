"""Folders beneath roots that are kept open for a moment, for the files in them."""

import os
from collections.abc import Sequence
from typing import Self

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

MOST_FOLDERS = 8
"""Folders that are kept open at once."""


class OpenFolders:
    """Folders by their names beneath a root: each was opened without following a link.

    Whoever replaces one of them meanwhile, by a link for example, leads no reader elsewhere. The
    roots must stay open for as long.
    """

    def __init__(self) -> None:
        self._descriptors: dict[tuple[int, tuple[str, ...]], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._descriptors)

    def open(self, root: int, names: Sequence[str]) -> int:
        """Return the descriptor of a folder, given its names, which stays open until `close`.

        Raises OSError for what is no folder, and for links.
        """
        if not names:
            return root

        key = (root, tuple(names))
        descriptor = self._descriptors.get(key)
        if descriptor is None:
            if len(self._descriptors) >= MOST_FOLDERS:
                self.close()

            descriptor = _open_folder(root, names)
            self._descriptors[key] = descriptor

        return descriptor

    def close(self) -> None:
        """Close all folders."""
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()
            os.close(descriptor)


def _open_folder(root: int, names: Sequence[str]) -> int:
    """Open a folder that no link leads to: one ``openat`` per component."""
    parent = root
    for name in names:
        try:
            child = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        finally:
            if parent != root:
                os.close(parent)
        parent = child

    return parent
