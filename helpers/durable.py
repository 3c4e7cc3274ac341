"""Write files so that a power cut leaves either the old content or the new one."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO


class AtomicFile:
    """A file that is replaced as a whole or not at all.

    The bytes are written to ``NAME.part`` beside the file. Only its owner may read it, because it
    contains memories or hashes of secrets. Once all bytes are written and synced, the part is
    renamed to ``NAME`` and the folder is synced. So a reader sees either the old file or the new
    one, and a power cut does not undo the change.

    Writers of the same file must exclude each other, because they would share the part.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part_path: Path = path.with_name(f"{path.name}.part")

    @contextmanager
    def open(self, *, append: bool = False) -> Generator[BinaryIO]:
        """Open the part for writing, and replace the file with it if the block raises no error.

        After an error the part stays, so that the next attempt can ``append`` to it. Without
        ``append`` it is emptied first. Raises OSError.
        """
        open_private = partial(os.open, mode=0o600)
        with open(self.part_path, "ab" if append else "wb", opener=open_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

        os.replace(self.part_path, self.path)
        sync_folder(self.path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new, renamed or removed name in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
