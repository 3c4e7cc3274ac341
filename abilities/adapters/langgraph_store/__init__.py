"""LangGraph's long-term memory: `AbilitiesStore`, a `BaseStore` on stored memories.

A batch of operations makes all its reads first, and then all its puts in one transaction. A search
looks at the items in a namespace and beneath it. It ranks them by the words of a question, or
returns the newest first, and leaves out items that do not pass its filter.
"""

import asyncio
import logging
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple, cast

from typing_extensions import override

from abilities.adapters.functions import Host, Source, check_namespace
from abilities.declarations.limits import MAX_QUESTION_CHARS
from abilities.declarations.recall import RecallInput
from abilities.declarations.refusals import Fault, Refused
from abilities.definition import Context
from abilities.errors import AbilityError, needs
from abilities.helpers.memory.helper import MemoryHelper, Write
from abilities.helpers.search.ranking import SCORE_ONE
from abilities.helpers.store.mending import to_storable
from abilities.helpers.store.model import Query, StoredMemory

with needs("langgraph_store"):
    from langgraph.store import base

    from abilities.adapters.langgraph_store.items import (
        ItemName,
        StoredItem,
        build_put,
        build_refreshment,
        find_beginning,
        find_end,
        find_name,
        find_tag,
        parse_item,
        parse_memory_key,
    )

__all__ = ["AbilitiesStore"]

_SIMILAR: Mapping[type[base.Op], str] = {
    base.GetOp: "memory_read_bulk",
    base.SearchOp: "recall",
    base.ListNamespacesOp: "recall",
    base.PutOp: "remember",
}
"""The ability that does the same for a model. If it is disabled, the operation is too."""

_BATCHES_AT_ONCE = 16

_Puts = Mapping[str, Write | None]
"""The writes of a batch by the keys of their memories. A deletion is None."""

Outcome = StoredItem | Exception | None
"""The result of reading an item: the item, the error, or None if there is no such item."""

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}

_KEYS_AT_ONCE = 10_000

_FIRST_LOOK = 256
"""Memories that a search looks at first, before it looks at ``max_scanned``."""

_LINES_AT_ONCE = 500
"""Memories per read when namespaces are listed."""

_CONTENT_BYTES = 16 * 2**20
"""Bytes of contents that a ranking may return. Other contents are read afterwards."""

_log = logging.getLogger("abilities")


class RankedItem(NamedTuple):
    """An item that a search found. Its score is None if its words are not searched."""

    item: StoredItem
    score: float | None


class AbilitiesStore(base.BaseStore):
    """A `BaseStore` for sync and async code on any event loop.

    ``source`` is an open application, or settings (by default those of the environment) from which
    one is opened when it is first needed. It stays open, on one background loop, until the process
    ends. All items are in the one ``namespace`` of the application, by default that of the
    settings. With ``require_namespace`` it raises ValueError if no namespace is given.

    ``ttl`` sets how long items stay by default, and whether reads renew that. ``max_scanned`` is
    the maximum number of memories that a search, or a list of namespaces, looks at.

    Methods raise AbilityError if memories cannot be read or changed, and InvalidNamespaceError if a
    namespace is not valid. They raise ValueError if a value is not JSON or is longer than a million
    characters, or if a search would look at more than ``max_scanned`` memories.
    """

    supports_ttl = True

    def __init__(
        self,
        source: Source = None,
        *,
        namespace: str | int | None = None,
        require_namespace: bool = False,
        ttl: base.TTLConfig | None = None,
        max_scanned: int = 10_000,
    ) -> None:
        if require_namespace:
            check_namespace(namespace, "pass namespace=… to AbilitiesStore()")
        self.ttl_config = ttl
        self._host = Host(source, "langgraph", reads=())  # an item is put where it was got
        self._namespace = namespace
        self._max_scanned = max_scanned
        self._turns = asyncio.Semaphore(_BATCHES_AT_ONCE)  # of the background loop

    @override
    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        return self._host.run_sync(self._run(check_operations(ops)))

    @override
    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        return await self._host.run(self._run(check_operations(ops)))

    async def _run(self, ops: Sequence[base.Op]) -> list[base.Result]:
        view = await self._host.get_view(self._namespace)
        try:
            # Further batches wait here, because the store would refuse them after some seconds.
            async with self._turns:
                return await run_batch(view.context, ops, self._max_scanned)
        except Refused as error:
            raise AbilityError(Fault.from_refusal(error)) from None


