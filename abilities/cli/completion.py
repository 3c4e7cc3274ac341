"""The command that prints the shell's completion script, and the values that it suggests."""

import asyncio
import os
import re
from collections.abc import Callable
from contextlib import closing
from functools import partial

import click

from abilities.application import open_store
from abilities.cli.options import find_options
from abilities.cli.session import Session
from abilities.cli.terminal import echo_payload, silence_stderr

_PROGRAM = "abilities"
_VARIABLE = "_ABILITIES_COMPLETE"
"""The variable by which the script asks; click makes its name of the program's."""

_MAX_KEYS = 100
_SECONDS = 2.0
"""How long a person waits for keys."""

_UNSAFE_IN_BASH = re.compile(r"([^\w@%+=:,./-])")

_EXAMPLES = """\b
Examples:
  abilities completion bash >> ~/.bashrc
  abilities completion zsh >> ~/.zshrc
  abilities completion fish > ~/.config/fish/completions/abilities.fish
"""


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands.

    It completes commands, options and their values, names of abilities, and keys of memories. Let
    the shell read it when it starts.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # the argument allows only those that click has

    script = kind(context.find_root().command, {}, _PROGRAM, _VARIABLE)
    echo_payload(script.source())


def complete_ability(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of abilities that begin so."""
    return _suggest(context, partial(_list_abilities, incomplete))


def complete_tools(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return profiles and names of abilities for the last of several names with commas."""
    before, comma, beginning = incomplete.rpartition(",")
    names = _suggest(context, partial(_list_tools, beginning))
    return [f"{before}{comma}{name}" for name in names]


def complete_key(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return keys of memories that begin so, at most 100."""
    return _suggest(context, partial(_list_keys, incomplete, archived=False))


def complete_any_key(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return keys of memories that begin so, at most 100, archived ones too."""
    return _suggest(context, partial(_list_keys, incomplete, archived=True))


def _suggest(context: click.Context, find: Callable[[Session], list[str]]) -> list[str]:
    """Return what is found; nothing if that fails, because a shell has no place for errors."""
    try:
        with silence_stderr():
            return find(Session(find_options(context)))
    except Exception:
        return []


def _list_abilities(beginning: str, session: Session) -> list[str]:
    names = session.registry.names
    return [name for name in names if name.startswith(beginning)]


def _list_tools(beginning: str, session: Session) -> list[str]:
    from abilities.builtin.index import ALL, PROFILES

    profiles = [name for name in (ALL, *PROFILES) if name.startswith(beginning)]
    return [*profiles, *_list_abilities(beginning, session)]


def _list_keys(beginning: str, session: Session, *, archived: bool) -> list[str]:
    from abilities.declarations.memory import is_key

    keys = asyncio.run(_read_keys(session, beginning, archived=archived))
    return [_quote(key) for key in keys if is_key(key)]


async def _read_keys(session: Session, beginning: str, *, archived: bool) -> list[str]:
    """Return keys of a store that is read as it is: it is neither created nor migrated."""
    # The commands whose arguments these functions complete start without them.
    from abilities.helpers.store.sqlite.file import connect_to_file
    from abilities.helpers.store.sqlite.schema import is_older

    settings = session.settings
    path = settings.store_path
    if path is not None:
        with closing(connect_to_file(path, "ro")) as connection:
            if is_older(connection):
                return []

    store = open_store(settings)
    try:
        async with asyncio.timeout(_SECONDS):
            lines = await store.list_memories(
                settings.namespace, beginning, "", _MAX_KEYS, archived=archived
            )
    finally:
        await store.close()

    return [line.key for line in lines]


def _quote(key: str) -> str:
    """Return a key as bash needs it; the other shells quote by themselves."""
    if not os.environ.get(_VARIABLE, "").startswith("bash"):
        return key

    # Two, because the script reads a line in which one of them stands for nothing.
    return _UNSAFE_IN_BASH.sub(r"\\\\\1", key)
