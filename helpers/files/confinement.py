"""Open a requested path beneath a root, so that no link, name or race ever leads outside it.

A path is taken apart before any file is touched (`parse_path`). Then every step opens one component
relative to a descriptor that is already beneath the root, and the kernel never follows a link
(``O_NOFOLLOW``). Links are resolved here, component by component, on a stack of descriptors that
cannot rise above the root. This is the technique of Go's ``os.Root`` and of
``openat2(RESOLVE_BENEATH)``; to check a resolved path and open it afterwards would be a race.
"""

import errno
import os
import re
import stat
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

from abilities.declarations.limits import MAX_PATH_CHARS
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import has_control_character, has_surrogate
from abilities.helpers.documents.documents import Documents
from abilities.helpers.files.deny import DenyList, OwnFiles
from abilities.helpers.text import WHOLE, Range, parse_range, split_suffix

MAX_COMPONENT_BYTES = 255
MAX_COMPONENTS = 32

MOST_FOLDERS = 16
"""Folders that are kept open at once; more only if a single path has more."""

SKIPPED_FOLDERS = ("node_modules", "__pycache__", ".venv", "venv", "dist", "target")
"""Names of folders that tools fill, in which people hardly ever keep their own work."""

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_FILE_FLAGS = (
    os.O_RDONLY
    | os.O_NONBLOCK  # else opening a pipe waits for its writer
    | os.O_NOCTTY
    | os.O_NOFOLLOW
    | os.O_CLOEXEC
)

_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR)  # the errors of O_NOFOLLOW for a link

_MAX_LINKS = 40  # as in Linux (path_resolution(7))
_MAX_DEPTH = 64  # descriptors that are held at once while links are resolved
_MAX_RETRIES = 64  # for a component that keeps changing its kind meanwhile

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

_PLAIN_NAME = r"\.?[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_PLAIN_PATH = re.compile(rf"(?:{_PLAIN_NAME}/){{0,{MAX_COMPONENTS - 1}}}{_PLAIN_NAME}")
_MAX_PLAIN_CHARS = 200  # so short that no component can be too long

_DRIVE = re.compile(r"[A-Za-z]:")

Absence = Literal["nothing", "directory", "nothing behind a link"]
"""Why a root has no file with a name. After the last of these, no further root is tried."""


