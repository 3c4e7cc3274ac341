"""Directories that are never shared whole: the disk, homes, and folders of the operating system.

A folder beneath one of them may be shared, apart from what the kernel shows as files.
"""

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

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
"""Folders of the operating system. Those that hold one of them are so too, such as ``/usr``."""

_SYSTEM_WORDS = "a folder of the operating system"

_KERNEL_FOLDERS = ("/proc", "/sys")
"""Where the kernel shows its state as files. Nothing beneath is shared either."""


def find_ban(path: Path) -> str | None:
    """Return what a directory is that must not be shared, for example "your home directory".

    None if it may be shared, or if it is not there. Links are followed.
    """
    try:
        return find_ban_of(os.stat(path))
    except OSError:
        return None


def find_ban_of(status: os.stat_result) -> str | None:
    """Return what an open directory is that must not be shared; None if it may be.

    It is told by its identity, so it has no other name by which it would be shared.
    """
    home = os.path.expanduser("~")
    if _is_same(status, home):
        return "your home directory"

    if status.st_dev in _find_kernel_devices():
        return _SYSTEM_WORDS

    return _find_fixed_bans(home).get((status.st_dev, status.st_ino))


@lru_cache
def _find_fixed_bans(home: str) -> dict[tuple[int, int], str]:
    """Return the directories that stay where they are: what each is, by its device and inode."""
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
    """Return the devices of the kernel's own file systems, as far as they are mounted."""
    mounted = [os.stat(name).st_dev for name in _KERNEL_FOLDERS if os.path.ismount(name)]
    return frozenset(mounted)


def _is_same(status: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(status, os.stat(path))
    except OSError:
        return False
