"""An answer of each kind of every built-in ability, for tests of how people see them."""

from collections.abc import Iterator
from typing import Any

from abilities import Abilities, AbilityError, Settings
from abilities.cli.records import AnsweredCall

Call = tuple[str, dict[str, Any]]

LONG = "Test, then ship. 世界 " * 20


async def record_answers(settings: Settings) -> list[AnsweredCall]:
    """Fill the roots and the store, and return answers with every kind of record and rest."""
    (settings.agent_dir / "MEMORY.md").write_text("Ada likes tea.\n")
    for name in ("a.md", "b.md", "世界.md"):
        (settings.workspace_dir / name).write_text("tea and words\n" * 1_500)

    answers: list[AnsweredCall] = []
    async with Abilities.open(settings) as abilities:
        for name, arguments in _list_calls():
            try:
                payload = await abilities.call(name, arguments)
            except AbilityError as error:
                payload = {"error": error.fault.to_payload()}
            answers.append(AnsweredCall(name, arguments, payload))

    return answers


def _list_calls() -> Iterator[Call]:
    yield from _list_writes()
    for detail in ("full", "concise"):
        for name, arguments in _list_reads():
            yield name, {**arguments, "detail": detail}

    yield "file_list", {}
    yield "get_memory_stats", {}
    yield "memory_list", {"limit": 2, "archived": True}
    yield "memory_history", {"key": "spare", "limit": 2}
    yield "memory_changes", {"limit": 2}
    yield "memory_changes", {"since": 1_000}
    yield "query_memories", {"search": "nowhere"}

    # Calls that fail.
    yield "query_memories", {"limit": 1_000, "sort_by": "size"}
    yield "memory_get", {"key": "none"}
    yield "file_read_bulk", {"path": ["a.md"]}


def _list_writes() -> Iterator[Call]:
    links = [{"key": "plan", "link_weight": 0.9, "term": "how"}, {"key": "tea"}, {"key": "gone"}]
    goals = {"type": "core", "key": "goals", "content": "Ship it.\nAll of it.", "links": links}
    tea = {"type": "learning", "key": "tea", "content": "Ada likes tea.", "summary": "tea"}
    yield "store_memory", {**goals, "tags": ["x"], "metadata": {"size": 3}}
    yield "store_memory", {"type": "task", "key": "plan", "content": LONG, "detail": "concise"}
    yield "store_memory", {**tea, "links": [{"key": "deep"}]}
    yield "store_memory", {"type": "core", "key": "deep", "content": "Deep."}
    yield "update_memory", {"key": "goals", "category": "aim"}

    yield "store_memory", {"type": "core", "key": "spare", "content": "Old."}
    gone = {"key": "spare", "permanent": True}
    for deletion in ({"key": "spare"}, gone, {**gone, "detail": "concise"}):
        yield "delete_memory", deletion
        yield "memory_restore", {"key": "spare"}

    store = {"op": "store", "type": "core", "key": "long", "content": "word " * 1_800}
    append = {"op": "append", "key": "nobody", "content": "x"}
    some_fail = {"operations": [store, {"op": "link"}, append]}
    yield "remember", {**some_fail, "detail": "full"}
    yield "remember", {**some_fail, "atomic": True}
    yield "remember", some_fail
    yield "remember", {"operations": [{"op": "delete", "key": "long", "permanent": True}]}


def _list_reads() -> Iterator[Call]:
    paths = ["a.md", "b.md#L1-L9", "世界.md", "none.md", "a.md", "b.md", "a.md", "b.md", "a.md"]
    targets = [{"type": "long_term"}, {"type": "stored", "key": "plan"}, {"type": "stored"}]
    items = ["a.md", {"glob": "*.md"}, {"memory": "goals", "depth": 2}, "none.md"]
    searches = [{"recall": "tea"}, {"search": "tea"}]
    yield "file_read_bulk", {"paths": paths}
    yield "memory_read_bulk", {"targets": targets, "max_chars_per_item": 9}
    for direction in ("out", "both"):
        yield "bulk_read_memory", {"key": "goals", "depth": 1, "direction": direction}
        yield "memory_get", {"key": "tea", "direction": direction}

    yield "memory_get", {"key": "goals", "bulkRead": True}
    yield "query_memories", {"limit": 2}
    yield "recall", {"queries": ["tea", "zebra"], "hops": 1}
    yield "read", {"items": [*items, *searches]}
    yield "read", {"items": [*items, *searches], "plan": True, "max_tokens": 1_000}
    yield "file_list", {"limit": 2}
