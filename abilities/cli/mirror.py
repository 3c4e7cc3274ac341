"""The command that keeps a folder of Markdown files and a namespace equal."""

import asyncio
import sys
from pathlib import Path

import click

from abilities.cli.errors import explain_errors, explain_stop
from abilities.cli.options import take_namespace
from abilities.cli.session import Session, pass_session
from abilities.cli.store import SHOWN_REMARKS
from abilities.cli.terminal import echo
from abilities.helpers.transfer.patience import call_patiently
from abilities.mirror.folder import Folder, Unusable
from abilities.mirror.syncing import Mirror, Report

_EXAMPLES = """\b
Examples:
  abilities mirror memories
  abilities mirror memories --check
  abilities mirror ~/vault --watch --namespace team
"""


@click.command(epilog=_EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@take_namespace("Mirror this namespace (default: the configured one).")
@click.option(
    "--watch/--once", default=False, help="Go on until Ctrl-C, or end when both sides are equal."
)
@click.option(
    "--check", is_flag=True, help="Only print what would change; exit with 1 if anything."
)
@click.option("--delete", is_flag=True, help="Archive the memories whose files are gone.")
@pass_session
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

    with explain_errors():
        try:
            report = asyncio.run(run())
        except Unusable as error:
            raise click.ClickException(str(error)) from None

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


COMMANDS = (mirror,)
