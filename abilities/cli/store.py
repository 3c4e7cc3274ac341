"""The commands that move a store's memories and look after it: import, export, backup, restore, check."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from abilities.cli.options import load_settings
from abilities.declarations.faults import Refused
from abilities.declarations.memory import is_key
from abilities.helpers.stores.model import DamagedMemory
from abilities.helpers.stores.opening import open_store
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.sqlite.backup import UnsoundCopy, backup, restore
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.exporting import export
from abilities.helpers.transfer.importing import (
    ImportNote,
    ImportOptions,
    import_memories,
    open_source,
)
from abilities.settings import Settings

T = TypeVar("T")
SHOWN_NOTES = 20
_ORDER = ("added", "replaced", "unchanged", "kept", "adjusted", "refused")


@click.command("import")
@click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--namespace", help="Put all memories into this namespace.")
@click.option(
    "--replace",
    is_flag=True,
    help="Replace memories that are there and differ; else they are kept.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@click.option("--report", type=click.Path(path_type=Path), help="Write every remark to this file.")
@click.pass_obj
def import_(
    given: dict[str, Any],
    file: Path,
    namespace: str | None,
    replace: bool,
    dry_run: bool,
    report: Path | None,
) -> None:
    """Bring memories in from FILE ('-' is stdin, for our own exports).

    FILE is an export of this package, the memory.jsonl of the official MCP memory server, or a kv-memory
    SQLite file. Doing it again changes nothing; a broken import is finished by doing it again.
    """
    settings = _checked_settings(given, namespace)
    way = ImportOptions(namespace or settings.namespace, namespace is not None, replace, dry_run)

    async def run() -> Counter[str]:
        opened = await open_source(None if str(file) == "-" else file, way)
        store = open_store(settings.store_url, max_memories=settings.max_memories)
        try:
            with (
                _told(report) as tell,
                _bar(f"Importing {opened.kind}", opened.length or None) as bar,
            ):
                return await import_memories(store, opened.source, way, tell, bar.reach)
        finally:
            await store.close()

    counts = _run(run())
    said = (
        ", ".join(f"{counts[name]:,} {name}" for name in _ORDER if counts[name])
        or "nothing to import"
    )
    click.echo(f"{'Would import' if dry_run else 'Imported'}: {said}.", err=True)
    sys.exit(1 if counts["refused"] else 0)


@click.command("export")
@click.argument(
    "file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), default="-"
)
@click.option("--namespace", help="Only the memories of this namespace.")
@click.option("--resume", is_flag=True, help="Go on with an export to FILE that was broken off.")
@click.pass_obj
def export_(given: dict[str, Any], file: Path, namespace: str | None, resume: bool) -> None:
    """Write all memories to FILE, or to stdout: a JSON object a line, with links and metadata.

    FILE is there whole or not at all. What an export holds, an import brings back byte for byte.
    """
    settings = _checked_settings(given, namespace)
    _existing(given)
    path = None if str(file) == "-" else file

    async def run() -> tuple[int, list[DamagedMemory]]:
        store = open_store(settings.store_url, max_memories=settings.max_memories)
        try:
            with _bar("Exporting", await store.count_memories()) as bar:
                return await export(store, path, namespace, resume=resume, progress=bar.advance)
        finally:
            await store.close()

    written, damaged = _run(run())
    for one in damaged[:SHOWN_NOTES]:
        click.echo(f"{_plain(one.key)}: {one.reason}; not exported", err=True)
    click.echo(
        f"Exported {written:,} memories{f', {len(damaged):,} are damaged' if damaged else ''}.",
        err=True,
    )
    sys.exit(1 if damaged else 0)


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_obj
def backup_(given: dict[str, Any], file: Path) -> None:
    """Copy the store to FILE while it is in use, check the copy, and put it in place."""
    settings = _existing(given)
    with _words(), _bar("Copying, then checking the copy", 1.0) as bar:
        backup(_file_of(settings), file, bar.reach)
    click.echo(f"Wrote {file}, a whole and checked copy of the store.", err=True)


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--replace", is_flag=True, help="Move a store that is there aside.")
@click.pass_obj
def restore_(given: dict[str, Any], file: Path, replace: bool) -> None:
    """Put the backup FILE in the store's place, checked first; a store that is there is kept aside."""
    settings = load_settings(given)
    with _words(), _bar("Copying, then checking the copy", 1.0) as bar:
        aside = restore(file, _file_of(settings), bar.reach, replace=replace)
    kept = f" The store that was there is kept as {aside}." if aside else ""
    click.echo(f"Restored {settings.store_path}.{kept}", err=True)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON array.")
