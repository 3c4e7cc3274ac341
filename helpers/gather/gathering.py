"""Gather all items of a mixed batch: each kind at once, in the place that has it."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from abilities.helpers.gather.asked import AskedItem, BatchSources, gather_each
from abilities.helpers.gather.files import gather_files, gather_globs
from abilities.helpers.gather.lists import gather_list, is_list
from abilities.helpers.gather.memories import gather_memories
from abilities.helpers.gather.offers import ItemOffer
from abilities.helpers.gather.recalls import gather_recall
from abilities.helpers.gather.searches import gather_search
from abilities.helpers.gather.walks import gather_walk, is_walk

Gather = Callable[[Sequence[AskedItem], BatchSources], Awaitable[list[ItemOffer]]]


async def gather(items: Sequence[AskedItem], sources: BatchSources) -> list[ItemOffer]:
    """Return one offer per item, in their order. Raises nothing for an item that fails."""
    offers: dict[int, ItemOffer] = {}

    for gather_kind, places in _divide(items):
        asked = [items[place] for place in places]
        found = await gather_kind(asked, sources)
        offers.update(zip(places, found, strict=True))

    return [offers[place] for place in range(len(items))]


def _divide(items: Sequence[AskedItem]) -> list[tuple[Gather, list[int]]]:
    """Return the places of the items by what gathers them."""
    places: dict[Gather, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(_find_gather(item), []).append(place)

    return list(places.items())


def _find_gather(item: AskedItem) -> Gather:
    if item.kind == "memory":
        if is_list(item):
            return _GATHER_LISTS
        return _GATHER_WALKS if is_walk(item) else gather_memories

    return _GATHERS[item.kind]


_GATHER_LISTS: Gather = partial(gather_each, gather_list)
_GATHER_WALKS: Gather = partial(gather_each, gather_walk)

_GATHERS: dict[str, Gather] = {
    "file": gather_files,
    "glob": gather_globs,
    "search": partial(gather_each, gather_search),
    "note": gather_memories,
    "recall": partial(gather_each, gather_recall),
}
