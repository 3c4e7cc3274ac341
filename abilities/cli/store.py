"""The commands that look after a store: import, export, backup, restore, check."""

import asyncio
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import click

from abilities.cli.errors import explain_errors, explain_stop
from abilities.cli.options import take_namespace, whole_store
from abilities.cli.progress import show_progress
from abilities.cli.remarks import SHOWN_REMARKS, report_notes
from abilities.cli.session import Session, pass_session
from abilities.cli.targets import check_folder, check_target
from abilities.cli.text import echo, echo_line, format_count
from abilities.helpers.stores.history import DamagedEntry
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.sqlite.backup import backup, restore
from abilities.helpers.transfer.exporting import ExportOptions, ExportResult, export
from abilities.helpers.transfer.importing import HISTORY, ImportOptions, import_memories
from abilities.helpers.transfer.opening import open_source
from abilities.helpers.transfer.patience import Patience
from abilities.settings import Settings

_OUTCOMES = ("added", "replaced", "unchanged", "kept", "adjusted", "refused")
"""What may become of an imported memory, in the order of the summary."""

_MARKS = {"sound": ("ok", "green"), "note": ("note", "yellow"), "damaged": ("damaged", "red")}

_ADVICE = "To mend it: abilities repair"
"""What is said where damage is found."""

_IMPORT_EXAMPLES = """\b
Examples:
  abilities import memory.jsonl --dry-run
  abilities import memory.jsonl --namespace team --report remarks.jsonl
  cat memory.jsonl | abilities import -
"""

_EXPORT_EXAMPLES = """\b
Examples:
  abilities export all.jsonl
  abilities export --namespace team | gzip > team.jsonl.gz
"""

_BACKUP_EXAMPLE = """\b
Example:
  abilities backup memories.db
"""

_RESTORE_EXAMPLES = """\b
Examples:
  abilities restore memories.db
  abilities restore memories.db --replace
"""

_CHECK_EXAMPLES = """\b
Examples:
  abilities check
  abilities check --full
"""


@click.command("import", epilog=_IMPORT_EXAMPLES)
@click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
)
@take_namespace("Put all memories into this namespace.")
@click.option(
    "--replace",
    is_flag=True,
    help="Replace existing memories that differ (default: keep them).",
)
@click.option("--dry-run", is_flag=True, help="Only print what would happen; change nothing.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help=f"Write every remark to this file, one JSON object per line; {SHOWN_REMARKS} are printed.",
)
@pass_session
def import_(
    session: Session,
    file: Path,
    replace: bool,
    dry_run: bool,
    report: Path | None,
) -> None:
    """Import memories from FILE.

    FILE is an export of this package, the memory.jsonl of the official MCP memory server, or a
    kv-memory SQLite database; '-' reads an export or a memory.jsonl from stdin. Importing a file
    again changes nothing: if an import is interrupted, run it again to finish it.

    With an export comes the history of its memories, unless they have one here already. A memory
    that was purged from this store is refused.

    What does not fit is adjusted and reported. What has no place here is counted and reported.

    Exits with 1 if a memory was refused; all others are imported.
    """
    options = ImportOptions(replace, dry_run)

    counts: Counter[str] = Counter()

    def describe_stop() -> str:
        done = "" if dry_run else " What was imported stays."
        return (
            f"Stopped, after this: {_format_counts(counts)}.{done} "
            "To go on, run the same command again."
        )

    with explain_errors(), explain_stop(describe_stop):
        asyncio.run(_import(session, _to_path(file), options, report, counts))

    verb = "Would import" if dry_run else "Imported"
    echo(f"{verb}: {_format_counts(counts)}.", err=True)
    if counts[HISTORY]:
        entries = format_count(counts[HISTORY], "entry", "entries")
        echo(f"Took over {entries} of history.", err=True)

    if counts["refused"]:
        sys.exit(1)


@click.command("export", epilog=_EXPORT_EXAMPLES)
@click.argument(
    "file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), default="-"
)
@take_namespace("Export only the memories of this namespace.")
@click.option("--resume", is_flag=True, help="Continue an interrupted export to FILE.")
@click.option("--no-history", is_flag=True, help="Leave out earlier versions.")
@pass_session
def export_(session: Session, file: Path, resume: bool, no_history: bool) -> None:
    """Export memories and their history as lines of JSON.

    Writes all of them to FILE, or to stdout, one JSON object per line, with links and metadata.
    FILE appears only when it is complete; until then it is called FILE.part. It may replace an
    earlier export, and no other file. 'abilities import' restores the memories byte for byte.

    The history holds what memories were before, deleted ones too, which an import can bring back.

    Exits with 1 if a damaged memory or entry of the history was left out.
    """
    if resume and _to_path(file) is None:
        raise click.UsageError("--resume goes on with a file; name the file: export FILE --resume")

    _check_store_exists(session.settings)
    check_target(_to_path(file))

    options = ExportOptions(session.given_namespace, resume, history=not no_history)
    with explain_errors():
        result = asyncio.run(_export(session, _to_path(file), options))

    _print_export(result)

    if result.damaged:
        sys.exit(1)


