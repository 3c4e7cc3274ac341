"""Read parts of text files from the first root that has them, in a session on one thread."""

import errno
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import blake2b
from tempfile import TemporaryFile
from typing import NamedTuple, Self

from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.documents.reader import find_part
from abilities.helpers.files import confinement
from abilities.helpers.files.confinement import PathRequest, Policy
from abilities.helpers.files.deny import Snapshot
from abilities.helpers.files.roots import Root
from abilities.helpers.files.window import KnownLines, read_piece, read_present
from abilities.helpers.text import Piece, Range
from abilities.helpers.threads.workers import Worker

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

FileVersion = tuple[int | bool, ...]

LinesOfFiles = dict[FileVersion, KnownLines]
"""The known lines of the files in one call: one search serves all ranges of a file."""


def format_modified_at(status: os.stat_result) -> str:
    """Return a file's last modification, RFC 3339 UTC in milliseconds."""
    # Only integers: a float has too few digits for nanoseconds, and may round up to a second.
    seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
    date_and_time = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{date_and_time}.{nanoseconds // 1_000_000:03}Z"


def find_version(status: os.stat_result) -> str:
    """Return a hash of a file's inode, size and modification time (BLAKE2b, 48 bits)."""
    # A file of the same size that replaces it within one tick of the clock has another inode.
    stamp = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return blake2b(stamp.encode(), digest_size=6).hexdigest()


class FileText(NamedTuple):
    """A file that was read: the root that had it, its status, and the requested part.

    ``original`` is the item as requested, ``path`` is the same without its suffix, and ``source``
    is the root's name.
    """

    original: str
    path: str
    source: str
    stat: os.stat_result
    piece: Piece

    @property
    def text(self) -> str:
        """The text of the requested part, up to the requested length."""
        return self.piece.text

    @property
    def modified_at(self) -> str:
        """Last modification, RFC 3339 UTC in milliseconds."""
        return format_modified_at(self.stat)

    @property
    def version(self) -> str:
        """A hash that changes if the file is replaced or modified."""
        return find_version(self.stat)

    def to_data(self) -> JsonObject:
        """Return the fields of the file's record, with an empty content."""
        data: JsonObject = {
            "path": self.path,
            "source": self.source,
            "content": "",
            "size_bytes": self.stat.st_size,
            "modified_at": self.modified_at,
            "version": self.version,
        }
        if self.piece.lines is not None:
            data["lines"] = self.piece.lines
        if self.piece.encoding.name != "utf-8":
            data["encoding"] = self.piece.encoding.name

        return data


class OpenFile(NamedTuple):
    """A requested file that is open for reading: its root, a descriptor and its status.

    The descriptor has ``size`` bytes; if it ``is_shown``, they are the text of a document. ``part``
    is the requested part of a document that is not shown yet.
    """

    request: PathRequest
    root: Root
    fd: int
    stat: os.stat_result
    size: int
    part: str | None = None
    is_shown: bool = False


class ReadingSession:
    """The roots, open for one call on one thread. Leaves no descriptor behind."""

    def __init__(
        self,
        roots: Sequence[Root],
        policy: Policy,
        worker: Worker,
        absent: Reason,
        known_lines: LinesOfFiles | None = None,
    ) -> None:
        self._roots = roots
        self._policy = policy
        self._worker = worker
        self._absent: Reason = absent
        self._directories: dict[str, int | None] = {}
        self._own: Snapshot | None = None
        self._known_lines: LinesOfFiles = {} if known_lines is None else known_lines
        self._folders = confinement.OpenFolders()
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.close()
        self._closing.close()

    def read(self, request: PathRequest, max_chars: int, *, text_offsets: bool = False) -> FileText:
        """Read a request from the first root that has it.

        With ``text_offsets``, byte positions count from the first byte after a byte order mark.

        Raises Refused with the reasons of `open` and `read_open`.
        """
        return self.read_open(self.open(request), max_chars, text_offsets=text_offsets)

    def open(self, request: PathRequest, source: str | None = None) -> OpenFile:
        """Open a request in the first root that has it; `read_open` or the caller closes it.

        With ``source``, only the root of this name is tried, because no other has the file. If no
        file has a name such as ``book.xlsx#Sheet2``, this is a part of the document ``book.xlsx``.

        Raises Refused: the reason for an absent file, is_directory, denied, and the reasons of
        `open_file` and `Root.open`.
        """
        try:
            return self._open_shared(request, source)
        except Refused as error:
            if error.reason != self._absent or not request.range.is_whole:
                raise

            split = self._policy.documents.split_part(request.path)
            if split is None:
                raise

        path, part = split
        name, _, _ = request.name.rpartition("#")
        parts = tuple(name.split("/"))
        document = PathRequest(request.original, path, name, parts, request.range)
        return self._open_shared(document, source)._replace(part=part)

    def show_text(self, file: OpenFile) -> OpenFile:
        """Return a document open as text, and any other file as it is; closes it if this fails.

        Raises Converting, Refused("no_such_part") and the refusals of `Documents.find_text`.
        """
        documents = self._policy.documents
        # Most files are no documents, and need no further look.
        may_be_one = file.request.name.lower().endswith(documents.suffixes)
        if file.is_shown or not may_be_one:
            return file

        try:
            root, name = str(file.root.path), file.request.name
            text = documents.find_text(root, name, file.fd, file.stat)
            if text is None:
                if file.part is not None:
                    raise Refused("no_such_part")
                return file

            request = file.request
            if file.part is not None:
                found = find_part(text, file.part)
                if found is None:
                    raise Refused("no_such_part")

                start, end = found
                request = request._replace(range=Range(start=start, end=end))

            fd = _open_bytes(text)
        except OSError as error:
            os.close(file.fd)
            raise _translate_read_error(error) from None
        except BaseException:
            os.close(file.fd)
            raise

        os.close(file.fd)
        return OpenFile(request, file.root, fd, file.stat, len(text), is_shown=True)

    def _open_shared(self, request: PathRequest, source: str | None) -> OpenFile:
        """Open a file unless it is not shared. Raises Refused as `open` does."""
        if self._policy.deny.denies(request.name):
            # If only files are denied this name, a folder is refused as a folder.
            if not self._policy.deny.denies(f"{request.name}/"):
                try:
                    os.close(self._open_file(request, source).fd)
                except Refused as error:
                    if error.reason == "is_directory":
                        raise

            raise Refused("denied")

        if self._own is None:
            self._own = self._policy.own.find(self._worker.enter)

        try:
            file = self._open_file(request, source)
        except Refused as error:
            if error.reason != "resource_exhausted" or not self._folders:
                raise

            # The folders that are kept open can be opened again when they are needed.
            self._folders.close()
            file = self._open_file(request, source)

        try:
            own = self._own
            if file.stat.st_ctime > own.known_until:  # it may have become one of the own files
                own = self._own = self._policy.own.refresh(self._worker.enter)
                self._worker.enter(file.root.find_place(file.request.parts))

            if (file.stat.st_dev, file.stat.st_ino) in own.identities:
                raise Refused("denied")
        except BaseException:
            os.close(file.fd)
            raise

        return file

    def read_open(self, file: OpenFile, max_chars: int, *, text_offsets: bool = False) -> FileText:
        """Read a file and close it.

        Raises Refused: denied, and the reasons of `read_piece` and `show_text`; and Converting.
        """
        file = self.show_text(file)
        request, status = file.request, file.stat
        version = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            request.range.trailing_lines is not None,  # lines are counted from either end
        )

        # Removed meanwhile, because another thread of the call may read the same file.
        known = self._known_lines.pop(version, None) or KnownLines()
        try:
            if self._policy.own.is_copy(file.fd, file.size):
                raise Refused("denied")

            piece = read_piece(
                file.fd,
                file.size,
                request.range,
                max_chars,
                self._worker.check,
                text_offsets=text_offsets,
                redacts=self._policy.redacts,
                known_lines=known,
            )
        except OSError as error:
            raise _translate_read_error(error) from None
        finally:
            os.close(file.fd)
            self._known_lines[version] = known

        return FileText(request.original, request.path, file.root.name, status, piece)

    def read_bytes(self, file: OpenFile, max_bytes: int) -> bytes:
        """Read all bytes of a file, undecoded, and close it.

        Raises Refused: denied, response_too_large if the file is larger, changed,
        resource_exhausted, io_error, and the reasons of `show_text`; and Converting.
        """
        file = self.show_text(file)
        try:
            if self._policy.own.is_copy(file.fd, file.size):
                raise Refused("denied")

            if file.size > max_bytes:
                raise Refused("response_too_large")

            return read_present(file.fd, file.size, 0, file.size)
        except OSError as error:
            raise _translate_read_error(error) from None
        finally:
            os.close(file.fd)

    def _open_file(self, request: PathRequest, source: str | None) -> OpenFile:
        """Open a file in the first root that has it; the caller closes it. Raises Refused."""
        reason: Reason = self._absent
        for root in self._roots:
            if source is not None and root.name != source:
                continue

            if root.name not in self._directories:
                self._worker.enter(root.find_place(("",)))
                opened_root = root.open()
                if opened_root is not None:
                    self._closing.callback(os.close, opened_root)
                self._directories[root.name] = opened_root

            directory = self._directories[root.name]
            if directory is None:
                continue

            self._worker.enter(root.find_place(request.parts))
            opened = confinement.open_file(directory, request.parts, self._policy, self._folders)
            if not isinstance(opened, str):
                descriptor, status = opened
                return OpenFile(request, root, descriptor, status, status.st_size)

            if opened == "directory":
                reason = "is_directory"  # unless a later root has a file of this name
            elif opened == "nothing behind a link":
                break

        raise Refused(reason)


def _open_bytes(text: bytes) -> int:
    """Return a descriptor from which a text can be read, in memory if possible. Raises OSError."""
    if sys.platform == "linux":
        fd = os.memfd_create("text")
    else:
        with TemporaryFile() as file:
            fd = os.dup(file.fileno())

    with os.fdopen(fd, "wb", closefd=False) as writer:
        writer.write(text)

    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _translate_read_error(error: OSError) -> Refused:
    # The file is open, so other errors have not the same meaning as on opening.
    if error.errno in _EXHAUSTED:
        return Refused("resource_exhausted")

    return Refused("io_error")
