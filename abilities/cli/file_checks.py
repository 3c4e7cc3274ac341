"""What `abilities doctor` checks of directories and files: who can reach them, where they lie."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from abilities.cli.diagnosis import Diagnosis
from abilities.cli.folders import SharedFolder, list_folders
from abilities.settings import HOME, Settings

_SETTINGS = {"store": "store_url", "tokens": "tokens_file"}
"""The setting that says where each file of ours lies."""


def check_folders(settings: Settings) -> Iterator[Diagnosis]:
    """Check that the agent's directory and the workspace can be read and do not overlap."""
    try:
        settings.check_roots()
    except ValueError as error:
        yield Diagnosis(
            "broken",
            "directories",
            str(error),
            "set agent_dir and workspace_dir to folders that an agent may read",
        )
        return

    agent, workspace = list_folders(settings)
    yield check_folder(agent)
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


def check_folder(folder: SharedFolder) -> Diagnosis:
    """Check that a directory exists, can be read, and cannot be written to by everybody."""
    about = f"{folder.name} directory"
    path = folder.path

    if not path.is_dir():
        return _diagnose_missing(folder, about)

    # Opening it is the only sure way to know: there is more to access than permission bits.
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return Diagnosis("broken", about, f"this user cannot read {path}", f"chmod u+rx {path}")

    if path.stat().st_mode & stat.S_IWOTH:
        return Diagnosis(
            "unsafe",
            about,
            f"every user can write to {path}, and so tell the agent anything",
            f"set {folder.setting} to a folder of your own, or: chmod o-w {path}",
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
    """Check that a file of ours, the "store" or the "tokens", is not where agents read."""
    deny = settings.policy.deny
    file = resolve_path(path)

    for folder in list_folders(settings):
        base = resolve_path(folder.path)

        # What the deny list covers may lie there: agents cannot read it.
        if base not in file.parents or deny.denies(str(file.relative_to(base))):
            continue

        yield Diagnosis(
            "unsafe",
            about,
            f"{path} lies in the {folder.name} directory, "
            "where agents and their tools can reach it",
            f"move it out, for example into {HOME}, and set {_SETTINGS[about]}",
        )


def resolve_path(path: Path) -> Path:
    """Return the path without symbolic links; it need not exist."""
    return Path(os.path.realpath(path))


def _diagnose_missing(folder: SharedFolder, about: str) -> Diagnosis:
    if folder.path.exists():
        return Diagnosis(
            "broken",
            about,
            f"{folder.path} is not a directory",
            f"set {folder.setting} to a directory",
        )

    if folder.optional:
        return Diagnosis(
            "ok",
            about,
            f"{folder.path} does not exist, so nothing is read from it",
            "to keep notes there: abilities init",
        )

    return Diagnosis(
        "broken",
        about,
        f"{folder.path} does not exist",
        f"create it, or set {folder.setting} to another folder",
    )


def _can_others_enter(path: Path) -> bool:
    """Whether other users can get as far as the file: one closed folder above it keeps them out."""
    entering = stat.S_IXGRP | stat.S_IXOTH
    return all(parent.stat().st_mode & entering for parent in path.parents)
