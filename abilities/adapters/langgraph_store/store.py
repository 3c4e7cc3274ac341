"""`AbilitiesStore`: LangGraph's long-term memory over the memories of an application.

One batch of operations: all reads first, then all puts in one transaction.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from typing_extensions import override

from abilities.adapters.host import Host, Source, check_namespace
from abilities.adapters.langgraph_store.items import (
    ItemName,
    StoredItem,
    build_put,
    build_refreshment,
)
from abilities.adapters.langgraph_store.searching import (
    Outcome,
    RankedItem,
    Searcher,
    load_items,
    read_memories,
)
from abilities.declarations.refusals import Fault, Refused
from abilities.definition import Context
from abilities.errors import AbilityError
from abilities.helpers.memory.helper import MemoryHelper, Write

_log = logging.getLogger("abilities")

_ALIKE: Mapping[type[Op], str] = {
    GetOp: "memory_read_bulk",
    SearchOp: "recall",
    ListNamespacesOp: "recall",
    PutOp: "remember",
}
"""The abilities that do the same for a model: if one is disabled, so is the operation."""

_Puts = Mapping[str, Write | None]
"""The writes of a batch by the keys of their memories; None for a deletion."""


def check_operations(ops: Iterable[Op]) -> list[Op]:
    """Return the operations of a batch.

    Raises InvalidNamespaceError, and ValueError for what is no operation.
    """
    checked: list[Op] = []

    for op in ops:
        if type(op) not in _ALIKE:
            raise ValueError(f"Unknown operation type: {type(op)}")

        validate_op_namespace(op)
        if isinstance(op, PutOp) and not op.namespace:
            raise InvalidNamespaceError("Namespace cannot be empty.")
        checked.append(op)

    return checked


async def run_batch(context: Context, ops: Sequence[Op], max_scanned: int) -> list[Result]:
    """Make the operations of a batch; return one result each, in their order.

    As in LangGraph's own stores, reads see what was there before the batch, and of several puts of
    one item the last one counts. Raises Refused, and ValueError for a value that cannot be stored
    or a search that looks at too much; then nothing was put.
    """
    _check_allowed(context, ops)
    memory = context.memory
    puts = _collect_puts(ops)
    deleted = [key for key, write in puts.items() if write is None]
    gets = [op for op in ops if isinstance(op, GetOp)]
    searches = [op for op in ops if isinstance(op, SearchOp)]
    lists = [op for op in ops if isinstance(op, ListNamespacesOp)]

    searcher = Searcher(memory, max_scanned)
    named, pages, listed = await asyncio.gather(
        read_memories(memory, [*map(_find_key, gets), *deleted]),
        asyncio.gather(*map(searcher.search, searches)),
        asyncio.gather(*map(searcher.list_namespaces, lists)),
    )
    items = load_items({key: named[key] for key in map(_find_key, gets)})

    results = _list_results(ops, items, pages, listed)  # what is damaged is told before any write
    if not context.read_only:
        await _refresh(memory, _find_used(gets, items, zip(searches, pages, strict=True)), puts)

    absent = {key for key in deleted if _is_missing(named[key])}
    await _make_puts(memory, puts, absent)
    return results


def _check_allowed(context: Context, ops: Sequence[Op]) -> None:
    """Raise Refused for what the settings or the view do not allow."""
    for kind in {type(op) for op in ops}:
        if _ALIKE[kind] in context.disabled:
            raise Refused("disabled")
        if kind is PutOp and context.read_only:
            raise Refused("scope")


def _find_name(op: GetOp | PutOp) -> ItemName:
    return ItemName(tuple(op.namespace), op.key)


def _find_key(op: GetOp | PutOp) -> str:
    return _find_name(op).memory_key


def _collect_puts(ops: Sequence[Op]) -> _Puts:
    """Return the last put of each item. Raises ValueError for a value that cannot be stored."""
    last: dict[ItemName, PutOp] = {}
    for op in ops:
        if isinstance(op, PutOp):
            last[_find_name(op)] = op

    puts: dict[str, Write | None] = {}
    for name, op in last.items():
        puts[name.memory_key] = None if op.value is None else build_put(name, op)

    return puts


def _is_missing(found: object) -> bool:
    return isinstance(found, Refused) and found.reason == "memory_not_found"


def _find_used(
    gets: Iterable[GetOp],
    items: Mapping[str, Outcome],
    searches: Iterable[tuple[SearchOp, Sequence[RankedItem]]],
) -> dict[str, StoredItem]:
    """Return the items that operations have read which let them live on."""
    used: dict[str, StoredItem] = {}

    for get in gets:
        item = items[_find_key(get)]
        if get.refresh_ttl and isinstance(item, StoredItem):
            used[item.row.key] = item

    for search, page in searches:
        if search.refresh_ttl:
            used.update({found.item.row.key: found.item for found in page})

    return used


async def _refresh(memory: MemoryHelper, used: Mapping[str, StoredItem], puts: _Puts) -> None:
    """Let items live on, unless this batch puts them. What fails is logged: they were read."""
    writes: list[Write] = []
    for key, item in used.items():
        write = build_refreshment(item)
        if write is not None and key not in puts:
            writes.append(write)

    if not writes:
        return

    try:
        await memory.writer.remember(writes, atomic=False)
    except Refused as error:
        _log.warning("a read of a LangGraph store renewed no time to live: %s", error)


async def _make_puts(memory: MemoryHelper, puts: _Puts, absent: set[str]) -> None:
    """Make all puts in one transaction; what is absent need not be deleted. Raises Refused."""
    writes = {key: write for key, write in puts.items() if key not in absent}

    while writes:
        operations = [write or Write("delete", {"key": key}) for key, write in writes.items()]
        outcomes = await memory.writer.remember(operations, atomic=True)
        failures = _find_failures(zip(writes, outcomes, strict=True))
        if not failures:
            return

        # Nothing was made. Whatever was deleted meanwhile need not be deleted again.
        for key, error in failures.items():
            if error.reason != "memory_not_found":
                raise error
            del writes[key]


def _find_failures(outcomes: Iterable[tuple[str, object]]) -> dict[str, Refused]:
    """Return why writes failed that were not only undone with the others.

    Raises an exception that nobody expects.
    """
    failures: dict[str, Refused] = {}

    for key, outcome in outcomes:
        if isinstance(outcome, Refused):
            if outcome.reason != "rolled_back":
                failures[key] = outcome
        elif isinstance(outcome, Exception):
            raise outcome

    return failures


def _list_results(
    ops: Sequence[Op],
    items: Mapping[str, Outcome],
    pages: Sequence[Sequence[RankedItem]],
    listed: Sequence[list[tuple[str, ...]]],
) -> list[Result]:
    """Return the result of each operation, from those of each kind in their order.

    Raises what an item that was asked for by its name raised when it was read.
    """
    next_page, next_list = iter(pages), iter(listed)
    results: list[Result] = []

    for op in ops:
        if isinstance(op, GetOp):
            results.append(_get_item(items[_find_key(op)]))
        elif isinstance(op, SearchOp):
            results.append([found.item.to_search_item(found.score) for found in next(next_page)])
        elif isinstance(op, ListNamespacesOp):
            results.append(next(next_list))
        else:
            results.append(None)

    return results


def _get_item(outcome: Outcome) -> Item | None:
    if isinstance(outcome, Exception):
        raise outcome

    return None if outcome is None else outcome.to_item()


_BATCHES_AT_ONCE = 16


class AbilitiesStore(BaseStore):
    """A `BaseStore` for sync and async code on any event loop.

    ``source`` is an open application, or settings (by default those of the environment) from which
    one is opened when first needed; it stays open, on one background loop, until the process ends.
    All items lie in one namespace of it: ``namespace``, or without one that of the settings, unless
    ``require_namespace`` is set; then a missing one raises ValueError.

    ``ttl`` sets how long items stay by default, and whether reads renew that. ``max_scanned`` is
    how many memories a search, or a list of namespaces, may look at.

    Methods raise AbilityError if memories cannot be read or changed, InvalidNamespaceError for a
    wrong namespace, and ValueError for a value that is no JSON or longer than a million
    characters, and for a search that would look at more memories than it may.
    """

    supports_ttl = True

    def __init__(
        self,
        source: Source = None,
        *,
        namespace: str | int | None = None,
        require_namespace: bool = False,
        ttl: TTLConfig | None = None,
        max_scanned: int = 10_000,
    ) -> None:
        if require_namespace:
            check_namespace(namespace, "pass namespace=… to AbilitiesStore()")
        self.ttl_config = ttl
        self._host = Host(source, "langgraph")
        self._namespace = namespace
        self._max_scanned = max_scanned
        self._turns = asyncio.Semaphore(_BATCHES_AT_ONCE)  # of the background loop

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._host.run_sync(self._run(check_operations(ops)))

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._host.run(self._run(check_operations(ops)))

    async def _run(self, ops: Sequence[Op]) -> list[Result]:
        view = await self._host.get_view(self._namespace)
        try:
            # The others wait here and not for the store, which would refuse them after seconds.
            async with self._turns:
                return await run_batch(view.context, ops, self._max_scanned)
        except Refused as error:
            raise AbilityError(Fault.from_refusal(error)) from None
