"""What a caller probably meant: our own name for an unknown argument, ability or value.

Only names and values that are offered are ever suggested, never anything that a caller sent.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

MAX_NAME_CHARS = 64
"""A longer name is no misspelling; comparing long texts takes long."""

_CLOSE = 0.75
"""The least similarity (difflib's ratio) that is taken for a misspelling: one letter of four."""

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
    # Tools that list files call what to list a glob or a folder.
    "glob": ("pattern",),
    "directory": ("pattern",),
    "folder": ("pattern",),
    # Tools that read memories take one, or call the list differently.
    "target": ("targets",),
    "items": ("targets", "paths"),
    "memories": ("targets",),
    # Other memory tools say whose name they mean, or have no keys but names and ids.
    "memory_key": ("key",),
    "name": ("key",),
    "title": ("key",),
    "start": ("key",),
    "start_key": ("key",),
    "uuid": ("id",),
    "memory_id": ("id", "key"),
    # The knobs of other walks and searches.
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
    # What is remembered has a different name in every memory tool.
    "value": ("content",),
    "body": ("content",),
    "memory": ("content",),
    "data": ("content",),
    "message": ("content",),
    "fact": ("content",),
    # One of several, or the group of it.
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
    # The names of kv-memory, the previous system; there is no session to begin here.
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
"""Our abilities by the names of tools that do the same elsewhere."""

ADDRESSES: dict[str, str] = {
    "/login": "/api/memories/KEY",
    "/get_memory": "/api/memories/KEY",
    "/add_memory": "/api/abilities/store_memory",
    "/update_memory": "/api/abilities/update_memory",
    "/update_memory_key": "/api/abilities/update_memory",
    "/search": "/api/abilities/query_memories",
    "/fulltext": "/api/abilities/recall",
}
"""Our HTTP addresses by those of kv-memory, the previous system."""

VALUES: dict[str, tuple[str, ...]] = {
    # SQL's words in full, and what people say of lists.
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
    # Kinds of memory in other tools: what lasts, what was learned, what is to be done.
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
    # Verbs of databases, of version control and of other memory tools, for operations.
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
    # The two kinds of notes, and stored memories, in shorter words.
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
    if len(name) > MAX_NAME_CHARS:
        return None

    return _find_same(name, offered, ARGUMENTS) or _find_close(name, offered)


def suggest_value(value: object, offered: Iterable[object]) -> str | None:
    """Return the offered value that another probably means, or None; only text has likenesses.

    >>> suggest_value("HIGH", ["high", "low"])
    'high'
    """
    texts = [choice for choice in offered if isinstance(choice, str)]
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS:
        return None

    return _find_same(value, texts, VALUES) or _find_close(value, texts)


def suggest_ability(name: str, offered: Iterable[str]) -> str | None:
    """Return the offered ability that a name probably means, or None.

    >>> suggest_ability("read_files", ["file_list", "file_read_bulk"])
    'file_read_bulk'
    """
    if len(name) > MAX_NAME_CHARS:
        return None

    # Of another verb is another deed: who calls update_memory does not mean delete_memory.
    verb, _, _ = _to_snake_case(name).partition("_")
    alike = [other for other in offered if other.startswith(verb)]

    return _find_same(name, offered, ABILITIES) or _find_close(name, alike)


def _find_same(
    name: str, offered: Iterable[str], synonyms: Mapping[str, tuple[str, ...]]
) -> str | None:
    """Return the name that is only written differently, or a synonym."""
    by_letters = _index_by_letters(offered)
    letters = _keep_letters(name)
    if letters in by_letters:
        return by_letters[letters]

    for synonym in synonyms.get(_to_snake_case(name), ()):
        if _keep_letters(synonym) in by_letters:
            return by_letters[_keep_letters(synonym)]

    return None


def _find_close(name: str, offered: Iterable[str]) -> str | None:
    """Return the name that differs in a few letters."""
    by_letters = _index_by_letters(offered)
    matches = get_close_matches(_keep_letters(name), by_letters, n=1, cutoff=_CLOSE)
    if not matches:
        return None

    return by_letters[matches[0]]


def _index_by_letters(names: Iterable[str]) -> dict[str, str]:
    return {_keep_letters(name): name for name in names}


def _keep_letters(name: str) -> str:
    """Return a name without the differences in writing: ``sortBy`` and ``sort-by`` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _to_snake_case(name: str) -> str:
    """Return a name as this package would write it: ``maxDepth`` is ``max_depth``."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")
