"""The agent memory server's five tools, field by field: bounds, defaults, answers and errors."""

from datetime import UTC, datetime
from typing import Any

import pytest

from abilities import Abilities, definition
from tests.memories.calls import Payload, find_reason, get, store
from tests.support.memory_cases import UNKNOWN
from tests.support.surfaces import Call

TYPE = {"type": "string", "enum": ["core", "learning", "task"]}
IMPORTANCE = {"type": "string", "enum": ["high", "medium", "low"]}
CONTENT = {"type": "string", "minLength": 1, "maxLength": 5_000}
CATEGORY = {"type": "string", "maxLength": 50}
TAGS = {"type": "array", "maxItems": 10}
ID = {
    "type": "string",
    "pattern": "^[a-f0-9]{8}-[a-f0-9]{4}-4[a-f0-9]{3}-[89ab][a-f0-9]{3}-[a-f0-9]{12}$",
}
SORT_FIELDS = ["created_at", "updated_at", "accessed_at", "importance", "access_count"]
CHANGED = {
    "id": ID,
    "content": CONTENT,
    "category": CATEGORY,
    "tags": TAGS,
    "importance": IMPORTANCE,
}
DECLARED: dict[str, dict[str, Any]] = {
    "store_memory": {**CHANGED, "type": TYPE},
    "query_memories": {
        "type": TYPE,
        "tags": {"type": "array"},
        "search": {"type": "string", "maxLength": 200},
        "importance": IMPORTANCE,
        "category": {"type": "string"},
        "archived": {"type": "boolean", "default": False},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
        "sort_by": {"type": "string", "enum": SORT_FIELDS, "default": "accessed_at"},
        "sort_order": {"type": "string", "enum": ["asc", "desc"], "default": "desc"},
    },
    "update_memory": {**CHANGED, "archived": {"type": "boolean"}},
    "delete_memory": {"id": ID, "permanent": {"type": "boolean", "default": False}},
    "get_memory_stats": {},
}


@pytest.mark.requirement(
    "R3.1.2", "R3.1.3", "R3.1.4", "R3.1.5", "R3.1.6", "R3.1.7", "R3.2.1", "R3.2.2", "R3.2.3",
    "R3.2.4", "R3.2.5", "R3.2.6", "R3.2.7", "R3.2.8", "R3.2.9", "R3.2.10", "R3.3.2", "R3.3.3",
    "R3.3.4", "R3.3.5", "R3.3.6", "R3.3.7", "R3.4.2", "R3.4.3", "R3.5.1", "R3.8.3",
)  # fmt: skip
@pytest.mark.parametrize("name", DECLARED)
async def test_every_field_is_declared_with_its_bounds_and_default(
    name: str, app: Abilities
) -> None:
    ability = app.registry.get(name)
    assert ability is not None
    schema = definition.build_schema(ability.input)

    required = ["type", "content"] if name == "store_memory" else []  # else the id, or the key
    assert schema.get("required", []) == required
    for field, expected in DECLARED[name].items():
        declared = schema["properties"][field]
        assert {key: declared.get(key) for key in expected} == expected, field

    if DECLARED[name].get("tags") == TAGS:
        assert schema["properties"]["tags"]["items"]["maxLength"] == 30


@pytest.mark.requirement("R3.1.1", "R3.1.8", "R3.1.9")
async def test_a_memory_is_stored_and_updated_by_its_id(call: Call) -> None:
    arguments: Payload = {"type": "core", "content": "Ada reads the tests first."}
    arguments |= {"category": "habit", "tags": ["ada", "tests"], "importance": "high"}

    stored = await call("store_memory", **arguments)
    again = await call("store_memory", **{**arguments, "content": "No.", "id": stored["id"]})

    assert stored["created"] is True and again["created"] is False
    assert stored.keys() == {"id", "created", "memory"}
    assert arguments.items() <= stored["memory"].items()
    assert (again["id"], again["memory"]["content"]) == (stored["id"], "No.")
    assert await find_reason(call, "store_memory", **arguments, id=UNKNOWN) == "not_found"


