"""Permissions of folders, for tests that run as another user."""

from pathlib import Path


def let_others_enter(folder: Path) -> None:
    """Let every user read a folder of pytest's and come to it; nothing else is taken or given."""
    for path in (folder, *folder.parents):
        mode = path.stat().st_mode
        if mode & 0o055 != 0o055:
            path.chmod(mode | 0o055)
