"""A group of commands, whose errors help whoever typed them."""

import click
from typing_extensions import override


class Commands(click.Group):
    """A group of commands that says what an unknown one probably means."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # While a shell completes a line, no name is wrong yet.
        if args and args[0] not in self.list_commands(ctx) and not ctx.resilient_parsing:
            # Only a mistake imports the names of all abilities.
            from abilities.cli.mistakes import suggest_command

            ctx.fail(f"No such command {args[0]!r}. {suggest_command(self, ctx, args)}")

        return super().resolve_command(ctx, args)
