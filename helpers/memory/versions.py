"""The past of memories: their histories, their versions, and the changes of a namespace."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abilities.declarations.memory import Direction
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.namespaces import NamespaceReader, find_namespace
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.reply.budget import Bound
from abilities.helpers.store.history import (
    ChangePage,
    MemoryChange,
    MemoryHistory,
    MemoryName,
    list_changed,
)
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.protocol import HistoryStore, MemoryStore
from abilities.helpers.store.query import MemoryLine

_CHANGES_AT_ONCE = 500
"""Changes that a filtered page of a timeline reads from the store at once."""

_MAX_CHANGES = 10 * _CHANGES_AT_ONCE
"""Changes that such a page reads in all; then it ends, however few were found."""

_NUMBERS_RESERVE = 64
"""Bytes kept free for the digits of numbers that are known last."""

SHOWN_LINKS = 20
"""Links on a page of a memory's links or of its backlinks."""


def show_links(stored: StoredMemory, offset: int, direction: Direction) -> StoredMemory:
    """Return a memory of the past with a page of its links, the heaviest first.

    Its former backlinks are not known.
    """
    links = sorted(stored.links, key=lambda link: (-link.weight, link.target, link.type))
    shown = links[offset : offset + SHOWN_LINKS]
    if direction == "in":
        shown = []

    return stored._replace(links=tuple(shown), links_total=len(links))


class TimelineFilter(NamedTuple):
    """The changes to list: those by a caller, those of an action, or all."""

    caller: str | None = None
    action: str | None = None

    def accepts(self, change: MemoryChange) -> bool:
        """Return whether to list a change."""
        by_caller = self.caller in (None, change.caller)
        return by_caller and self.action in (None, change.action)


class TimelinePage(NamedTuple):
    """Changes, newest first; the next page ends before version ``before``, None at the end."""

    changes: tuple[MemoryChange, ...]
    before: int | None


class VersionPair(NamedTuple):
    """A memory in a version and in the one that this replaced; None if there was none."""

    memory: StoredMemory | None
    before: StoredMemory | None


