"""Writing the history in PostgreSQL, with the change that it tells of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.memory import Action
from abilities.helpers.stores.history import (
    ENTRY_BYTES,
    DamagedEntry,
    Entry,
    Links,
    describe_before,
    seal,
    verify_entry,
)
from abilities.helpers.stores.model import LinkRow, Row
from abilities.helpers.stores.postgres.statements import (
    Connection,
    Select,
    Statement,
    split,
    to_columns,
)
from abilities.helpers.stores.postgres.trimming import TRIM_EVERY, trim_portion
from abilities.helpers.stores.timeline import HistoryLimits

ENTRY_COLUMNS = ", ".join(f"h.{name}" for name in Entry._fields)
"""The columns of an `Entry`, from history AS h."""


class StoreRules(NamedTuple):
    """What a store's writes keep to.

    ``quota`` is the most memories that a namespace may hold; None sets no limit.
    """

    quota: int | None = None
    history: HistoryLimits = HistoryLimits()


class Occasion(NamedTuple):
    """What the history says of a change beside what was replaced."""

    action: Action
    made_at: str
    caller: str


class LinkChange(NamedTuple):
    """Links of a memory before and after a change; those that it left alone may be missing."""

    before: Links
    after: Links

    @classmethod
    def build(cls, before: Iterable[LinkRow], after: Iterable[LinkRow]) -> "LinkChange":
        """Index the links by what names them."""
        return cls(index_links(before), index_links(after))


NO_LINKS = LinkChange({}, {})

_COLUMNS = ", ".join(Entry._fields)
_UPSERT_VERSION = """
INSERT INTO versions AS v (namespace, number, forgotten, history_bytes) VALUES (%s, %s, %s, %s)
ON CONFLICT (namespace) DO UPDATE SET number = EXCLUDED.number,
    forgotten = greatest(v.forgotten, EXCLUDED.forgotten),
    history_bytes = v.history_bytes + EXCLUDED.history_bytes
"""
_SAVE_VERSION = Statement(_UPSERT_VERSION)
# In one statement, which costs less than two.
_SAVE_ENTRY = Statement(f"""
    WITH entry AS (
        INSERT INTO history ({_COLUMNS}) VALUES ({", ".join(["%s"] * len(Entry._fields))})
    )
    {_UPSERT_VERSION}
""")
_ADD_ENTRIES = Statement(f"""
    INSERT INTO history ({_COLUMNS})
    SELECT * FROM unnest(%s::text[], %s::int8[], %s::text[], %s::text[], %s::int8[], %s::text[],
        %s::text[], %s::text[], %s::text[], %s::int8[])
""")
_ADD_BYTES = Statement("""
    UPDATE versions SET history_bytes = history_bytes + %s WHERE namespace = %s
""")
_DELETE_HISTORY = Statement(f"""
    WITH gone AS (
        DELETE FROM history WHERE namespace = %s AND id = ANY(%s)
        RETURNING octet_length(before) + {ENTRY_BYTES} AS size
    )
    UPDATE versions SET history_bytes = history_bytes - (SELECT coalesce(sum(size), 0) FROM gone)
    WHERE namespace = %s
""")


class _Named(NamedTuple):
    key: str
    id: str
    version: int


_NAMES = Select(
    "SELECT key, id, version FROM memories WHERE namespace = %s AND key = ANY(%s)", _Named._make
)


def index_links(links: Iterable[LinkRow]) -> Links:
    """Return links by what names them in their memory, whatever key that has."""
    return {(link.target, link.type): link._replace(source="") for link in links}


def build_entry(
    occasion: Occasion,
    before: Row | None,
    after: Row | None,
    version: int,
    links: LinkChange = NO_LINKS,
) -> Entry:
    """Return the entry of a change, which gave the memory a version.

    One of ``before`` and ``after`` is not None.
    """
    row = before or after
    assert row is not None, "a change concerns a memory"

    described = describe_before(before, after, links.before, links.after)
    previous = 0
    if before is not None:
        previous = before.version

    return seal(
        Entry(
            namespace=row.namespace,
            version=version,
            id=row.id,
            key=row.key,
            previous=previous,
            action=occasion.action,
            made_at=occasion.made_at,
            caller=occasion.caller,
            before=described,
        )
    )


async def save_entry(connection: Connection, entry: Entry, rules: StoreRules) -> None:
    """Keep an entry, and its version as the last one of its namespace.

    If no history is kept, the memory has none from now on.
    """
    namespace, version, memory_id, *_ = entry
    if rules.history.days == 0:
        await _SAVE_VERSION.execute(connection, namespace, version, version, 0)
        await delete_history(connection, namespace, [memory_id])
        return

    await _SAVE_ENTRY.execute(connection, *entry, namespace, version, 0, entry.size)
    if version % TRIM_EVERY == 0:
        await trim_portion(connection, namespace, rules.history, entry.made_at)


async def add_entries(connection: Connection, entries: Sequence[Entry], rules: StoreRules) -> None:
    """Keep more entries of a namespace, whose versions were given already."""
    if rules.history.days == 0:
        return

    async for portion in split(entries):
        await _ADD_ENTRIES.execute(connection, *to_columns(portion))

        size = sum(entry.size for entry in portion)
        await _ADD_BYTES.execute(connection, size, portion[0].namespace)


async def save_relinked(
    connection: Connection,
    renamed: Row,
    occasion: Occasion,
    changes: Mapping[str, LinkChange],
    rules: StoreRules,
) -> None:
    """Keep what a rename changed in the links of other memories, by their keys.

    These keep their versions, so their entries have that of the renamed memory.
    """
    if not changes:
        return

    names = await _NAMES.fetch(connection, renamed.namespace, list(changes))
    if rules.history.days == 0:
        await delete_history(connection, renamed.namespace, [name.id for name in names])
        return

    entries: list[Entry] = []
    async for portion in split(names):
        for key, memory_id, version in portion:
            row = renamed._replace(key=key, id=memory_id, version=version)
            entry = build_entry(occasion, row, row, renamed.version, changes[key])
            entries.append(entry)

    await add_entries(connection, entries, rules)


async def delete_history(connection: Connection, namespace: str, memory_ids: Sequence[str]) -> None:
    """Delete all entries of some memories."""
    await _DELETE_HISTORY.execute(connection, namespace, list(memory_ids), namespace)


def parse_entry(columns: Sequence[Any]) -> Entry | DamagedEntry:
    """Make an entry of the columns of `ENTRY_COLUMNS`, or say that it is damaged."""
    entry = Entry._make(columns)
    try:
        return verify_entry(entry)
    except Refused:
        return DamagedEntry(entry.namespace, entry.version, entry.id)
