"""Reading items: any number of them in one read, and those of several parts in one more."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from abilities.adapters.langgraph_store.items import ItemDetails, StoredItem, parse_item
from abilities.declarations.faults import Refused
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.memory.parts import join_parts
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.parts import make_part_key

_log = logging.getLogger("abilities")

_MAX_READS = 5
"""How often values of several parts are read anew if others change them."""

_KEYS_AT_ONCE = 10_000

Outcome = StoredItem | Exception | None
"""An item, why it cannot be read, or None if there is none."""


async def read_memories(
    memory: MemoryHelper, keys: Iterable[str]
) -> dict[str, StoredMemory | Exception]:
    """Return the memories with these keys, in one read for each 10,000. Raises Refused."""
    wanted = list(dict.fromkeys(keys))
    memories: dict[str, StoredMemory | Exception] = {}

    for start in range(0, len(wanted), _KEYS_AT_ONCE):
        portion = wanted[start : start + _KEYS_AT_ONCE]
        found = await memory.read_memories(portion)
        memories.update(zip(portion, found, strict=True))

    return memories


async def load_items(
    memory: MemoryHelper, memories: Mapping[str, StoredMemory | Exception]
) -> dict[str, Outcome]:
    """Return the items of memories, by the memories' keys and in their order. Raises Refused.

    Archived and missing memories are no items.
    """
    long: list[StoredMemory] = []
    outcomes: dict[str, Outcome] = {}

    for key, found in memories.items():
        if isinstance(found, StoredMemory) and ItemDetails.read(found.row).parts > 1:
            long.append(found)
        else:
            outcomes[key] = _parse([found])

    if long:
        outcomes |= await _load_long_items(memory, long)

    return {key: outcomes[key] for key in memories}


async def _load_long_items(
    memory: MemoryHelper, first_parts: Sequence[StoredMemory]
) -> dict[str, Outcome]:
    """Return the items whose values have several parts, all parts of one from one read."""
    outcomes: dict[str, Outcome] = {}
    pending = {part.row.key: ItemDetails.read(part.row).parts for part in first_parts}

    for _ in range(_MAX_READS):
        keys = {key: _list_part_keys(key, number) for key, number in pending.items()}
        parts = await read_memories(memory, _chain(keys.values()))

        changed: dict[str, int] = {}
        for key, part_keys in keys.items():
            first = parts[key]
            number = _count_parts(first)
            if number in (0, pending[key]):
                outcomes[key] = _parse([parts[part_key] for part_key in part_keys])
            else:
                changed[key] = number

        pending = changed
        if not pending:
            return outcomes

    raise Refused("busy")


def _list_part_keys(key: str, number: int) -> list[str]:
    return [make_part_key(key, place) for place in range(1, number + 1)]


def _chain(keys: Iterable[Sequence[str]]) -> list[str]:
    chained: list[str] = []
    for some in keys:
        chained += some

    return chained


def _count_parts(first: StoredMemory | Exception) -> int:
    """Return how many parts a value has; 0 if that cannot be told."""
    if isinstance(first, Exception):
        return 0

    return ItemDetails.read(first.row).parts


def _parse(parts: Sequence[StoredMemory | Exception]) -> Outcome:
    """Return the item that memories hold together."""
    first, *further = parts
    if isinstance(first, Refused) and first.reason == "memory_not_found":
        return None

    sound: list[StoredMemory] = []
    for part in (first, *further):
        if isinstance(part, Exception):
            return part
        sound.append(part)

    row = sound[0].row
    if row.archived:
        return None

    try:
        return parse_item(row, join_parts(sound))
    except Refused as error:
        return error


def select_sound(outcomes: Mapping[str, Outcome]) -> dict[str, StoredItem]:
    """Return the items that can be read; the log tells of the others."""
    sound: dict[str, StoredItem] = {}

    for key, outcome in outcomes.items():
        if isinstance(outcome, StoredItem):
            sound[key] = outcome
        elif outcome is not None:
            _log.warning("a search of a LangGraph store left out a damaged item: %s", outcome)

    return sound
