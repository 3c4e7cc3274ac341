"""Read text files: the agent's directory first, then the workspace; confined, bounded, resumable."""

import errno
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import NamedTuple, Self

from abilities.declarations.faults import Refused
from abilities.helpers.files.confinement import Policy, Root, open_file, translate_os_error
from abilities.helpers.files.paths import PathRequest, parse_path
from abilities.helpers.files.window import read_piece
from abilities.helpers.text.pieces import Piece
from abilities.helpers.workers import Worker, WorkerPool

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def format_modified_at(found: os.stat_result) -> str:
    """A file's last modification, RFC 3339 UTC in milliseconds."""
    seconds, nanoseconds = divmod(found.st_mtime_ns, 1_000_000_000)
    return (
        f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds // 1_000_000:03}Z"
    )


class FileText(NamedTuple):
    """A file that was read: which root answered, what the system says of it, and the part asked for."""

    original: str
    path: str
    source: str
    stat: os.stat_result
    piece: Piece

    @property
    def modified_at(self) -> str:
        """Last modification, RFC 3339 UTC in milliseconds."""
        return format_modified_at(self.stat)

    @property
    def version(self) -> str:
        """Changes when the file is replaced or modified: a hash of its inode, size and modification time."""
        stamp = f"{self.stat.st_ino} {self.stat.st_size} {self.stat.st_mtime_ns}"
        return blake2b(stamp.encode(), digest_size=6).hexdigest()


class ReadingSession:
    """The roots, open for one call on one thread; leaves no descriptor behind."""

    def __init__(self, roots: Sequence[Root], policy: Policy, watch: Worker) -> None:
        self._roots = roots
        self._policy = policy
        self._watch = watch
        self._open: dict[str, int | None] = {}
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def read(self, request: PathRequest, max_chars: int, *, text_offsets: bool = False) -> FileText:
        """Read a request from the first root that has it. Raises Refused."""
        if self._policy.deny.denies(request.name):
            raise Refused("denied")
        for root in self._roots:
            name = self._watch.place = root.name
            directory = self._open[name] if name in self._open else self._enter(root)
            opened = (
                None if directory is None else open_file(directory, request.parts, self._policy)
            )
            if opened is None:
                continue
            descriptor, found = opened
            try:
                piece = read_piece(
                    descriptor,
                    found.st_size,
                    request.range,
                    max_chars,
                    self._watch.check,
                    text_offsets,
                )
            except OSError as error:
                raise Refused(
                    translate_os_error(error).reason if error.errno in _EXHAUSTED else "io_error"
                ) from None
            finally:
                os.close(descriptor)
            return FileText(request.original, request.path, name, found, piece)
        raise Refused("not_found")

    def _enter(self, root: Root) -> int | None:
        """Open a root for the rest of the session; None for one that is empty."""
        self._watch.refuse_stuck()
        self._open[root.name] = descriptor = root.open()
        if descriptor is not None:
            self._closing.callback(os.close, descriptor)
        return descriptor


class FileReader:
    """The one way to files. Holds no descriptor between calls."""

    def __init__(self, roots: Sequence[Root], policy: Policy, workers: WorkerPool) -> None:
        self._roots = roots
        self._policy = policy
        self._workers = workers

    def open_session(self, watch: Worker) -> ReadingSession:
        """Open roots for one thread of a batch."""
        return ReadingSession(self._roots, self._policy, watch)

    async def read(self, paths: Sequence[object], max_chars: int) -> list[FileText | Exception]:
        """Read each path on its own: one outcome a path, in the order asked, duplicates read again.

        An outcome is a FileText, a Refused, or the unexpected exception that this item alone met.
        """

        def one(session: ReadingSession, path: object) -> FileText:
            return session.read(parse_path(path), max_chars)

        return await self._workers.map(self.open_session, one, paths)
