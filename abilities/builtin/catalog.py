"""The built-in abilities, in the order in which every surface lists them."""

from dataclasses import replace

from abilities.builtin.bulk_read_memory import bulk_read_memory, memory_get
from abilities.builtin.file_list import file_list
from abilities.builtin.file_read_bulk import file_read_bulk
from abilities.builtin.memories import (
    delete_memory,
    get_memory_stats,
    query_memories,
    store_memory,
    update_memory,
)
from abilities.builtin.memory_history import memory_changes, memory_history, memory_restore
from abilities.builtin.memory_list import memory_list
from abilities.builtin.memory_read_bulk import memory_read_bulk
from abilities.builtin.read import read
from abilities.builtin.recall import recall
from abilities.builtin.remember import remember
from abilities.definition import Ability

BUILT_IN = (
    file_read_bulk,
    memory_read_bulk,
    bulk_read_memory,
    memory_get,
    store_memory,
    query_memories,
    update_memory,
    delete_memory,
    get_memory_stats,
    file_list,
    read,
    recall,
    remember,
    memory_list,
    memory_history,
    memory_restore,
    memory_changes,
)


def list_built_in(*, for_kv_memory: bool) -> list[Ability]:
    """Return the built-in abilities.

    ``for_kv_memory`` lets two of them take arguments that clients of kv-memory send.
    """
    if not for_kv_memory:
        return list(BUILT_IN)

    # Few serve clients of kv-memory, and all others start without these models.
    from abilities.declarations.kv_memory import KvBulkReadInput, KvMemoryGetInput

    adapted = {
        bulk_read_memory: replace(bulk_read_memory, input=KvBulkReadInput),
        memory_get: replace(memory_get, input=KvMemoryGetInput),
    }
    return [adapted.get(ability, ability) for ability in BUILT_IN]