@pytest.mark.requirement("R3.2.6", "R3.2.7", "R3.2.8", "R3.2.11", "R3.2.12")
async def test_a_page_has_ten_memories_unless_asked(call: Call) -> None:
    for number in range(12):
        await store(call, f"k{number}", type="task")

    first = await call("query_memories")
    rest = await call("query_memories", offset=10)
    for search in ("", "x"):
        beyond = await call("query_memories", offset=50, search=search)
        assert (beyond["memories"], beyond["total"]) == ([], 12)
        assert (await call("query_memories", limit=1, search=search))["total"] == 12
    await call("delete_memory", key="k0")
    without = await call("query_memories", limit=1, sort_by="created_at")
    everything = await call("query_memories", archived=True, type="task")

    assert first.keys() == {"memories", "total", "limit", "offset", "has_more", "next_request"}
    assert rest.keys() == first.keys() - {"next_request"}
    assert [len(page["memories"]) for page in (first, rest)] == [10, 2]
    assert (first["total"], first["limit"], first["offset"]) == (12, 10, 0)
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert (without["total"], everything["total"]) == (11, 12), "archived ones only if asked for"


@pytest.mark.requirement("R3.3.7", "R3.3.8", "R3.4.1", "R3.4.3", "R3.4.4")
async def test_a_deletion_archives_unless_it_is_permanent(call: Call) -> None:
    memory_id = (await store(call, "k", tags=["t"]))["id"]

    archived = await call("delete_memory", id=memory_id)
    assert archived == {"success": True, "action": "archived", "id": memory_id}
    assert (await get(call, "k"))["archived"] is True
    assert (await call("query_memories"))["total"] == 0
    assert (await call("query_memories", archived=True, tags=["t"]))["total"] == 1

    revived = await call("update_memory", id=memory_id, archived=False)
    assert revived.keys() == {"memory", "updated_fields"}
    assert revived["updated_fields"] == ["archived"]
    assert "archived" not in revived["memory"], "false is left out"
    assert (await call("query_memories", tags=["t"]))["total"] == 1

    deleted = await call("delete_memory", id=memory_id, permanent="true")
    assert deleted == {"success": True, "action": "deleted", "id": memory_id}
    for name, named in (("memory_get", {"key": "k"}), ("delete_memory", {"id": memory_id})):
        assert await find_reason(call, name, **named) == "not_found"
    assert (await call("get_memory_stats"))["total_storage_kb"] == 0


@pytest.mark.requirement(
    "R3.5.1", "R3.5.2", "R3.5.3", "R3.5.4", "R3.5.5", "R3.5.6", "R3.5.7", "R3.5.8", "R3.5.9"
)
async def test_the_statistics_have_every_figure(call: Call) -> None:
    kinds = (("core", "high"), ("core", "medium"), ("learning", "low"), ("task", "low"))
    for number, (kind, importance) in enumerate(kinds):
        tags = [f"tag{tag:02}" for tag in range(number, 12)][:10]
        fields = {"type": kind, "importance": importance, "tags": tags}
        await store(call, f"k{number}", "x" * 512, **fields)

    await store(call, "old", "old")
    await call("delete_memory", key="old")
    await call("memory_get", key="k1")
    await store(call, "flush", "y", type="task")

    stats = await call("get_memory_stats")

    assert stats["total_memories"] == 5
    assert stats["by_type"] == {"core": 2, "learning": 1, "task": 2}
    assert stats["by_importance"] == {"high": 1, "medium": 2, "low": 2}
    assert stats["archived_count"] == 1
    assert stats["total_storage_kb"] == round((4 * 512 + 3 + 1) / 1024, 3)
    assert stats["most_accessed"]["key"] == "k1"
    counts = [tag["count"] for tag in stats["top_tags"]]
    assert (len(counts), counts[0]) == (10, 4)
    assert counts == sorted(counts, reverse=True)

    oldest, newest = (
        datetime.fromisoformat(stats[f"{end}_memory"]) for end in ("oldest", "newest")
    )
    assert oldest <= newest and newest.tzinfo == UTC
