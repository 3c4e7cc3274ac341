"""The command ``abilities``: JSON for programs, tables for people, errors as plain sentences.

Exit codes: 0 if the command did its work (a call with failed items was answered), 1 if it failed (a
call that failed as a whole says why on stdout), 2 if the command line, its JSON or the settings are
wrong.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from typing_extensions import override

from abilities.cli.errors import Commands, show_errors
from abilities.cli.importing import pause_collection
from abilities.cli.options import find_options, share_options

_EXAMPLES = """\b
Examples:
  abilities list
  abilities call file_read_bulk '{"paths": ["README.md"]}' --pretty
  abilities COMMAND --help
"""


def _import_abilities() -> Iterable[click.Command]:
    from abilities.cli import ability

    return ability.COMMANDS


def _import_completion() -> Iterable[click.Command]:
    from abilities.cli.completion import completion

    return (completion,)


def _import_servers() -> Iterable[click.Command]:
    from abilities.cli import serve

    return serve.COMMANDS


def _import_start() -> Iterable[click.Command]:
    from abilities.cli import demo

    return demo.COMMANDS


def _import_stores() -> Iterable[click.Command]:
    from abilities.cli import store

    return store.COMMANDS


def _import_backups() -> Iterable[click.Command]:
    from abilities.cli import backups

    return backups.COMMANDS


def _import_memory() -> Iterable[click.Command]:
    from abilities.cli import memory

    return memory.COMMANDS


def _import_tools() -> Iterable[click.Command]:
    from abilities.cli.backups import repair
    from abilities.cli.doctor import doctor
    from abilities.cli.token import token

    return (doctor, repair, token)


def _import_setup() -> Iterable[click.Command]:
    from abilities.cli import setup

    return setup.COMMANDS


_LOADERS: dict[str, Callable[[], Iterable[click.Command]]] = {
    **dict.fromkeys(("call", "declarations", "describe", "list", "recall"), _import_abilities),
    "completion": _import_completion,
    **dict.fromkeys(("demo", "init"), _import_start),
    **dict.fromkeys(("explore", "mcp", "serve"), _import_servers),
    "setup": _import_setup,
    **dict.fromkeys(("check", "export", "import"), _import_stores),
    **dict.fromkeys(("backup", "restore"), _import_backups),
    **dict.fromkeys(("catch-up", "compact", "graph", "purge"), _import_memory),
    **dict.fromkeys(("doctor", "repair", "token"), _import_tools),
}
"""The commands that are imported when they are named: clients start `abilities mcp` and wait."""


_SUMMARIES = {
    "backup": "Copy the store to FILE or DIR while it is in use.",
    "call": "Call an ability and print its answer.",
    "catch-up": "Print what an agent should know from earlier sessions.",
    "check": "Check the integrity of the store.",
    "compact": "Forget the changes for which the settings have no room.",
    "completion": "Print the script that lets a shell complete commands.",
    "declarations": "Print the declarations of all abilities as a JSON array.",
    "demo": "Show an agent's first minute on your files, in thirty lines.",
    "describe": "Show what an ability does and which arguments it takes.",
    "doctor": "Check the configuration, and say how to fix what is wrong.",
    "explore": "Look at memories, notes and files in the browser.",
    "export": "Export memories and their history as lines of JSON.",
    "graph": "Draw what a bulk read of the memory KEY returns.",
    "import": "Import memories from FILE.",
    "init": "Create an agent directory with a starter MEMORY.md.",
    "list": "List the abilities, one per line.",
    "mcp": "Serve the abilities to an MCP client over stdin and stdout.",
    "purge": "Delete a memory for good, together with its history.",
    "recall": "Find the memories and notes that answer questions.",
    "repair": "Mend a damaged store.",
    "restore": "Put the backup FILE in the store's place.",
    "serve": "Serve HTTP (/api), MCP (/mcp) and the memory explorer (/).",
    "setup": "Set up an MCP client, or list the clients.",
    "token": "Make, list and revoke the tokens of 'abilities serve'.",
}
"""What the list of commands says of each, which is printed without importing them."""


class _Commands(Commands):
    """The commands; whatever their errors quote, it does not steer the terminal."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_LOADERS})

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _LOADERS and cmd_name not in self.commands:
            with pause_collection():
                commands = _LOADERS[cmd_name]()

            for command in commands:
                share_options(command)
                self.add_command(command)

        return super().get_command(ctx, cmd_name)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, _SUMMARIES[name]) for name in self.list_commands(ctx)]

        with formatter.section("Commands"):
            formatter.write_dl(rows)

    @override
    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with show_errors(self):
            return super().make_context(*arguments, **options)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        with show_errors(self):
            return super().invoke(ctx)


def _check_stdout() -> None:
    """Raise click.ClickException if the shell has closed stdout: nothing could be printed."""
    if sys.stdout is None:
        raise click.ClickException(
            "stdout is closed; remove '>&-' from the command, or send it to /dev/null"
        )


@click.group(
    cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="agent-abilities")
@click.pass_context
def main(context: click.Context, /) -> None:
    """Read many files and many memories in one call.

    Settings come from these options, then from ABILITIES_… environment variables, then from
    ~/.abilities/config.toml. 'abilities doctor' shows which are in use and what is wrong with them.
    """
    from abilities.cli.session import Session, show_store_messages, show_warnings
    from abilities.cli.terminal import show_unencodable

    # Connections that are tried again are no news to whoever typed a command. A server has a log,
    # and these warnings stay in it.
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

    _check_stdout()
    show_unencodable()
    show_warnings()
    show_store_messages()
    context.obj = Session(find_options(context))


share_options(main)
