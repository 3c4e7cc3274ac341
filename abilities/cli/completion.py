"""Shell completion: the command that prints the script, and the values that it suggests."""

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import click

from abilities.application import use_store
from abilities.cli.options import find_options, format_examples
from abilities.cli.session import Session
from abilities.cli.terminal import echo_payload, silence_stderr

_PROGRAM = "abilities"
_VARIABLE = "_ABILITIES_COMPLETE"
"""The variable that asks for completion; click derives its name from the program's."""

_MAX_KEYS = 100
_SECONDS = 2.0
"""The time limit for listing keys, because a person waits."""

_UNSAFE_IN_BASH = re.compile(r"([^\w@%+=:,./-])")


@click.command(
    epilog=format_examples(
        "abilities completion bash >> ~/.bashrc",
        "abilities completion zsh >> ~/.zshrc",
        "abilities completion fish > ~/.config/fish/completions/abilities.fish",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands.

    It completes commands, options and their values, names of abilities, and keys of memories. Add
    it to the startup file of your shell.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # the argument allows only shells that click knows

    script = kind(context.find_root().command, {}, _PROGRAM, _VARIABLE)
    echo_payload(script.source())


def complete_ability(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of abilities that begin with ``incomplete``."""
    names = _suggest(context, lambda session: session.registry.names)
    return [name for name in names if name.startswith(incomplete)]


def complete_tools(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return profiles and abilities for the last name of a list with commas."""
    from abilities.builtin.index import ALL, PROFILES

    before, comma, beginning = incomplete.rpartition(",")
    names = _suggest(context, lambda session: [ALL, *PROFILES, *session.registry.names])
    return [f"{before}{comma}{name}" for name in names if name.startswith(beginning)]


def _complete_key(
    context: click.Context, _parameter: click.Parameter, incomplete: str, *, archived: bool
) -> list[str]:
    """Return at most 100 keys of memories that begin with ``incomplete``."""
    # Imported here, because commands import this module and rarely complete anything.
    from abilities.declarations.memory import is_key
    from abilities.helpers.store.sqlite.file import connect_to_file, is_older

    async def read_keys(session: Session) -> list[str]:
        """Read keys without creating or migrating the store."""
        settings = session.settings
        path = settings.store_path
        if path is not None:
            with closing(connect_to_file(path, "ro")) as connection:
                if is_older(connection):
                    return []

        async with use_store(settings) as store, asyncio.timeout(_SECONDS):
            lines = await store.list_memories(
                settings.namespace, incomplete, "", _MAX_KEYS, archived=archived
            )

        return [line.key for line in lines if is_key(line.key)]

    keys = _suggest(context, lambda session: asyncio.run(read_keys(session)))
    if not os.environ.get(_VARIABLE, "").startswith("bash"):
        return [*keys]  # the other shells quote by themselves

    # Two backslashes, because bash removes one when the script reads the line.
    return [_UNSAFE_IN_BASH.sub(r"\\\\\1", key) for key in keys]


complete_key = partial(_complete_key, archived=False)
complete_any_key = partial(_complete_key, archived=True)


def _suggest(context: click.Context, find: Callable[[Session], Sequence[str]]) -> Sequence[str]:
    """Return the values found; none if that fails, because a shell has no place for errors."""
    try:
        with silence_stderr():
            return find(Session(find_options(context)))
    except Exception:
        return []