class PathRequest(NamedTuple):
    """A requested path, taken apart.

    For ``./src//app.py#L10``: ``original`` is all of it, ``path`` is ``./src//app.py``, ``name`` is
    ``src/app.py``, and ``parts`` are ``src`` and ``app.py``.
    """

    original: str
    path: str
    name: str
    parts: tuple[str, ...]
    range: Range


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules for opening files beneath a root, and whether secrets in them are redacted.

    Folders named in ``skip`` may be opened, but lists enter them only if the pattern names them.
    ``documents`` has the texts of files that are read as documents.
    """

    deny: DenyList
    follow_links: bool
    deny_hardlinks: bool
    redacts: bool
    own: OwnFiles = field(default_factory=OwnFiles)
    skip: frozenset[str] = frozenset()
    documents: Documents = field(default_factory=Documents)


def parse_path(item: object) -> PathRequest:
    """Take a requested path apart, looking only at the string.

    Raises Refused with the first reason that applies: not_a_string, empty_path, path_too_long,
    invalid_unicode, control_character, drive_path, backslash, absolute_path, parent_traversal,
    is_directory, trailing_slash, path_too_deep, path_too_long (a component), invalid_range.
    """
    if not isinstance(item, str):
        raise Refused("not_a_string")

    # Most paths are plain: one match is faster than all checks. They have no '#', so no suffix.
    if len(item) <= _MAX_PLAIN_CHARS and _PLAIN_PATH.fullmatch(item):
        return PathRequest(item, item, item, tuple(item.split("/")), WHOLE)

    path, suffix = split_suffix(item)
    if not path.strip(" "):
        raise Refused("empty_path")

    if len(path) > MAX_PATH_CHARS:
        raise Refused("path_too_long")

    if has_surrogate(path):
        raise Refused("invalid_unicode")

    if has_control_character(path):
        raise Refused("control_character")

    if _DRIVE.match(path):
        raise Refused("drive_path")

    if "\\" in path:
        raise Refused("backslash")

    if path.startswith("/"):
        raise Refused("absolute_path")

    parts = _split_components(path)
    requested = parse_range(suffix) if suffix else WHOLE
    return PathRequest(item, path, "/".join(parts), tuple(parts), requested)


def _split_components(path: str) -> list[str]:
    """Return the names in a path, without empty ones and ``.``."""
    names = path.split("/")
    if ".." in names:
        raise Refused("parent_traversal")

    parts = [name for name in names if name not in ("", ".")]
    if not parts:
        raise Refused("is_directory")

    if names[-1] in ("", "."):
        raise Refused("trailing_slash")

    if len(parts) > MAX_COMPONENTS:
        raise Refused("path_too_deep")

    if any(len(part.encode()) > MAX_COMPONENT_BYTES for part in parts):
        raise Refused("path_too_long")

    return parts


def express_path(name: str) -> str | None:
    """Return the path that requests a file by its name; None if no path can express it.

    If the name itself ends in a range, ``#L1-`` is appended, which requests the whole file.
    """
    for path in (name, f"{name}#L1-"):
        with suppress(Refused):
            if parse_path(path).name == name:
                return path

    return None


class OpenFolders:
    """Folders beneath roots that are kept open, each opened without following a link.

    If a folder is replaced meanwhile, for example by a link, readers still get the folder that was
    opened. The roots must stay open as long as this object is used.
    """

    def __init__(self) -> None:
        self._descriptors: dict[tuple[int, tuple[str, ...]], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._descriptors)

    def open(self, root: int, names: Sequence[str]) -> int:
        """Return the descriptor of a folder, given its names; it is open until `close`.

        One ``openat`` is made per component that is not open yet. Raises OSError if a component is
        not a folder, or is a link.
        """
        folder = tuple(names)
        depth = len(folder)
        while depth and (root, folder[:depth]) not in self._descriptors:
            depth -= 1

        parent = self._descriptors[root, folder[:depth]] if depth else root
        if depth == len(folder):
            return parent

        opened: dict[tuple[int, tuple[str, ...]], int] = {}
        try:
            for end in range(depth + 1, len(folder) + 1):
                parent = os.open(folder[end - 1], DIRECTORY_FLAGS, dir_fd=parent)
                opened[root, folder[:end]] = parent
        finally:
            if len(self._descriptors) + len(opened) > MOST_FOLDERS:
                self.close()
            self._descriptors |= opened

        return parent

    def close(self) -> None:
        """Close all folders."""
        while self._descriptors:
            _, descriptor = self._descriptors.popitem()
            os.close(descriptor)


def translate_os_error(error: OSError) -> Refused:
    """Return the refusal for a failed system call: io_error unless the cause is known."""
    return Refused(_REASONS.get(error.errno or 0, "io_error"))


def open_file(
    root: int, parts: Sequence[str], policy: Policy, folders: OpenFolders | None = None
) -> tuple[int, os.stat_result] | Absence:
    """Open a regular file beneath a root for reading.

    Returns its descriptor, which the caller closes, and its status; or says that there is no file,
    because nothing has this name or because a directory has it.

    To open several files, pass ``folders``: the folders on their paths are kept open there.

    ``parts`` are names as `parse_path` returns them: none is empty, ``.``, ``..`` or contains a
    ``/``. Every name that links lead through is checked against the deny list here. The caller
    checks ``parts`` themselves, once for all roots.

    Raises Refused: dangling_link, denied, symlink_escape, symlink_loop, symlink_refused,
    is_directory (behind a link), not_regular_file, hard_link, access_denied, path_too_deep,
    path_too_long, resource_exhausted, io_error.
    """
    if folders is None:
        with OpenFolders() as own_folders:
            return open_file(root, parts, policy, own_folders)

    is_direct = True
    try:
        parent = folders.open(root, parts[:-1])
        descriptor = os.open(parts[-1], _FILE_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        return "nothing"
    except OSError as error:
        if error.errno not in _LINK_ERRORS:
            raise translate_os_error(error) from None

        resolved = _open_through_links(root, parts, policy)
        if isinstance(resolved, str):
            return resolved

        descriptor = resolved
        is_direct = False

    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and not (policy.deny_hardlinks and status.st_nlink > 1):
        return descriptor, status

    os.close(descriptor)
    if stat.S_ISREG(status.st_mode):
        raise Refused("hard_link")

    if not stat.S_ISDIR(status.st_mode):
        raise Refused("not_regular_file")

    if not is_direct:
        raise Refused("is_directory")

    return "directory"


def open_directory(name: str, parent: int) -> int:
    """Open a folder by its name in another one, following no link; the caller closes it.

    Raises Refused with the reasons of `translate_os_error`.
    """
    try:
        return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    except OSError as error:
        raise translate_os_error(error) from None


def _open_through_links(root: int, parts: Sequence[str], policy: Policy) -> int | Absence:
    resolver = _LinkResolver(root, parts, policy)
    try:
        return resolver.open()
    except FileNotFoundError:
        if resolver.is_in_link:
            raise Refused("dangling_link") from None

        if resolver.links:
            return "nothing behind a link"

        return "nothing"
    except OSError as error:
        raise translate_os_error(error) from None
    finally:
        resolver.close()


class _LinkResolver:
    """Resolve links by hand, on a stack of descriptors that are all beneath the root.

    The names that are still to be opened are pending; a link's target is put in front of them.
    ``..`` takes a descriptor off the stack. It is never left to the kernel, because a folder that
    was moved meanwhile has another parent there.
    """

    def __init__(self, root: int, parts: Sequence[str], policy: Policy) -> None:
        self._stack = [root]
        self._names: list[str] = []
        self._pending = deque(parts)
        self._policy = policy
        self._retries = 0
        self.links = 0

        # The number of requested names after the last link among them. While at least as many are
        # pending, the current name comes from a link's target.
        self._after_link = len(parts)

    @property
    def is_in_link(self) -> bool:
        """Whether the current name comes from a link and not from the request."""
        return len(self._pending) >= self._after_link

    def open(self) -> int:
        """Return a descriptor of the file that the last name leads to.

        Raises Refused and OSError.
        """
        pending = self._pending

        while pending:
            name = pending.popleft()
            if name in ("", "."):
                continue

            if name == "..":
                if len(self._stack) == 1:
                    raise Refused("symlink_escape")

                os.close(self._stack.pop())
                self._names.pop()
                continue

            # Also folders and links on the way: a link to a secret may itself be called ".env".
            path = "/".join((*self._names, name))
            if pending:
                path += "/"
            if self._policy.deny.denies(path):
                raise Refused("denied")

            flags = DIRECTORY_FLAGS if pending else _FILE_FLAGS
            descriptor: int | None = None
            try:
                descriptor = os.open(name, flags, dir_fd=self._stack[-1])
            except OSError as error:
                if error.errno not in _LINK_ERRORS:
                    raise

            if descriptor is None:
                self._expand_link(name)
            elif not pending:
                return descriptor
            else:
                self._stack.append(descriptor)
                self._names.append(name)
                if len(self._stack) > _MAX_DEPTH:
                    raise Refused("path_too_deep")

        raise Refused("is_directory")

    def close(self) -> None:
        """Close every descriptor but the root's."""
        for descriptor in self._stack[1:]:
            os.close(descriptor)

    def _expand_link(self, name: str) -> None:
        """Put a link's target in front of the pending names.

        A name that has changed its kind meanwhile is put back, to be tried again. Raises
        FileNotFoundError if the request looks for something inside a plain file.
        """
        target: str | None = None
        mode = stat.S_IFDIR  # if the name is gone by now, it is tried again like a directory
        try:
            mode = os.stat(name, dir_fd=self._stack[-1], follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                target = os.readlink(name, dir_fd=self._stack[-1])
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                raise

        if target is None:
            if self._pending and not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
                raise FileNotFoundError(errno.ENOENT, name)

            self._retries += 1
            if self._retries > _MAX_RETRIES:
                raise Refused("symlink_escape")

            self._pending.appendleft(name)
            return

        if not self._policy.follow_links:
            raise Refused("symlink_refused")

        self.links += 1
        if self.links > _MAX_LINKS:
            raise Refused("symlink_loop")

        if target.startswith("/"):
            raise Refused("symlink_escape")

        self._after_link = min(self._after_link, len(self._pending))
        # 'name/' leaves '' behind the name, which is then not the last and must be a directory.
        self._pending.extendleft(reversed(target.split("/")))