class Versions:
    """The histories and versions of the memories of a namespace, and of others that are only read.

    If the store keeps no history, the methods that need one raise Refused("version_not_found").
    """

    def __init__(
        self,
        namespace: str,
        store: MemoryStore,
        memories: MemoryStore | NamespaceReader,
        others: Sequence[str],
    ) -> None:
        self._namespace = namespace
        self._store = store
        self._memories = memories
        self._others = others

    @property
    def _past(self) -> HistoryStore:
        if isinstance(self._store, HistoryStore):
            return self._store

        raise Refused("version_not_found")

    async def read(self, name: MemoryName, before: int | None, limit: int) -> MemoryHistory:
        """Return a page of a memory's history. Raises Refused: memory_not_found, id_not_found."""
        origin = await self._find_origin(name)
        page = await self._past.read_history(origin or self._namespace, name, before, limit)
        return page._replace(origin=origin)

    async def _find_origin(self, name: MemoryName) -> str:
        """Return the other namespace that has a memory, or "" for the own.

        A deleted memory of another one is not found: only those who could restore it may see it.
        """
        if not self._others:
            return ""

        readable = (self._namespace, *self._others)
        found = await find_namespace(self._store, readable, name)
        return "" if found in (None, self._namespace) else found

    async def is_deleted(self, key: str) -> bool:
        """Return whether a key names a memory that was deleted. Raises Refused."""
        page = await self.read(MemoryName(key=key), None, 1)
        return page.row is None

    async def read_at(self, key: str, time: str) -> StoredMemory:
        """Return a memory with all its links as it was at a time. Raises Refused."""
        name = MemoryName(key=key)
        origin = await self._find_origin(name)
        stored = await self._past.read_version(origin or self._namespace, name, time)
        return stored._replace(origin=origin)

    async def list_memories(
        self, prefix: str, after: str, limit: int, *, archived: bool
    ) -> list[MemoryLine | DamagedMemory]:
        """Return memories in the order of their keys, as the store does. Raises Refused."""
        return await self._memories.list_memories(
            self._namespace, prefix, after, limit, archived=archived
        )

    async def read_changes(
        self, since: int, others: Mapping[str, int], limit: int
    ) -> list[ChangePage]:
        """Return the changes after a version, and those of each other namespace after its own.

        The pages have up to ``limit`` changes together. Raises Refused.
        """
        pages = [await self._past.read_changes(self._namespace, since, limit)]

        for other in self._others:
            limit -= len(pages[-1].changes)
            begin = others.get(other, 0)
            page = ChangePage((), begin, has_more=True, is_complete=True)
            if limit:
                page = await self._past.read_changes(other, begin, limit)
            pages.append(page._replace(origin=other))

        return pages

    async def read_latest(self) -> int:
        """Return the version of the latest change, or 0 if none is known. Raises Refused."""
        if not isinstance(self._store, HistoryStore):
            return 0

        changes = await self._store.read_latest_changes(self._namespace, None, 1)
        return changes[0].version if changes else 0

    async def read_timeline(
        self, before: int | None, limit: int, chosen: TimelineFilter
    ) -> TimelinePage:
        """Return up to ``limit`` of the latest changes, newest first. Raises Refused.

        A filter that few changes pass may end a page early, even without any.
        """
        found: list[MemoryChange] = []
        count = 0
        at_once = _CHANGES_AT_ONCE
        if chosen == TimelineFilter():
            at_once = limit + 1  # one more shows whether more follow

        # A filter may reject almost all changes, so their number is limited too.
        while count < _MAX_CHANGES:
            changes = await self._past.read_latest_changes(self._namespace, before, at_once)
            for change in changes:
                if len(found) == limit:
                    return TimelinePage(tuple(found), before)
                before = change.version
                if chosen.accepts(change):
                    found.append(change)

            if len(changes) < at_once:
                return TimelinePage(tuple(found), None)
            count += len(changes)

        return TimelinePage(tuple(found), before)

    async def read_pair(self, memory_id: str, version: int) -> VersionPair:
        """Return a memory in a version and in the one before it, with all links.

        Raises Refused: id_not_found, version_not_found, and the refusals of the store.
        """
        name = MemoryName(id=memory_id)
        page = await self.read(name, version + 1, 1)
        if not page.entries or page.entries[0].version != version:
            raise Refused("version_not_found")

        (entry,) = page.entries
        memory: StoredMemory | None = None
        before: StoredMemory | None = None
        if entry.action != "deleted":
            memory = await self._past.read_version(self._namespace, name, version)
        if entry.action == "mended":
            before = memory  # the content before the damage is unknown
        elif entry.previous:
            before = await self._past.read_version(self._namespace, name, entry.previous)

        return VersionPair(memory, before)

    async def exists(self, memory_id: str) -> bool:
        """Return whether a memory still exists. Raises Refused: id_not_found."""
        page = await self.read(MemoryName(id=memory_id), None, 1)
        return page.row is not None

    async def find_key(self, memory_id: str) -> str:
        """Return the current key of a memory. Raises Refused: id_not_found."""
        page = await self.read(MemoryName(id=memory_id), None, 1)
        if page.row is None:
            raise Refused("id_not_found")

        return page.row.key


def build_history_answer(page: MemoryHistory, given: JsonObject, bound: Bound) -> JsonObject:
    """Return `memory_history`'s answer; its next request repeats the ``given`` arguments."""
    newest = page.entries[0] if page.entries else None
    answer: JsonObject = {}

    if page.row is not None:
        answer.update(id=page.row.id, key=page.row.key, version=page.row.version)
    else:
        if newest is not None:
            answer.update(id=newest.id, key=newest.key)
        answer["deleted"] = True
    if page.origin:
        answer["from"] = page.origin
    if page.earliest:
        answer["earliest"] = page.earliest

    entries: list[JsonObject] = []
    for entry in page.entries:
        data: JsonObject = {
            "version": entry.version,
            "at": entry.made_at,
            "by": entry.caller,
            "action": entry.action,
        }
        changed = list_changed(entry)
        if changed and entry.action != "deleted":
            data["changed"] = changed
        data["size"] = len(entry.before.encode())
        entries.append(data)

    before = page.entries[-1].version if page.entries else 0
    widest: JsonObject = {**given, "before": before}
    count = _count_fitting(entries, answer, widest, bound)

    answer["entries"] = entries[:count]
    if count < len(entries) or page.has_more:
        answer["next_request"] = {**given, "before": page.entries[count - 1].version}

    return answer


