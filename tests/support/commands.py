"""The commands of the command line."""

from collections.abc import Iterator

import click

from abilities.cli.main import main


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
