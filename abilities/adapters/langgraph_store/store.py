"""`AbilitiesStore`: LangGraph's long-term memory, stored as memories of an application.

A batch of operations makes all its reads first, and then all its puts in one transaction.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from typing_extensions import override

from abilities.adapters.functions import Host, Source, check_namespace
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

_SIMILAR: Mapping[type[Op], str] = {
    GetOp: "memory_read_bulk",
    SearchOp: "recall",
    ListNamespacesOp: "recall",
    PutOp: "remember",
}
"""The ability that does the same for a model. If it is disabled, the operation is too."""

_BATCHES_AT_ONCE = 16

_Puts = Mapping[str, Write | None]
"""The writes of a batch by the keys of their memories. A deletion is None."""

_log = logging.getLogger("abilities")


class AbilitiesStore(BaseStore):
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
        ttl: TTLConfig | None = None,
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
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._host.run_sync(self._run(check_operations(ops)))

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._host.run(self._run(check_operations(ops)))

    async def _run(self, ops: Sequence[Op]) -> list[Result]:
        view = await self._host.get_view(self._namespace)
        try:
            # Further batches wait here, because the store would refuse them after some seconds.
            async with self._turns:
                return await run_batch(view.context, ops, self._max_scanned)
        except Refused as error:
            raise AbilityError(Fault.from_refusal(error)) from None


def check_operations(ops: Iterable[Op]) -> list[Op]:
    """Return the operations of a batch.

    Raises InvalidNamespaceError, and ValueError for an object that is not an operation.
    """
    checked: list[Op] = []

    for op in ops:
        if type(op) not in _SIMILAR:
            raise ValueError(f"Unknown operation type: {type(op)}")

        validate_op_namespace(op)
        if isinstance(op, PutOp) and not op.namespace:
            raise InvalidNamespaceError("Namespace cannot be empty.")
        checked.append(op)

    return checked


async def run_batch(context: Context, ops: Sequence[Op], max_scanned: int) -> list[Result]:
    """Make the operations of a batch, and return their results in order.

    As in LangGraph's own stores, reads return the state before the batch, and of several puts of
    one item only the last counts. Raises Refused, and ValueError if a value cannot be stored or a
    search would look at too many memories; nothing is put then.
    """
    for kind in {type(op) for op in ops}:
        if _SIMILAR[kind] in context.disabled:
            raise Refused("disabled")
        if kind is PutOp and context.read_only:
            raise Refused("scope")

    last_puts = {_find_name(op): op for op in ops if isinstance(op, PutOp)}
    puts: dict[str, Write | None] = {}
    for name, put in last_puts.items():
        puts[name.memory_key] = None if put.value is None else build_put(name, put)

    memory = context.memory
    searcher = Searcher(memory, max_scanned)
    searches = [searcher.search(op) for op in ops if isinstance(op, SearchOp)]
    lists = [searcher.list_namespaces(op) for op in ops if isinstance(op, ListNamespacesOp)]
    got = [_find_name(op).memory_key for op in ops if isinstance(op, GetOp)]
    deleted = [key for key, write in puts.items() if write is None]

    found, pages, namespaces = await asyncio.gather(
        read_memories(memory, [*got, *deleted]),
        asyncio.gather(*searches),
        asyncio.gather(*lists),
    )
    items = load_items({key: found[key] for key in got})

    # A damaged item raises here, before anything is written.
    results, used = _build_results(ops, items, pages, namespaces)
    if not context.read_only:
        await _refresh(memory, [item for key, item in used.items() if key not in puts])

    for key in deleted:
        missing = found[key]
        if isinstance(missing, Refused) and missing.reason == "memory_not_found":
            del puts[key]

    await _make_puts(memory, puts)
    return results


def _find_name(op: GetOp | PutOp) -> ItemName:
    return ItemName(tuple(op.namespace), op.key)


def _build_results(
    ops: Sequence[Op],
    items: Mapping[str, Outcome],
    pages: Sequence[Sequence[RankedItem]],
    namespaces: Sequence[list[tuple[str, ...]]],
) -> tuple[list[Result], dict[str, StoredItem]]:
    """Return the results of operations, and the items that these reads keep alive.

    Pages and namespaces are in the order of their operations. Raises the error of an item that a
    get names.
    """
    results: list[Result] = []
    used: dict[str, StoredItem] = {}
    next_page, next_namespaces = iter(pages), iter(namespaces)

    for op in ops:
        if isinstance(op, GetOp):
            item = items[_find_name(op).memory_key]
            if isinstance(item, Exception):
                raise item
            if item is None:
                results.append(None)
                continue

            results.append(item.to_item())
            if op.refresh_ttl:
                used[item.row.key] = item

        elif isinstance(op, SearchOp):
            page = next(next_page)
            results.append([ranked.item.to_search_item(ranked.score) for ranked in page])
            if op.refresh_ttl:
                used.update({ranked.item.row.key: ranked.item for ranked in page})

        elif isinstance(op, ListNamespacesOp):
            results.append(next(next_namespaces))
        else:
            results.append(None)

    return results, used


async def _refresh(memory: MemoryHelper, items: Iterable[StoredItem]) -> None:
    """Extend the life of items that were read. A failure is only logged."""
    refreshments = [build_refreshment(item) for item in items]
    writes = [write for write in refreshments if write is not None]
    if not writes:
        return

    try:
        await memory.remember(writes, atomic=False)
    except Refused as error:
        _log.warning("a read of a LangGraph store renewed no time to live: %s", error)


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
