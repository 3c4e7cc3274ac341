"""The commands that copy a store and put a copy in its place: backup, restore.

The command that mends a damaged store.
"""

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
from abilities.cli.store import ADVICE, check_folder, check_store_exists
from abilities.cli.terminal import echo, format_count
from abilities.declarations.refusals import Refused
from abilities.helpers.store.mending import RepairReport
from abilities.helpers.store.opening import repair_store
from abilities.helpers.store.sqlite.backup import backup, restore
from abilities.settings import Settings

_EXAMPLES = """\b
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
"""What to do if a repair is refused, by the reason."""


@click.command("repair", epilog=_EXAMPLES)
@click.option("--dry-run", is_flag=True, help="Only print what would be done; change nothing.")
@click.option(
    "--aside",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new file for damaged rows as they stood (default: one with a name of its own, beside "
    "the store or, for PostgreSQL, in the current folder).",
)
@whole_store
@pass_session
def repair(session: Session, dry_run: bool, aside: Path | None) -> None:
    """Mend a damaged store.

    Memories and links with impossible values get defaults in their place, what is readable stays,
    and all that is derived from them is made anew: indexes, counters, ranks, hashes. The damaged
    rows are first written to a file as they stood, so nothing is thrown away.

    A store is mended while it is in use, one namespace at a time. Only an SQLite store whose pages
    are damaged is written anew from what can be read of it, and the old file is kept beside it;
    this takes as much room on the disk as the store. Stop all that uses it first.

    If it is interrupted, run it again. Afterwards 'abilities check' finds nothing.
    """
    path = session.settings.store_path
    if path is not None and not path.exists():
        raise click.ClickException(f"there is no store at {path}")

    words = "Stopped; what was mended stays. To go on, run the same command again."
    with explain_errors(), explain_stop(lambda: words):
        if aside is not None and aside.exists():
            raise FileExistsError(aside)

        report = asyncio.run(_repair(session.settings.store_url, aside, dry_run=dry_run))

    if not report.damage:
        echo("The store is sound; nothing was changed.")
        return

    _print_report(report, dry_run=dry_run)


async def _repair(url: str, aside: Path | None, *, dry_run: bool) -> RepairReport:
    try:
        with show_progress("Checking, then mending") as bar:
            return await repair_store(url, aside, bar.advance, dry_run=dry_run)
    except Refused as error:
        hint = _HINTS.get(error.reason, error.message)
        raise click.ClickException(hint) from None
    except ValueError as error:
        raise click.UsageError(f"store_url: {error}") from None


def _print_report(report: RepairReport, *, dry_run: bool) -> None:
    for finding in report.damage:
        echo(finding.words, head=click.style("found".ljust(10), fg="red"), hang=10)
        for example in finding.examples:
            echo(f"          {example}")

    for word, number, words in _list_rows(report):
        echo(f"{word:<10}{number} {words}", hang=10)

    if dry_run:
        echo("Nothing was changed: this was a dry run.")
        return
    if report.originals is not None:
        echo(f"The damaged rows as they stood: {report.originals}")
    if report.previous is not None:
        echo(f"The store as it was before: {report.previous}")


def _list_rows(report: RepairReport) -> list[tuple[str, str, str]]:
    """Return the rows of the table: what was done, to what, and how."""
    memories = (
        ("restored", report.restored_memories, "exactly as written"),
        ("mended", report.mended_memories, "with defaults in place of damaged values"),
        ("lost", report.lost_memories, "of which nothing could be read; look for them in a backup"),
    )
    rows: list[tuple[str, str, str]] = []
    for word, number, words in memories:
        if number:
            rows.append((word, format_count(number, "memory", "memories"), words))

    if report.mended_links:
        count = format_count(report.mended_links, "link")
        rows.append(("mended", count, "with defaults in place of damaged values"))
    if report.lost_links:
        rows.append(("lost", format_count(report.lost_links, "link"), "that could not be read"))

    rows.append(("rebuilt", "indexes, counters, ranks", "and hashes, if they were wrong"))
    return rows


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
