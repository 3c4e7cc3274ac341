"""The history of memories: its entries, and how to restore an earlier state from them.

Every change of a memory adds an entry to the history of its namespace. The entry contains only the
values that the change replaced. To get an earlier state, take the present state and undo the
entries since then, newest first. All functions are pure.
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
    list_differing,
)

_DERIVED = ("namespace", "version", "updated_at")
"""Columns that say nothing about the content of a change, because every change sets them."""


class Entry(NamedTuple):
    """One entry of the history.

    The change gave the memory with this ``id`` the ``version``; ``previous`` is the version before
    it, or 0. A "relinked" memory keeps its version, because another memory was renamed; its entry
    has the version of that rename. ``key`` is the memory's key before the change, or its first key.
    ``before`` is JSON of `describe_before`. ``hash`` covers all other columns.
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
        """The bytes that count towards the limit of the namespace."""
        return ENTRY_BYTES + len(self.before.encode())

    @property
    def is_sound(self) -> bool:
        """Whether the entry matches its hash."""
        try:
            return hash_values(self[:-1]) == self.hash
        except TypeError:  # damaged text may not be valid Unicode
            return False


ENTRY_BYTES = 200
"""Bytes of an entry besides its ``before``, as measured approximately."""


class DamagedEntry(NamedTuple):
    """An entry that does not match its hash; no earlier state can be restored."""

    namespace: str
    version: int
    id: str


class State(NamedTuple):
    """A memory with all its links at some time; ``row`` is None if it did not exist."""

    row: Row | None
    links: Links


def describe_before(
    before: Row | None, after: Row | None, links_before: Links, links_after: Links
) -> str:
    """Return the values that a change replaced, as JSON.

    ``row`` has the former values of the changed columns: all columns if the memory was deleted, or
    null if it did not exist. ``links`` lists the links that the change added, changed or removed,
    in their former state: target, type, weight and term, or target and type alone if the link did
    not exist.

    For example, a new content gives ``{"row": {"content": "old", "updated_at": "…"}}``.

    Unchanged links may be left out of the arguments. The sources of links are not compared, so a
    rename of the memory does not change its links.
    """
    replaced: dict[str, Any] = {"row": None}
    if before is not None:
        columns = before._asdict()
        if after is not None:
            columns = {name: columns[name] for name in list_differing(before, after)}
        columns.pop("namespace", None)
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


def seal(entry: Entry) -> Entry:
    """Return an entry with its hash."""
    return entry._replace(hash=hash_values(entry[:-1]))


def name_action(change: Change, before: Row | None, after: Row | None) -> Action:
    """Return the name of a change's effect on a memory."""
    if after is None:
        return "deleted"
    if change.kind == "restore":
        return "restored"
    if before is None:
        return "created"
    if change.kind == "expire":
        return "expired"
    if change.kind == "supersede":
        return "superseded"
    if before.key != after.key:
        return "renamed"  # before the others, because it is looked up to find a former key
    if before.archived != after.archived:
        return "archived" if after.archived else "revived"

    return "changed"


def list_changed(entry: Entry) -> list[str]:
    """Return the names of the fields that a change replaced; none if it created the memory."""
    before = orjson.loads(entry.before)
    columns = [name for name in before["row"] or () if name not in _DERIVED]
    if before.get("links"):
        columns.append("links")

    return list(name_fields(columns))


def list_restored(before: State, after: State) -> tuple[str, ...]:
    """Return the fields in which two states differ; none if one of them has no memory."""
    if before.row is None or after.row is None:
        return ()

    columns = [name for name in list_differing(before.row, after.row) if name not in _DERIVED]
    if before.links != after.links:
        columns.append("links")

    return name_fields(columns)


def rewind(state: State, entries: Iterable[Entry], version: int) -> State:
    """Return the state of a memory in a version, given its entries since then, newest first.

    If renames of other memories changed its links during that version, this is the last such state.
    Raises Refused: version_not_found if the entries do not lead to the version, checksum_mismatch.
    """
    for entry in entries:
        # A relinked memory keeps its version.
        is_same_version = entry.action == "relinked" and entry.previous <= version
        if entry.version <= version or is_same_version:
            break

        state = undo(state, entry)

    if state.row is None or state.row.version != version:
        raise Refused("version_not_found")

    return state


def undo(state: State, entry: Entry) -> State:
    """Return the state before an entry's change.

    Raises Refused: checksum_mismatch, version_not_found if the memory was damaged before.
    """
    if not entry.is_sound:
        raise Refused("checksum_mismatch")
    if entry.action == "mended":
        raise Refused("version_not_found")

    before = orjson.loads(entry.before)
    columns = before["row"]
    if columns is None:
        return State(None, {})

    # The entry of a deletion has all columns.
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
    """Return the row that restores an earlier version, except for the new version number.

    An existing memory keeps its key, because links of others lead to it. An expiry time that has
    passed is cleared.
    """
    latest = present or wanted
    row = wanted._replace(key=latest.key, updated_at=max(change.now, latest.updated_at))

    if not row.archived and row.expires_at and row.expires_at <= change.now:
        row = row._replace(expires_at="")

    return row


def restore_links(change: Change, row: Row, wanted: State) -> Links:
    """Return the links of a restored version, with the links that the change adds or removes.

    Links of the memory to itself follow its present key; `rename_links` resolves duplicates.
    """
    assert wanted.row is not None, "a version that was found has a row"
    links = rename_links(wanted.links.values(), wanted.row.key, row.key)
    return merge_links(change, row.key, index_links(links))


class MemoryName(NamedTuple):
    """The name of a memory: its id, its key, or a key that it had before."""

    id: str | None = None
    key: str | None = None


class MemoryHistory(NamedTuple):
    """A page of a memory's history, newest first.

    ``row`` is the present memory, or None if it was deleted. ``has_more`` is True if older entries
    follow. ``earliest`` is the oldest version that can be restored. ``origin`` is the memory's
    namespace if it is not the caller's own.
    """

    row: Row | None
    entries: tuple[Entry, ...]
    has_more: bool
    earliest: int
    origin: str = ""


class MemoryChange(NamedTuple):
    """A change in the feed for clients that keep a copy of a namespace.

    ``key`` is the memory's present key, or the last key of a deleted memory. If ``action`` is
    "purged", the history is gone and only the id is known.
    """

    version: int
    id: str
    key: str
    action: Action | Literal["purged"]
    made_at: str
    caller: str


class ChangePage(NamedTuple):
    """Changes of a namespace in the order of their versions.

    ``next`` is the version to continue after. ``is_complete`` is False if some of the changes
    after the requested version are no longer known. ``origin`` is the namespace if it is not the
    caller's own.
    """

    changes: tuple[MemoryChange, ...]
    next: int
    has_more: bool
    is_complete: bool
    origin: str = ""


class HistoryLimits(NamedTuple):
    """Limits on the age and the bytes of a namespace's history; the oldest entries go first."""

    days: int = 90
    max_bytes: int = 256 * 2**20

    def find_cutoff(self, now: str) -> str:
        """Return the earliest time at which an entry is young enough; "" if all entries are."""
        try:
            cutoff = datetime.fromisoformat(now) - timedelta(days=self.days)
        except OverflowError:
            return ""

        return cutoff.isoformat(timespec="milliseconds").replace("+00:00", "Z")
