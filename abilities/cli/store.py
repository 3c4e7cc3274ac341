"""The commands of a store: import, export, mirror, check, backup, restore, repair."""

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from abilities.cli.errors import explain_stop
from abilities.cli.options import take_namespace, whole_store
from abilities.cli.session import Session, define_command
from abilities.cli.terminal import echo, echo_line, format_count, show_progress
from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import call_patiently
from abilities.helpers.store.history import DamagedEntry
from abilities.helpers.store.opening import repair_store
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.sqlite.backup import backup, restore
from abilities.helpers.transfer.exporting import ExportOptions, ExportResult, export
from abilities.helpers.transfer.importing import (
    HISTORY,
    ImportNote,
    ImportOptions,
    holds_export,
    import_memories,
    open_source,
)
from abilities.mirror.folder import Folder
from abilities.mirror.syncing import Mirror, Report
from abilities.settings import Settings

_OUTCOMES = ("added", "replaced", "unchanged", "kept", "adjusted", "refused")
"""The outcomes of an imported memory, in the order of the summary."""

_MARKS = {"sound": ("ok", "green"), "note": ("note", "yellow"), "damaged": ("damaged", "red")}

SHOWN_REMARKS = 20
"""The number of remarks that are printed in full; a million would bury the summary."""

ADVICE = "To mend it: abilities repair"
"""The remedy for a damaged store."""


_BACKUP_NAME = re.compile(r"memories-\d{4}-\d\d-\d\dT\d{6}Z\.db")
"""The name of a backup in a folder of several; sorted by name, they are sorted by time."""


_HINTS = {
    "busy": "a process uses the store; stop all that use it, then run this again",
    "corrupted": "the file cannot be opened as a store at all, so there is nothing to mend in it: "
    "put the last backup in place with 'abilities restore BACKUP --replace'",
    "storage_full": "the disk has no room for a second copy of the store; nothing was changed",
}
"""The remedy if a repair is refused, by the reason."""