def check_operations(ops: Iterable[base.Op]) -> list[base.Op]:
    """Return the operations of a batch.

    Raises InvalidNamespaceError, and ValueError for an object that is not an operation.
    """
    checked: list[base.Op] = []

    for op in ops:
        if type(op) not in _SIMILAR:
            raise ValueError(f"Unknown operation type: {type(op)}")

        base.validate_op_namespace(op)
        if isinstance(op, base.PutOp) and not op.namespace:
            raise base.InvalidNamespaceError("Namespace cannot be empty.")
        checked.append(op)

    return checked


async def run_batch(
    context: Context, ops: Sequence[base.Op], max_scanned: int
) -> list[base.Result]:
    """Make the operations of a batch, and return their results in order.

    As in LangGraph's own stores, reads return the state before the batch, and of several puts of
    one item only the last counts. Raises Refused, and ValueError if a value cannot be stored or a
    search would look at too many memories; nothing is put then.
    """
    for kind in {type(op) for op in ops}:
        if _SIMILAR[kind] in context.disabled:
            raise Refused("disabled")
        if kind is base.PutOp and context.read_only:
            raise Refused("scope")

    last_puts = {_find_name(op): op for op in ops if isinstance(op, base.PutOp)}
    puts: dict[str, Write | None] = {}
    for name, put in last_puts.items():
        puts[name.memory_key] = None if put.value is None else build_put(name, put)

    memory = context.memory
    got = [_find_name(op).memory_key for op in ops if isinstance(op, base.GetOp)]
    deleted = [key for key, write in puts.items() if write is None]
    found = await read_memories(memory, [*got, *deleted])
    items = load_items({key: found[key] for key in got})

    # A damaged item raises here, before anything is written.
    searcher = Searcher(memory, max_scanned)
    answers = await asyncio.gather(*[_read(op, items, searcher) for op in ops])
    used = {item.row.key: item for _, refreshed in answers for item in refreshed}
    refreshments = [build_refreshment(item) for key, item in used.items() if key not in puts]
    writes = [write for write in refreshments if write is not None]
    if writes and not context.read_only:
        try:
            await memory.remember(writes, atomic=False)
        except Refused as error:
            _log.warning("a read of a LangGraph store renewed no time to live: %s", error)

    for key in deleted:
        missing = found[key]
        if isinstance(missing, Refused) and missing.reason == "memory_not_found":
            del puts[key]

    await _make_puts(memory, puts)
    return [result for result, _ in answers]


def _find_name(op: base.GetOp | base.PutOp) -> ItemName:
    return ItemName(tuple(op.namespace), op.key)


async def _read(
    op: base.Op, items: Mapping[str, Outcome], searcher: "Searcher"
) -> tuple[base.Result, list[StoredItem]]:
    """Return the result of an operation, and the items that it keeps alive.

    Raises the error of an item that a get names.
    """
    if isinstance(op, base.GetOp):
        item = items[_find_name(op).memory_key]
        if isinstance(item, Exception):
            raise item
        if item is None:
            return None, []

        return item.to_item(), [item] if op.refresh_ttl else []

    if isinstance(op, base.SearchOp):
        page = await searcher.search(op)
        used = [ranked.item for ranked in page if op.refresh_ttl]
        return [ranked.item.to_search_item(ranked.score) for ranked in page], used

    if isinstance(op, base.ListNamespacesOp):
        return await searcher.list_namespaces(op), []

    return None, []


async def _make_puts(memory: MemoryHelper, puts: _Puts) -> None:
    """Make all puts in one transaction. Raises Refused."""
    writes = dict(puts)

    while writes:
        operations = [write or Write("delete", {"key": key}) for key, write in writes.items()]
        outcomes = await memory.remember(operations, atomic=True)

        failures: dict[str, Refused] = {}
        for key, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Refused):
                if outcome.reason != "rolled_back":
                    failures[key] = outcome
            elif isinstance(outcome, Exception):
                raise outcome

        if not failures:
            return

        # The transaction was rolled back. It is tried again without items that others deleted.
        for key, error in failures.items():
            if error.reason != "memory_not_found":
                raise error
            del writes[key]


