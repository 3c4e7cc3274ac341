"""The commands that copy a store and put a copy in its place: backup, restore."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from abilities.cli.errors import explain_errors, explain_stop
from abilities.cli.options import whole_store
from abilities.cli.progress import show_progress
from abilities.cli.session import Session, pass_session
from abilities.cli.store import ADVICE, check_folder, check_store_exists
from abilities.cli.text import echo, format_count
from abilities.helpers.store.sqlite.backup import backup, restore
from abilities.settings import Settings

_BACKUP_NAME = re.compile(r"memories-\d{4}-\d\d-\d\dT\d{6}Z\.db")
"""The name of a backup in a folder of several; names in order are times in order."""

_BACKUP_EXAMPLES = """\b
Examples:
  abilities backup memories.db
  abilities backup backups/ --keep 7
"""

_RESTORE_EXAMPLES = """\b
Examples:
  abilities restore memories.db
  abilities restore memories.db --replace
"""


@click.command("backup", epilog=_BACKUP_EXAMPLES)
@click.argument("target", metavar="FILE|DIR", type=click.Path(path_type=Path))
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    help="Name the backup in the folder DIR by the time, and keep the newest N of those there.",
)
@whole_store
@pass_session
def backup_(session: Session, target: Path, keep: int | None) -> None:
    """Copy the store to FILE or DIR while it is in use.

    The copy appears only after it was checked, and an existing file is never overwritten. With
    --keep older backups in DIR are removed once the new one is sound; other files stay. Give each
    store a folder of its own. For SQLite stores; use pg_dump for a PostgreSQL database.
    """
    store = _require_store_file(session.settings)
    check_store_exists(session.settings)
    file = target if keep is None else _name_backup(target)
    check_folder(file)
    if file.is_dir():
        raise click.ClickException(
            f"{file} is a folder. Name a file in it, or let it keep several backups: --keep 7"
        )

    with (
        explain_errors(),
        explain_stop(lambda: f"Stopped; {file} was not written. Run the same command again."),
        show_progress("Copying, then checking the copy", 1.0) as bar,
    ):
        damage = backup(store, file, bar.reach)

    if damage:
        words = " ".join(finding.words for finding in damage)
        echo(f"Wrote {file}, a copy with the same damage as the store. {words}", err=True)
        if keep is not None:
            echo("Older backups are kept, however many they are.", err=True)
        echo(ADVICE, err=True)
        sys.exit(1)

    echo(f"Wrote {file}, a complete and checked copy of the store.", err=True)
    if keep is not None:
        with explain_errors():
            removed = _remove_older(file, keep)
        echo(f"Removed {format_count(removed, 'older backup')}.", err=True)


@click.command("restore", epilog=_RESTORE_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--replace",
    is_flag=True,
    help="Move an existing store aside; without this it is left alone.",
)
@whole_store
@pass_session
def restore_(session: Session, file: Path, replace: bool) -> None:
    """Put the backup FILE in the store's place.

    FILE is checked first. One with damaged memories is restored too; exits with 1 then, and
    'abilities repair' mends them. With --replace the existing store is kept beside the new one,
    under another name. Stop all processes that use the store before you replace it.
    """
    store = _require_store_file(session.settings)

    # `restore` checks this too; here the sentence can name the option.
    if store.exists() and not replace:
        raise click.ClickException(
            f"{store} already exists; nothing was changed. To move it aside, add --replace."
        )

    with explain_errors(), show_progress("Copying, then checking the copy", 1.0) as bar:
        restored = restore(file, store, bar.reach, replace=replace)

    echo(f"Restored {store}.", err=True)

    if restored.previous is not None:
        echo(f"The previous store is kept as {restored.previous}.", err=True)

    if restored.damage:
        words = " ".join(finding.words for finding in restored.damage)
        echo(f"The backup is damaged, and so is the store now. {words} {ADVICE}", err=True)
        sys.exit(1)


def _name_backup(folder: Path) -> Path:
    return folder / f"memories-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.db"


def _remove_older(newest: Path, keep: int) -> int:
    """Remove what goes beyond ``keep`` backups in a folder, and return how many that were.

    The ``newest`` stays even if the clock went back since another one. Links stay. Raises OSError.
    """
    others = [
        path
        for path in newest.parent.iterdir()
        if _BACKUP_NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink()
    ]
    others.remove(newest)
    others.sort(reverse=True)

    for path in others[keep - 1 :]:
        path.unlink(missing_ok=True)

    return len(others[keep - 1 :])


def _require_store_file(settings: Settings) -> Path:
    """Return the store's file. Raises click.ClickException if the store is on a server."""
    if settings.store_path is None:
        raise click.ClickException(
            "this command is for SQLite files, and the store is a PostgreSQL database: "
            "use pg_dump and pg_restore, or 'abilities export' and 'abilities import'"
        )

    return settings.store_path


COMMANDS = (backup_, restore_)