@define_command(
    "abilities import memory.jsonl --dry-run",
    "abilities import memory.jsonl --namespace team --report remarks.jsonl",
    "abilities import ~/.claude/projects",
    "cat memory.jsonl | abilities import -",
)
@click.argument(
    "source", type=click.Path(path_type=Path, exists=True, allow_dash=True), metavar="SOURCE"
)
@take_namespace("Put all memories into this namespace (sessions: default.sessions by default).")
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
def import_(
    session: Session,
    source: Path,
    replace: bool,
    dry_run: bool,
    report: Path | None,
) -> None:
    """Import memories or sessions from SOURCE.

    SOURCE is an export of this package, the memory.jsonl of the official MCP memory server, or a
    kv-memory SQLite database; '-' reads stdin. You can also write the lines yourself,
    for example {"key": "tea", "content": "Ada drinks green tea."}. If an import is interrupted, run
    it again: importing a file twice changes nothing.

    SOURCE may also be the folder of Claude Code's or Codex's sessions, or the export of ChatGPT or
    Claude. Each turn becomes a memory, without secrets, in the namespace with .sessions appended.
    Import it again to add new turns.

    An export brings the history of its memories, unless they have one here already. A memory that
    was purged from this store is refused.

    Values that do not fit are adjusted, and values that have no place here are left out. Both are
    reported.

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

    async def import_file() -> str | None:
        # Without the option, memories stay in the namespaces of the export.
        all_into_it = session.given_namespace is not None
        namespace = session.settings.namespace
        opening = open_source(_to_path(source), namespace, all_into_it=all_into_it)

        # The file comes first: if it cannot be imported, the store is not opened.
        async with opening as opened, session.open_store() as store:
            with (
                report_notes(report) as add_note,
                show_progress(f"Importing {opened.kind}", opened.length or None) as bar,
            ):
                await import_memories(store, opened, options, add_note, bar.reach, counts)

        return opened.namespace if opened.kind == "sessions" else None

    with explain_stop(describe_stop):
        target = asyncio.run(import_file())

    verb = "Would import" if dry_run else "Imported"
    into = f" Sessions are in the namespace {target}." if target else ""
    echo(f"{verb}: {_format_counts(counts)}.{into}", err=True)
    if counts[HISTORY]:
        entries = format_count(counts[HISTORY], "entry", "entries")
        echo(f"Took over {entries} of history.", err=True)

    if counts["refused"]:
        sys.exit(1)


@define_command(
    "abilities export all.jsonl",
    "abilities export --namespace team | gzip > team.jsonl.gz",
)
@click.argument(
    "file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), default="-"
)
@take_namespace("Export only the memories of this namespace.")
@click.option("--resume", is_flag=True, help="Continue an interrupted export to FILE.")
@click.option("--no-history", is_flag=True, help="Leave out earlier versions.")
def export_(session: Session, file: Path, resume: bool, no_history: bool) -> None:
    """Export memories and their history as lines of JSON.

    Writes all of them to FILE, or to stdout, one JSON object per line, with links and metadata.
    FILE appears only when it is complete; until then it is called FILE.part. It may replace an
    earlier export, and no other file. 'abilities import' restores the memories byte for byte.

    The history has the earlier versions of memories, and those of deleted ones. An import brings it
    back.

    Exits with 1 if a damaged memory or entry of the history was left out.
    """
    path = _to_path(file)
    if resume and path is None:
        raise click.UsageError("--resume goes on with a file; name the file: export FILE --resume")

    check_store_exists(session.settings)
    if path is not None:
        check_target(path)

    async def write() -> ExportResult:
        options = ExportOptions(session.given_namespace, resume, history=not no_history)
        async with session.open_store() as store:
            number = await call_patiently(store.count_memories)
            with show_progress("Exporting", number) as bar:

                def describe_stop() -> str:
                    done = format_count(int(bar.done), "memory", "memories")
                    if path is None:
                        rest = "The output is not complete; run the same command again."
                    else:
                        rest = "To go on, run the same command with --resume."
                    return f"Stopped after {done}. {rest}"

                with explain_stop(describe_stop):
                    return await export(store, path, options, bar.advance)

    result = asyncio.run(write())

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
    if result.damaged:
        sys.exit(1)


@define_command("abilities check", "abilities check --full")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON array.")
@click.option(
    "--full", is_flag=True, help="Check the search index too; writers have to wait meanwhile."
)
@whole_store
def check(session: Session, as_json: bool, full: bool) -> None:
    """Check the integrity of the store.

    Looks at its pages, hashes, links, counters and side files, and changes nothing; only a store of
    an older version is migrated first, as by every command. Exits with 1 if anything is damaged.
    Links to missing memories are only noted.
    """
    check_store_exists(session.settings)

    async def find() -> list[IntegrityFinding]:
        async with session.open_store() as store:
            with show_progress("Checking") as bar:

                def describe_stop() -> str:
                    rest = "nothing was changed. Run the same command again."
                    return f"Stopped after {int(bar.done):,} rows; {rest}"

                with explain_stop(describe_stop):
                    return await call_patiently(partial(store.check, bar.advance, full=full))

    findings = asyncio.run(find())

    if as_json:
        objects = [{**finding._asdict(), "examples": [*finding.examples]} for finding in findings]
        echo_line(json.dumps(objects))
    else:
        for finding in findings:
            print_finding(finding, *_MARKS[finding.state])

    if any(finding.state == "damaged" for finding in findings):
        echo(ADVICE, err=True)
        sys.exit(1)


def _format_counts(counts: Counter[str]) -> str:
    parts: list[str] = []

    for outcome in _OUTCOMES:
        if counts[outcome]:
            parts.append(f"{counts[outcome]:,} {outcome}")

    return ", ".join(parts) or "nothing to import"


def print_finding(finding: IntegrityFinding, mark: str, color: str, *, width: int = 8) -> None:
    """Print a finding beside its mark, which is padded to ``width`` cells, and examples below."""
    echo(finding.words, head=click.style(mark.ljust(width), fg=color), hang=width)
    for example in finding.examples:
        echo(f"{' ' * width}{example}")


def _to_path(file: Path) -> Path | None:
    """Return None for '-', which means stdin or stdout."""
    return None if str(file) == "-" else file


class _Remarks:
    """Prints the first remarks of an import, and the first one with each later sentence.

    Of up to 20 sentences it counts the remarks that were not printed, and of all others together.
    The remarks on kinds of rows are few and come last, so all of them are printed. Each remark also
    goes into ``file`` if given.
    """

    def __init__(self, file: TextIO | None) -> None:
        self._file = file
        self._printed = 0
        self._left: dict[str, int] = {}
        self._others = 0

    def add(self, note: ImportNote) -> None:
        """Write a remark, and print or count it."""
        if self._file is not None:
            self._file.write(json.dumps(note._asdict(), ensure_ascii=False) + "\n")

        if note.rows is None:
            is_new = note.words not in self._left and len(self._left) < SHOWN_REMARKS
            if is_new:
                self._left[note.words] = 0

            if not is_new and self._printed >= SHOWN_REMARKS:
                if note.words in self._left:
                    self._left[note.words] += 1
                else:
                    self._others += 1
                return

            self._printed += 1

        key = f" ({note.key})" if note.key else ""
        echo(f"{note.place}{key}: {note.words}", err=True)

    def print_rest(self, hint: str) -> None:
        """Print the numbers of remarks that were not printed, by their sentence."""
        for words, count in self._left.items():
            if count:
                echo(f"... and {count:,} more of: {words}", err=True)

        if self._others:
            echo(f"... and {format_count(self._others, 'other remark')}.", err=True)
        if self._others or any(self._left.values()):
            echo(hint, err=True)


@contextmanager
def report_notes(report: Path | None) -> Generator[Callable[[ImportNote], None]]:
    """Yield a function that prints a remark, and writes it to the file ``report`` if given.

    At the end, print the numbers of remarks that were not printed. Raises OSError if the report
    cannot be written.
    """
    # Opened before the import begins, so that a wrong path costs nothing.
    with report.open("w", encoding="utf-8") if report else nullcontext() as file:
        remarks = _Remarks(file)
        yield remarks.add

    hint = f"All of them are in {report}." if report else "--report FILE writes all of them."
    remarks.print_rest(hint)


def check_folder(path: Path) -> None:
    """Raise click.ClickException if the folder of a new file is missing.

    Without this check the system's error would show the temporary name that is written first.
    """
    if not path.parent.is_dir():
        raise click.ClickException(
            f"there is no folder {path.parent}; create it: mkdir -p {path.parent}"
        )


def check_target(path: Path) -> None:
    """Raise click.ClickException if an export to a file would replace anything but an export."""
    check_folder(path)
    if not path.exists():
        return

    # An export replaces its target by a new file, even a device.
    folders = path.absolute().parents
    is_device = Path("/dev") in folders and Path("/dev/shm") not in folders  # noqa: S108
    if is_device or not path.is_file():
        raise click.ClickException(f"{path} is no ordinary file; to print an export, name none")
    if path.stat().st_size and not holds_export(path):
        raise click.ClickException(
            f"{path} already exists, and is no export; nothing was changed. Choose another name."
        )


def check_store_exists(settings: Settings) -> None:
    """Raise click.ClickException if the file of an SQLite store is missing.

    Opening the store would create an empty one. A missing database is noticed when it is opened.
    """
    path = settings.store_path
    if path is not None and not path.exists():
        raise click.ClickException(
            f"there is no store at {path}; it is created when it is first used. "
            "If it is elsewhere, set store_url."
        )


@define_command(
    "abilities mirror memories",
    "abilities mirror memories --check",
    "abilities mirror ~/vault --watch --namespace team",
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@take_namespace("Mirror this namespace (default: the configured one).")
@click.option(
    "--watch/--once", default=False, help="Go on until Ctrl-C, or end when both sides are equal."
)
@click.option(
    "--check", is_flag=True, help="Only print what would change; exit with 1 if anything."
)
@click.option("--delete", is_flag=True, help="Archive the memories whose files are gone.")
def mirror(session: Session, folder: Path, watch: bool, check: bool, delete: bool) -> None:
    """Keep Markdown files and the memories of a namespace equal.

    Each memory has a file, with its fields in the front matter. A change of either side reaches the
    other. If both changed, the file follows the store, and its own text stays in NAME.conflict.md.
    A [[name]] in a text is a link of the type 'mentions'.

    A file that is gone is written again; with --delete its memory is archived instead, but never
    more than a tenth of the namespace at once.

    Exits with 1 if a file was refused, or a conflict is left.
    """
    if watch and check:
        raise click.UsageError("--watch and --check exclude each other")
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}; create it: mkdir -p {folder}")

    settings = session.settings
    root = folder.resolve()

    async def run() -> Report:
        shown: set[tuple[str, str]] = set()
        with Folder(root, f"{settings.store_url}\n{settings.namespace}").open() as opened:
            async with session.open_store() as store:
                mirrored = Mirror(
                    opened, store, settings.namespace, deletes=delete, only_checks=check
                )
                if not watch:
                    return await call_patiently(mirrored.run)

                with explain_stop(lambda: "Stopped; the next run continues."):
                    async for report in mirrored.watch():
                        _print_lines([one for one in report.problems if one not in shown])
                        shown = set(report.problems)
                        if report.changes:
                            _print_counts("Mirrored", report)

        raise AssertionError("watching has no end")

    report = asyncio.run(run())
    _print_lines(report.problems)
    if check:
        _print_lines([(path, f"would be {kind}") for kind, path in report.changes])
    _print_counts("Would mirror" if check else "Mirrored", report)
    if report.problems or (check and report.changes):
        sys.exit(1)


def _print_lines(lines: list[tuple[str, str]]) -> None:
    """Print words about files."""
    for path, words in lines[:SHOWN_REMARKS]:
        echo(f"{path}: {words}", err=True)
    if len(lines) > SHOWN_REMARKS:
        echo(f"... and {len(lines) - SHOWN_REMARKS:,} more.", err=True)


def _print_counts(verb: str, report: Report) -> None:
    counts = [f"{number:,} {kind}" for kind, number in sorted(report.counts.items())]
    echo(f"{verb}: {', '.join(counts) or 'nothing to change'}.", err=True)


@define_command("abilities backup memories.db", "abilities backup backups/ --keep 7")
@click.argument("target", metavar="FILE|DIR", type=click.Path(path_type=Path))
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    help="Name the backup in the folder DIR by the time, and keep the newest N there.",
)
@whole_store
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


@define_command("abilities restore memories.db", "abilities restore memories.db --replace")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--replace",
    is_flag=True,
    help="Move an existing store aside; without this it is left alone.",
)
@whole_store
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

    with show_progress("Copying, then checking the copy", 1.0) as bar:
        restored = restore(file, store, bar.reach, replace=replace)

    echo(f"Restored {store}.", err=True)

    if restored.previous is not None:
        echo(f"The previous store is kept as {restored.previous}.", err=True)

    if restored.damage:
        words = " ".join(finding.words for finding in restored.damage)
        echo(f"The backup is damaged, and so is the store now. {words} {ADVICE}", err=True)
        sys.exit(1)


@define_command(
    "abilities repair --dry-run",
    "abilities repair",
    "abilities repair --aside damaged.jsonl",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be done; change nothing.")
@click.option(
    "--aside",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new file for the original damaged rows (default: one with a name of its own, beside "
    "the store or, for PostgreSQL, in the current folder).",
)
@whole_store
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
    with explain_stop(lambda: words):
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