class Searcher:
    """Searches the items of a namespace's memory, looking at up to ``max_scanned`` memories."""

    def __init__(self, memory: MemoryHelper, max_scanned: int) -> None:
        self._memory = memory
        self._max_scanned = max_scanned

    async def search(self, op: base.SearchOp) -> list[RankedItem]:
        """Return the page of items that a search asks for.

        Items that contain words of its question come first, best first. The others follow, the last
        written first. Raises Refused, and ValueError if the filter has an unknown operator or if
        the page is beyond ``max_scanned`` memories.
        """
        page = slice(op.offset, op.offset + op.limit)
        wanted = page.stop if min(op.offset, op.limit) >= 0 else self._max_scanned
        if not op.query:
            scanned = await self._scan(op, wanted, frozenset(), is_strict=True)
            return [RankedItem(item, None) for item in scanned][page]

        arguments = RecallInput(
            queries=[to_storable(op.query[:MAX_QUESTION_CHARS])],
            tags=[find_tag(op.namespace_prefix)],
            notes=False,
        )
        result = await self._memory.recall(arguments, [0], _CONTENT_BYTES)
        (ranking,) = result.rankings

        scores = {entry.name: entry.score / SCORE_ONE for entry in ranking.entries}
        missing = [key for key in scores if key not in result.memories]
        memories = {**result.memories, **await read_memories(self._memory, missing)}
        items = await self._load_passing(op, {key: memories[key] for key in scores})
        ranked = [RankedItem(item, scores[item.row.key]) for item in items if item.details.index]

        if len(ranked) < wanted:
            known = frozenset(found.item.row.key for found in ranked)
            for item in await self._scan(op, wanted, known, is_strict=False):
                score = 0.0 if item.details.index else None
                ranked.append(RankedItem(item, score))

        return ranked[page]

    async def _scan(
        self, op: base.SearchOp, wanted: int, known: frozenset[str], *, is_strict: bool
    ) -> list[StoredItem]:
        """Return at least ``wanted`` passing items if there are so many, without known ones.

        The newest come first. A strict search raises ValueError if some memories were not looked
        at, and might be among the wanted items.
        """
        tag = find_tag(op.namespace_prefix)
        first_look = min(max(_FIRST_LOOK, wanted + len(known)), self._max_scanned)
        items: list[StoredItem] = []

        for limit in dict.fromkeys((first_look, self._max_scanned)):
            query = Query(tags=(tag,), sort_by="updated_at", limit=limit)
            page = await self._memory.query(query)
            memories: dict[str, StoredMemory | Exception] = {}
            for number, found in enumerate(page.memories):
                key = found.row.key if isinstance(found, StoredMemory) else f"#{number}"
                if key not in known:
                    memories[key] = found

            items = await self._load_passing(op, memories)
            if len(items) >= wanted or page.total <= limit:
                return items

        if is_strict:
            raise ValueError(
                f"the search would look at more than {self._max_scanned:,} memories; "
                "name a deeper namespace, or set max_scanned"
            )
        return items

    async def _load_passing(
        self, op: base.SearchOp, memories: Mapping[str, StoredMemory | Exception]
    ) -> list[StoredItem]:
        """Return the items that are beneath the prefix and pass the filter; log damaged ones."""
        prefix = tuple(op.namespace_prefix)
        candidates: dict[str, StoredMemory | Exception] = {}

        for key, memory in memories.items():
            if isinstance(memory, StoredMemory):
                name = find_name(memory.row)
                if name is None or name.namespace[: len(prefix)] != prefix:
                    continue
            candidates[key] = memory

        items: list[StoredItem] = []
        for outcome in load_items(candidates).values():
            if isinstance(outcome, Exception):
                _log.warning("a search of a LangGraph store left out a damaged item: %s", outcome)
            elif outcome is not None and passes(outcome.value, op.filter):
                items.append(outcome)

        return items

    async def list_namespaces(self, op: base.ListNamespacesOp) -> list[tuple[str, ...]]:
        """Return the matching namespaces that have items, sorted.

        Raises Refused, and ValueError if it would look at more than ``max_scanned`` memories.
        """
        conditions = op.match_conditions or ()

        # Only memories beneath the longest prefix without a wildcard need to be listed.
        longest: tuple[str, ...] = ()
        for condition in conditions:
            if condition.match_type == "prefix":
                path = tuple(condition.path)
                literal = path[: path.index("*")] if "*" in path else path
                longest = max(longest, literal, key=len)

        matching: set[tuple[str, ...]] = set()
        for namespace in await self._find_namespaces(longest):
            if all(matches(namespace, condition) for condition in conditions):
                matching.add(namespace[: op.max_depth])

        return sorted(matching)[op.offset : op.offset + op.limit]

    async def _find_namespaces(self, prefix: Sequence[str]) -> set[tuple[str, ...]]:
        beginning, after = find_beginning(prefix), ""
        namespaces: set[tuple[str, ...]] = set()
        looked_at = 0

        while looked_at <= self._max_scanned:
            lines = await self._memory.reader.list_memories(
                beginning, after, _LINES_AT_ONCE, archived=False
            )

            shortened: list[str] = []
            for line in lines:
                name = parse_memory_key(line.key)
                if name is not None:
                    namespaces.add(name.namespace)
                elif "~" in line.key:
                    shortened.append(line.key)

            for memory in (await read_memories(self._memory, shortened)).values():
                name = find_name(memory.row) if isinstance(memory, StoredMemory) else None
                if name is not None:
                    namespaces.add(name.namespace)

            if len(lines) < _LINES_AT_ONCE:
                return namespaces

            # The rest of the last namespace is skipped.
            looked_at += len(lines)
            after = lines[-1].key
            last = parse_memory_key(after)
            if last is not None:
                after = find_end(last)

        raise ValueError(
            f"listing namespaces would look at more than {self._max_scanned:,} memories; "
            "name a prefix, or set max_scanned"
        )


