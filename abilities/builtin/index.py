"""The names of the built-in abilities, each of which is imported when it is first needed.

One call needs one of them, and the models of all take longer to make than a call takes.

Profiles: which abilities are offered, by one name for several of them.

Every model that is offered an ability reads its declaration with every call.

All built-in abilities, for those who need more than one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import cast

from abilities.declarations.suggestions import suggest_ability, suggest_value
from abilities.definition import Ability, LazyAbility

ALL = "all"
"""The profile of every ability, those of plugins too."""

PROFILES: Mapping[str, tuple[str, ...]] = {
    "lean": ("read", "recall", "remember", "file_list"),
    "files": ("file_read_bulk", "file_list"),
    "memory": (
        "memory_read_bulk",
        "bulk_read_memory",
        "memory_get",
        "store_memory",
        "query_memories",
        "update_memory",
        "delete_memory",
        "get_memory_stats",
        "recall",
        "remember",
        "memory_list",
        "memory_history",
        "memory_restore",
        "memory_changes",
    ),
}
"""The names in each profile but `ALL`; a profile offers those of them that are registered."""

NEED_HISTORY = ("memory_history", "memory_restore", "memory_changes")
"""What is offered only beside a store that keeps earlier versions."""

_IMPLIED: Mapping[str, tuple[str, ...]] = {
    "read": (
        "file_read_bulk",
        "file_list",
        "memory_read_bulk",
        "bulk_read_memory",
        "recall",
        "memory_list",
    ),
}
"""What an ability does as well: a profile that offers it does not keep that from it."""


def find_implied(names: Iterable[str]) -> set[str]:
    """Return the abilities whose work the named ones do as well."""
    implied: set[str] = set()
    for name in names:
        implied.update(_IMPLIED.get(name, ()))

    return implied


def select_names(tools: Iterable[str], registered: Sequence[str]) -> set[str]:
    """Return the registered names that profiles and names of abilities stand for.

    What is neither is passed over; `explain_unknown_tools` finds it.
    """
    selected: set[str] = set()
    for tool in tools:
        selected |= set(registered if tool == ALL else PROFILES.get(tool, (tool,)))

    return selected.intersection(registered)


def explain_unknown_tools(tools: Iterable[str], registered: Sequence[str]) -> str | None:
    """Return a sentence about the first name that is no profile and no ability, or None.

    >>> explain_unknown_tools(["lean", "recal"], ["recall"])
    "'recal' is no profile and no ability; did you mean 'recall'?"
    """
    known = [ALL, *PROFILES, *registered]

    for tool in tools:
        if tool in known:
            continue

        suggestion = suggest_value(tool, known)
        if suggestion is not None:
            return f"{tool!r} is no profile and no ability; did you mean {suggestion!r}?"
        return f"{tool!r} is no profile and no ability; choose from {', '.join(known)}"

    return None


def explain_unknown_names(disabled: Iterable[str], registered: Sequence[str]) -> list[str]:
    """Return a sentence about each name in ``disabled`` that is no ability.

    >>> explain_unknown_names(["recal"], ["recall"])
    ["disabled: 'recal' is no ability, so nothing is off by it; did you mean 'recall'?"]
    """
    sentences: list[str] = []
    for name in disabled:
        if name in registered:
            continue

        suggestion = suggest_ability(name, registered)
        hint = f"did you mean {suggestion!r}?" if suggestion else "'abilities list' shows them"
        sentences.append(f"disabled: {name!r} is no ability, so nothing is off by it; {hint}")

    return sentences


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
    "memory_list": "memories",
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
