"""Roots, and sessions that read parts of text files from the first root that has them.

A root is a directory that files are read from, one per namespace if its path says so. A session
runs on one thread.
"""

import errno
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from hashlib import blake2b, sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal, NamedTuple, Self

from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.documents.reader import find_part
from abilities.helpers.files import confinement
from abilities.helpers.files.confinement import PathRequest, Policy, translate_os_error
from abilities.helpers.files.deny import Snapshot
from abilities.helpers.files.window import KnownLines, read_piece, read_present
from abilities.helpers.text import Piece, Range
from abilities.helpers.threads.circuit_breaker import WorkPlace
from abilities.helpers.threads.workers import Worker

_SYSTEM_FOLDERS = (
    # Linux (Filesystem Hierarchy Standard 3.0), where others are often made for one service
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run",
    "/sbin", "/sys", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/var/lib",
    # macOS
    "/Applications", "/Library", "/Network", "/System/Volumes/Data", "/Users", "/Volumes", "/cores",
    "/private/etc", "/private/var",
    # Windows, as its Subsystem for Linux shows it
    "/mnt/c/Program Files", "/mnt/c/Program Files (x86)", "/mnt/c/ProgramData", "/mnt/c/Users",
    "/mnt/c/Windows",
)  # fmt: skip
"""Folders of the operating system. Every folder above one, such as ``/usr``, counts as one too."""

_SYSTEM_WORDS = "a folder of the operating system"

_KERNEL_FOLDERS = ("/proc", "/sys")
"""File systems that show the kernel's state. Nothing beneath them is shared either."""

PLACEHOLDER = "{namespace}"
"""Replaced by the name of a namespace in a directory's path."""

_PLAIN_IN_FOLDERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_MAX_FOLDER_BYTES = 200

_ROOT_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # a root itself may be a link


def find_ban(path: Path) -> str | None:
    """Return why a directory must not be shared, for example "your home directory".

    Returns None if it may be shared, or if it does not exist. Links are followed.
    """
    try:
        return find_ban_of(os.stat(path))
    except OSError:
        return None


def find_ban_of(status: os.stat_result) -> str | None:
    """Return why an open directory must not be shared, given its status; None if it may be.

    Directories are compared by device and inode, so no other name leads around a ban.
    """
    home = os.path.expanduser("~")
    with suppress(OSError):
        if os.path.samestat(status, os.stat(home)):
            return "your home directory"

    if status.st_dev in _find_kernel_devices():
        return _SYSTEM_WORDS

    return _find_fixed_bans(home).get((status.st_dev, status.st_ino))


@lru_cache
def _find_fixed_bans(home: str) -> dict[tuple[int, int], str]:
    """Return the banned directories that stay in place: device and inode, and a description."""
    folders: dict[str, str] = {}
    for name in _SYSTEM_FOLDERS:
        if os.path.isdir(name):
            folders[name] = _SYSTEM_WORDS
            folders |= dict.fromkeys(map(str, Path(name).parents), _SYSTEM_WORDS)

    homes: list[str] = []
    if os.path.isabs(home):  # else the user has none
        homes = [home, os.path.realpath(home)]

    for path in homes:
        above = map(str, Path(path).parents)
        folders |= dict.fromkeys(above, "a folder that holds your home directory")

    folders["/"] = "the whole disk"

    bans: dict[tuple[int, int], str] = {}
    for name, words in folders.items():
        with suppress(OSError):
            status = os.stat(name)
            bans[status.st_dev, status.st_ino] = words

    return bans


@lru_cache
def _find_kernel_devices() -> frozenset[int]:
    """Return the devices of the kernel's file systems that are mounted."""
    mounted = [os.stat(name).st_dev for name in _KERNEL_FOLDERS if os.path.ismount(name)]
    return frozenset(mounted)


def name_folder(namespace: str) -> str:
    """Return a namespace as part of a folder's name, different for every namespace.

    Every character but ``a-z 0-9 _ -`` is percent-encoded, upper case too, so that file systems
    which ignore case keep namespaces apart. A name over 200 bytes becomes ``~`` and its SHA-256.

    >>> name_folder("Ada@example.com")
    '%41da%40example%2Ecom'
    """
    encoded = ""
    for char in namespace:
        if char in _PLAIN_IN_FOLDERS:
            encoded += char
        else:
            encoded += f"%{ord(char):02X}"

    if len(encoded) <= _MAX_FOLDER_BYTES:
        return encoded

    return "~" + sha256(namespace.encode()).hexdigest()


