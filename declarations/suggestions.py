"""Suggestions for unknown arguments, abilities and values: the name that a caller probably meant.

Only offered names and values are suggested, never anything that a caller sent.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

MAX_NAME_CHARS = 64
"""Longer names are not compared: they are no misspellings, and comparing them is slow."""

_CLOSE = 0.75
"""The lowest similarity (difflib's ratio) of a misspelling: three letters of four agree."""


def _index(text: str) -> dict[str, list[str]]:
    """Return our names by the words for them, given lines of a name of ours and such words."""
    meant: dict[str, list[str]] = {}
    for line in text.strip().splitlines():
        name, *words = line.split()
        for word in words:
            meant.setdefault(word, []).append(name)

    return meant


ARGUMENTS = _index(
    """
    search q query text term search_term keyword keywords
    content text value body memory data message fact
    queries q question questions text
    targets target items memories
    paths file files path file_path file_paths filename filenames items
    pattern path glob directory folder
    id uuid memory_id
    key memory_key name title start start_key memory_id
    depth max_depth levels hops
    breadth max_breadth width fanout
    limit max_results count top_k k n page_size size
    total max_total max_memories max_results count top_k k n
    totalLimit max_total max_memories
    offset skip start_index
    after cursor
    max_chars_per_file max_chars max_length
    max_chars_per_item max_chars max_length
    max_tokens budget token_budget
    within_days days
    output_format format response_format
    sort_order order direction
    sort_by order_by sort
    tags tag labels label
    type kind memory_type
    importance priority
    memory_score score
    links relations related
    link_weight weight
    archived include_archived
    permanent hard_delete force
    """
)
"""Our arguments, the likeliest first, by the names that models send for them."""

# The names of the official filesystem and memory servers, of coding agents' own tools, of memory
# services, and of kv-memory, the previous system.
ABILITIES = _index(
    """
    file_read_bulk read_file read_text_file read_files read_multiple_files bulk_read_files
    file_list list_directory list_files search_files glob
    memory_get session_new open_nodes get_memory
    read session_new
    store_memory memory_add create_entities add_memory create_memory save_memory
    update_memory memory_update memory_rename
    remember memory_add memory_update memory_rename
    bulk_read_memory read_graph
    recall memory_fulltext_search
    query_memories memory_search memory_fulltext_search
    query_memories search_nodes search_memory search_memories list_memories
    recall memory_search recall_memory recall_memories ask_memory
    """
)
"""Our abilities, the likeliest first, by the names of similar tools elsewhere."""

ADDRESSES: dict[str, str] = {
    "/login": "/api/memories/KEY",
    "/get_memory": "/api/memories/KEY",
    "/add_memory": "/api/abilities/store_memory",
    "/update_memory": "/api/abilities/update_memory",
    "/update_memory_key": "/api/abilities/update_memory",
    "/search": "/api/abilities/query_memories",
    "/fulltext": "/api/abilities/recall",
}
"""Our HTTP addresses, by the addresses of kv-memory, the previous system."""

# Words of SQL, issue trackers, version control, file systems and other memory tools.
VALUES = _index(
    """
    desc descending down newest
    asc ascending up oldest
    created_at newest oldest date time created
    updated_at modified modified_at last_modified
    accessed_at recent last_accessed
    access_count popularity usage
    importance priority relevance
    high critical urgent highest important
    medium normal moderate default
    low minor lowest trivial
    core fact semantic preference user profile
    learning lesson insight knowledge episodic
    task todo work goal
    store add create insert save set
    update edit modify change
    delete remove forget
    rename move
    restore undo revert
    long_term long lasting permanent
    short_term short daily
    stored memory database key
    """
)
"""Our values, the likeliest first, by the words that models send for them."""


def suggest_argument(name: str, offered: Iterable[str]) -> str | None:
    """Return the offered argument that a name probably means, or None.

    >>> suggest_argument("maxDepth", ["key", "depth"])
    'depth'
    """
    return _suggest(name, offered, ARGUMENTS)


def suggest_value(value: object, offered: Iterable[object]) -> str | None:
    """Return the offered value that another probably means, or None; only texts are compared.

    >>> suggest_value("HIGH", ["high", "low"])
    'high'
    """
    if not isinstance(value, str):
        return None

    texts = [choice for choice in offered if isinstance(choice, str)]
    return _suggest(value, texts, VALUES)


def suggest_ability(name: str, offered: Iterable[str]) -> str | None:
    """Return the offered ability that a name probably means, or None.

    >>> suggest_ability("read_files", ["file_list", "file_read_bulk"])
    'file_read_bulk'
    """
    if len(name) > MAX_NAME_CHARS:
        return None

    # Another verb is another action: a caller of update_memory does not mean delete_memory.
    verb, _, _ = _to_snake_case(name).partition("_")
    return _suggest(name, offered, ABILITIES, prefix=verb)


def _suggest(
    name: str, offered: Iterable[str], synonyms: Mapping[str, Sequence[str]], *, prefix: str = ""
) -> str | None:
    """Return the offered name that is only written differently, a synonym, or misspelled.

    Only names with the prefix count as misspelled.
    """
    if len(name) > MAX_NAME_CHARS:
        return None

    by_letters = {_keep_letters(choice): choice for choice in offered}
    for candidate in (name, *synonyms.get(_to_snake_case(name), ())):
        letters = _keep_letters(candidate)
        if letters in by_letters:
            return by_letters[letters]

    similar = [letters for letters, choice in by_letters.items() if choice.startswith(prefix)]
    matches = get_close_matches(_keep_letters(name), similar, n=1, cutoff=_CLOSE)
    if not matches:
        return None

    return by_letters[matches[0]]


def _keep_letters(name: str) -> str:
    """Return the letters and digits of a name: ``sortBy`` and ``sort-by`` are both ``sortby``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _to_snake_case(name: str) -> str:
    """Return a name in snake case: ``maxDepth`` becomes ``max_depth``."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")
