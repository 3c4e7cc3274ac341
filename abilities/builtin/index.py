"""The names, profiles and loaders of the built-in abilities.

An ability is imported when it is first needed, because building the models of all abilities takes
longer than a call. A profile selects abilities, because a model reads the declarations of all that
it is offered with every call.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import cast

from abilities.declarations.suggestions import suggest_ability, suggest_value
from abilities.definition import Ability, LazyAbility

ALL = "all"
"""The profile of all abilities, including those of plugins."""

PROFILES: Mapping[str, tuple[str, ...]] = {
    "lean": ("read", "recall", "remember", "file_list"),
    "files": ("file_read_bulk", "file_list"),
    "memory": (
        *("memory_read_bulk", "bulk_read_memory", "memory_get", "store_memory", "query_memories"),
        *("update_memory", "delete_memory", "get_memory_stats", "recall", "remember"),
        *("memory_list", "memory_history", "memory_restore", "memory_changes"),
    ),
}
"""The names in each profile except `ALL`; a profile offers the registered ones."""

NEED_HISTORY = ("memory_history", "memory_restore", "memory_changes")
"""Abilities that need a store with earlier versions."""

SHOW_MEMORIES = frozenset(
    ("memory_read_bulk", "bulk_read_memory", "memory_get", "query_memories", "recall")
)
"""Abilities that show contents of memories: who has none of them sees none with files either."""

_IMPLIED: Mapping[str, tuple[str, ...]] = {
    "read": (
        "file_read_bulk",
        "file_list",
        "memory_read_bulk",
        "bulk_read_memory",
        "recall",
        "memory_list",
    ),
    "search": ("recall",),
    "fetch": ("file_read_bulk", "memory_read_bulk"),
}
"""Abilities whose work an ability also does, even if a profile does not offer them."""


def find_implied(names: Iterable[str]) -> set[str]:
    """Return the abilities whose work the named ones also do."""
    implied: set[str] = set()
    for name in names:
        implied.update(_IMPLIED.get(name, ()))

    return implied


def select_names(tools: Iterable[str], registered: Sequence[str]) -> set[str]:
    """Return the registered abilities that are named by a profile or by their own name.

    Unknown names are ignored; `explain_unknown_tools` reports them.
    """
    selected: set[str] = set()
    for tool in tools:
        if tool == ALL:
            selected.update(registered)
        else:
            selected.update(PROFILES.get(tool, (tool,)))

    return selected.intersection(registered)


def explain_unknown_tools(tools: Iterable[str], registered: Sequence[str]) -> str | None:
    """Return a sentence about the first unknown name, or None if all are known.

    >>> explain_unknown_tools(["lean", "recal"], ["recall"])
    "'recal' is neither a profile nor an ability; did you mean 'recall'?"
    """
    known = [ALL, *PROFILES, *registered]

    for tool in tools:
        if tool in known:
            continue

        suggestion = suggest_value(tool, known)
        if suggestion is not None:
            return f"{tool!r} is neither a profile nor an ability; did you mean {suggestion!r}?"
        return f"{tool!r} is neither a profile nor an ability; choose from {', '.join(known)}"

    return None


def explain_unknown_names(disabled: Iterable[str], registered: Sequence[str]) -> list[str]:
    """Return a sentence about each unknown name in ``disabled``.

    >>> explain_unknown_names(["recal"], ["recall"])
    ["disabled: 'recal' is not an ability, so it disables nothing; did you mean 'recall'?"]
    """
    sentences: list[str] = []
    for name in disabled:
        if name in registered:
            continue

        suggestion = suggest_ability(name, registered)
        hint = f"did you mean {suggestion!r}?" if suggestion else "'abilities list' shows them"
        sentences.append(f"disabled: {name!r} is not an ability, so it disables nothing; {hint}")

    return sentences


_MODULES = {
    "file_read_bulk": "files",
    "memory_read_bulk": "memory_reads",
    "bulk_read_memory": "memory_reads",
    "memory_get": "memory_reads",
    "store_memory": "memories",
    "query_memories": "memories",
    "update_memory": "memories",
    "delete_memory": "memories",
    "get_memory_stats": "memories",
    "file_list": "files",
    "read": "read",
    "recall": "recall",
    "remember": "remember",
    "memory_list": "memories",
    "memory_history": "memories",
    "memory_restore": "memories",
    "memory_changes": "memories",
}
"""The module of each built-in ability."""

NAMES = tuple(_MODULES)
"""The names of the built-in abilities, in the order of every list."""

_ADAPTED = {"bulk_read_memory": "KvBulkReadInput", "memory_get": "KvMemoryGetInput"}
"""The models of arguments from clients of kv-memory, by ability."""


def load_built_in(name: str) -> Ability:
    """Import a built-in ability. Raises KeyError for an unknown name."""
    module = import_module(f"abilities.builtin.{_MODULES[name]}")
    return cast(Ability, getattr(module, name))


FOR_CHATGPT = ("search", "fetch")
"""Abilities in the form that ChatGPT expects, which only a setting adds."""


def list_built_in(
    *, for_kv_memory: bool = False, for_chatgpt: str | None = None
) -> list[LazyAbility]:
    """Return the built-in abilities.

    With ``for_kv_memory``, two of them accept the arguments of kv-memory clients. For the address
    of an explorer, ``for_chatgpt``, those for ChatGPT are added.
    """
    abilities: list[LazyAbility] = []
    for name in NAMES:
        load = load_built_in
        if for_kv_memory and name in _ADAPTED:
            load = _load_adapted
        abilities.append(LazyAbility(name, partial(load, name)))

    if for_chatgpt is not None:
        for name in FOR_CHATGPT:
            abilities.append(LazyAbility(name, partial(_load_for_chatgpt, name, for_chatgpt)))

    return abilities


@cache
def _load_for_chatgpt(name: str, url: str) -> Ability:
    from abilities.builtin.read import create_for_chatgpt

    return create_for_chatgpt(name, url)


@cache
def _load_adapted(name: str) -> Ability:
    from abilities.declarations import kv_memory

    return replace(load_built_in(name), input=getattr(kv_memory, _ADAPTED[name]))
