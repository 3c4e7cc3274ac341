"""The folder of a mirror: its Markdown files, and the state that says what they are equal to.

Files have readable names, which every file system can keep.

Every file is opened relative to a descriptor beneath the folder, and no link is followed, because
a folder may be a repository of strangers. A file is written as a whole beside the state, which no
other program reads, and takes the place of the former one in one step.
"""

import fcntl
import os
import re
import stat
import time
import unicodedata
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Self

import orjson

from abilities.declarations.refusals import AbilitiesError
from abilities.declarations.values import has_surrogate
from abilities.helpers.files import deny
from abilities.helpers.files.confinement import DIRECTORY_FLAGS, MAX_COMPONENTS
from abilities.helpers.store.mending import make_key, to_storable

SUFFIX = ".md"

_MAX_NAME_BYTES = 150
"""Bytes of a name without its mark and suffix; file systems that decompose need up to 255."""

_MAX_FOLDERS = 7

_DIGEST_BYTES = 6

_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"*/:<>?\\|#^\[\]%~]""")
"""Characters that Windows or Obsidian forbid in names, and the one that marks our own names."""

_UNSTORABLE = ("Cn", "Co", "Cs")
"""Categories of characters that some file systems refuse or replace."""

_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?", re.I)
"""Names of devices (learn.microsoft.com: Naming Files, Paths, and Namespaces)."""

_CONFLICT = re.compile(r"\.conflict(-[0-9a-f]{8})?$", re.I)

MAX_FILES = 100_000
"""Markdown files of one folder."""

MAX_FILE_BYTES = 1 << 20
"""A longer file is not read; the longest content has 800,000 bytes."""

CHANGED = "It changed meanwhile; the next run looks at it again."

_STATE_FOLDER = ".abilities"

_PART = "part"

_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITING = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_SETTLED_NS = 2_000_000_000
"""The coarsest resolution of a file system's time stamps (FAT), in nanoseconds."""

_FORMAT = "mirror 1"


class Unusable(AbilitiesError):
    """A file or folder cannot be mirrored; the text is a sentence for people."""


Status = tuple[int, int, int]
"""The size of a file in bytes, and the times of its last changes in nanoseconds."""

UNKNOWN: Status = (-1, 0, 0)
"""The status of a file that must be read again."""


class Entry(NamedTuple):
    """A file that was equal to a version of a memory; ``names`` has the keys of its [[names]]."""

    path: str
    id: str
    version: int
    digest: str
    names: Mapping[str, str]
    status: Status


class State(NamedTuple):
    """The entries of files by their keys, and the last change of the namespace that they include.

    ``since`` is its number. ``last`` is the number and time of the last change that is kept in the
    history, by which another store is recognized.
    """

    entries: dict[str, Entry]
    since: int = 0
    last: tuple[int, str] = (0, "")


class Scan(NamedTuple):
    """The files in a folder by their paths; conflicts, and files that cannot be read, are apart."""

    files: dict[str, Status]
    conflicts: list[str]
    unusable: dict[str, str]


