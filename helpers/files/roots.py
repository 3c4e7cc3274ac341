"""Roots: the directories that files are read from, one per namespace if their path says so."""

import errno
import os
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from abilities.declarations.refusals import Refused
from abilities.helpers.files.confinement import translate_os_error
from abilities.helpers.threads.circuit_breaker import WorkPlace

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
