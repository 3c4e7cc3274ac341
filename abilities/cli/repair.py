"""The command that mends a damaged store."""

import asyncio
from pathlib import Path

import click

from abilities.cli.errors import explain_errors, explain_stop
from abilities.cli.options import whole_store
from abilities.cli.progress import show_progress
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo, format_count
from abilities.declarations.faults import Refused
from abilities.helpers.store.opening import repair_store
from abilities.helpers.store.originals import RepairReport

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