@click.option(
    "--full", is_flag=True, help="Look at the search index too; writers have to wait for that."
)
@click.pass_obj
def check(given: dict[str, Any], as_json: bool, full: bool) -> None:
    """Look whether the store is whole: pages, hashes, links, counters, side files.

    Exits with 0 when it is, also with dangling links, and with 1 when something is damaged.
    """
    settings = _existing(given)

    async def run() -> list[IntegrityFinding]:
        store = open_store(settings.store_url, max_memories=settings.max_memories)
        try:
            with _bar("Checking", None) as bar:
                return await store.check(bar.advance, full=full)
        finally:
            await store.close()

    findings = _run(run())
    if as_json:
        click.echo(json.dumps([_finding(finding) for finding in findings]))
    else:
        _print_findings(findings)
    sys.exit(1 if any(finding.state == "damaged" for finding in findings) else 0)


COMMANDS = (import_, export_, backup_, restore_, check)


class _Bar:
    """Progress on a terminal's stderr; elsewhere nothing."""

    def __init__(self, progress: Progress, words: str, total: float | None) -> None:
        self._progress = progress
        self._task = progress.add_task(words, total=total)

    def advance(self, more: float) -> None:
        self._progress.advance(self._task, more)

    def reach(self, done: float) -> None:
        self._progress.update(self._task, completed=done)


@contextmanager
def _bar(words: str, total: float | None) -> Generator[_Bar]:
    console = Console(stderr=True)
    said = TextColumn("{task.description}")
    share = (said, BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    counted = (said, BarColumn(), MofNCompleteColumn())
    columns = share if total else counted
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield _Bar(progress, words, total)


@contextmanager
def _told(report: Path | None) -> Generator[Callable[[ImportNote], None]]:
    """Say the first remarks, count the others, and write all of them where asked."""
    count = 0
    file = report.open("w", encoding="utf-8") if report else None

    def tell(note: ImportNote) -> None:
        nonlocal count
        count += 1
        if file:
            file.write(json.dumps(note._asdict(), ensure_ascii=False) + "\n")
        if count <= SHOWN_NOTES:
            key = f" ({_plain(note.key)})" if note.key else ""
            click.echo(f"{_plain(note.place)}{key}: {_plain(note.words)}", err=True)

    try:
        yield tell
    finally:
        if file:
            file.close()
    if count > SHOWN_NOTES:
        where = f"all are in {report}" if report else "--report FILE keeps them all"
        click.echo(f"... and {count - SHOWN_NOTES:,} more remarks; {where}.", err=True)


def _plain(text: str) -> str:
    """Text of others without what could steer a terminal."""
    return text if is_key(text) else ascii(text)


def _finding(finding: IntegrityFinding) -> dict[str, Any]:
    return {**finding._asdict(), "examples": list(finding.examples)}


def _print_findings(findings: list[IntegrityFinding]) -> None:
    console = Console(highlight=False)
    marks = {"sound": ("ok", "green"), "note": ("note", "yellow"), "damaged": ("damaged", "red")}
    for finding in findings:
        mark, style = marks[finding.state]
        console.print(f"{mark:<8}", style=style, end="")
        console.print(finding.words, markup=False)
        for example in finding.examples:
            console.print(f"        {_plain(example)}", markup=False)


def _checked_settings(given: dict[str, Any], namespace: str | None) -> Settings:
    """The settings, once the namespace was found to be one."""
    settings = load_settings(given)
    try:
        settings.for_namespace(namespace or settings.namespace)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return settings


def _existing(given: dict[str, Any]) -> Settings:
    """Settings with a store that is there; a database is asked when it is needed."""
    settings = load_settings(given)
    path = settings.store_path
    if path is not None and not path.exists():
        raise click.ClickException(f"there is no store at {path}")
    return settings


def _file_of(settings: Settings) -> Path:
    """The store's file. Raises click.ClickException where it is a database."""
    if settings.store_path is None:
        raise click.ClickException(
            "the store is a PostgreSQL database: use pg_dump, or 'abilities export'"
        )
    return settings.store_path


def _run(work: Coroutine[Any, Any, T]) -> T:
    with _words():
        return asyncio.run(work)


@contextmanager
def _words() -> Generator[None]:
    """What can go wrong, in words for whoever runs the command."""
    try:
        yield
    except Refused as error:
        raise click.ClickException(error.message) from None
    except FileExistsError as error:
        raise click.ClickException(f"{error} exists already; nothing was changed") from None
    except (UnusableLine, UnsoundCopy) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'the file'}: {error.strerror}") from None
