"""The migration of a store to the version of this package: in place, in one transaction.

Whatever happens meanwhile, even a power cut, a store is of the one version or of the other. From
then on a process of the older version, which checks the version in each transaction, is refused.
"""

import logging
import time
from collections.abc import Awaitable, Callable

from abilities.declarations.refusals import Refused
from abilities.helpers.store.transaction import Transaction

_log = logging.getLogger("abilities.store")

VERSION = 1
"""The version of the schema that this package reads and writes, on every engine."""

MIGRATIONS: dict[int, Callable[[Transaction], Awaitable[None]]] = {}
"""What brings a store of the version before to each version.

There is none yet, because no version but the first was published.
"""


def check_version(version: int) -> None:
    """Raise Refused("schema_too_new") for a version that this package does not know."""
    if version > VERSION:
        raise Refused("schema_too_new")


async def migrate(transaction: Transaction, version: int) -> None:
    """Bring what a store of a version holds to the current one; the caller notes the version."""
    began_at = time.monotonic()
    for number in range(version + 1, VERSION + 1):
        _log.info("Migrating the memory store to version %d.", number)
        await MIGRATIONS[number](transaction)

    seconds = time.monotonic() - began_at
    _log.info("Migrated the memory store in %.0f s.", seconds)
