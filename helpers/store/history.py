"""What a store keeps of the states that its memories had, and for how long: all of it pure.

Every change of a memory adds an entry to the history of its namespace. The entry holds what the
change replaced, and nothing else: an earlier state is the present one, with the entries since then
undone, the newest first.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, cast

import orjson

from abilities.declarations.memory import Action
from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import Change, merge_links, name_fields, rename_links
from abilities.helpers.store.model import (
    LinkRow,
    Links,
    Row,
    dump_sorted_json,
    hash_values,
    index_links,
)

_DERIVED = ("namespace", "version", "updated_at")
"""Columns that a change always sets, and that say nothing about what it changed."""


class Entry(NamedTuple):
    """One entry of the history.

    ``version`` is what the change gave the memory with this ``id``, ``previous`` the version that
    it had, 0 if there was none. Only a "relinked" memory keeps its version; its entry has that of
    the change that renamed the other one. ``key`` is the memory's key before the change, or its
    first one. ``before`` is JSON, see `describe_before`. ``hash`` covers every other column.
    """

    namespace: str
    version: int
    id: str
    key: str
    previous: int
    action: Action
    made_at: str
    caller: str
    before: str
    hash: int = 0

    @property
    def size(self) -> int:
        """The bytes by which the entry counts towards the limit of its namespace."""
        return ENTRY_BYTES + len(self.before.encode())


ENTRY_BYTES = 200
"""Bytes that an entry takes beside what it holds, about as measured."""


class DamagedEntry(NamedTuple):
    """An entry that does not match its hash; no state before it can be restored."""

    namespace: str
    version: int
    id: str


class State(NamedTuple):
    """A memory with all its links at some time; without a row there was none."""

    row: Row | None
    links: Links


def describe_before(
    before: Row | None, after: Row | None, links_before: Links, links_after: Links
) -> str:
    """Return what a change replaced, as JSON.

    ``row`` holds the former values of the columns that changed: all of them if the memory was
    deleted, null if there was none. ``links`` lists the links that were added, changed or removed,
    each as it was: target, type, weight and term, or target and type alone if there was none.

    The links may be limited to those that the change concerns. Their sources do not count, so that
    links that only follow the memory's own new key are as they were.
    """
    replaced: dict[str, Any] = {"row": None}
    if before is not None:
        columns = before._asdict()
        del columns["namespace"]
        if after is not None:
            columns = {name: columns[name] for name in columns if _differs(name, before, after)}
        columns.pop("version", None)
        replaced["row"] = columns

    links: list[Sequence[object]] = []
    for name in sorted(links_before.keys() | links_after.keys()):
        link, later = links_before.get(name), links_after.get(name)
        if link is None:
            links.append(name)
        elif later is None or (link.weight, link.term) != (later.weight, later.term):
            links.append((*name, link.weight, link.term))
    if links:
        replaced["links"] = links

    return dump_sorted_json(replaced)


def _differs(name: str, before: Row, after: Row) -> bool:
    return bool(getattr(before, name) != getattr(after, name))


def seal(entry: Entry) -> Entry:
    """Return an entry with its hash."""
    return entry._replace(hash=hash_values(entry[:-1]))


def verify_entry(entry: Entry) -> Entry:
    """Return an entry that is as it was written. Raises Refused: checksum_mismatch."""
    try:
        is_sound = hash_values(entry[:-1]) == entry.hash
    except TypeError:  # a damaged text need not be valid Unicode
        is_sound = False

    if not is_sound:
        raise Refused("checksum_mismatch")

    return entry


def name_action(change: Change, before: Row | None, after: Row | None) -> Action:
    """Return what became of a memory by a change."""
    if after is None:
        return "deleted"
    if change.kind == "restore":
        return "restored"
    if before is None:
        return "created"
    if change.kind == "expire":
        return "expired"
    if before.key != after.key:
        return "renamed"  # first, because the former key leads to the memory by it
    if before.archived != after.archived:
        return "archived" if after.archived else "revived"

    return "changed"


def list_changed(entry: Entry) -> list[str]:
    """Return the names of the fields that an entry's change replaced; none if it created one."""
    before = orjson.loads(entry.before)
    columns = [name for name in before["row"] or () if name not in _DERIVED]
    if before.get("links"):
        columns.append("links")

    return list(name_fields(columns))


def list_restored(before: State, after: State) -> tuple[str, ...]:
    """Return the fields that restoring a version changes; none if one of them has no memory."""
    if before.row is None or after.row is None:
        return ()

    columns: list[str] = []
    for name in Row._fields:
        if name not in _DERIVED and _differs(name, before.row, after.row):
            columns.append(name)
    if before.links != after.links:
        columns.append("links")

    return name_fields(columns)


