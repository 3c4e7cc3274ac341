"""The command that draws what a bulk read would return."""

import asyncio
import sys
from pathlib import Path
from typing import TextIO, get_args

import click

from abilities.cli.completion import complete_key
from abilities.cli.drawing import Drawing, as_mermaid, as_svg, draw_walk
from abilities.cli.errors import explain_errors
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo, echo_payload
from abilities.declarations.memory import Direction
from abilities.helpers.walk import WalkLimits, WalkOutcome

_EXAMPLES = """\b
Examples:
  abilities graph goals
  abilities graph goals -o walk.svg
  abilities graph goals --depth 2 --format mermaid
"""


@click.command(epilog=_EXAMPLES)
@click.argument("key", shell_complete=complete_key)
@click.option(
    "--depth",
    type=click.IntRange(1, 6),
    default=3,
    show_default=True,
    help="Follow at most this many links in a row.",
)
@click.option(
    "--breadth",
    type=click.IntRange(1, 20),
    default=5,
    show_default=True,
    help="Take at most this many memories from each memory's links.",
)
@click.option(
    "--total",
    type=click.IntRange(1, 50),
    default=20,
    show_default=True,
    help="Retrieve at most this many memories, KEY included.",
)
@click.option(
    "--direction",
    type=click.Choice(get_args(Direction)),
    default="out",
    show_default=True,
    help="Follow the links of each memory, those that lead to it, or both.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["tree", "svg", "mermaid"]),
    help="A tree for people, a picture, or text for Markdown pages (default: tree on a terminal, "
    "else svg).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead of stdout.",
)
@pass_session
def graph(
    session: Session,
    key: str,
    depth: int,
    breadth: int,
    total: int,
    direction: Direction,
    form: str | None,
    output: Path | None,
) -> None:
    """Draw what a bulk read of the memory KEY returns.

    Memories are numbered in the order of retrieval, and links carry their weights. The best
    memories that a limit left out are drawn pale, with the name of the limit.
    """
    limits = WalkLimits(depth, breadth, total)

    with explain_errors():
        drawing = draw_walk(asyncio.run(_walk(session, key, limits, direction)))

    if form is None:
        form = "tree" if output is None and sys.stdout.isatty() else "svg"

    if output is None:
        _print(drawing, form, sys.stdout)
        return

    with explain_errors(), output.open("w", encoding="utf-8") as file:
        _print(drawing, form, file)

    echo(f"Wrote {output}.", err=True)


def _print(drawing: Drawing, form: str, file: TextIO) -> None:
    if form == "svg":
        echo_payload(as_svg(drawing), file, nl=False)
    elif form == "mermaid":
        echo_payload(as_mermaid(drawing), file, nl=False)
    else:
        # Pictures do not need what prints for people.
        from rich.console import Console

        from abilities.cli.printing import print_tree

        print_tree(drawing, Console(file=file))


async def _walk(
    session: Session, key: str, limits: WalkLimits, direction: Direction
) -> WalkOutcome:
    async with session.open_application() as abilities:
        result = await abilities.context.memory.walk(key, limits, direction)

    return result.outcome