@click.command("backup", epilog=_BACKUP_EXAMPLE)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@whole_store
@pass_session
def backup_(session: Session, file: Path) -> None:
    """Copy the store to FILE while it is in use.

    FILE appears only after the copy was checked, and an existing FILE is never overwritten. For
    SQLite stores; use pg_dump for a PostgreSQL database.
    """
    _check_store_exists(session.settings)
    store = _require_store_file(session.settings)
    check_folder(file)

    with (
        explain_errors(),
        explain_stop(lambda: f"Stopped; {file} was not written. Run the same command again."),
        show_progress("Copying, then checking the copy", 1.0) as bar,
    ):
        damage = backup(store, file, bar.reach)

    if not damage:
        echo(f"Wrote {file}, a complete and checked copy of the store.", err=True)
        return

    words = " ".join(finding.words for finding in damage)
    echo(f"Wrote {file}, a copy with the same damage as the store. {words}", err=True)
    echo(_ADVICE, err=True)
    sys.exit(1)


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
        echo(f"The backup is damaged, and so is the store now. {words} {_ADVICE}", err=True)
        sys.exit(1)


@click.command(epilog=_CHECK_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON array.")
@click.option(
    "--full", is_flag=True, help="Check the search index too; writers have to wait meanwhile."
)
@whole_store
@pass_session
def check(session: Session, as_json: bool, full: bool) -> None:
    """Check the integrity of the store.

    Looks at its pages, hashes, links, counters and side files, and changes nothing; only a store of
    an older version is migrated first, as by every command. Exits with 0 if the store is sound
    (links to missing memories are only noted) and with 1 if anything is damaged.
    """
    _check_store_exists(session.settings)

    with explain_errors():
        findings = asyncio.run(_check(session, full=full))

    if as_json:
        objects = [{**finding._asdict(), "examples": [*finding.examples]} for finding in findings]
        echo_line(json.dumps(objects))
    else:
        _print_findings(findings)

    if any(finding.state == "damaged" for finding in findings):
        echo(_ADVICE, err=True)
        sys.exit(1)


async def _import(
    session: Session,
    path: Path | None,
    options: ImportOptions,
    report: Path | None,
    counts: Counter[str],
) -> None:
    # Without the option, memories stay in the namespaces that an export has for them.
    all_into_it = session.given_namespace is not None
    opening = open_source(path, session.settings.namespace, all_into_it=all_into_it)

    # First the file: one that cannot be imported need not open a store.
    async with opening as source, session.open_store() as store:
        with (
            report_notes(report) as tell,
            show_progress(f"Importing {source.kind}", source.length or None) as bar,
        ):
            await import_memories(store, source, options, tell, bar.reach, counts)


async def _export(session: Session, path: Path | None, options: ExportOptions) -> ExportResult:
    async with session.open_store() as store:
        number = await Patience().call(store.count_memories)
        with show_progress("Exporting", number) as bar:

            def describe_stop() -> str:
                rest = "To go on, run the same command with --resume."
                if path is None:
                    rest = "The output is not complete; run the same command again."
                return f"Stopped after {format_count(int(bar.done), 'memory', 'memories')}. {rest}"

            with explain_stop(describe_stop):
                return await export(store, path, options, bar.advance)


async def _check(session: Session, *, full: bool) -> list[IntegrityFinding]:
    async with session.open_store() as store:
        with (
            show_progress("Checking") as bar,
            explain_stop(
                lambda: (
                    f"Stopped after {int(bar.done):,} rows; nothing was changed. "
                    "Run the same command again."
                )
            ),
        ):
            return await Patience().call(partial(store.check, bar.advance, full=full))


def _format_counts(counts: Counter[str]) -> str:
    parts: list[str] = []

    for outcome in _OUTCOMES:
        if counts[outcome]:
            parts.append(f"{counts[outcome]:,} {outcome}")

    return ", ".join(parts) or "nothing to import"


def _print_export(result: ExportResult) -> None:
    for item in result.damaged[:SHOWN_REMARKS]:
        if isinstance(item, DamagedEntry):
            echo(f"version {item.version} of {item.id}: damaged; not exported", err=True)
        else:
            echo(f"{item.key}: {item.reason}; not exported", err=True)

    entries = [item for item in result.damaged if isinstance(item, DamagedEntry)]
    memories = len(result.damaged) - len(entries)
    words = f"Exported {format_count(result.memories, 'memory', 'memories')}"
    if result.entries:
        words += f" and {format_count(result.entries, 'entry', 'entries')} of history"
    if memories:
        words += f", left out {format_count(memories, 'damaged memory', 'damaged memories')}"
    if entries:
        words += f", left out {format_count(len(entries), 'damaged entry', 'damaged entries')}"

    echo(f"{words}.", err=True)


def _print_findings(findings: list[IntegrityFinding]) -> None:
    for finding in findings:
        mark, color = _MARKS[finding.state]
        echo(finding.words, head=click.style(f"{mark:<8}", fg=color))

        for example in finding.examples:
            echo(f"        {example}")


def _to_path(file: Path) -> Path | None:
    """Return None for '-', which stands for stdin or stdout."""
    return None if str(file) == "-" else file


def _check_store_exists(settings: Settings) -> None:
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


def _require_store_file(settings: Settings) -> Path:
    """Return the store's file. Raises click.ClickException if the store is on a server."""
    if settings.store_path is None:
        raise click.ClickException(
            "this command is for SQLite files, and the store is a PostgreSQL database: "
            "use pg_dump and pg_restore, or 'abilities export' and 'abilities import'"
        )

    return settings.store_path


COMMANDS = (import_, export_, backup_, restore_, check)
