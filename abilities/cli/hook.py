"""The command `hook`, as `abilities.__main__` runs it without importing the command line."""

import os

import click

from abilities.cli.session import Session, pass_session
from abilities.hooks.asking import answer_stdin

_EXAMPLE = """\b
Example:
  echo '{"session_id": "1", "prompt": "Who is Ada?"}' | abilities hook UserPromptSubmit
"""


@click.command(epilog=_EXAMPLE)
@click.argument("event")
@pass_session
def hook(session: Session, event: str) -> None:
    """Answer the hook of a client, such as Claude Code.

    'abilities setup CLIENT --hooks' adds such hooks. EVENT is SessionStart, PreCompact,
    UserPromptSubmit, PreToolUse or BeforeAgent, and stdin has its fields as JSON. Prints what the
    model should know then. If that is nothing, or anything fails, prints nothing and ends with 0
    all the same, so that the client goes on.
    """
    os.environ.update(session.variables)
    answer_stdin(event)


COMMANDS = (hook,)
