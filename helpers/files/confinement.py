"""Open a file beneath a root, so that no link, name or race ever leads outside it.

Every step opens one component relative to a descriptor that is already beneath the root, and never
follows a link in the kernel (``O_NOFOLLOW``); links are resolved here, component by component, on a
stack of descriptors that cannot rise above the root. This is the technique of Go's ``os.Root`` and of
``openat2(RESOLVE_BENEATH)``; checking a resolved path and opening it afterwards is a race.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from abilities.declarations.faults import Reason, Refused
from abilities.helpers.files.deny import DenyList

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40  # as Linux does (path_resolution(7))
_MAX_DEPTH = 64  # descriptors held at once while resolving links
_MAX_RETRIES = 64  # a component that keeps changing its kind under us

_REASONS: dict[int, Reason] = {
    errno.EACCES: "access_denied",
    errno.EPERM: "access_denied",
    errno.ENAMETOOLONG: "path_too_long",
    errno.ENXIO: "not_regular_file",
    errno.ENODEV: "not_regular_file",
    errno.EMFILE: "resource_exhausted",
    errno.ENFILE: "resource_exhausted",
    errno.ENOMEM: "resource_exhausted",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be opened beneath a root."""

    deny: DenyList
    follow_links: bool
    deny_hardlinks: bool


class Root:
    """A directory that files are read from, by its absolute path.

    ``optional`` makes one that has never existed an empty root. It is opened anew for each call, so a
    replaced directory is served as it is now, and one that is gone is said to be unavailable.
    """

    def __init__(self, name: str, path: Path, *, optional: bool = False) -> None:
        self.name = name
        self.path = path
        self.optional: bool = optional

    def open(self) -> int | None:
        """A descriptor of the directory, or None for an optional root that never was.

        Raises Refused: root_unavailable, access_denied, resource_exhausted.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENOENT and self.optional:
                return None
            reason = _REASONS.get(error.errno or 0, "root_unavailable")
            raise Refused(
                reason if reason in ("access_denied", "resource_exhausted") else "root_unavailable"
            ) from None
        if _is_forbidden(os.fstat(descriptor)):
            os.close(descriptor)
            raise Refused("root_unavailable")
        self.optional = False
        return descriptor


def is_forbidden_root(path: Path) -> bool:
    """Whether a path is the file system's root or the home directory, which are never shared whole."""
    try:
        return _is_forbidden(os.stat(path))
    except OSError:
        return False


def _is_forbidden(found: os.stat_result) -> bool:
    return any(_same(found, place) for place in ("/", os.path.expanduser("~")))


def _same(found: os.stat_result, place: str) -> bool:
    try:
        return os.path.samestat(found, os.stat(place))
    except OSError:
        return False


def translate_os_error(error: OSError) -> Refused:
    """What a failed system call means to the caller; anything unforeseen is an io_error."""
    return Refused(_REASONS.get(error.errno or 0, "io_error"))


