"""Replace a file of somebody else so that nothing of it can be lost."""

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from hashlib import sha256
from pathlib import Path

from abilities.clients.faults import Unparsable, Unusable
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
