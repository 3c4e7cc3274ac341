"""Migration of a store to the version of this package: in place, in one transaction.

The transaction is atomic, so even after a power cut a store has either the old version or the new
one. Processes of an older package check the version in each transaction, and are refused after
the migration.
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
"""For each version, the function that migrates a store of the version before.

It is empty because only version 1 was ever published.
"""


def check_version(version: int) -> None:
    """Raise Refused("schema_too_new") if this package does not know a version yet."""
    if version > VERSION:
        raise Refused("schema_too_new")


async def migrate(transaction: Transaction, version: int) -> None:
    """Migrate the content of a store from a version; the caller saves the new version number."""
    began_at = time.monotonic()
    for number in range(version + 1, VERSION + 1):
        _log.info("Migrating the memory store to version %d.", number)
        await MIGRATIONS[number](transaction)

    seconds = time.monotonic() - began_at
    _log.info("Migrated the memory store in %.0f s.", seconds)
