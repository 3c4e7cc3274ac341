"""Suggestions for unknown arguments, abilities and values: the name that a caller probably meant.

Only offered names and values are suggested, never anything that a caller sent.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

MAX_NAME_CHARS = 64
"""Longer names are not compared: they are no misspellings, and comparing them is slow."""

_CLOSE = 0.75
"""The lowest similarity (difflib's ratio) of a misspelling: three letters of four agree."""

ARGUMENTS: dict[str, tuple[str, ...]] = {
    # Search engines and most tools with a search box call its text the query.
    "query": ("search",),
    "q": ("search", "queries"),
    "question": ("queries",),
    "questions": ("queries",),
    "text": ("search", "content", "queries"),
    "term": ("search",),
    "search_term": ("search",),
    "keyword": ("search",),
    "keywords": ("search",),
    # Tools that read one file take its name; ours take several.
    "file": ("paths",),
    "files": ("paths",),
    "path": ("paths", "pattern"),
    "file_path": ("paths",),
    "file_paths": ("paths",),
    "filename": ("paths",),
    "filenames": ("paths",),
    # Tools that list files take a glob or a folder.
    "glob": ("pattern",),
    "directory": ("pattern",),
    "folder": ("pattern",),
    # Tools that read memories take one, or call the list differently.
    "target": ("targets",),
    "items": ("targets", "paths"),
    "memories": ("targets",),
    # Other memory tools say "memory key", or have names and ids instead of keys.
    "memory_key": ("key",),
    "name": ("key",),
    "title": ("key",),
    "start": ("key",),
    "start_key": ("key",),
    "uuid": ("id",),
    "memory_id": ("id", "key"),
    # The limits of other walks and searches.
    "max_depth": ("depth",),
    "levels": ("depth",),
    "hops": ("depth",),
    "max_breadth": ("breadth",),
    "width": ("breadth",),
    "fanout": ("breadth",),
    "max_total": ("total", "totalLimit"),
    "max_memories": ("total", "totalLimit"),
    "max_results": ("limit", "total"),
    "count": ("limit", "total"),
    "top_k": ("limit", "total"),
    "k": ("limit", "total"),
    "n": ("limit", "total"),
    "page_size": ("limit",),
    "size": ("limit",),
    "skip": ("offset",),
    "start_index": ("offset",),
    "cursor": ("after",),
    "max_chars": ("max_chars_per_file", "max_chars_per_item"),
    "max_length": ("max_chars_per_file", "max_chars_per_item"),
    "budget": ("max_tokens",),
    "token_budget": ("max_tokens",),
    "days": ("within_days",),
    "format": ("output_format",),
    "response_format": ("output_format",),
    # SQL and web forms: ORDER BY, sort, direction.
    "order": ("sort_order",),
    "direction": ("sort_order",),
    "order_by": ("sort_by",),
    "sort": ("sort_by",),
    # Every memory tool has its own name for the content.
    "value": ("content",),
    "body": ("content",),
    "memory": ("content",),
    "data": ("content",),
    "message": ("content",),
    "fact": ("content",),
    # A singular for a plural, and other words for a property.
    "tag": ("tags",),
    "labels": ("tags",),
    "label": ("tags",),
    "kind": ("type",),
    "memory_type": ("type",),
    "priority": ("importance",),
    "score": ("memory_score",),
    "relations": ("links",),
    "related": ("links",),
    "weight": ("link_weight",),
    "include_archived": ("archived",),
    "hard_delete": ("permanent",),
    "force": ("permanent",),
}
"""Our arguments, the likeliest first, by the names that models send for them."""

ABILITIES: dict[str, tuple[str, ...]] = {
    # The names of the official filesystem server, and of coding agents' own tools.
    "read_file": ("file_read_bulk",),
    "read_text_file": ("file_read_bulk",),
    "read_files": ("file_read_bulk",),
    "read_multiple_files": ("file_read_bulk",),
    "bulk_read_files": ("file_read_bulk",),
    "list_directory": ("file_list",),
    "list_files": ("file_list",),
    "search_files": ("file_list",),
    "glob": ("file_list",),
    # The names of kv-memory, the previous system; sessions do not exist here.
    "session_new": ("memory_get", "read"),
    "memory_add": ("store_memory", "remember"),
    "memory_update": ("update_memory", "remember"),
    "memory_rename": ("update_memory", "remember"),
    "memory_search": ("query_memories", "recall"),
    "memory_fulltext_search": ("recall", "query_memories"),
    # The names of the official memory server, and of memory services.
    "search_nodes": ("query_memories",),
    "open_nodes": ("memory_get",),
    "read_graph": ("bulk_read_memory",),
    "create_entities": ("store_memory",),
    "search_memory": ("query_memories",),
    "search_memories": ("query_memories",),
    "list_memories": ("query_memories",),
    "recall_memory": ("recall",),
    "recall_memories": ("recall",),
    "ask_memory": ("recall",),
    "get_memory": ("memory_get",),
    "add_memory": ("store_memory",),
    "create_memory": ("store_memory",),
    "save_memory": ("store_memory",),
}
"""Our abilities, by the names of similar tools elsewhere."""

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

VALUES: dict[str, tuple[str, ...]] = {
    # SQL's words in full, and everyday words for the order of a list.
    "descending": ("desc",),
    "down": ("desc",),
    "newest": ("desc", "created_at"),
    "ascending": ("asc",),
    "up": ("asc",),
    "oldest": ("asc", "created_at"),
    # The scales of issue trackers.
    "critical": ("high",),
    "urgent": ("high",),
    "highest": ("high",),
    "important": ("high",),
    "normal": ("medium",),
    "moderate": ("medium",),
    "default": ("medium",),
    "minor": ("low",),
    "lowest": ("low",),
    "trivial": ("low",),
    # Kinds of memory in other tools: facts, lessons, tasks.
    "fact": ("core",),
    "semantic": ("core",),
    "preference": ("core",),
    "user": ("core",),
    "profile": ("core",),
    "lesson": ("learning",),
    "insight": ("learning",),
    "knowledge": ("learning",),
    "episodic": ("learning",),
    "todo": ("task",),
    "work": ("task",),
    "goal": ("task",),
    # Verbs of databases, version control and other memory tools.
    "add": ("store",),
    "create": ("store",),
    "insert": ("store",),
    "save": ("store",),
    "set": ("store",),
    "edit": ("update",),
    "modify": ("update",),
    "change": ("update",),
    "remove": ("delete",),
    "forget": ("delete",),
    "move": ("rename",),
    "undo": ("restore",),
    "revert": ("restore",),
    # The properties that databases and file systems sort by.
    "date": ("created_at",),
    "time": ("created_at",),
    "created": ("created_at",),
    "modified": ("updated_at",),
    "modified_at": ("updated_at",),
    "last_modified": ("updated_at",),
    "recent": ("accessed_at",),
    "last_accessed": ("accessed_at",),
    "priority": ("importance",),
    "relevance": ("importance",),
    "popularity": ("access_count",),
    "usage": ("access_count",),
    # Shorter words for the two kinds of notes, and for stored memories.
    "long": ("long_term",),
    "lasting": ("long_term",),
    "permanent": ("long_term",),
    "short": ("short_term",),
    "daily": ("short_term",),
    "memory": ("stored",),
    "database": ("stored",),
    "key": ("stored",),
}
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
    name: str,
    offered: Iterable[str],
    synonyms: Mapping[str, tuple[str, ...]],
    *,
    prefix: str = "",
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