def rewind(state: State, entries: Iterable[Entry], version: int) -> State:
    """Return the state that a memory had in a version, given its entries since, newest first.

    Of the states that differ only by the new keys of other memories, it is the last one. Raises
    Refused: version_not_found if the entries do not lead there, checksum_mismatch.
    """
    for entry in entries:
        # A memory that was only relinked keeps its version.
        is_part = entry.action == "relinked" and entry.previous <= version
        if entry.version <= version or is_part:
            break

        state = undo(state, verify_entry(entry))

    if state.row is None or state.row.version != version:
        raise Refused("version_not_found")

    return state


def find_previous(entries: Iterable[Entry]) -> int:
    """Return the version that a memory had before its last change, given its entries, newest first.

    A new key of another memory that it links to is no change of its own. Raises Refused:
    version_not_found if no such change is known, checksum_mismatch.
    """
    for entry in entries:
        if verify_entry(entry).action != "relinked":
            return entry.previous

    raise Refused("version_not_found")


def rewind_to_time(state: State, entries: Iterable[Entry], time: str) -> State:
    """Return the state that a memory had at a time, given its entries since, newest first.

    Raises Refused: version_not_found if there was none or it is no longer known,
    checksum_mismatch.
    """
    for entry in entries:
        if entry.made_at <= time:
            break

        state = undo(state, verify_entry(entry))

    # Entries from before may be forgotten; a state knows itself since when it holds.
    if state.row is None or state.row.updated_at > time:
        raise Refused("version_not_found")

    return state


def undo(state: State, entry: Entry) -> State:
    """Return the state from before an entry's change.

    Raises Refused: version_not_found if the memory was damaged before it.
    """
    if entry.action == "mended":
        raise Refused("version_not_found")

    before = orjson.loads(entry.before)
    columns = before["row"]
    if columns is None:
        return State(None, {})

    # The entry of a deletion holds all columns.
    row = state.row or Row(namespace=entry.namespace, **columns)
    row = row._replace(**columns, version=entry.previous)

    links = {name: link._replace(source=row.key) for name, link in state.links.items()}
    for target, kind, *rest in before.get("links", ()):
        if rest:
            weight, term = cast(tuple[float, str], rest)
            links[target, kind] = LinkRow(row.key, target, kind, weight, term)
        else:
            links.pop((target, kind), None)

    return State(row, links)


def restore_row(change: Change, present: Row | None, wanted: Row) -> Row:
    """Return the row that restoring a version gives a memory, except for its version.

    A memory that exists keeps its key, because the links of others follow that. What has expired
    since stays without an end.
    """
    key = wanted.key if present is None else present.key
    latest = wanted if present is None else present
    row = wanted._replace(key=key, updated_at=max(change.now, latest.updated_at))

    if not row.archived and row.expires_at and row.expires_at <= change.now:
        row = row._replace(expires_at="")

    return row


def restore_links(change: Change, row: Row, wanted: State) -> Links:
    """Return the links of a restored version; those to the memory itself follow its key.

    Of two that become one by that, the same one stays as in a rename. Then come the links that the
    change itself adds or removes.
    """
    assert wanted.row is not None, "a version that was found has a row"
    links = rename_links(wanted.links.values(), wanted.row.key, row.key)
    return merge_links(change, row.key, index_links(links))


class MemoryName(NamedTuple):
    """A memory, named by its id or its key; a key that it no longer has names it too."""

    id: str | None = None
    key: str | None = None


class MemoryHistory(NamedTuple):
    """A page of a memory's history, newest first.

    ``row`` is the memory as it is now, None if it was deleted. ``has_more`` says that older entries
    follow; ``earliest`` is the oldest version that can be restored.
    """

    row: Row | None
    entries: tuple[Entry, ...]
    has_more: bool
    earliest: int


class MemoryChange(NamedTuple):
    """A change as those learn of it who keep a copy of a namespace.

    ``key`` is the memory's key now, or the last one of a deleted memory. ``action`` is "purged"
    for a memory whose history is gone; then only its id is known.
    """

    version: int
    id: str
    key: str
    action: Action | Literal["purged"]
    made_at: str
    caller: str


class ChangePage(NamedTuple):
    """Changes of a namespace in the order of their versions.

    ``next`` is the version to go on from. ``is_complete`` is False if older changes after the
    version asked for are no longer known.
    """

    changes: tuple[MemoryChange, ...]
    next: int
    has_more: bool
    is_complete: bool


class HistoryLimits(NamedTuple):
    """How long a namespace keeps its history, and up to how many bytes; older entries go first."""

    days: int = 90
    max_bytes: int = 256 * 2**20

    def find_cutoff(self, now: str) -> str:
        """Return the time from which on entries are young enough; empty if all are."""
        try:
            cutoff = datetime.fromisoformat(now) - timedelta(days=self.days)
        except OverflowError:
            return ""

        return cutoff.isoformat(timespec="milliseconds").replace("+00:00", "Z")
