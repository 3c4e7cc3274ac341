"""The commands that look after a store: import, export, check."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from abilities.cli.errors import explain_errors, explain_stop
from abilities.cli.options import take_namespace, whole_store
from abilities.cli.progress import show_progress
from abilities.cli.session import Session, pass_session
from abilities.cli.terminal import echo, echo_line, format_count
from abilities.helpers.store.history import DamagedEntry
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.transfer.exporting import ExportOptions, ExportResult, export
from abilities.helpers.transfer.importing import (
    HISTORY,
    ImportNote,
    ImportOptions,
    holds_export,
    import_memories,
    open_source,
)
from abilities.helpers.transfer.patience import Patience
from abilities.settings import Settings

_OUTCOMES = ("added", "replaced", "unchanged", "kept", "adjusted", "refused")
"""What may become of an imported memory, in the order of the summary."""

_MARKS = {"sound": ("ok", "green"), "note": ("note", "yellow"), "damaged": ("damaged", "red")}

SHOWN_REMARKS = 20
"""Remarks printed before only new ones are; a million of them would bury the summary."""

ADVICE = "To mend it: abilities repair"
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
    kv-memory SQLite database; '-' reads lines from stdin. Lines of your own need a key and a
    content. Importing a file again changes nothing: if an import is interrupted, run it again to
    finish it.

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

    check_store_exists(session.settings)
    check_target(_to_path(file))

    options = ExportOptions(session.given_namespace, resume, history=not no_history)
    with explain_errors():
        result = asyncio.run(_export(session, _to_path(file), options))

    _print_export(result)

    if result.damaged:
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
    check_store_exists(session.settings)

    with explain_errors():
        findings = asyncio.run(_check(session, full=full))

    if as_json:
        objects = [{**finding._asdict(), "examples": [*finding.examples]} for finding in findings]
        echo_line(json.dumps(objects))
    else:
        _print_findings(findings)

    if any(finding.state == "damaged" for finding in findings):
        echo(ADVICE, err=True)
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
        echo(finding.words, head=click.style(f"{mark:<8}", fg=color), hang=8)

        for example in finding.examples:
            echo(f"        {example}")


def _to_path(file: Path) -> Path | None:
    """Return None for '-', which stands for stdin or stdout."""
    return None if str(file) == "-" else file


COMMANDS = (import_, export_, check)


class _Remarks:
    """Prints the first remarks of an import and the first of each further sentence.

    Of up to 20 sentences it counts how often each was not printed, and all others together.
    Remarks on kinds of rows are few and come last, so they are all printed.
    """

    def __init__(self) -> None:
        self._printed = 0
        self._left: dict[str, int] = {}
        self._others = 0

    def add(self, note: ImportNote) -> None:
        """Print a remark, or count it."""
        if note.rows is not None:
            echo(_format_note(note), err=True)
            return

        is_new = note.words not in self._left and len(self._left) < SHOWN_REMARKS
        if is_new:
            self._left[note.words] = 0

        if is_new or self._printed < SHOWN_REMARKS:
            self._printed += 1
            echo(_format_note(note), err=True)
        elif note.words in self._left:
            self._left[note.words] += 1
        else:
            self._others += 1

    def print_rest(self, hint: str) -> None:
        """Print how many remarks were not printed, by their sentence."""
        for words, count in self._left.items():
            if count:
                echo(f"... and {count:,} more of: {words}", err=True)

        if self._others:
            echo(f"... and {format_count(self._others, 'other remark')}.", err=True)
        if self._others or any(self._left.values()):
            echo(hint, err=True)


@contextmanager
def report_notes(report: Path | None) -> Generator[Callable[[ImportNote], None]]:
    """Print remarks, equal ones up to a number, and write all of them to ``report`` if given.

    The block calls what it gets with each remark. Raises OSError if the report cannot be written.
    """
    # Opened before the import begins, so that a wrong path costs nothing.
    file = report.open("w", encoding="utf-8") if report else None
    remarks = _Remarks()

    def report_note(note: ImportNote) -> None:
        if file:
            file.write(json.dumps(note._asdict(), ensure_ascii=False) + "\n")

        remarks.add(note)

    try:
        yield report_note
    finally:
        if file:
            file.close()

    hint = f"All of them are in {report}." if report else "--report FILE writes all of them."
    remarks.print_rest(hint)


def _format_note(note: ImportNote) -> str:
    place = note.place

    if note.key:
        place = f"{place} ({note.key})"

    return f"{place}: {note.words}"


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
