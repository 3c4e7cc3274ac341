"""Folders beneath roots that are kept open for a moment, for the files in them."""

import os
from collections.abc import Sequence
from typing import Self

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

MOST_FOLDERS = 16
"""Folders that are kept open at once; more only if one path has more."""


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

        folder = tuple(names)
        descriptor = self._descriptors.get((root, folder))
        if descriptor is None:
            descriptor = self._open_below_kept(root, folder)

        return descriptor

    def close(self) -> None:
        """Close all folders."""
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()
            os.close(descriptor)

    def _open_below_kept(self, root: int, names: tuple[str, ...]) -> int:
        """Open a folder that no link leads to: one ``openat`` per component that is not open."""
        depth = len(names) - 1
        while depth and (root, names[:depth]) not in self._descriptors:
            depth -= 1

        parent = self._descriptors[root, names[:depth]] if depth else root
        opened: dict[tuple[int, tuple[str, ...]], int] = {}
        try:
            for end in range(depth + 1, len(names) + 1):
                parent = os.open(names[end - 1], DIRECTORY_FLAGS, dir_fd=parent)
                opened[root, names[:end]] = parent
        finally:
            if len(self._descriptors) + len(opened) > MOST_FOLDERS:
                self.close()
            self._descriptors |= opened

        return parent
