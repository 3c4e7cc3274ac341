"""The command `catch-up`: what an agent should know from earlier sessions."""

import asyncio

import click

from abilities.cli.errors import explain_errors
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo_payload
from abilities.declarations.limits import TOKEN_BYTES
from abilities.prompts import write_catch_up

_DEFAULT_TOKENS = 2_000
_MIN_TOKENS = 500
_MAX_TOKENS = 16_000

# \b keeps click from joining the lines of a paragraph.
_EXAMPLE = """\b
Example:
  abilities catch-up --max-tokens 1000
"""


@click.command("catch-up", epilog=_EXAMPLE)
@click.option(
    "--max-tokens",
    type=click.IntRange(_MIN_TOKENS, _MAX_TOKENS),
    default=_DEFAULT_TOKENS,
    show_default=True,
    help="Print no more than so many tokens, of 4 bytes each.",
)
@pass_session
def catch_up(session: Session, max_tokens: int) -> None:
    """Print what an agent should know from earlier sessions.

    These are the long-term notes, the notes of the last seven days, and the memories that are
    important or changed last, each with a label, as the MCP prompt 'catch_up' returns them. Let a
    client print it at the start of a session, for example by a hook.
    """
    stdout = session.stdout

    with explain_errors():
        text = asyncio.run(_write(session, max_tokens * TOKEN_BYTES))

    echo_payload(text, stdout, nl=not text.endswith("\n"))


async def _write(session: Session, max_bytes: int) -> str:
    async with session.open_application() as abilities:
        return await write_catch_up(abilities, max_bytes)


COMMANDS = (catch_up,)
