"""All built-in abilities, and all commands of the command line."""

from collections.abc import Iterator

import click

from abilities.builtin.index import NAMES, load_built_in
from abilities.cli.main import main
from abilities.definition import Ability

BUILT_IN: tuple[Ability, ...] = tuple(load_built_in(name).describe_beside(NAMES) for name in NAMES)
"""They stand in the order in which every surface lists them, if all are offered."""


def list_commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(main)

    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found is not None
                yield f"{name} {inner}", found
        else:
            yield name, command
