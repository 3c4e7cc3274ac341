"""The commands that keep a store safe: backup, restore, repair."""

import asyncio
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from abilities.cli.errors import explain_errors, explain_stop
from abilities.cli.options import whole_store
from abilities.cli.progress import show_progress
from abilities.cli.session import Session, pass_session
from abilities.cli.store import ADVICE, check_folder, check_store_exists, print_finding
from abilities.cli.terminal import echo, format_count
from abilities.declarations.refusals import Refused
from abilities.helpers.store.opening import repair_store
from abilities.helpers.store.sqlite.backup import backup, restore
from abilities.settings import Settings

_BACKUP_NAME = re.compile(r"memories-\d{4}-\d\d-\d\dT\d{6}Z\.db")
"""The name of a backup in a folder of several; sorted by name, they are sorted by time."""

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


_REPAIR_EXAMPLES = """\b
Examples:
  abilities repair --dry-run
  abilities repair
  abilities repair --aside damaged.jsonl
"""

_HINTS = {
    "busy": "a process uses the store; stop all that use it, then run this again",
    "corrupted": "the file cannot be opened as a store at all, so there is nothing to mend in it: "
    "put the last backup in place with 'abilities restore BACKUP --replace'",
    "storage_full": "the disk has no room for a second copy of the store; nothing was changed",
}
"""The remedy if a repair is refused, by the reason."""


@click.command("backup", epilog=_BACKUP_EXAMPLES)
@click.argument("target", metavar="FILE|DIR", type=click.Path(path_type=Path))
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    help="Name the backup in the folder DIR by the time, and keep the newest N there.",
)
@whole_store
@pass_session
def backup_(session: Session, target: Path, keep: int | None) -> None:
    """Copy the store to FILE or DIR while it is in use.

    The copy appears only after it was checked, and an existing file is never overwritten. With
    --keep older backups in DIR are removed once the new one is sound; other files stay. Use one
    folder for each store. For SQLite stores; use pg_dump for a PostgreSQL database.
    """
    store = _require_store_file(session.settings)
    check_store_exists(session.settings)
    file = target
    if keep is not None:
        file = target / f"memories-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.db"

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
            others = [
                path
                for path in target.iterdir()
                if _BACKUP_NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink()
            ]
            # The new backup stays, even if the clock was set back and others have later names.
            others.remove(file)
            older = sorted(others, reverse=True)[keep - 1 :]
            for path in older:
                path.unlink(missing_ok=True)
        echo(f"Removed {format_count(len(older), 'older backup')}.", err=True)


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

    FILE is checked first. Damaged memories in it are restored too, and 'abilities repair' mends
    them; the exit code is 1 then. With --replace the existing store is kept beside the new one,
    under another name. Stop all processes that use the store before you replace it.
    """
    store = _require_store_file(session.settings)

    # `restore` checks this too, but its sentence cannot name the option.
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


@click.command("repair", epilog=_REPAIR_EXAMPLES)
@click.option("--dry-run", is_flag=True, help="Only print what would be done; change nothing.")
@click.option(
    "--aside",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new file for the original damaged rows (default: one with a name of its own, beside "
    "the store or, for PostgreSQL, in the current folder).",
)
@whole_store
@pass_session
def repair(session: Session, dry_run: bool, aside: Path | None) -> None:
    """Mend a damaged store.

    Impossible values of memories and links are replaced by defaults, and readable ones stay.
    Indexes, counters, ranks and hashes are rebuilt. The damaged rows are first written to a file,
    so nothing is lost.

    A store is mended while it is in use, one namespace at a time. Only an SQLite store with damaged
    pages is written anew, and the old file is kept beside it; this takes as much room on the disk
    as the store. Stop all that uses it first.

    If it is interrupted, run it again. Afterwards 'abilities check' finds nothing.
    """
    check_store_exists(session.settings)

    words = "Stopped; what was mended stays. To go on, run the same command again."
    with explain_errors(), explain_stop(lambda: words):
        if aside is not None and aside.exists():
            raise FileExistsError(aside)

        try:
            with show_progress("Checking, then mending") as bar:
                url = session.settings.store_url
                report = asyncio.run(repair_store(url, aside, bar.advance, dry_run=dry_run))
        except Refused as error:
            raise click.ClickException(_HINTS.get(error.reason, error.message)) from None
        except ValueError as error:
            raise click.UsageError(f"store_url: {error}") from None

    if not report.damage:
        echo("The store is sound; nothing was changed.")
        return

    for finding in report.damage:
        print_finding(finding, "found", "red", width=10)

    defaults = "with defaults in place of damaged values"
    lost = "of which nothing could be read; look for them in a backup"
    rows = (
        ("restored", report.restored_memories, "memory", "memories", "exactly as written"),
        ("mended", report.mended_memories, "memory", "memories", defaults),
        ("lost", report.lost_memories, "memory", "memories", lost),
        ("mended", report.mended_links, "link", "links", defaults),
        ("lost", report.lost_links, "link", "links", "that could not be read"),
    )
    for word, number, noun, plural, how in rows:
        if number:
            echo(f"{word:<10}{format_count(number, noun, plural)} {how}", hang=10)
    echo(f"{'rebuilt':<10}indexes, counters, ranks and hashes, if they were wrong", hang=10)

    if dry_run:
        echo("Nothing was changed: this was a dry run.")
        return
    if report.originals is not None:
        echo(f"The original damaged rows: {report.originals}")
    if report.previous is not None:
        echo(f"The store as it was before: {report.previous}")


def _require_store_file(settings: Settings) -> Path:
    """Return the store's file. Raises click.ClickException if the store is on a server."""
    if settings.store_path is None:
        raise click.ClickException(
            "this command is for SQLite files, and the store is a PostgreSQL database: "
            "use pg_dump and pg_restore, or 'abilities export' and 'abilities import'"
        )

    return settings.store_path


COMMANDS = (backup_, restore_, repair)