def build_changes_answer(
    pages: Sequence[ChangePage], given: JsonObject, bound: Bound
) -> JsonObject:
    """Return `memory_changes`'s answer; its next request repeats the ``given`` arguments.

    The first page is that of the own namespace.
    """
    changes = [describe_change(change, page.origin) for page in pages for change in page.changes]
    answer: JsonObject = {"changes": [], **_name_next(pages)}
    if not all(page.is_complete for page in pages):
        answer["complete"] = False

    count = _count_fitting(changes, answer, _name_request(given, answer), bound)
    answer["changes"] = changes[:count]

    left = count
    shown: list[ChangePage] = []
    for page in pages:
        if left < len(page.changes):
            page = _cut_changes(page, left, given)
        shown.append(page)
        left -= len(page.changes)

    answer |= _name_next(shown)
    if any(page.has_more for page in shown):
        answer["next_request"] = _name_request(given, answer)

    return answer


def _name_request(given: JsonObject, answer: JsonObject) -> JsonObject:
    """Return the request for what follows an answer."""
    request = {**given, "since": answer["next"]}
    if "next_others" in answer:
        request["since_others"] = answer["next_others"]

    return request


def _cut_changes(page: ChangePage, count: int, given: JsonObject) -> ChangePage:
    """Return the first changes of a page."""
    following = given.get("since_others", {}).get(page.origin, 0)
    if count:
        following = page.changes[count - 1].version

    return page._replace(changes=page.changes[:count], next=following, has_more=True)


def _name_next(pages: Sequence[ChangePage]) -> JsonObject:
    """Return the versions after which the next changes follow."""
    own, *others = pages
    named: JsonObject = {"next": own.next}
    if others:
        named["next_others"] = {page.origin: page.next for page in others}

    return named


def describe_change(change: MemoryChange, origin: str = "") -> JsonObject:
    """Return the fields of a change."""
    data: JsonObject = {"version": change.version, "id": change.id}
    if change.key:
        data["key"] = change.key
    if origin:
        data["from"] = origin

    data.update(action=change.action, at=change.made_at, by=change.caller)
    return data


def describe_pair(pair: VersionPair) -> JsonObject:
    """Return the fields of a memory in a version and before it, each with all its links."""
    data: JsonObject = {}
    if pair.memory is not None:
        data["memory"] = to_memory_data(pair.memory, links=True)
    if pair.before is not None:
        data["before"] = to_memory_data(pair.before, links=True)

    return data


def build_list_answer(
    lines: Sequence[MemoryLine | DamagedMemory], limit: int, given: JsonObject, bound: Bound
) -> JsonObject:
    """Return `memory_list`'s answer: up to ``limit`` memories, and the request for more."""
    memories = [describe_line(line) for line in lines[:limit]]
    widest: JsonObject = {
        **given,
        "after": max((line.key for line in lines), key=json_size, default=""),
    }
    count = _count_fitting(memories, {"memories": []}, widest, bound)

    answer: JsonObject = {"memories": memories[:count]}
    if count < len(lines):
        answer["next_request"] = {**given, "after": lines[count - 1].key}

    return answer


def describe_line(line: MemoryLine | DamagedMemory) -> JsonObject:
    """Return the fields of a memory in a list."""
    data: JsonObject = {"key": line.key}
    if line.origin:
        data["from"] = line.origin
    if isinstance(line, DamagedMemory):
        return {**data, "reason": line.reason}

    data.update(type=line.type, size=line.size, version=line.version)
    if line.summary:
        data["summary"] = line.summary
    if line.archived:
        data["archived"] = True

    return data


def _count_fitting(
    entries: Sequence[JsonObject], envelope: JsonObject, request: JsonObject, bound: Bound
) -> int:
    """Return how many entries fit, from the front; at least one, so that requests make progress."""
    room = bound.room - json_size({**envelope, "next_request": request}) - _NUMBERS_RESERVE

    for count, entry in enumerate(entries):
        room -= json_size(entry) + 1
        if room < 0:
            return max(count, 1)

    return len(entries)
