"""The contract of a memory store, executable against any store.

Each behaviour is an async function that is given an empty store. It raises AssertionError, with the
rule that was broken, the expected value and the actual one, or returns. `check` runs them, each on
a store of its own::

    async def test_my_store_behaves():
        await check(lambda: open_my_store())

The function that opens an empty store returns an async context manager. A behaviour belongs to the
protocol that its parameter names, so that a store without all powers is checked for those it has::

    await check(open_my_store, MEMORY_BEHAVIOURS)
    await check(open_my_store, (*MEMORY_BEHAVIOURS, *TRANSFER_BEHAVIOURS))

Behaviours can be run one by one too, for example as the parameters of a test.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction, signature
from types import ModuleType
from typing import Any, TypeVar

from abilities.helpers.store import protocol
from tests.stores.behaviours import about, core, history, powers, recall
from tests.stores.behaviours.steps import NAMESPACE, put

__all__ = [
    "ABOUT_BEHAVIOURS",
    "BEHAVIOURS",
    "CHECK_BEHAVIOURS",
    "HISTORY_BEHAVIOURS",
    "MARK_BEHAVIOURS",
    "MEMORY_BEHAVIOURS",
    "NAMESPACE",
    "RECALL_BEHAVIOURS",
    "SEARCH_BEHAVIOURS",
    "TRANSFER_BEHAVIOURS",
    "check",
    "put",
]

Store = TypeVar("Store", bound=protocol.MemoryStore)
Open = Callable[[], AbstractAsyncContextManager[Store]]
Behaviour = Callable[[Store], Awaitable[None]]


def _list_behaviours(store: object, *modules: ModuleType) -> tuple[Behaviour[Any], ...]:
    """Return the behaviours in modules that take such a store and nothing else, in their order."""
    found: list[Behaviour[Any]] = []
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("_") or not iscoroutinefunction(value):
                continue

            taken = [one.annotation for one in signature(value).parameters.values()]
            if value.__module__ == module.__name__ and taken == [store]:
                found.append(value)

    return tuple(found)


SEARCH_BEHAVIOURS: tuple[Behaviour[protocol.MemoryStore], ...] = (
    core.a_search_looks_into_every_text,
    core.a_phrase_in_quotes_is_found_as_it_stands,
)
"""What the search of every `MemoryStore` must do."""

RECALL_BEHAVIOURS = _list_behaviours(protocol.MemoryStore, recall)
"""What `recall` of every `MemoryStore` must do."""

MEMORY_BEHAVIOURS = _list_behaviours(protocol.MemoryStore, core, recall)
"""What every `MemoryStore` must do."""

TRANSFER_BEHAVIOURS = _list_behaviours(protocol.TransferableStore, powers)
"""What a `TransferableStore` must do besides."""

HISTORY_BEHAVIOURS = _list_behaviours(protocol.HistoryStore, history)
"""What a `HistoryStore` must do besides."""

ABOUT_BEHAVIOURS = _list_behaviours(protocol.ServableStore, about)
"""What a store that knows which memories are about a file must do besides."""

CHECK_BEHAVIOURS = _list_behaviours(protocol.CheckableStore, powers)
"""What a `CheckableStore` must do besides."""

MARK_BEHAVIOURS = _list_behaviours(protocol.MarkableStore, powers)
"""What a `MarkableStore` must do besides."""

BEHAVIOURS: tuple[Behaviour[protocol.ServableStore], ...] = (
    *MEMORY_BEHAVIOURS,
    *TRANSFER_BEHAVIOURS,
    *HISTORY_BEHAVIOURS,
    *ABOUT_BEHAVIOURS,
    *CHECK_BEHAVIOURS,
    *MARK_BEHAVIOURS,
    *_list_behaviours(protocol.ServableStore, powers, history),
)
"""What a `ServableStore`, which has all powers, must do."""


async def check(
    open_store: Open[Any], behaviours: Sequence[Behaviour[Any]] = BEHAVIOURS
) -> list[str]:
    """Run each behavior on a store of its own, by default all behaviours; return their names.

    Raises AssertionError at the first behavior that the store does not show.
    """
    for behaviour in behaviours:
        async with open_store() as store:
            await behaviour(store)

    return [behaviour.__name__ for behaviour in behaviours]
