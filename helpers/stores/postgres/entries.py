"""Importing the history of memories into PostgreSQL."""

from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.helpers.stores.history import Entry, seal
from abilities.helpers.stores.postgres.history import WriteRules, add_entries
from abilities.helpers.stores.postgres.statements import Connection, Select, to_number
from abilities.helpers.stores.requests import check_values

_COUNT_KNOWN = Select(
    """
    SELECT (SELECT count(*) FROM memories WHERE namespace = %s AND id = %s)
        + (SELECT count(*) FROM purged WHERE namespace = %s AND id = %s)
        + (SELECT count(*) FROM history WHERE namespace = %s AND id = %s)
    """,
    to_number,
)
_TAKE_VERSIONS = Select(
    """
    INSERT INTO versions AS v (namespace, number) VALUES (%s, %s)
    ON CONFLICT (namespace) DO UPDATE SET number = v.number + EXCLUDED.number
    RETURNING number
    """,
    to_number,
)


def group_entries(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Return entries by the namespace and id of their memories."""
    grouped: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        grouped.setdefault((entry.namespace, entry.id), []).append(entry)

    return grouped


async def import_memory_entries(
    connection: Connection, entries: Sequence[Entry], rules: WriteRules
) -> int:
    """Store the history of one memory, unless the memory is known; return how many were stored.

    The memory itself is imported afterwards. Raises Refused: invalid_stored_value.
    """
    first, *_ = entries
    _check(entries)
    name = (first.namespace, first.id)
    if rules.history.days == 0 or await _COUNT_KNOWN.fetch_only(connection, *name, *name, *name):
        return 0

    # The version before the first entry gets a number too, if there was one.
    taken = await _TAKE_VERSIONS.fetch_only(connection, first.namespace, len(entries) + 1)
    versions = {0: 0}
    if first.previous:
        versions[first.previous] = taken - len(entries)

    renumbered: list[Entry] = []
    for number, entry in enumerate(entries, start=taken - len(entries) + 1):
        previous = versions.get(entry.previous, number - 1)
        if entry.action != "relinked":
            versions[entry.version] = number
        renumbered.append(seal(entry._replace(version=number, previous=previous)))

    await add_entries(connection, renumbered, rules)
    return len(renumbered)


def _check(entries: Sequence[Entry]) -> None:
    try:
        check_values(list(entries))
    except Refused:
        raise Refused("invalid_stored_value") from None
