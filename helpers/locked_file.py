"""JSON files that processes change in turn, such as that of a server's tokens."""

import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter

from abilities.declarations.refusals import AbilitiesError
from abilities.helpers.durable import AtomicFile

MAX_FILE_BYTES = 4 * 1024 * 1024
"""The largest file that is read or written. It has room for more than 15,000 tokens."""

Content = TypeVar("Content")


class UnusableFile(AbilitiesError, ValueError):
    """A file is not read or written at all; the message says why."""


class _FileState(NamedTuple):
    """The fields of a file's status that change when it is replaced or modified."""

    device: int
    inode: int
    modified_ns: int
    changed_ns: int
    size: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> "_FileState":
        return cls(
            status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
        )


class LockedFile(Generic[Content]):
    """A JSON file that processes change in turn, and that is parsed again after every change.

    The path may be a link, as with mounted secrets. Only a regular file is read. ``kind`` names
    the file in messages, for example "tokens file".
    """

    def __init__(self, path: Path, content: TypeAdapter[Content], kind: str) -> None:
        self.path = path
        self._adapter = content
        self._kind = kind
        self._state: _FileState | None = None
        self._content: Content | None = None

    def read(self) -> Content:
        """Return the content, parsing it only if the file changed since the last call.

        Raises UnusableFile if the file is not regular or too large, ValueError for other content,
        and OSError.
        """
        status = self.path.stat()
        if self._content is not None and self._state == _FileState.from_status(status):
            return self._content

        # Before it is opened, because opening alone has effects on some devices.
        self._content = None
        self._check(status)

        # If a FIFO took the file's place at this moment, opening it without O_NONBLOCK would block.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with open(os.open(self.path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            self._check(status)
            text = file.read(MAX_FILE_BYTES + 1)

        self._check_size(len(text))
        self._content = self._adapter.validate_json(text)
        self._state = _FileState.from_status(status)
        return self._content

    def write(self, content: Content) -> None:
        """Replace the content; only the holder of the `lock` may. Raises UnusableFile, OSError.

        Defaults are left out, so that earlier versions can read a file without later fields.
        """
        text = self._adapter.dump_json(content, indent=2, exclude_defaults=True) + b"\n"
        self._check_size(len(text))

        with AtomicFile(self.path).open() as file:
            file.write(text)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Exclude other processes and threads that change the file.

        The lock is on another file, because each change replaces the file.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_path = self.path.with_name(f"{self.path.name}-lock")
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise UnusableFile(f"the {self._kind} is not a regular file")

        self._check_size(status.st_size)

    def _check_size(self, size: int) -> None:
        if size > MAX_FILE_BYTES:
            limit = MAX_FILE_BYTES // 1024 // 1024
            raise UnusableFile(f"the {self._kind} is larger than {limit} MiB")
