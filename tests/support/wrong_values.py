"""Fifty-five calls whose values are plausible and wrong: paths, patterns, lines, keys and days.

They come from what people and other tools write: editors' line numbers, absolute and foreign paths,
another case, a folder where a file belongs, questions in place of texts.
"""

from typing import Any

from tests.support.wrong_calls import KEY, WrongCall


def _file(habit: str, path: str) -> WrongCall:
    return WrongCall(habit, "file_read_bulk", {"paths": [path]})


def _item(habit: str, item: Any) -> WrongCall:
    return WrongCall(habit, "read", {"items": [item]})


def _change(habit: str, **operation: Any) -> WrongCall:
    return WrongCall(habit, "remember", {"operations": [operation], "detail": "full"})


PATHS = [
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
]

LINES = [
    _file("lines after a colon", "notes.md:1-1"),
    _file("lines after a colon", "src/app.py:1"),
    _item("lines after a colon", "notes.md:1-3"),
    _item("lines and a folder left out", "app.py:1"),
    _file("lines without L", "notes.md#1-2"),
    _item("lines of a browser", "todo.txt:L1-L1"),
]

PATTERNS = [
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
]

KEYS = [
    WrongCall("a key in another case", "memory_get", {"key": "Project"}),
    WrongCall("a key in another case", "bulk_read_memory", {"key": "PROJECT"}),
    WrongCall("a key in another case", "memory_read_bulk", {"targets": [{"key": "Project"}]}),
    _item("a key in another case", {"memory": "Project"}),
    _item("a key in another case", {"memory": "PROJECT", "depth": 1}),
    WrongCall("a key with a mark", "memory_get", {"key": f"#{KEY}"}),
    WrongCall("a key with a mark", "memory_get", {"key": f"{KEY}/"}),
    WrongCall("a key with a mark", "memory_read_bulk", {"targets": [{"key": f"@{KEY}"}]}),
]

OTHERS = [
    _item("a note in another style", {"note": "Long Term"}),
    _item("a note in another style", {"note": "LONG_TERM"}),
    _item("a day with slashes", {"note": "2026/01/02"}),
    _item("a day in words", {"note": "January 2, 2026"}),
    _change("another verb", op="add", type="core", content="x", key="new"),
    _change("another verb", op="Update", key=KEY, summary="s"),
    _change("critical for high", op="store", type="core", content="x", importance="critical"),
    WrongCall(
        "a key that is not there",
        "remember",
        {"operations": [{"op": "append", "key": "nobody", "content": "x"}], "detail": "full"},
        is_curable=False,
    ),
]

WRONG_VALUES = [*PATHS, *LINES, *PATTERNS, *KEYS, *OTHERS]
