"""Sixty calls as language models get them wrong: what is wrong, the ability, and its arguments.

They come from the bounds of the abilities and from habits of models: numbers in words, names of
other tools' arguments, one value in place of a list, synonyms of choices, dates in prose.
"""

from typing import Any, NamedTuple

FILES = {"notes.md": "notes\n", "src/app.py": "print()\n", "todo.txt": "todo\n"}
"""Files of the workspace that the calls are about."""

NOTES = {"MEMORY.md": "lasting\n", "memory/2026-01-02.md": "a day\n"}
"""Notes of the agent; the memory `project` is there too."""

KEY = "project"


class WrongCall(NamedTuple):
    """A call that is refused at first; without a cure, no correction can be expected."""

    habit: str
    ability: str
    arguments: dict[str, Any]
    is_curable: bool = True


def list_wrong_calls(memory_id: str) -> list[WrongCall]:
    """Return the calls; ``memory_id`` is the id of the memory `project`."""
    return [
        *NUMBERS,
        *NAMES,
        *LISTS,
        *CHOICES,
        *SIZES,
        *FORMS,
        *SEVERAL,
        *GONE,
        WrongCall(
            "an id in upper case", "update_memory", {"id": memory_id.upper(), "summary": "short"}
        ),
        WrongCall("an id as a URN", "delete_memory", {"id": f"urn:uuid:{memory_id}"}),
    ]


def _memory(**values: Any) -> dict[str, Any]:
    return {"type": "core", "content": "Ships in May.", **values}


NUMBERS = [
    WrongCall("a number in words", "bulk_read_memory", {"key": KEY, "depth": "three"}),
    WrongCall("a number in words", "query_memories", {"limit": "twenty"}),
    WrongCall("a number with a unit", "query_memories", {"limit": "10 results"}),
    WrongCall(
        "digits in groups",
        "file_read_bulk",
        {"paths": ["notes.md"], "max_chars_per_file": "5,000"},
    ),
    WrongCall("a fraction", "bulk_read_memory", {"key": KEY, "depth": 2.5}),
    WrongCall("true for a number", "bulk_read_memory", {"key": KEY, "breadth": True}),
    WrongCall("too deep", "bulk_read_memory", {"key": KEY, "depth": 10}),
    WrongCall("too broad", "bulk_read_memory", {"key": KEY, "breadth": 100}),
    WrongCall("too many in total", "memory_get", {"key": KEY, "bulkRead": True, "totalLimit": 500}),
    WrongCall("a page too large", "query_memories", {"limit": 1000}),
    WrongCall("a page of nothing", "query_memories", {"limit": 0}),
    WrongCall("a negative offset", "query_memories", {"offset": -1}),
    WrongCall(
        "zero for no limit", "file_read_bulk", {"paths": ["notes.md"], "max_chars_per_file": 0}
    ),
    WrongCall("a score of a hundred", "store_memory", _memory(memory_score=80)),
]

NAMES = [
    WrongCall("query for search", "query_memories", {"query": "May"}),
    WrongCall("q for search", "query_memories", {"q": "May", "limit": 5}),
    WrongCall("top_k for limit", "query_memories", {"search": "May", "top_k": 3}),
    WrongCall("files for paths", "file_read_bulk", {"files": ["notes.md", "todo.txt"]}),
    WrongCall("one file for paths", "file_read_bulk", {"file_path": "notes.md"}),
    WrongCall("another style", "file_read_bulk", {"paths": ["notes.md"], "maxCharsPerFile": 500}),
    WrongCall("memory_key for key", "memory_get", {"memory_key": KEY}),
    WrongCall("max_depth for depth", "bulk_read_memory", {"key": KEY, "max_depth": 2}),
    WrongCall("text for content", "store_memory", {"type": "core", "text": "Ships in May."}),
    WrongCall("an invented argument", "file_read_bulk", {"paths": ["notes.md"], "recursive": True}),
    WrongCall("a misspelt argument", "query_memories", {"serach": "May"}),
    WrongCall("a file's pattern as path", "file_list", {"path": "src/*"}),
    WrongCall("another tool's name", "read_files", {"paths": ["notes.md"]}),
]

LISTS = [
    WrongCall("one path for a list", "file_read_bulk", {"paths": "notes.md"}),
    WrongCall("a list in words", "file_read_bulk", {"paths": "notes.md, todo.txt"}),
    WrongCall("one tag for a list", "query_memories", {"tags": "release"}),
    WrongCall("one link for a list", "store_memory", _memory(links={"key": "team"})),
    WrongCall("keys for links", "store_memory", _memory(links=["team", "budget"])),
    WrongCall("a type for a target", "memory_read_bulk", {"targets": "long_term"}),
    WrongCall("one target for a list", "memory_read_bulk", {"target": {"type": "long_term"}}),
]

CHOICES = [
    WrongCall("descending for desc", "query_memories", {"sort_order": "descending"}),
    WrongCall("critical for high", "store_memory", _memory(importance="critical")),
    WrongCall("a choice in upper case", "store_memory", _memory(importance="HIGH")),
    WrongCall(
        "a type of other tools", "store_memory", {"type": "fact", "content": "Ships in May."}
    ),
    WrongCall("a field of other tools", "query_memories", {"sort_by": "created"}),
    WrongCall("an unknown format", "bulk_read_memory", {"key": KEY, "output_format": "markdown"}),
    WrongCall("yes for true", "query_memories", {"archived": "yes"}),
    WrongCall("a list for a choice", "query_memories", {"type": ["core"]}),
    WrongCall(
        "a target's type in upper case", "memory_read_bulk", {"targets": [{"type": "LONG_TERM"}]}
    ),
]

SIZES = [
    WrongCall("30 paths", "file_read_bulk", {"paths": ["notes.md"] * 30}),
    WrongCall("content too long", "store_memory", _memory(content="May. " * 1_200)),
    WrongCall("twelve tags", "store_memory", _memory(tags=[f"tag{n}" for n in range(12)])),
    WrongCall("a tag too long", "store_memory", _memory(tags=["release " * 5])),
    WrongCall("a search too long", "query_memories", {"search": "release " * 40}),
]

FORMS = [
    WrongCall(
        "a date in words",
        "memory_read_bulk",
        {"targets": [{"type": "short_term", "date": "January 2, 2026"}]},
    ),
    WrongCall(
        "a date without zeros",
        "memory_read_bulk",
        {"targets": [{"type": "short_term", "date": "2026-1-2"}]},
    ),
    WrongCall("a key with spaces around", "memory_get", {"key": f" {KEY}\n"}),
]

SEVERAL = [
    WrongCall(
        "three at once",
        "query_memories",
        {"query": "May", "limit": 500, "sort_order": "DESC"},
    ),
    WrongCall(
        "three at once",
        "bulk_read_memory",
        {"name": KEY, "depth": "five", "breadth": 50},
    ),
    WrongCall(
        "a name and its value",
        "query_memories",
        {"order": "descending", "count": "ten"},
    ),
]

GONE = [
    WrongCall("nothing to read", "file_read_bulk", {"paths": []}, is_curable=False),
    WrongCall("no key", "bulk_read_memory", {"depth": 2}, is_curable=False),
    WrongCall("no content", "store_memory", {"type": "core"}, is_curable=False),
    WrongCall("an empty content", "store_memory", _memory(content=""), is_curable=False),
]
"""Calls that lack what only the caller knows; no answer can supply it."""
