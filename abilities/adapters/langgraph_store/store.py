"""`AbilitiesStore`: LangGraph's long-term memory over the memories of an application."""

import asyncio
from collections.abc import Iterable, Sequence

from langgraph.store.base import BaseStore, Op, Result, TTLConfig
from typing_extensions import override

from abilities.adapters.host import Host, Source, check_namespace
from abilities.adapters.langgraph_store.batches import check_operations, run_batch
from abilities.declarations.faults import Fault, Refused
from abilities.errors import AbilityError

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
