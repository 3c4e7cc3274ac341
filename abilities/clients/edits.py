"""Plan what becomes of a client's files, and write it."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from abilities.clients.changes import FileChange, ServerChange, put_change, undo_change
from abilities.clients.entry import ServerEntry
from abilities.clients.faults import Unusable
from abilities.clients.replacing import (
    Changed,
    FileSnapshot,
    list_backups,
    read_file,
    replace_file,
)
from abilities.clients.table import Client

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
