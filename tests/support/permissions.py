"""Permissions of folders, for tests that run as another user."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def let_others_enter(folder: Path) -> None:
    """Let every user read a folder of pytest's and come to it; nothing else is taken or given."""
    for path in (folder, *folder.parents):
        mode = path.stat().st_mode
        if mode & 0o055 != 0o055:
            path.chmod(mode | 0o055)


@contextmanager
def as_root() -> Iterator[None]:
    """Let a test that runs as another user be root for a while, if it can be."""
    user = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    try:
        yield
    finally:
        os.seteuid(user)
