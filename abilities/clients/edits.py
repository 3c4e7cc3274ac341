"""Editing the files of clients: planning an edit, showing its differences, and writing it.

The files belong to others, so nothing in them must get lost. A file is replaced only if it is still
the one that was read, and a backup of it is made first.
"""

import difflib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from glob import escape
from hashlib import sha256
from pathlib import Path

from abilities.clients.changes import FileChange, ServerChange, put_change, undo_change
from abilities.clients.entry import ServerEntry, Unparsable, Unusable
from abilities.clients.table import Client
from abilities.helpers.durable import sync_folder
from abilities.settings import HOME

_ATTEMPTS = 5
"""How often an edit is tried while another program changes the file."""

_STRINGS = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*')(\s*[:=])?""")
"""Strings of JSON or TOML. The second group matches if the string is a name."""


class Changed(Unusable):
    """A file changed between reading and replacing it."""


@dataclass(frozen=True)
class FileSnapshot:
    """A file as it was read. Its content is None if there was no file.

    ``path`` is the path of the file itself, with all symbolic links resolved.
    """

    path: Path
    content: bytes | None

    @property
    def text(self) -> str:
        """The content as text. Raises Unparsable if it is not UTF-8."""
        try:
            return (self.content or b"").decode()
        except UnicodeDecodeError as error:
            line = (self.content or b"").count(b"\n", 0, error.start) + 1
            raise Unparsable(line, "the text is not UTF-8") from None


def read_file(path: Path) -> FileSnapshot:
    """Read a file, which may be missing. Raises OSError."""
    real = Path(os.path.realpath(path))

    try:
        return FileSnapshot(real, real.read_bytes())
    except FileNotFoundError:
        return FileSnapshot(real, None)


def list_backups(snapshot: FileSnapshot) -> list[FileSnapshot]:
    """Return the backups of a file, the newest first. Raises OSError."""
    beginning = _begin_backup(snapshot.path)

    if not beginning.parent.is_dir():
        return []

    paths = sorted(beginning.parent.glob(f"{escape(beginning.name)}*"))
    return [read_file(path) for path in reversed(paths)]


def replace_file(snapshot: FileSnapshot, content: bytes | None) -> Path | None:
    """Replace the content of a file, or remove the file if the new content is None.

    A replaced file keeps its mode and owner. A backup of it is made, whose path is returned. New
    and removed files have no backup. A new file is readable only by its owner. When a file is
    removed, so are the folders that become empty, if they are beneath the home folder or the
    current one. Raises Changed if the file is not the one that was read, and OSError; the file is
    unchanged then.
    """
    _check_unchanged(snapshot)
    snapshot.path.parent.mkdir(parents=True, exist_ok=True)
    backup = None

    if snapshot.content is not None and content is not None:
        beginning = _begin_backup(snapshot.path)
        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        backup = beginning.with_name(f"{beginning.name}{now}")
        backup.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(snapshot, backup, snapshot.content)

    try:
        _move_into_place(snapshot, content)
    except BaseException:
        if backup is not None:
            backup.unlink()
        raise

    sync_folder(snapshot.path.parent)
    if content is None:
        # Nor are the folders kept that were made for the file.
        folder = snapshot.path.parent
        kept = [Path.home().resolve(), Path.cwd()]
        with suppress(OSError):  # one is not empty
            while any(place in folder.parents for place in kept) and folder not in kept:
                folder.rmdir()
                folder = folder.parent

    return backup


