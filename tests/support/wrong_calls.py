"""Calls as language models get them wrong: what is wrong, the ability, and its arguments.

Sixty come from the bounds of the abilities and from habits of models: numbers in words, names of
other tools' arguments, one value in place of a list. Fifty-five have plausible and wrong values, as
people and other tools write them: editors' line numbers, foreign paths, questions for texts.
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


def _call(habit: str, ability: str, *, is_curable: bool = True, **arguments: Any) -> WrongCall:
    return WrongCall(habit, ability, arguments, is_curable)


def _store(habit: str, *, is_curable: bool = True, **values: Any) -> WrongCall:
    memory = {"type": "core", "content": "Ships in May.", **values}
    return WrongCall(habit, "store_memory", memory, is_curable)


def _file(habit: str, path: str) -> WrongCall:
    return _call(habit, "file_read_bulk", paths=[path])


def _day(habit: str, date: str) -> WrongCall:
    return _call(habit, "memory_read_bulk", targets=[{"type": "short_term", "date": date}])


def _item(habit: str, item: Any) -> WrongCall:
    return _call(habit, "read", items=[item])


def _change(habit: str, **operation: Any) -> WrongCall:
    return _call(habit, "remember", operations=[operation], detail="full")


WRONG_ARGUMENTS = [
    # Numbers
    _call("a number in words", "bulk_read_memory", key=KEY, depth="three"),
    _call("a number in words", "query_memories", limit="twenty"),
    _call("a number with a unit", "query_memories", limit="10 results"),
    _call("digits in groups", "file_read_bulk", paths=["notes.md"], max_chars_per_file="5,000"),
    _call("a fraction", "bulk_read_memory", key=KEY, depth=2.5),
    _call("true for a number", "bulk_read_memory", key=KEY, breadth=True),
    _call("too deep", "bulk_read_memory", key=KEY, depth=10),
    _call("too broad", "bulk_read_memory", key=KEY, breadth=100),
    _call("too many in total", "memory_get", key=KEY, bulkRead=True, totalLimit=500),
    _call("a page too large", "query_memories", limit=1000),
    _call("a page of nothing", "query_memories", limit=0),
    _call("a negative offset", "query_memories", offset=-1),
    _call("zero for no limit", "file_read_bulk", paths=["notes.md"], max_chars_per_file=0),
    _store("a score of a hundred", memory_score=80),
    # Names of tools and arguments
    _call("query for search", "query_memories", query="May"),
    _call("q for search", "query_memories", q="May", limit=5),
    _call("top_k for limit", "query_memories", search="May", top_k=3),
    _call("files for paths", "file_read_bulk", files=["notes.md", "todo.txt"]),
    _call("one file for paths", "file_read_bulk", file_path="notes.md"),
    _call("another style", "file_read_bulk", paths=["notes.md"], maxCharsPerFile=500),
    _call("memory_key for key", "memory_get", memory_key=KEY),
    _call("max_depth for depth", "bulk_read_memory", key=KEY, max_depth=2),
    _call("text for content", "store_memory", type="core", text="Ships in May."),
    _call("an invented argument", "file_read_bulk", paths=["notes.md"], recursive=True),
    _call("a misspelt argument", "query_memories", serach="May"),
    _call("a file's pattern as path", "file_list", path="src/*"),
    _call("another tool's name", "read_files", paths=["notes.md"]),
    # Lists
    _call("one path for a list", "file_read_bulk", paths="notes.md"),
    _call("a list in words", "file_read_bulk", paths="notes.md, todo.txt"),
    _call("one tag for a list", "query_memories", tags="release"),
    _store("one link for a list", links={"key": "team"}),
    _store("keys for links", links=["team", "budget"]),
    _call("a type for a target", "memory_read_bulk", targets="long_term"),
    _call("one target for a list", "memory_read_bulk", target={"type": "long_term"}),
    # Choices
    _call("descending for desc", "query_memories", sort_order="descending"),
    _store("critical for high", importance="critical"),
    _store("a choice in upper case", importance="HIGH"),
    _call("a type of other tools", "store_memory", type="fact", content="Ships in May."),
    _call("a field of other tools", "query_memories", sort_by="created"),
    _call("an unknown format", "bulk_read_memory", key=KEY, output_format="markdown"),
    _call("yes for true", "query_memories", archived="yes"),
    _call("a list for a choice", "query_memories", type=["core"]),
    _call("a target's type in upper case", "memory_read_bulk", targets=[{"type": "LONG_TERM"}]),
    # Sizes
    _call("30 paths", "file_read_bulk", paths=["notes.md"] * 30),
    _store("content too long", content="May. " * 1_200),
    _store("twelve tags", tags=[f"tag{n}" for n in range(12)]),
    _store("a tag too long", tags=["release " * 5]),
    _call("a search too long", "query_memories", search="release " * 40),
    # Forms
    _day("a date in words", "January 2, 2026"),
    _day("a date without zeros", "2026-1-2"),
    _call("a key with spaces around", "memory_get", key=f" {KEY}\n"),
    # Several mistakes at once
    _call("three at once", "query_memories", query="May", limit=500, sort_order="DESC"),
    _call("three at once", "bulk_read_memory", name=KEY, depth="five", breadth=50),
    _call("a name and its value", "query_memories", order="descending", count="ten"),
    # What only the caller knows, so that no answer can supply it
    _call("nothing to read", "file_read_bulk", paths=[], is_curable=False),
    _call("no key", "bulk_read_memory", depth=2, is_curable=False),
    _call("no content", "store_memory", type="core", is_curable=False),
    _store("an empty content", content="", is_curable=False),
]
WRONG_VALUES = [
    # Paths
    _file("another case", "Notes.md"),
    _file("another case", "NOTES.MD"),
    _file("another case", "SRC/App.py"),
    _item("another case", "Todo.txt"),
    _file("a folder left out", "app.py"),
    _item("a folder left out", {"file": "app.py"}),
    _file("an absolute path", "/repo/src/app.py"),
    _file("an absolute path", "/workspace/notes.md"),
    _item("an absolute path", "/home/user/project/todo.txt"),
    _file("a path from above", "../src/app.py"),
    _item("a path from above", "../../notes.md"),
    _file("backslashes", "src\\app.py"),
    _item("a drive", "C:\\repo\\src\\app.py"),
    _file("a URL", "file:///repo/notes.md"),
    _item("a URL", "file:///work/src/app.py"),
    _file("quotes", "'notes.md'"),
    _item("quotes", "`src/app.py`"),
    _file("a slash at the end", "notes.md/"),
    _file("a misspelt name", "note.md"),
    _item("a misspelt name", "src/apps.py"),
    _file("another ending", "notes.txt"),
    # Lines
    _file("lines after a colon", "notes.md:1-1"),
    _file("lines after a colon", "src/app.py:1"),
    _item("lines after a colon", "notes.md:1-3"),
    _item("lines and a folder left out", "app.py:1"),
    _file("lines without L", "notes.md#1-2"),
    _item("lines of a browser", "todo.txt:L1-L1"),
    # Patterns, folders and questions
    _file("a pattern for a path", "src/*.py"),
    _file("a pattern for a path", "*.md"),
    _item("a pattern for a path", "**/*.py"),
    _item("a pattern for a path", {"file": "*.txt"}),
    _file("a folder for a path", "src"),
    _file("a folder for a path", "src/"),
    _item("a folder for a path", "src"),
    _item("an absolute folder", "/repo/src"),
    _item("a pattern of the top folder", {"glob": "*.py"}),
    _item("a pattern of the top folder", {"glob": "app.*"}),
    _item("a question for a text", {"search": "When does the project ship?"}),
    _item("a question for a text", {"search": "what do we know about May"}),
    # Keys
    _call("a key in another case", "memory_get", key="Project"),
    _call("a key in another case", "bulk_read_memory", key="PROJECT"),
    _call("a key in another case", "memory_read_bulk", targets=[{"key": "Project"}]),
    _item("a key in another case", {"memory": "Project"}),
    _item("a key in another case", {"memory": "PROJECT", "depth": 1}),
    _call("a key with a mark", "memory_get", key=f"#{KEY}"),
    _call("a key with a mark", "memory_get", key=f"{KEY}/"),
    _call("a key with a mark", "memory_read_bulk", targets=[{"key": f"@{KEY}"}]),
    # Notes, days and operations
    _item("a note in another style", {"note": "Long Term"}),
    _item("a note in another style", {"note": "LONG_TERM"}),
    _item("a day with slashes", {"note": "2026/01/02"}),
    _item("a day in words", {"note": "January 2, 2026"}),
    _change("another verb", op="add", type="core", content="x", key="new"),
    _change("another verb", op="Update", key=KEY, summary="s"),
    _change("critical for high", op="store", type="core", content="x", importance="critical"),
    _change("a key that is not there", op="append", key="nobody", content="x")._replace(
        is_curable=False
    ),
]


def list_wrong_calls(memory_id: str) -> list[WrongCall]:
    """Return the calls; ``memory_id`` is the id of the memory `project`."""
    return [
        *WRONG_ARGUMENTS,
        _call("an id in upper case", "update_memory", id=memory_id.upper(), summary="short"),
        _call("an id as a URN", "delete_memory", id=f"urn:uuid:{memory_id}"),
        *WRONG_VALUES,
    ]