async def read_memories(
    memory: MemoryHelper, keys: Iterable[str]
) -> dict[str, StoredMemory | Exception]:
    """Return the memories with these keys, in one read per 10,000. Raises Refused."""
    wanted = list(dict.fromkeys(keys))
    memories: dict[str, StoredMemory | Exception] = {}

    for start in range(0, len(wanted), _KEYS_AT_ONCE):
        portion = wanted[start : start + _KEYS_AT_ONCE]
        found = await memory.read_memories(portion)
        memories.update(zip(portion, found, strict=True))

    return memories


def load_items(memories: Mapping[str, StoredMemory | Exception]) -> dict[str, Outcome]:
    """Return the items of memories, by the memories' keys and in their order.

    An archived or missing memory gives None.
    """
    outcomes: dict[str, Outcome] = {}

    for key, memory in memories.items():
        if isinstance(memory, Refused) and memory.reason == "memory_not_found":
            outcomes[key] = None
        elif isinstance(memory, Exception):
            outcomes[key] = memory
        elif memory.row.archived:
            outcomes[key] = None
        else:
            try:
                outcomes[key] = parse_item(memory.row)
            except Refused as error:
                outcomes[key] = error

    return outcomes


def passes(value: Mapping[str, object], conditions: Mapping[str, object] | None) -> bool:
    """Return whether the fields of a value meet the conditions of a filter.

    The condition of a field is a value, an object of operators, an object of conditions for fields
    within the field, or a list of conditions for each element. Raises ValueError if an operator is
    unknown.

    >>> passes({"stars": 4, "by": {"name": "Ada"}}, {"stars": {"$gt": 3}, "by": {"name": "Ada"}})
    True
    """
    for field, condition in (conditions or {}).items():
        if not _fits(value.get(field), condition):
            return False

    return True


def _fits(value: object, condition: object) -> bool:
    if isinstance(condition, list | tuple):
        if not isinstance(value, list):
            return False

        elements = cast(list[object], value)
        parts = cast(Sequence[object], condition)
        return len(elements) == len(parts) and all(map(_fits, elements, parts))

    if not isinstance(condition, Mapping):
        return value == condition

    conditions = cast(Mapping[str, object], condition)
    if any(name.startswith("$") for name in conditions):
        return all(_compare(value, name, bound) for name, bound in conditions.items())

    return isinstance(value, dict) and passes(cast(dict[str, object], value), conditions)


def _compare(value: object, name: str, bound: object) -> bool:
    """Apply an operator. Raises ValueError if it is unknown."""
    if name == "$eq":
        return value == bound
    if name == "$ne":
        return value != bound

    compare = _ORDERS.get(name)
    if compare is None:
        raise ValueError(f"Unsupported operator: {name}")

    number, limit = _to_number(value), _to_number(bound)
    if number is not None and limit is not None:
        return compare(number, limit)

    # Other strings, such as dates, are compared as they are.
    if isinstance(value, str) and isinstance(bound, str):
        return compare(value, bound)

    return False


def _to_number(value: object) -> float | None:
    """Return a number, or the number in a string, or None for any other value."""
    if not isinstance(value, int | float | str):
        return None

    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None

    return None if isnan(number) else number


def matches(namespace: Sequence[str], condition: base.MatchCondition) -> bool:
    """Return whether a namespace begins or ends with a path, in which ``*`` is any label.

    Raises ValueError if the match type is neither "prefix" nor "suffix".
    """
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(path):
        return False

    labels = namespace[: len(path)]
    if condition.match_type == "suffix":
        labels = namespace[len(namespace) - len(path) :]

    return all(wanted in ("*", label) for label, wanted in zip(labels, path, strict=True))