def enter_namespace(directory: Path, namespace: str) -> Path:
    """Return the directory of a namespace, replacing the placeholder in its path.

    >>> enter_namespace(Path("/srv/{namespace}/files"), "ada")
    PosixPath('/srv/ada/files')
    """
    # Without str.format, which would fail for any other brace in a path.
    return Path(str(directory).replace(PLACEHOLDER, name_folder(namespace)))


def find_shared_part(directory: Path) -> Path:
    """Return the directory that all namespaces share: the whole path without a placeholder."""
    shared = directory
    while PLACEHOLDER in str(shared):
        shared = shared.parent

    return shared


class RootPlace(NamedTuple):
    """The place of a root: a directory by its absolute path.

    ``required`` is the directory that must exist before anything is read: the root itself, the
    folder that contains the roots of all namespaces, or None.
    """

    name: Literal["agent", "workspace"]
    path: Path
    required: Path | None

    @property
    def setting(self) -> str:
        """The setting that names this directory, for example ``agent_dir``."""
        return f"{self.name}_dir"

    @property
    def optional(self) -> bool:
        """Whether the directory may be missing, and then counts as empty."""
        return self.required != self.path

    def check(self) -> None:
        """Raise ValueError for a directory that must not be shared, or that does not exist."""
        ban = find_ban(self.path)
        if ban is not None:
            place = f"'{self.path}'"
            resolved = os.path.realpath(self.path)
            if resolved != str(self.path):
                place += f", which leads to '{resolved}'"

            raise ValueError(
                f"{self.setting} must not be {place}: this is {ban}, and "
                "agents could read all of it; name a folder that you want to share, for example "
                "that of a project"
            )

        if self.required is None or self.required.is_dir():
            return

        if self.required.exists():
            raise ValueError(f"{self.setting}: {self.required} is not a directory")

        raise ValueError(
            f"{self.setting}: {self.required} does not exist; create it, or name another folder"
        )


class Root:
    """A directory that files are read from, by its absolute path.

    It is opened again for each call: a directory that was replaced is served as it is now, and one
    that is gone is unavailable.

    An optional root may be missing, and then counts as empty, until it is opened for the first
    time. From then on, a missing directory is an error. Threads should share one object, because a
    second one for the same directory does not know that the first has opened it.
    """

    def __init__(self, name: str, path: Path, *, optional: bool = False) -> None:
        self.name = name
        self.path = path
        self._place = str(path)  # each namespace has its own
        self._may_be_missing = optional
        # Goes from False to True once, in one assignment, so threads need no lock for it. A lock
        # must not be held while opening either: a dead drive would then stop every thread.
        self._has_existed = False

    @property
    def optional(self) -> bool:
        """Whether the directory may be missing: it is optional, and was never opened."""
        return self._may_be_missing and not self._has_existed

    def find_place(self, path: tuple[str, ...]) -> WorkPlace:
        """Return the place of a file by its names, or of a folder by its names and ``""``."""
        return WorkPlace(self._place, path)

    def open(self) -> int | None:
        """Return a descriptor of the directory; None for an optional root that never existed.

        The caller closes the descriptor.

        Raises Refused: root_unavailable, access_denied, resource_exhausted.
        """
        try:
            descriptor = os.open(self.path, _ROOT_FLAGS)
        except OSError as error:
            if error.errno == errno.ENOENT and self.optional:
                return None

            reason = translate_os_error(error).reason
            if reason not in ("access_denied", "resource_exhausted"):
                reason = "root_unavailable"
            raise Refused(reason) from None

        if find_ban_of(os.fstat(descriptor)) is not None:
            os.close(descriptor)
            raise Refused("root_unavailable")

        self._has_existed = True
        return descriptor


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
        document = confinement.parse_path(path)._replace(original=request.original)
        return self._open_shared(document, source)._replace(part=part)

    def show_text(self, file: OpenFile) -> OpenFile:
        """Return a document open as text, and any other file as it is; closes it if this fails.

        Raises Converting, Refused("no_such_part") and the refusals of `Documents.find_text`.
        """
        if file.is_shown:
            return file

        try:
            root, name = str(file.root.path), file.request.name
            text = self._policy.documents.find_text(root, name, file.fd, file.stat)
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
