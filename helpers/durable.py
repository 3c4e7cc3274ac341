"""Write files so that a power cut leaves either the old content or the new one."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class AtomicFile:
    """A file that takes its place whole or not at all.

    The bytes go into ``NAME.part`` beside the file, which only its owner may read, because it
    holds memories or hashes of secrets. Once they are all written and synced, the part is renamed
    to ``NAME`` and the folder is synced. A reader therefore sees either the old file or the new
    one, and a power cut does not undo the change.

    Writers of the same file must exclude each other: they would share the part.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part_path: Path = path.with_name(f"{path.name}.part")

    @contextmanager
    def open(self, *, append: bool = False) -> Generator[BinaryIO]:
        """Open the part for writing; when the block ends without an error, it replaces the file.

        After an error the part stays, so that the next attempt can ``append`` to it; without
        ``append`` it is emptied first. Raises OSError.
        """
        with open(self.part_path, "ab" if append else "wb", opener=_open_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

        os.replace(self.part_path, self.path)
        sync_folder(self.path.parent)


def sync_folder(folder: Path) -> None:
    """Make sure that a new, renamed or removed name in a folder survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
