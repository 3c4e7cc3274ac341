"""The command `hook`, as `abilities.__main__` runs it without importing the command line."""

import click

from abilities.hooks.asking import answer_stdin

_EXAMPLE = """\b
Example:
  abilities setup claude-code --hooks
"""


@click.command(epilog=_EXAMPLE)
@click.argument("event")
def hook(event: str) -> None:
    """Answer the hook of a client, which 'abilities setup --hooks' adds.

    EVENT is SessionStart, PreCompact, UserPromptSubmit, PreToolUse or BeforeAgent; stdin has its
    fields as JSON. Prints what the model should know then. If there is nothing, or anything fails,
    it prints nothing and ends with 0 all the same, so that the client goes on.
    """
    answer_stdin(event)


COMMANDS = (hook,)
