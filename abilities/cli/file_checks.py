"""What `abilities doctor` checks of directories and files: who can reach them, where they lie."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from abilities.cli.diagnosis import Diagnosis
from abilities.helpers.files.bans import find_ban
from abilities.helpers.files.roots import RootPlace
from abilities.settings import HOME, Settings

_SETTINGS = {"store": "store_url", "tokens": "tokens_file"}
"""The setting that says where each file of ours lies."""


def check_folders(settings: Settings) -> Iterator[Diagnosis]:
    """Check that the agent's directory and the workspace can be read and do not overlap."""
    agent, workspace = settings.agent_root, settings.workspace_root
    yield check_folder(agent)

    if workspace is None:
        ban = find_ban(settings.workspace_dir)
        yield Diagnosis(
            "note",
            "workspace directory",
            f"none: the current directory is {ban}, which is not shared",
            "start in a project folder, or set workspace_dir",
        )
        return

    yield check_folder(workspace)

    # Links must not hide that two names lead to one place.
    first, second = resolve_path(agent.path), resolve_path(workspace.path)

    if first == second or second in first.parents or first in second.parents:
        yield Diagnosis(
            "unsafe",
            "directories",
            "the agent directory and the workspace overlap: "
            "files of one can be read through the other",
            "set agent_dir and workspace_dir to two folders, neither of them inside the other",
        )


def check_folder(root: RootPlace) -> Diagnosis:
    """Check that a directory exists, can be read, and cannot be written to by everybody."""
    about = f"{root.name} directory"
    path = root.path

    try:
        root.check()
    except ValueError as error:
        mend = f"set {root.setting} to a folder that an agent may read"
        return Diagnosis("fails", about, str(error), mend)

    if not path.is_dir():
        return _diagnose_missing(root, about)

    # Opening it is the only sure way to know: there is more to access than permission bits.
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return Diagnosis("fails", about, f"this user cannot read {path}", f"chmod u+rx {path}")

    if path.stat().st_mode & stat.S_IWOTH:
        return Diagnosis(
            "unsafe",
            about,
            f"every user can write to {path}, and so tell the agent anything",
            f"set {root.setting} to a folder of your own, or: chmod o-w {path}",
        )

    return Diagnosis("ok", about, str(path))


def check_privacy(path: Path, about: str, *, secret: bool) -> Iterator[Diagnosis]:
    """Check that other users cannot change or replace a file, nor read it if it is ``secret``."""
    if not _can_others_enter(path):
        return

    mode = path.stat().st_mode

    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Diagnosis("unsafe", about, f"other users can change {path}", f"chmod 600 {path}")
    elif secret and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield Diagnosis("unsafe", about, f"other users can read {path}", f"chmod 600 {path}")

    folder = path.parent
    folder_mode = folder.stat().st_mode

    # In a sticky folder, such as /tmp, only its owner can replace a file.
    if folder_mode & stat.S_IWOTH and not folder_mode & stat.S_ISVTX:
        yield Diagnosis("unsafe", about, f"other users can replace {path}", f"chmod o-w {folder}")


def check_separation(path: Path, about: str, settings: Settings) -> Iterator[Diagnosis]:
    """Check that a file of ours, the "store" or the "tokens", does not lie in a root."""
    file = resolve_path(path)

    for root in settings.roots:
        base = resolve_path(root.path)

        if base not in file.parents:
            continue

        yield Diagnosis(
            "note",
            about,
            f"{path} lies in the {root.name} directory: the abilities refuse to read it, "
            "but other tools that work there can reach it",
            f"move it out, for example into {HOME}, and set {_SETTINGS[about]}",
        )


def resolve_path(path: Path) -> Path:
    """Return the path without symbolic links; it need not exist."""
    return Path(os.path.realpath(path))


def _diagnose_missing(root: RootPlace, about: str) -> Diagnosis:
    """Describe an optional directory that is not there."""
    if root.path.exists():
        return Diagnosis(
            "fails",
            about,
            f"{root.path} is not a directory",
            f"set {root.setting} to a directory",
        )

    mend = "to keep notes there: abilities init"
    if root.name == "workspace":
        mend = f"to share files: mkdir {root.path}"

    return Diagnosis("ok", about, f"{root.path} does not exist, so nothing is read from it", mend)


def _can_others_enter(path: Path) -> bool:
    """Whether other users can get as far as the file: one closed folder above it keeps them out."""
    entering = stat.S_IXGRP | stat.S_IXOTH
    return all(parent.stat().st_mode & entering for parent in path.parents)
