"""Commands about memories: about, catch-up, compact, graph, hook, purge, why."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO, get_args

import click

from abilities.cli.completion import complete_any_key, complete_key
from abilities.cli.drawing import Drawing, as_mermaid, as_svg, draw_walk
from abilities.cli.errors import explain_stop
from abilities.cli.options import take_namespace, whole_store
from abilities.cli.session import Session, define_command
from abilities.cli.terminal import echo, echo_line, echo_payload, format_count
from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.memory import Direction, Importance, Type
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.files.confinement import parse_path
from abilities.helpers.memory.helper import Writer
from abilities.helpers.store.changes import call_patiently
from abilities.helpers.walk import WalkLimits, WalkOutcome
from abilities.hooks.asking import answer_stdin
from abilities.prompts import write_catch_up


@define_command("abilities about src/app.py README.md")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
def about(session: Session, paths: tuple[str, ...]) -> None:
    """Print what is remembered about files.

    A memory is about the files that its 'about' names, as paths or patterns, and those that its
    content names. An agent gets the same with a file that it reads. Each PATH is relative to the
    workspace; the file need not exist.
    """
    stdout = session.stdout

    async def find() -> list[JsonObject]:
        names = {path: parse_path(path).name for path in paths}
        async with session.open_application() as abilities:
            found = await abilities.context.memory.find_about(list(names.values()))
            return [{"path": path, "remembered": found.get(names[path], [])} for path in names]

    records = asyncio.run(find())

    if not stdout.isatty():
        echo_line(json.dumps(records, ensure_ascii=False), stdout)
        return

    for record in records:
        echo(record["path"], file=stdout)
        for memory in record["remembered"]:
            echo(f"  {memory['date']}  {memory['key']}: {memory['text']}", file=stdout)


@define_command("abilities catch-up --max-tokens 1000")
@click.option(
    "--max-tokens",
    type=click.IntRange(500, 16_000),
    default=2_000,
    show_default=True,
    help="Print at most this many tokens, of 4 bytes each.",
)
def catch_up(session: Session, max_tokens: int) -> None:
    """Print what an agent should know from earlier sessions.

    The text is that of the MCP prompt 'catch_up': the long-term notes, the notes of the last seven
    days, and important or recently changed memories, each with a label. Let a client print it at
    the start of a session, for example by a hook.
    """
    stdout = session.stdout

    async def write() -> str:
        async with session.open_application() as abilities:
            return await write_catch_up(abilities, max_tokens * TOKEN_BYTES)

    text = asyncio.run(write())

    echo_payload(text, stdout, nl=not text.endswith("\n"))


@define_command("ABILITIES_HISTORY_DAYS=30 abilities compact")
@whole_store
def compact(session: Session) -> None:
    """Forget the changes that exceed the limits of the history.

    The limits are history_days, and history_max_mb for all changes together. Stores forget a few
    changes at a time; this forgets all of them at once, for example after you lowered a limit. A
    forgotten change cannot be undone any more; the memories stay as they are.
    """

    async def forget() -> int:
        async with session.open_store() as store:
            now = utc_now()
            return await call_patiently(lambda: store.compact(now))

    with explain_stop(lambda: "Stopped. To go on, run the same command again."):
        forgotten = asyncio.run(forget())

    echo(f"Forgot {format_count(forgotten, 'change')}.", err=True)


@define_command("abilities purge old/address", "abilities purge old/address --namespace team --yes")
@click.argument("key", shell_complete=complete_any_key)
@take_namespace("The namespace of the memory (default: the configured one).")
@click.option("--yes", is_flag=True, help="Do not ask for a confirmation.")
def purge(session: Session, key: str, yes: bool) -> None:
    """Delete a memory for good, together with its history.

    Nothing brings the memory KEY back, not even an import.
    """
    if not yes:
        click.confirm(f"Delete {key!r} and its history for good?", abort=True, err=True)

    async def delete() -> None:
        async with session.open_store() as store:
            writer = Writer(session.settings.namespace, store, "cli")
            await writer.change("purge", {"key": key})

    asyncio.run(delete())

    echo(
        "Purged it. Copies elsewhere still have it: backups, exports, replicas, and what was "
        "printed or logged.",
        err=True,
    )


@define_command(
    "abilities graph goals",
    "abilities graph goals -o walk.svg",
    "abilities graph goals --depth 2 --format mermaid",
)
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
    """Draw the memories that a bulk read of KEY returns.

    Memories are numbered in the order of retrieval, and links show their weights. The best memories
    that a limit left out are drawn pale, with the name of the limit.
    """

    async def walk() -> WalkOutcome:
        async with session.open_application() as abilities:
            limits = WalkLimits(depth, breadth, total)
            return (await abilities.context.memory.walk(key, limits, direction)).outcome

    drawing = draw_walk(asyncio.run(walk()))

    if form is None:
        form = "tree" if output is None and sys.stdout.isatty() else "svg"

    if output is None:
        _print(drawing, form, sys.stdout)
        return

    with output.open("w", encoding="utf-8") as file:
        _print(drawing, form, file)

    echo(f"Wrote {output}.", err=True)


def _print(drawing: Drawing, form: str, file: TextIO) -> None:
    """Print a picture as "svg", "mermaid" or "tree"."""
    if form == "svg":
        echo_payload(as_svg(drawing), file, nl=False)
    elif form == "mermaid":
        echo_payload(as_mermaid(drawing), file, nl=False)
    else:
        # Pictures do not need rich, which takes long to import.
        from rich.console import Console

        from abilities.cli.printing import print_tree

        print_tree(drawing, Console(file=file))


@define_command(
    'abilities why people/ada "Who writes compilers?"',
    'abilities why people/ada "Who writes compilers?" --hops 0 --json',
)
@click.argument("key", shell_complete=complete_any_key)
@click.argument("question")
@click.option("--hops", type=int, help="Follow so many links, 0 to 2 (default: 2).")
@click.option("--type", type=click.Choice(get_args(Type)), help="Only memories of this type.")
@click.option("--tags", multiple=True, help="Only memories with this tag; may be repeated.")
@click.option("--category", help="Only memories of this category.")
@click.option(
    "--importance",
    type=click.Choice(get_args(Importance)),
    help="Only memories of this importance.",
)
@click.option("--archived", is_flag=True, default=None, help="Archived memories too.")
@click.option("--within-days", type=int, help="Only memories changed in so many days.")
@click.option(
    "--at-least",
    type=float,
    help="Leave out what scores below this share of the best; 0 shows any match.",
)
@click.option("--notes/--no-notes", default=None, help="Rank notes too (default), or none.")
@click.option(
    "--pretty/--json",
    default=None,
    help="Print tables for people, or JSON (default: tables on a terminal, else JSON).",
)
def why(
    session: Session,
    /,
    key: str,
    question: str,
    tags: tuple[str, ...],
    pretty: bool | None,
    **options: Any,
) -> None:
    """Explain the place of KEY in the answer of recall to QUESTION.

    Shows the place and the score of the memory, or what keeps it out, and the points that each word
    of the question and each link gives. The options are those of recall. Only the own namespace is
    ranked.
    """
    from abilities.declarations.recall import RecallInput
    from abilities.definition import validate_arguments

    stdout = session.stdout
    given = {name: value for name, value in options.items() if value is not None}
    if tags:
        given["tags"] = list(tags)

    try:
        arguments = validate_arguments(RecallInput, {"queries": [question], **given})
    except Refused as error:
        words = error.message.replace("queries[0]", "QUESTION")
        raise click.UsageError(words) from None

    async def explain() -> JsonObject:
        async with session.open_application() as abilities:
            own = abilities.for_caller("cli", reads=())
            return await own.context.memory.explain(key, arguments)

    record = asyncio.run(explain())

    if pretty is None:
        pretty = stdout.isatty()
    if not pretty:
        echo_line(json.dumps(record, ensure_ascii=False), stdout)
        return

    # Programs read JSON, and need not wait for these imports.
    from rich.console import Console

    from abilities.cli.printing import print_explanation

    print_explanation(record, Console(file=stdout))


@define_command(
    'echo \'{"session_id": "1", "prompt": "Who is Ada?"}\' | abilities hook UserPromptSubmit'
)
@click.argument("event")
def hook(session: Session, event: str) -> None:
    """Answer the hook of a client, such as Claude Code.

    'abilities setup CLIENT --hooks' adds such hooks. EVENT is SessionStart, PreCompact,
    UserPromptSubmit, PreToolUse or BeforeAgent, and stdin has its fields as JSON. Prints what the
    model should know then. If that is nothing, or anything fails, prints nothing and ends with 0
    all the same, so that the client goes on.
    """
    os.environ.update(session.variables)
    answer_stdin(event)
