"""The command ``abilities``: JSON for programs, tables for people, errors as plain sentences.

Exit codes: 0 if the command did its work (a call with failed items was answered), 1 if it failed (a
call that failed as a whole says why on stdout), 2 if the command line, its JSON or the settings are
wrong.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from abilities.cli.errors import escape_errors, explain_errors
from abilities.cli.logs import show_store_messages, show_warnings
from abilities.cli.options import find_options, keep_option, take_namespace
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo

_STARTER_NOTES = """\
# Memory

What this agent should always remember. One fact per line.
"""

_EXAMPLES = """\b
Examples:
  abilities list
  abilities call file_read_bulk '{"paths": ["README.md"]}' --pretty
  abilities COMMAND --help
"""

_INIT_EXAMPLES = """\b
Examples:
  abilities init
  abilities init ~/agents/ada
"""

_DEMO_EXAMPLE = """\b
Example:
  abilities --workspace-dir ~/project demo
"""


def _import_abilities() -> Iterable[click.Command]:
    from abilities.cli import ability

    return ability.COMMANDS


def _import_catch_up() -> Iterable[click.Command]:
    from abilities.cli import catch_up

    return catch_up.COMMANDS


def _import_completion() -> Iterable[click.Command]:
    from abilities.cli.completion import completion

    return (completion,)


def _import_servers() -> Iterable[click.Command]:
    from abilities.cli import serve

    return serve.COMMANDS


def _import_stores() -> Iterable[click.Command]:
    from abilities.cli import store

    return store.COMMANDS


def _import_history() -> Iterable[click.Command]:
    from abilities.cli import history

    return history.COMMANDS


def _import_tools() -> Iterable[click.Command]:
    from abilities.cli.doctor import doctor
    from abilities.cli.graph import graph
    from abilities.cli.repair import repair
    from abilities.cli.token import token

    return (doctor, graph, repair, token)


def _import_setup() -> Iterable[click.Command]:
    from abilities.cli import setup

    return setup.COMMANDS


_LOADERS: dict[str, Callable[[], Iterable[click.Command]]] = {
    **dict.fromkeys(("call", "declarations", "describe", "list"), _import_abilities),
    "catch-up": _import_catch_up,
    "completion": _import_completion,
    **dict.fromkeys(("explore", "mcp", "serve"), _import_servers),
    "setup": _import_setup,
    **dict.fromkeys(("backup", "check", "export", "import", "restore"), _import_stores),
    **dict.fromkeys(("compact", "purge"), _import_history),
    **dict.fromkeys(("doctor", "graph", "repair", "token"), _import_tools),
}
"""The commands that are imported when they are named: clients start `abilities mcp` and wait."""


class _Commands(click.Group):
    """The commands; whatever their errors quote, it does not steer the terminal."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_LOADERS})

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _LOADERS and cmd_name not in self.commands:
            for command in _LOADERS[cmd_name]():
                self.add_command(command)

        return super().get_command(ctx, cmd_name)

    @override
    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with escape_errors():
            return super().make_context(*arguments, **options)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        with escape_errors():
            return super().invoke(ctx)


@click.group(
    cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="agent-abilities")
@click.option(
    "--workspace-dir",
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=keep_option,
    help="The folder to read files from (default: the current one, unless it must not be shared, "
    "such as '/' or your home).",
)
@click.option(
    "--agent-dir",
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=keep_option,
    help="The agent's own folder, searched first (default: ~/.abilities/agent).",
)
@take_namespace()
@click.pass_context
def main(context: click.Context, /) -> None:
    """Read many files and many memories in one call.

    Settings come from these options, then from ABILITIES_… environment variables, then from
    ~/.abilities/config.toml. 'abilities doctor' shows which are in use and what is wrong with them.
    """
    # Connections that are tried again are no news to whoever typed a command. A server has a log,
    # and these warnings stay in it.
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

    show_warnings()
    show_store_messages()
    context.obj = Session(find_options(context))


@main.command(epilog=_INIT_EXAMPLES)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@take_namespace()
@pass_session
def init(session: Session, directory: Path | None) -> None:
    """Create an agent directory with a starter MEMORY.md.

    DIRECTORY defaults to the configured agent directory. Existing notes are never changed.
    """
    if directory is not None:
        session = session.override({"agent_dir": directory})

    settings = session.settings
    agent = settings.agent_root.path
    names = settings.memory_files
    notes = agent / names.long_term
    # The name is a pattern, and its folders may hold the date as well.
    todays_notes = agent / names.name_day(datetime.now(settings.zone).date())

    with explain_errors():
        todays_notes.parent.mkdir(parents=True, exist_ok=True)
        created = _create_notes(notes)

    if not created:
        echo(f"{notes} already exists; nothing was changed.")
        return

    echo(f"Created {notes}")
    echo(f"Daily notes go into one file per day, today's is {todays_notes}")


@main.command(epilog=_DEMO_EXAMPLE)
@take_namespace()
@pass_session
def demo(session: Session) -> None:
    """Show an agent's first minute on your files, in thirty lines.

    Finds and reads files of the workspace, answers a question from sample memories, follows their
    links, and compares what LangChain and MCP give a model. Your own memories are neither read nor
    changed.
    """
    workspace = session.shareable_settings.workspace_root
    if workspace is None:
        raise click.UsageError(
            "the demonstration reads the files of a workspace; "
            "start in a project folder, or set --workspace-dir"
        )

    from abilities.cli.demo import run_demo

    # The demonstration also acts as an MCP client, and MCP is an optional dependency.
    if find_spec("mcp") is None:
        raise click.UsageError(
            "the demonstration needs MCP; run: pip install 'agent-abilities[mcp]'"
        )

    asyncio.run(run_demo(workspace.path))


def _create_notes(path: Path) -> bool:
    """Write the starter notes, and return False if there are notes already."""
    if path.exists():
        return False

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_STARTER_NOTES, encoding="utf-8")
    return True
