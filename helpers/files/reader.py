"""Read text files from the agent's directory, else the workspace: confined, bounded, resumable."""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple, NoReturn, Self

from abilities.declarations.faults import Refused
from abilities.declarations.limits import MAX_READ_CHARS
from abilities.declarations.reasons import Reason
from abilities.helpers.files.confinement import Policy, open_file
from abilities.helpers.files.file_text import FileText
from abilities.helpers.files.lines import KnownLines, read_present
from abilities.helpers.files.open_folders import OpenFolders
from abilities.helpers.files.own_files import Snapshot
from abilities.helpers.files.paths import PathRequest, parse_path
from abilities.helpers.files.roots import Root
from abilities.helpers.files.window import read_piece
from abilities.helpers.threads.workers import ItemT, ResultT, SecondStep, Worker, WorkerPool

MOST_KEPT = 8
"""Files that a session keeps open. At the default bound, few replies have room for more of them."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class OpenFile(NamedTuple):
    """A file of a request that is open for reading: its root, a descriptor and its status."""

    request: PathRequest
    root: Root
    fd: int
    stat: os.stat_result


class ReadingSession:
    """The roots, open for one call on one thread. Leaves no descriptor behind."""

    def __init__(
        self, roots: Sequence[Root], policy: Policy, worker: Worker, absent: Reason
    ) -> None:
        self._roots = roots
        self._policy = policy
        self._worker = worker
        self._absent: Reason = absent
        self._directories: dict[str, int | None] = {}
        self._own: Snapshot | None = None
        self._kept: dict[int, OpenFile] = {}
        self._lines: dict[tuple[int | bool, ...], KnownLines] = {}
        self._folders = OpenFolders()
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_kept()
        self._folders.close()
        self._closing.close()

    def read(self, request: PathRequest, max_chars: int, *, text_offsets: bool = False) -> FileText:
        """Read a request from the first root that has it.

        With ``text_offsets``, byte positions count from the first byte after a byte order mark.

        Raises Refused: what `open` and `read_open` do.
        """
        return self.read_open(self.open(request), max_chars, text_offsets=text_offsets)

    def open(
        self, request: PathRequest, source: str | None = None, *, is_read_later: bool = False
    ) -> OpenFile:
        """Open a request in the first root that has it; `read_open` or the caller closes it.

        With ``source`` that root alone is tried: another one is known not to have the file. A file
        that ``is_read_later``, if at all, must be confirmed before: it may be a file of the package
        that was made a moment ago.

        Raises Refused: the reason for an absent file, is_directory, denied, and the reasons of
        `open_file`, `Root.open`.
        """
        if self._policy.deny.denies(request.name):
            self._refuse_name(request, source)

        if self._own is None:
            self._own = self._policy.own.find(self._worker.enter)

        try:
            file = self._open_file(request, source)
        except Refused as error:
            if error.reason != "resource_exhausted" or not (self._kept or self._folders):
                raise

            # What is kept open can be opened once more when it is needed.
            self._close_kept()
            self._folders.close()
            file = self._open_file(request, source)

        self._refuse_own(file, looks_again=not is_read_later)
        return file

    def confirm(self, file: OpenFile) -> None:
        """Close a file of the package itself that was opened to be read later. Raises Refused."""
        self._refuse_own(file, looks_again=True)

    def read_open(self, file: OpenFile, max_chars: int, *, text_offsets: bool = False) -> FileText:
        """Read a file and close it.

        Raises Refused: denied, and the reasons of `read_piece`.
        """
        request, status = file.request, file.stat
        try:
            if self._policy.own.is_copy(file.fd, status.st_size):
                raise Refused("denied")

            piece = read_piece(
                file.fd,
                status.st_size,
                request.range,
                max_chars,
                self._worker.check,
                text_offsets=text_offsets,
                redacts=self._policy.redacts,
                known_lines=self._find_known_lines(file),
            )
        except OSError as error:
            raise _translate_read_error(error) from None
        finally:
            os.close(file.fd)

        return FileText(request.original, request.path, file.root.name, status, piece)

    def read_bytes(self, file: OpenFile, max_bytes: int) -> bytes:
        """Read all bytes of a file, as they are, and close it.

        Raises Refused: denied, response_too_large for a file that is larger, changed,
        resource_exhausted, io_error.
        """
        size = file.stat.st_size
        try:
            if self._policy.own.is_copy(file.fd, size):
                raise Refused("denied")

            if size > max_bytes:
                raise Refused("response_too_large")

            return read_present(file.fd, size, 0, size)
        except OSError as error:
            raise _translate_read_error(error) from None
        finally:
            os.close(file.fd)

    def keep(self, index: int, file: OpenFile) -> None:
        """Keep a file open until it is taken again, or the session ends; close one too many."""
        if len(self._kept) < MOST_KEPT:
            self._kept[index] = file
        else:
            os.close(file.fd)

    def take(self, index: int, request: PathRequest) -> OpenFile:
        """Return a file that was kept; if it was not, or not in this session, open it again.

        Raises Refused as `open` does.
        """
        file = self._kept.get(index)
        if file is None:
            return self.open(request)

        self._worker.enter(file.root.find_place(request.parts))
        del self._kept[index]
        self.confirm(file)
        return file

    def skip_rest(self) -> None:
        """Let the items that no thread has taken yet keep what they have, and close their files."""
        self._worker.batch.settle_waiting()
        self._close_kept()

    def check(self) -> None:
        """Raise Abandoned if nobody waits for the current item any more."""
        self._worker.check()

    def _find_known_lines(self, file: OpenFile) -> KnownLines | None:
        """Return what is known of a file's lines, if lines of it are wanted."""
        requested = file.request.range
        from_end = requested.trailing_lines is not None
        if requested.first_line is None and not from_end:
            return None

        status = file.stat
        times = (status.st_mtime_ns, status.st_ctime_ns)
        version = (status.st_dev, status.st_ino, status.st_size, *times)
        return self._lines.setdefault((*version, from_end), KnownLines())

    def _close_kept(self) -> None:
        while self._kept:
            _, file = self._kept.popitem()
            os.close(file.fd)

    def _open_file(self, request: PathRequest, source: str | None) -> OpenFile:
        """Open a file in the first root that has it; the caller closes it. Raises Refused."""
        reason: Reason = self._absent
        for root in self._roots:
            if source is not None and root.name != source:
                continue

            if root.name not in self._directories:
                self._worker.enter(root.find_place(("",)))
                self._directories[root.name] = self._open_root(root)

            directory = self._directories[root.name]
            if directory is None:
                continue

            self._worker.enter(root.find_place(request.parts))
            opened = open_file(directory, request.parts, self._policy, self._folders)
            if not isinstance(opened, str):
                descriptor, status = opened
                return OpenFile(request, root, descriptor, status)

            if opened == "directory":
                reason = "is_directory"  # unless a later root has a file of this name
            elif opened == "nothing behind a link":
                break

        raise Refused(reason)

    def _refuse_own(self, file: OpenFile, *, looks_again: bool) -> None:
        """Close a file of the package itself, and raise Refused("denied").

        With ``looks_again``, those made since the last look are looked for if it may be one.
        """
        try:
            own = self._own
            if own is None or (looks_again and file.stat.st_ctime > own.known_until):
                own = self._own = self._policy.own.refresh(self._worker.enter)
                self._worker.enter(file.root.find_place(file.request.parts))

            if (file.stat.st_dev, file.stat.st_ino) in own.identities:
                raise Refused("denied")
        except BaseException:
            os.close(file.fd)
            raise

    def _refuse_name(self, request: PathRequest, source: str | None) -> NoReturn:
        """Refuse a name of the deny list; a folder is called one if only files are denied it."""
        if not self._policy.deny.denies(f"{request.name}/"):
            try:
                os.close(self._open_file(request, source).fd)
            except Refused as error:
                if error.reason == "is_directory":
                    raise

        raise Refused("denied")

    def _open_root(self, root: Root) -> int | None:
        """Open a root for the rest of the session; None for an empty one."""
        descriptor = root.open()
        if descriptor is not None:
            self._closing.callback(os.close, descriptor)

        return descriptor