def open_file(root: int, parts: Sequence[str], policy: Policy) -> tuple[int, os.stat_result] | None:
    """Open a regular file beneath a root for reading; the caller closes the descriptor.

    None where the file is truly not there, so that another root may be asked.

    ``parts`` are names as `paths.parse` yields them: none is empty, ``.``, ``..`` or holds a ``/``.
    The deny list is asked about what links lead to; about ``parts`` themselves the caller asks it once
    for all roots. Raises Refused: not_found (a dangling link), denied, symlink_escape, symlink_loop,
    symlink_refused, is_directory, not_regular_file, hard_link, access_denied, path_too_long,
    resource_exhausted, io_error.
    """
    try:
        descriptor = (
            os.open(parts[0], _FILE, dir_fd=root) if len(parts) == 1 else _open_plain(root, parts)
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise translate_os_error(error) from None
        if (linked := _open_linked(root, parts, policy)) is None:
            return None
        descriptor = linked
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and not (policy.deny_hardlinks and found.st_nlink > 1):
        return descriptor, found
    os.close(descriptor)
    if stat.S_ISREG(found.st_mode):
        raise Refused("hard_link")
    raise Refused("is_directory" if stat.S_ISDIR(found.st_mode) else "not_regular_file")


def open_directory(name: str, at: int) -> int:
    """Open a folder by its name in another one, following no link. Raises Refused."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=at)
    except OSError as error:
        raise translate_os_error(error) from None


def _open_plain(root: int, parts: Sequence[str]) -> int:
    """The common case, a path without links: one ``openat`` a component."""
    at = root
    try:
        for name in parts[:-1]:
            below = os.open(name, _DIRECTORY, dir_fd=at)
            if at != root:
                os.close(at)
            at = below
        return os.open(parts[-1], _FILE, dir_fd=at)
    finally:
        if at != root:
            os.close(at)


def _open_linked(root: int, parts: Sequence[str], policy: Policy) -> int | None:
    walk = _Walk(root, policy)
    try:
        return walk.open(parts)
    except FileNotFoundError:
        if walk.links:
            raise Refused(
                "not_found"
            ) from None  # a dangling link: something is there, so no other root is asked
        return None
    except OSError as error:
        raise translate_os_error(error) from None
    finally:
        walk.close()


class _Walk:
    """The careful way: a stack of descriptors beneath the root, links resolved by hand."""

    def __init__(self, root: int, policy: Policy) -> None:
        self._stack = [root]
        self._names: list[str] = []
        self._policy = policy
        self._retries = 0
        self.links = 0

    def open(self, parts: Sequence[str]) -> int:
        pending = deque(parts)
        while pending:
            name = pending.popleft()
            if name == "..":
                self._up()
            elif name not in ("", "."):
                found = self._step(name, pending)
                if found is not None:
                    return found
        raise Refused("is_directory")

    def close(self) -> None:
        for descriptor in self._stack[1:]:
            os.close(descriptor)

    def _step(self, name: str, pending: deque[str]) -> int | None:
        """Enter a directory, expand a link into ``pending``, or return the opened file."""
        if not pending and self._policy.deny.denies("/".join((*self._names, name))):
            raise Refused("denied")
        try:
            descriptor = os.open(name, _DIRECTORY if pending else _FILE, dir_fd=self._stack[-1])
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            self._expand(name, pending)
            return None
        if not pending:
            return descriptor
        self._stack.append(descriptor)
        self._names.append(name)
        if len(self._stack) > _MAX_DEPTH:
            raise Refused("path_too_deep")
        return None

    def _up(self) -> None:
        if len(self._stack) == 1:
            raise Refused("symlink_escape")
        os.close(self._stack.pop())
        self._names.pop()

    def _expand(self, name: str, pending: deque[str]) -> None:
        """Put a link's target before what is pending; a name that changed its kind meanwhile is tried again."""
        target = self._link_target(name, inside=bool(pending))
        if target is None:
            pending.appendleft(name)
            return
        if not self._policy.follow_links:
            raise Refused("symlink_refused")
        self.links += 1
        if self.links > _MAX_LINKS:
            raise Refused("symlink_loop")
        if target.startswith("/"):
            raise Refused("symlink_escape")
        pending.extendleft(
            reversed(target.split("/"))
        )  # behind 'name/' stands '', so that name must be a directory

    def _link_target(self, name: str, *, inside: bool) -> str | None:
        """The link's text, or None when the name changes under us and is to be tried again.

        Raises FileNotFoundError where something was looked for inside of a plain file.
        """
        kind = stat.S_IFDIR
        try:
            kind = os.stat(name, dir_fd=self._stack[-1], follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):
                return os.readlink(name, dir_fd=self._stack[-1])
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                raise
        if inside and not stat.S_ISDIR(kind) and not stat.S_ISLNK(kind):
            raise FileNotFoundError(errno.ENOENT, name)
        self._retries += 1
        if self._retries > _MAX_RETRIES:
            raise Refused("symlink_escape")
        return None