def _move_into_place(snapshot: FileSnapshot, content: bytes | None) -> None:
    """Replace a file atomically, or remove it. Raises Changed, OSError."""
    if content is None:
        _check_unchanged(snapshot)
        snapshot.path.unlink()
        return

    part = snapshot.path.with_name(f"{snapshot.path.name}.part-{secrets.token_hex(4)}")
    _write_new(snapshot, part, content)

    try:
        _check_unchanged(snapshot)
        part.replace(snapshot.path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


def _check_unchanged(snapshot: FileSnapshot) -> None:
    if read_file(snapshot.path) != snapshot:
        raise Changed("the file changed just now")


def _write_new(snapshot: FileSnapshot, path: Path, content: bytes) -> None:
    """Write a new file with the mode and owner of the one that was read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    try:
        with os.fdopen(descriptor, "wb") as file:
            _copy_rights(snapshot, file.fileno())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


def _copy_rights(snapshot: FileSnapshot, descriptor: int) -> None:
    if snapshot.content is None:
        return

    status = snapshot.path.stat()
    own = os.fstat(descriptor)

    if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid):
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        except PermissionError as error:
            words = "the owner of the file could not be kept; nothing was changed"
            raise PermissionError(error.errno, words, str(snapshot.path)) from None

    # After the owner, because changing the owner may clear bits of the mode.
    os.fchmod(descriptor, status.st_mode & 0o7777)


def _begin_backup(path: Path) -> Path:
    """Return the common beginning of the paths of a file's backups.

    They are in a folder of this package, such as ``mcp.json-1f2e3d4c.before-abilities-20261101-…``.
    Beside the file, a backup could be committed with a project.
    """
    folder = HOME.expanduser() / "backups"
    digest = sha256(os.fsencode(path)).hexdigest()[:8]
    return folder / f"{path.name}-{digest}.before-abilities-"


class UnusableFile(Unusable):
    """A file is left unchanged. The message names it and the problem."""

    def __init__(self, path: Path, problem: str) -> None:
        where = f"{path}, " if problem.startswith("line ") else f"{path}: "
        super().__init__(f"{where}{problem}; nothing was changed")


@dataclass(frozen=True)
class Edit:
    """The planned change of a file. ``text`` is its new text, or None if it is to be removed.

    ``path`` may be a symbolic link. ``written`` is our part of the text alone, whose strings can be
    shown. ``plan_again`` returns the same edit for the file as it is now.
    """

    path: Path
    snapshot: FileSnapshot
    text: str | None
    plan_again: Callable[[], "Edit"]
    written: str = ""

    @property
    def is_needed(self) -> bool:
        """Whether the edit changes the file at all."""
        return _encode(self.text) != self.snapshot.content

    def list_differences(self) -> Iterator[str]:
        """Yield the lines that differ, in a format like that of `diff -U0`.

        Other lines may contain secrets and are not shown. For the same reason, commas at the ends
        of lines are ignored, a file of one line is split, and strings that are not ours are shown
        as "…".
        """
        known = {found[1] for found in _STRINGS.finditer(self.written)}
        line_end = r"\r?\n"
        if self.snapshot.text and "\n" not in self.snapshot.text.strip():
            line_end += r"|(?<=[,{}\[\]])"

        before = _split(self.snapshot.text, line_end)
        after = _split(self.text or "", line_end)
        matcher = difflib.SequenceMatcher(None, _strip_commas(before), _strip_commas(after), False)

        for tag, i, j, k, m in matcher.get_opcodes():
            if tag == "equal":
                continue

            yield f"@@ -{i + 1},{j - i} +{k + 1},{m - k} @@"
            yield from (f"-{_mask(line, known)}" for line in before[i:j])
            yield from (f"+{_mask(line, known)}" for line in after[k:m])


def read_server(client: Client, path: Path) -> ServerEntry | None:
    """Return the server in a client's file, if it has one. Raises UnusableFile, OSError."""
    server = ServerChange(client, ServerEntry("", (), {}))
    try:
        text = read_file(path).text
        return server.read_back(text) if server.is_in(text) else None
    except Unusable as error:
        raise UnusableFile(path, str(error)) from None


def plan_put(path: Path, change: FileChange) -> Edit:
    """Return the edit that puts a change into a file. Raises UnusableFile, OSError."""
    try:
        snapshot = read_file(path)
        text = put_change(change, snapshot.text)
        written = change.put("")
    except Unusable as error:
        raise UnusableFile(path, str(error)) from None

    return Edit(path, snapshot, text, partial(plan_put, path, change), written)


def plan_removal(path: Path, change: FileChange) -> Edit:
    """Return the edit that removes a change from a file. Raises UnusableFile, OSError."""
    try:
        snapshot = read_file(path)
        text: str | None = snapshot.text

        if snapshot.content is None:
            text = None
        elif change.is_in(snapshot.text):
            backups: list[str] = []
            for backup in list_backups(snapshot):
                with suppress(Unusable):  # the folder may contain other files
                    backups.append(backup.text)
            text = undo_change(change, snapshot.text, backups)
    except Unusable as error:
        raise UnusableFile(path, str(error)) from None

    return Edit(path, snapshot, text, partial(plan_removal, path, change))


def write_edit(edit: Edit) -> Path | None:
    """Write a planned edit, and return the path of the backup.

    If the file has changed since, the edit is planned again for its new content. Raises
    UnusableFile, OSError; the file is unchanged then.
    """
    for _ in range(_ATTEMPTS):
        if not edit.is_needed:
            return None

        try:
            return replace_file(edit.snapshot, _encode(edit.text))
        except Changed:
            edit = edit.plan_again()

    raise UnusableFile(edit.path, "another program keeps changing the file")


def _split(text: str, line_end: str) -> list[str]:
    lines = re.split(line_end, text)
    return lines if lines[-1] else lines[:-1]


def _strip_commas(lines: list[str]) -> list[str]:
    return [line.rstrip(", ") for line in lines]


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _mask(line: str, known: set[str]) -> str:
    """Return a line with "…" in place of each string that is neither a name nor known."""

    def show(found: re.Match[str]) -> str:
        return found[0] if found[2] or found[1] in known else '"…"'

    return _STRINGS.sub(show, line)