def _translate_read_error(error: OSError) -> Refused:
    # The file is open, so other errors do not mean what they mean on opening.
    if error.errno in _EXHAUSTED:
        return Refused("resource_exhausted")

    return Refused("io_error")


class FileReader:
    """The one way to read files. Holds no descriptor between calls.

    ``absent`` is the reason for a file that none of the roots has.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        policy: Policy,
        workers: WorkerPool,
        *,
        absent: Reason = "not_found",
    ) -> None:
        self._roots = roots
        self._policy = policy
        self._workers = workers
        self._absent: Reason = absent

    def open_session(self, worker: Worker) -> ReadingSession:
        """Return a session for one thread of a batch; a context manager."""
        return ReadingSession(self._roots, self._policy, worker, self._absent)

    async def read(self, paths: Sequence[object], max_chars: int) -> list[FileText | Exception]:
        """Read each path on its own: one outcome per path, in their order, duplicates read again.

        An outcome is a FileText, a Refused, or the unexpected exception that this path alone met.
        """

        def read_path(session: ReadingSession, path: object) -> FileText:
            return session.read(parse_path(path), max_chars)

        return await self.map(read_path, paths)

    async def read_one(self, path: object, max_chars: int = MAX_READ_CHARS) -> FileText:
        """Read one path, up to some characters. Raises Refused, which fails the whole call."""
        (outcome,) = await self.read([path], max_chars)
        if isinstance(outcome, Exception):
            raise outcome

        return outcome

    async def map(
        self,
        function: Callable[[ReadingSession, ItemT], ResultT],
        items: Sequence[ItemT],
        second_step: SecondStep | None = None,
    ) -> list[ResultT | Exception]:
        """Apply a function to every item in one session, as `WorkerPool.map` does."""
        return await self._workers.map(self.open_session, function, items, second_step)
