"""Statistics from a store's counters, the same for every store."""

from collections.abc import Iterable

from abilities.helpers.stores.model import IMPORTANCES, TYPES, StoredMemory
from abilities.helpers.stores.protocol import Stats


def build_stats(
    counters: dict[tuple[str, int, str], int],
    span: tuple[str | None, str | None],
    most_accessed: StoredMemory | None,
    tags: Iterable[tuple[str, int]],
) -> Stats:
    """Build statistics from a store's counters, whose keys are (name, archived, value).

    ``span`` is when the oldest and the newest memory were created. ``tags`` are the most used ones
    with their numbers, most used first.
    """
    by_type: dict[str, int] = {}
    for name in TYPES:
        by_type[name] = counters.get(("type", 0, name), 0)

    by_importance: dict[str, int] = {}
    for name in reversed(IMPORTANCES):  # the highest first, as replies show them
        index = IMPORTANCES.index(name)
        by_importance[name] = counters.get(("importance", 0, str(index)), 0)

    oldest, newest = span
    return Stats(
        total=counters.get(("all", 0, ""), 0),
        by_type=by_type,
        by_importance=by_importance,
        archived=counters.get(("all", 1, ""), 0),
        size_bytes=counters.get(("size", 0, ""), 0) + counters.get(("size", 1, ""), 0),
        oldest=oldest,
        newest=newest,
        most_accessed=most_accessed,
        top_tags=tuple(tags),
    )
