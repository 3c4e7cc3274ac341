"""Reading items: any number of them in one read for each 10,000."""

import logging
from collections.abc import Iterable, Mapping

from abilities.adapters.langgraph_store.items import StoredItem, parse_item
from abilities.declarations.faults import Refused
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.store.model import StoredMemory

_log = logging.getLogger("abilities")

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


def load_items(memories: Mapping[str, StoredMemory | Exception]) -> dict[str, Outcome]:
    """Return the items of memories, by the memories' keys and in their order.

    Archived and missing memories are no items.
    """
    return {key: _parse(memory) for key, memory in memories.items()}


def _parse(memory: StoredMemory | Exception) -> Outcome:
    if isinstance(memory, Refused) and memory.reason == "memory_not_found":
        return None
    if isinstance(memory, Exception):
        return memory
    if memory.row.archived:
        return None

    try:
        return parse_item(memory.row)
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
