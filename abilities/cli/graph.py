"""The command that draws what a bulk read would return."""

import asyncio
from pathlib import Path
from typing import Any

import click

from abilities.application import Abilities
from abilities.cli.drawing import as_mermaid, as_svg, draw_walk
from abilities.cli.options import load_shared_settings
from abilities.declarations.faults import Refused
from abilities.helpers.walk import WalkLimits


@click.command()
@click.argument("key")
@click.option(
    "--depth",
    type=click.IntRange(1, 6),
    default=3,
    show_default=True,
    help="Links followed in a row.",
)
@click.option(
    "--breadth",
    type=click.IntRange(1, 20),
    default=5,
    show_default=True,
    help="New memories from each one.",
)
@click.option(
    "--total", type=click.IntRange(1, 50), default=20, show_default=True, help="Memories in all."
)
@click.option(
    "--format", "form", type=click.Choice(["svg", "mermaid"]), default="svg", show_default=True
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file instead of stdout.",
)
@click.pass_obj
def graph(
    given: dict[str, Any],
    key: str,
    depth: int,
    breadth: int,
    total: int,
    form: str,
    output: Path | None,
) -> None:
    """Draw what a bulk read of the memory KEY returns.

    Memories are numbered in the order of retrieval, links carry their weights, and the best candidates that
    a limit cut stand there pale, with that limit.
    """

    async def run() -> str:
        async with Abilities.open(load_shared_settings(given)) as abilities:
            found = await abilities.context.memory.walk(key, WalkLimits(depth, breadth, total))
        drawing = draw_walk(found.outcome)
        return as_svg(drawing) if form == "svg" else as_mermaid(drawing)

    try:
        text = asyncio.run(run())
    except Refused as error:
        raise click.ClickException(error.message) from None
    except ImportError:
        raise click.UsageError(
            "drawing is not installed; run: pip install 'agent-abilities[graph]'"
        ) from None
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        click.echo(f"Wrote {output}.", err=True)
