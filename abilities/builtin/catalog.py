"""The built-in abilities, in the order in which every surface lists them."""

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
from abilities.builtin.memory_read_bulk import memory_read_bulk

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
)
