"""The commands that forget: `compact`, what the limits no longer allow, and `purge`, one memory."""

import asyncio

import click

from abilities.cli.completion import complete_any_key
from abilities.cli.errors import explain_errors, explain_stop
from abilities.cli.options import take_namespace, whole_store
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo, format_count
from abilities.declarations.values import utc_now
from abilities.helpers.memory.writer import Writer
from abilities.helpers.transfer.patience import Patience

_UNREACHED = (
    "Copies elsewhere still have it: backups, exports, replicas, and what was printed or logged."
)


_COMPACT_EXAMPLE = """\b
Example:
  ABILITIES_HISTORY_DAYS=30 abilities compact
"""

_PURGE_EXAMPLES = """\b
Examples:
  abilities purge old/address
  abilities purge old/address --namespace team --yes
"""


@click.command(epilog=_COMPACT_EXAMPLE)
@whole_store
@pass_session
def compact(session: Session) -> None:
    """Forget the changes for which the settings have no room.

    Those are older than history_days, or larger than history_max_mb in all. Stores forget a little
    with every few hundred changes; this does all of it at once, for example after the settings were
    lowered. What it forgets cannot be undone any more; the memories stay as they are.
    """
    with explain_errors(), explain_stop(lambda: "Stopped. To go on, run the same command again."):
        forgotten = asyncio.run(_compact(session))

    echo(f"Forgot {format_count(forgotten, 'change', 'changes')}.", err=True)


async def _compact(session: Session) -> int:
    async with session.open_store() as store:
        now = utc_now()
        return await Patience().call(lambda: store.compact(now))


@click.command(epilog=_PURGE_EXAMPLES)
@click.argument("key", shell_complete=complete_any_key)
@take_namespace("The namespace of the memory (default: the configured one).")
@click.option("--yes", is_flag=True, help="Do not ask for a confirmation.")
@pass_session
def purge(session: Session, key: str, yes: bool) -> None:
    """Delete a memory for good, together with its history.

    It is the one with KEY. Nothing brings it back, and no import does.
    """
    if not yes:
        click.confirm(f"Delete {key!r} and its history for good?", abort=True, err=True)

    with explain_errors():
        asyncio.run(_purge(session, key))

    echo(f"Purged it. {_UNREACHED}", err=True)


async def _purge(session: Session, key: str) -> None:
    namespace = session.settings.namespace

    async with session.open_store() as store:
        await Writer(namespace, store, "cli").change("purge", {"key": key})


COMMANDS = (compact, purge)