class Folder:
    """A folder that one process mirrors at a time; ``label`` tells its states of stores apart."""

    def __init__(self, root: Path, label: str) -> None:
        self.root = root
        self._state = f"mirror-{digest(label.encode())}.json"
        self._top = self._own = -1
        self._unsynced: dict[str, str] = {}
        self._new: list[int] = []

    @contextmanager
    def open(self) -> Generator[Self]:
        """Lock the folder for a block. Raises Unusable if another process mirrors it."""
        with ExitStack() as closing:
            try:
                self._top = os.open(self.root, DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
                closing.callback(os.close, self._top)
                with suppress(FileExistsError):
                    os.mkdir(_STATE_FOLDER, dir_fd=self._top)
                self._own = os.open(_STATE_FOLDER, DIRECTORY_FLAGS, dir_fd=self._top)
                closing.callback(os.close, self._own)
                lock = os.open("mirror.lock", _WRITING, 0o600, dir_fd=self._own)
                closing.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._replace(self._own, ".gitignore", b"*\n", 0o644)
            except BlockingIOError:
                raise Unusable(f"Another process is mirroring {self.root}.") from None
            except OSError as error:
                words = os.strerror(error.errno or 0)
                raise Unusable(f"{self.root / _STATE_FOLDER} cannot be used: {words}.") from None

            closing.callback(self._sync)
            yield self

    def load_state(self) -> State:
        """Return the state; an empty one if there is none, or it cannot be read."""
        with suppress(OSError, ValueError, TypeError, AttributeError, LookupError):
            with os.fdopen(os.open(self._state, _READING, dir_fd=self._own), "rb") as file:
                entries, since, last = orjson.loads(file.read())[_FORMAT]
            for key, (*values, status) in entries.items():
                entries[key] = Entry._make((*values, tuple(status)))
            return State(entries, since, tuple(last))

        return State({})

    def save_state(self, state: State) -> None:
        """Save the state. The status of a file that may change unseen is not kept."""
        now = time.time_ns()
        entries: dict[str, object] = {}
        for key, entry in state.entries.items():
            is_settled = max(entry.status) < now - _SETTLED_NS
            entries[key] = (*entry[:-1], entry.status if is_settled else UNKNOWN)

        self._sync()  # the state must not survive a power cut that undoes a new name
        saved = orjson.dumps({_FORMAT: (entries, state.since, state.last)})
        self._replace(self._own, self._state, saved, 0o600)
        os.fsync(self._own)

    def _sync(self) -> None:
        """Sync the new files, which is much faster for many at once, and the folders."""
        while self._new:
            descriptor = self._new.pop()
            os.fsync(descriptor)
            os.close(descriptor)
        while self._unsynced:
            _, path = self._unsynced.popitem()
            with suppress(Unusable), self._open_parent(path, "synced") as (parent, _):
                os.fsync(parent)

    def scan(self) -> Scan:
        """Find the Markdown files; hidden folders and files are skipped, links are not followed.

        Raises Unusable if there are too many, or a folder cannot be listed: its files would seem
        to be gone.
        """
        scan = Scan({}, [], {})
        walk = os.fwalk(".", dir_fd=self._top, onerror=self._refuse_folder)
        for base, folders, names, descriptor in walk:
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            prefix = base[2:] + "/" if base != "." else ""
            for name in names:
                path = prefix + name
                if not name.lower().endswith(SUFFIX) or name.startswith("."):
                    continue
                if is_conflict(path):
                    scan.conflicts.append(to_storable(path))
                    continue
                with suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    if words := _find_fault(path, status):
                        scan.unusable[to_storable(path)] = words
                    else:
                        scan.files[path] = _get_status(status)

            if len(scan.files) > MAX_FILES or prefix.count("/") > MAX_COMPONENTS:
                words = f"{MAX_FILES:,} Markdown files, or {MAX_COMPONENTS} nested folders."
                raise Unusable(f"{self.root} has more than {words}")

        return scan

    def _refuse_folder(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # it may be removed meanwhile
            words = f"A folder of {self.root} cannot be listed"
            raise Unusable(f"{words}: {error.filename}: {os.strerror(error.errno or 0)}.")

    def read(self, path: str) -> tuple[bytes, Status]:
        """Read a file. Raises Unusable."""
        with (
            self._open_parent(path, "read") as (parent, name),
            os.fdopen(os.open(name, _READING, dir_fd=parent), "rb") as file,
        ):
            return file.read(MAX_FILE_BYTES + 1), _get_status(os.fstat(file.fileno()))

    def write(self, path: str, data: bytes, expected: Status | None) -> Status:
        """Replace a file, and return its status; None means that there is no file yet.

        Raises Unusable if the file is not in the expected state, or a part of its path is a link.
        """
        with self._open_parent(path, "written", creates=True) as (parent, name):
            rights = _check_file(parent, name, expected)
            self._replace(parent, name, data, rights, is_new=expected is None)
            self._unsynced[path.rpartition("/")[0]] = path
            return _get_status(os.stat(name, dir_fd=parent, follow_symlinks=False))

    def remove(self, path: str, expected: Status) -> None:
        """Remove a file, and the folders that are empty then. Raises Unusable as `write` does."""
        with self._open_parent(path, "removed") as (parent, name):
            _check_file(parent, name, expected)
            os.unlink(name, dir_fd=parent)

        with suppress(Unusable):
            while path := path.rpartition("/")[0]:
                with self._open_parent(path, "removed") as (parent, name):
                    os.rmdir(name, dir_fd=parent)

    def keep_conflict(self, path: str, data: bytes) -> str:
        """Write the text of a file that lost beside it, once; return its path. Raises Unusable."""
        for mark in ("", digest(data)[:8]):
            kept = name_conflict(path, mark)
            with suppress(Unusable):
                self.write(kept, data, None)
                self._sync()
            if self.read(kept)[0] == data:
                return kept

        raise Unusable(f"{kept} is in the way; remove it.")

    @contextmanager
    def _open_parent(
        self, path: str, verb: str, *, creates: bool = False
    ) -> Generator[tuple[int, str]]:
        """Open the folder of a file for a block; a failure of either is Unusable."""
        *folders, name = path.split("/")
        if not all(part.strip(".") for part in (*folders, name)):
            raise Unusable("Its path leads elsewhere.")

        try:
            descriptor = os.dup(self._top)
            try:
                for folder in folders:
                    if creates:
                        with suppress(FileExistsError):
                            os.mkdir(folder, dir_fd=descriptor)
                    parent = descriptor
                    descriptor = os.open(folder, DIRECTORY_FLAGS, dir_fd=parent)
                    os.close(parent)

                yield descriptor, name
            finally:
                os.close(descriptor)
        except OSError as error:
            raise Unusable(f"It cannot be {verb}: {os.strerror(error.errno or 0)}.") from None

    def _replace(
        self, folder: int, name: str, data: bytes, rights: int, *, is_new: bool = False
    ) -> None:
        """Replace a file as a whole; a new one is synced later. Raises OSError."""
        part = os.open(_PART, _WRITING | os.O_TRUNC, 0o600, dir_fd=self._own)
        with os.fdopen(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(part, rights)
            if is_new:
                self._new.append(os.dup(part))
            else:
                os.fsync(part)

        os.replace(_PART, name, src_dir_fd=self._own, dst_dir_fd=folder)


def digest(data: bytes) -> str:
    """Return the hash by which an unchanged file is recognized."""
    return blake2b(data, digest_size=16).hexdigest()


def _check_file(parent: int, name: str, expected: Status | None) -> int:
    """Return the rights of a file. Raises Unusable if it is not in the expected state."""
    present, rights = None, 0o600
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        present, rights = _get_status(status), stat.S_IMODE(status.st_mode)
    if present != expected:
        raise Unusable(CHANGED)

    return rights


def _get_status(status: os.stat_result) -> Status:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _find_fault(path: str, status: os.stat_result) -> str:
    """Return why a file cannot be mirrored, or an empty text."""
    if has_surrogate(path):
        return "Its name is not UTF-8."
    if not stat.S_ISREG(status.st_mode):
        return "It is not a regular file."
    if status.st_size > MAX_FILE_BYTES:
        return f"It is larger than {MAX_FILE_BYTES >> 20} MiB."

    return ""


def fold(path: str) -> str:
    """Return a form that is equal for paths that some file system takes for the same.

    >>> fold("Stra\u00dfe.md") == fold("STRASSE.md")
    True
    """
    # A dotless i is an i to file systems that compare in capitals.
    return deny.fold(deny.fold(path).upper())


def is_conflict(path: str) -> bool:
    """Return whether a file holds a text that lost against the store."""
    return _CONFLICT.search(path.removesuffix(SUFFIX)) is not None


def name_conflict(path: str, mark: str) -> str:
    """Return the path for the text of a file that lost against the store."""
    suffix = f"-{mark}" if mark else ""
    return f"{path.removesuffix(SUFFIX)}.conflict{suffix}{SUFFIX}"


def name_file(key: str, *, marked: bool = False) -> str:
    """Return the path for a key's file.

    A name that some system forbids is replaced by a similar one with a mark: a hash of the original
    name. With ``marked``, the file is marked by its whole key, so that no other key has its path.

    >>> name_file("People/Ada"), name_file("who?")
    ('People/Ada.md', 'who_~2ee62cdc7d70.md')
    """
    *folders, last = key.split("/", _MAX_FOLDERS)
    names: list[str] = []
    for folder in folders:
        # The folder of the key "a.md/b" must not take the name of the file of "a".
        looks_like_file = folder.lower().endswith(SUFFIX)
        names.append(_name_part(folder, mark=folder if looks_like_file else ""))

    return "/".join([*names, _name_part(last, mark=key if marked else "") + SUFFIX])


def _name_part(part: str, *, mark: str) -> str:
    """Return a part of a path; with a ``mark``, the part ends with its hash."""
    safe = [
        "_" if _UNSAFE.match(char) or unicodedata.category(char) in _UNSTORABLE else char
        for char in unicodedata.normalize("NFC", part)
    ]
    name = "".join(safe).encode()[:_MAX_NAME_BYTES].decode(errors="ignore").strip(" .")
    if _RESERVED.fullmatch(name):
        name = f"_{name}"

    if not mark and name and name == part and not _CONFLICT.search(name):
        return name

    hashed = blake2b((mark or part).encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{name or '_'}~{hashed}"


def make_key_of_path(path: str) -> str:
    """Return the key of a file that says none: its path without the suffix.

    >>> make_key_of_path("Ideas/Tea shop.md")
    'Ideas/Tea shop'
    """
    # Some file systems return decomposed names, whatever name the file was given.
    return make_key(unicodedata.normalize("NFC", path[: -len(SUFFIX)]))
