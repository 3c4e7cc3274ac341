"""Profiles: which abilities are offered, by one name for several of them.

Every model that is offered an ability reads its declaration with every call.
"""

from collections.abc import Iterable, Mapping, Sequence

from abilities.declarations.suggestions import suggest_ability, suggest_value

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
