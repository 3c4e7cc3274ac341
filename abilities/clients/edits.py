"""Plan what becomes of a client's files, and write it.

Replace a file of somebody else so that nothing of it can be lost.
"""

import difflib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from hashlib import sha256
from pathlib import Path

from abilities.clients.changes import FileChange, ServerChange, put_change, undo_change
from abilities.clients.entry import ServerEntry, Unparsable, Unusable
from abilities.clients.table import Client
from abilities.helpers.durable import sync_folder
from abilities.settings import HOME

_BACKUP_MARK = ".before-abilities-"


class Changed(Unusable):
    """A file that changed between reading and replacing it."""


@dataclass(frozen=True)
class FileSnapshot:
    """A file as it was when it was read; it had no content if there was none.

    ``path`` is the file itself, at the end of all symbolic links.
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
    """Read a file, which need not exist. Raises OSError."""
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
    """Replace a file by new content, or remove it, if it is still what was read.

    A file that is replaced keeps its mode and owner, and a backup is made of it, whose path is
    returned; there is none of a file that is new or removed. A new file can be read by its owner
    only. With a file that is removed go the folders that are empty then, beneath the home folder
    or the current one. Raises Changed, OSError; then the file is what it was.
    """
    _check_unchanged(snapshot)
    snapshot.path.parent.mkdir(parents=True, exist_ok=True)
    backup = None

    if snapshot.content is not None and content is not None:
        backup = _name_backup(snapshot.path)
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
        _remove_empty_folders(snapshot.path.parent)

    return backup


def _move_into_place(snapshot: FileSnapshot, content: bytes | None) -> None:
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
    """Write a file that must not exist, with the mode and owner of the one that was read."""
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

    # Changing the owner may take bits of the mode away, so the mode comes second.
    os.fchmod(descriptor, status.st_mode & 0o7777)


def _remove_empty_folders(folder: Path) -> None:
    """Remove a folder that is empty, and those above it that are empty then."""
    places = [Path.home().resolve(), Path.cwd()]

    while any(place in folder.parents for place in places) and folder not in places:
        try:
            folder.rmdir()
        except OSError:
            return  # it holds something

        folder = folder.parent


def _begin_backup(path: Path) -> Path:
    """Return how the paths of a file's backups begin, in a folder apart from other people's files.

    Beside the file a backup would lie in a project, and be committed with it.
    """
    digest = sha256(os.fsencode(path)).hexdigest()[:8]
    return HOME.expanduser() / "backups" / f"{path.name}-{digest}{_BACKUP_MARK}"


def _name_backup(path: Path) -> Path:
    beginning = _begin_backup(path)
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    return beginning.with_name(f"{beginning.name}{now}")


_TEXTS = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*')(\s*[:=])?""")
"""The texts of JSON or TOML, and what follows one that is a name."""

_ATTEMPTS = 5
"""How often a file is read again that somebody else changes meanwhile."""


class UnusableFile(Unusable):
    """A file that is left as it is; the message names it."""

    def __init__(self, path: Path, problem: str) -> None:
        where = f"{path}, " if problem.startswith("line ") else f"{path}: "
        super().__init__(f"{where}{problem}; nothing was changed")


@dataclass(frozen=True)
class Edit:
    """What becomes of a file: its text then, None if it goes. ``path`` may be a link."""

    path: Path
    snapshot: FileSnapshot
    text: str | None
    written: str = ""
    """Our part alone; nothing else in the file is ours to show."""

    @property
    def is_needed(self) -> bool:
        """Whether the file changes at all."""
        return _encode(self.text) != self.snapshot.content

    def list_differences(self) -> Iterator[str]:
        """Yield the lines that differ, much as `diff -U0` prints them.

        No other line is shown, because there may be secrets in it. For the same reason a comma at
        the end of a line makes no difference, a file of one line is taken apart, and texts that are
        not ours are shown as "…".
        """
        known = {found[1] for found in _TEXTS.finditer(self.written)}
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
    """Return the server in a client's file; None if there is none. Raises UnusableFile, OSError."""
    server = ServerChange(client, ServerEntry("", (), {}))
    try:
        text = read_file(path).text
        return server.read_back(text) if server.is_in(text) else None
    except Unusable as error:
        raise UnusableFile(path, str(error)) from None


def plan_put(path: Path, change: FileChange, *, reads_comments: bool) -> Edit:
    """Return the edit that puts a change into a file. Raises UnusableFile, OSError."""
    try:
        snapshot = read_file(path)
        text = put_change(change, snapshot.text, reads_comments=reads_comments)
        written = change.put("")
    except Unusable as error:
        raise UnusableFile(path, str(error)) from None

    return Edit(path, snapshot, text, written)


def plan_removal(path: Path, change: FileChange) -> Edit:
    """Return the edit that takes a change out of a file. Raises UnusableFile, OSError."""
    try:
        snapshot = read_file(path)
        text: str | None = snapshot.text

        if snapshot.content is None:
            text = None
        elif change.is_in(snapshot.text):
            text = undo_change(change, snapshot.text, _read_backups(snapshot))
    except Unusable as error:
        raise UnusableFile(path, str(error)) from None

    return Edit(path, snapshot, text)


def write_put(edit: Edit, change: FileChange, *, reads_comments: bool) -> Path | None:
    """Write an edit that `plan_put` has made, and return the path of the backup.

    If the file has changed since, the change is put into what it is now.
    Raises UnusableFile, OSError; then the file is what it was.
    """
    for _ in range(_ATTEMPTS):
        if not edit.is_needed:
            return None

        try:
            return replace_file(edit.snapshot, _encode(edit.text))
        except Changed:
            edit = plan_put(edit.path, change, reads_comments=reads_comments)

    raise UnusableFile(edit.path, "another program keeps changing the file")


def write_removal(edit: Edit, change: FileChange) -> Path | None:
    """Write an edit that `plan_removal` has made, as `write_put` does."""
    for _ in range(_ATTEMPTS):
        if not edit.is_needed:
            return None

        try:
            return replace_file(edit.snapshot, _encode(edit.text))
        except Changed:
            edit = plan_removal(edit.path, change)

    raise UnusableFile(edit.path, "another program keeps changing the file")


def _read_backups(snapshot: FileSnapshot) -> list[str]:
    texts: list[str] = []

    for backup in list_backups(snapshot):
        try:
            texts.append(backup.text)
        except Unusable:
            continue  # it was put there by somebody else

    return texts


def _split(text: str, line_end: str) -> list[str]:
    lines = re.split(line_end, text)
    return lines if lines[-1] else lines[:-1]


def _strip_commas(lines: list[str]) -> list[str]:
    return [line.rstrip(", ") for line in lines]


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _mask(line: str, known: set[str]) -> str:
    """Return a line with "…" for each text in it that is not known."""

    def show(found: re.Match[str]) -> str:
        return found[0] if found[2] or found[1] in known else '"…"'

    return _TEXTS.sub(show, line)
