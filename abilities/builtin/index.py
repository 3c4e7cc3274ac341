"""The names of the built-in abilities, each of which is imported when it is first needed.

One call needs one of them, and the models of all take longer to make than a call takes.
"""

from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import cast

from abilities.definition import Ability, LazyAbility

_MODULES = {
    "file_read_bulk": "file_read_bulk",
    "memory_read_bulk": "memory_read_bulk",
    "bulk_read_memory": "bulk_read_memory",
    "memory_get": "bulk_read_memory",
    "store_memory": "memories",
    "query_memories": "memories",
    "update_memory": "memories",
    "delete_memory": "memories",
    "get_memory_stats": "memories",
    "file_list": "file_list",
    "read": "read",
    "recall": "recall",
    "remember": "remember",
    "memory_list": "memory_list",
    "memory_history": "memory_history",
    "memory_restore": "memory_history",
    "memory_changes": "memory_history",
}
"""The module of each, in the order in which every surface lists the abilities."""

NAMES = tuple(_MODULES)
"""The names of the built-in abilities, in the order in which every surface lists them."""

_ADAPTED = {"bulk_read_memory": "KvBulkReadInput", "memory_get": "KvMemoryGetInput"}
"""The models of the arguments that clients of kv-memory send, by the ability that takes them."""


def load_built_in(name: str) -> Ability:
    """Import the built-in ability of a name. Raises KeyError for a name that none has."""
    module = import_module(f"abilities.builtin.{_MODULES[name]}")
    return cast(Ability, getattr(module, name))


def list_built_in(*, for_kv_memory: bool) -> list[LazyAbility]:
    """Return the built-in abilities.

    ``for_kv_memory`` lets two of them take arguments that clients of kv-memory send.
    """
    loaders = {name: partial(load_built_in, name) for name in NAMES}
    if for_kv_memory:
        loaders.update({name: partial(_load_adapted, name) for name in _ADAPTED})

    return [LazyAbility(name, load) for name, load in loaders.items()]


@cache
def _load_adapted(name: str) -> Ability:
    from abilities.declarations import kv_memory

    return replace(load_built_in(name), input=getattr(kv_memory, _ADAPTED[name]))
