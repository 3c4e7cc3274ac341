"""The command ``abilities``: JSON for programs, tables for people, errors as plain sentences.

Exit codes:

- 0 if the command succeeded; a call succeeds even if some of its items fail,
- 1 if it failed; a call that fails as a whole prints its error on stdout,
- 2 if the command line, its JSON or the settings are wrong.
"""

import logging
import sys
from importlib import import_module
from typing import Any

import click
from typing_extensions import override

from abilities.cli.errors import Commands, explain_errors, show_errors
from abilities.cli.options import find_options, format_examples, share_options
from abilities.helpers.importing import pause_collection

_COMMANDS = {
    "about": ("memory", "Print what is remembered about files."),
    "backup": ("store", "Copy the store to FILE or DIR while it is in use."),
    "call": ("ability", "Call an ability and print its answer."),
    "catch-up": ("memory", "Print what an agent should know from earlier sessions."),
    "check": ("store", "Check the integrity of the store."),
    "compact": ("memory", "Forget the changes that exceed the limits of the history."),
    "completion": ("completion", "Print the script that lets a shell complete commands."),
    "declarations": ("ability", "Print the declarations of all abilities as a JSON array."),
    "demo": ("demo", "Show an agent's first minute on your files, in thirty lines."),
    "describe": ("ability", "Show what an ability does and which arguments it takes."),
    "doctor": ("doctor", "Check the configuration, and say how to fix what is wrong."),
    "explore": ("serve", "Look at memories, notes and files in the browser."),
    "export": ("store", "Export memories and their history as lines of JSON."),
    "graph": ("memory", "Draw the memories that a bulk read of KEY returns."),
    "hook": ("memory", "Answer the hook of a client, such as Claude Code."),
    "import": ("store", "Import memories or sessions from SOURCE."),
    "init": ("demo", "Create an agent directory with a starter MEMORY.md."),
    "list": ("ability", "List the abilities, one per line."),
    "mcp": ("serve", "Serve the abilities to an MCP client over stdin and stdout."),
    "mirror": ("store", "Keep Markdown files and the memories of a namespace equal."),
    "purge": ("memory", "Delete a memory for good, together with its history."),
    "recall": ("ability", "Find the memories and notes that answer questions."),
    "repair": ("store", "Mend a damaged store."),
    "restore": ("store", "Put the backup FILE in the store's place."),
    "serve": ("serve", "Serve HTTP (/api), MCP (/mcp) and the memory explorer (/)."),
    "setup": ("setup", "Set up an MCP client, or list the clients."),
    "token": ("token", "Make, list and revoke the tokens of 'abilities serve'."),
    "why": ("memory", "Explain the place of KEY in the answer of recall to QUESTION."),
}
"""The module and the summary of each command.

A module is imported when one of its commands is named, because clients start `abilities mcp` and
wait for it. The list of commands is printed without any of them.
"""


class _Commands(Commands):
    """The top group, which imports a command when it is named and explains its errors."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            name, _ = _COMMANDS[cmd_name]
            with pause_collection():
                module = import_module(f"abilities.cli.{name}")

            for command in vars(module).values():
                if isinstance(command, click.Command) and command.name == cmd_name:
                    share_options(command)
                    self.add_command(command)

        return super().get_command(ctx, cmd_name)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])

    @override
    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with show_errors(self):
            return super().make_context(*arguments, **options)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        with show_errors(self), explain_errors():
            return super().invoke(ctx)


@click.group(
    cls=_Commands,
    epilog=format_examples(
        "abilities list",
        'abilities call file_read_bulk \'{"paths": ["README.md"]}\' --pretty',
        "abilities COMMAND --help",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
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

    # The pool retries connections by itself. A server keeps these warnings in its log; the user of
    # a command need not see them.
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

    # Python has no such stream if the shell has closed it.
    if sys.stdout is None:
        raise click.ClickException(
            "stdout is closed; remove '>&-' from the command, or send it to /dev/null"
        )

    show_unencodable()
    show_warnings()
    show_store_messages()
    context.obj = Session(find_options(context))


share_options(main)
