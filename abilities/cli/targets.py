"""Checks of the files that a command is about to read or write."""

from pathlib import Path

import click

from abilities.helpers.transfer.opening import holds_export
from abilities.settings import Settings


def check_folder(path: Path) -> None:
    """Raise click.ClickException if the folder of a new file is missing.

    Such a file is written beside it under another name first, which the system's error would show.
    """
    if not path.parent.is_dir():
        raise click.ClickException(
            f"there is no folder {path.parent}; create it: mkdir -p {path.parent}"
        )


def check_target(path: Path | None) -> None:
    """Raise click.ClickException if an export to a file would replace anything but an export.

    None is stdout, which takes everything.
    """
    if path is None:
        return

    check_folder(path)

    # Devices are replaced by files as easily as files are.
    is_special = Path("/dev") in path.absolute().parents or not path.is_file()
    if path.exists() and is_special:
        raise click.ClickException(f"{path} is no ordinary file; to print an export, name none")

    if path.exists() and path.stat().st_size and not holds_export(path):
        raise click.ClickException(
            f"{path} already exists, and is no export; nothing was changed. Choose another name."
        )


def check_store_exists(settings: Settings) -> None:
    """Check that a store's file exists. Raises click.ClickException.

    Whether a database exists shows when it is opened.
    """
    path = settings.store_path

    # Without this check, opening the store would create an empty one.
    if path is not None and not path.exists():
        raise click.ClickException(
            f"there is no store at {path}; it is created when it is first used. "
            "If it is elsewhere, set store_url."
        )
