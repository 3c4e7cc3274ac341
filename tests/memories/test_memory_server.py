"""The agent memory server's five tools, field by field: bounds, defaults, answers and errors."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings, schemas
from tests.support.memory_cases import UNKNOWN

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
DECLARED: dict[str, dict[str, Any]] = {
    "store_memory": {
        "type": TYPE,
        "content": CONTENT,
        "category": CATEGORY,
        "tags": TAGS,
        "importance": IMPORTANCE,
        "id": ID,
    },
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
    "update_memory": {
        "id": ID,
        "content": CONTENT,
        "category": CATEGORY,
        "tags": TAGS,
        "importance": IMPORTANCE,
        "archived": {"type": "boolean"},
    },
    "delete_memory": {"id": ID, "permanent": {"type": "boolean", "default": False}},
    "get_memory_stats": {},
}
REQUIRED = {
    "store_memory": ["type", "content"],
    "query_memories": [],
    "update_memory": [],  # the id, or the key
    "delete_memory": [],
    "get_memory_stats": [],
}
TOO_MUCH: list[tuple[str, object]] = [
    ("type", "memory"),
    ("content", ""),
    ("content", "x" * 5_001),
    ("category", "c" * 51),
    ("tags", ["t"] * 11),
    ("tags", ["t" * 31]),
    ("importance", "HIGH"),
    ("id", "no-id"),
]


@pytest.fixture
async def opened(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as abilities:
        yield abilities


@pytest.mark.requirement(
    "R3.1.2", "R3.1.3", "R3.1.4", "R3.1.5", "R3.1.6", "R3.1.7", "R3.2.1", "R3.2.2", "R3.2.3",
    "R3.2.4", "R3.2.5", "R3.2.6", "R3.2.7", "R3.2.8", "R3.2.9", "R3.2.10", "R3.3.2", "R3.3.3",
    "R3.3.4", "R3.3.5", "R3.3.6", "R3.3.7", "R3.4.2", "R3.4.3", "R3.5.1", "R3.8.3",
)  # fmt: skip
@pytest.mark.parametrize("name", DECLARED)
async def test_every_field_is_declared_with_its_bounds_and_default(
    name: str, opened: Abilities
) -> None:
    ability = opened.registry.get(name)
    assert ability is not None

    schema = schemas.build_full_schema(ability)

    assert schema.get("required", []) == REQUIRED[name]
    for field, expected in DECLARED[name].items():
        declared = schema["properties"][field]
        assert {key: declared.get(key) for key in expected} == expected, field

    if DECLARED[name].get("tags") == TAGS:
        assert schema["properties"]["tags"]["items"]["maxLength"] == 30


@pytest.mark.requirement("R3.1.1", "R3.1.8", "R3.1.9")
async def test_a_memory_is_stored_and_updated_by_its_id(opened: Abilities) -> None:
    arguments = {
        "type": "core",
        "content": "Ada reads the tests first.",
        "category": "habit",
        "tags": ["ada", "tests"],
        "importance": "high",
    }

    stored = await opened.call("store_memory", arguments)
    again = await opened.call("store_memory", {**arguments, "content": "No.", "id": stored["id"]})

    assert stored["created"] is True and again["created"] is False
    assert stored.keys() == {"id", "created", "memory"}
    assert again["id"] == stored["id"]
    assert again["memory"]["content"] == "No."
    for field, value in arguments.items():
        assert stored["memory"][field] == value

    with pytest.raises(AbilityError, match="NOT_FOUND"):
        await opened.call("store_memory", {**arguments, "id": UNKNOWN})


@pytest.mark.requirement("R3.1.2", "R3.1.3", "R3.1.4", "R3.1.5", "R3.1.6")
@pytest.mark.parametrize("kind", ["core", "learning", "task"])
@pytest.mark.parametrize("content", ["x", "世" * 5_000])
async def test_what_is_just_within_the_bounds_is_stored(
    kind: str, content: str, opened: Abilities
) -> None:
    tags = [f"{number}" * 30 for number in range(10)]
    arguments = {"type": kind, "content": content, "category": "c" * 50, "tags": tags}

    stored = await opened.call("store_memory", arguments)

    memory = stored["memory"]
    assert (memory["content"], memory["tags"], memory["category"]) == (content, tags, "c" * 50)
    assert memory["importance"] == "medium", "the default"


@pytest.mark.requirement(
    "R3.1.2", "R3.1.3", "R3.1.4", "R3.1.5", "R3.1.6", "R3.1.7", "R3.3.3", "R3.3.4", "R3.3.5",
    "R3.3.6", "R3.7.1",
)  # fmt: skip
@pytest.mark.parametrize("name", ["store_memory", "update_memory"])
@pytest.mark.parametrize(("field", "value"), TOO_MUCH)
async def test_what_is_beyond_a_bound_is_refused_and_nothing_is_stored(
    field: str, value: object, name: str, opened: Abilities
) -> None:
    given: dict[str, object] = {"type": "core", "content": "kept"}
    if name == "update_memory":
        given = {"id": (await opened.call("store_memory", given))["id"], "content": "changed"}

    before = (await opened.call("query_memories"))["memories"]
    with pytest.raises(AbilityError) as caught:
        await opened.call(name, {**given, field: value})

    assert caught.value.fault.code == "INVALID_INPUT"
    assert (caught.value.fault.field or "").partition("[")[0] == field
    assert (await opened.call("query_memories"))["memories"] == before


@pytest.mark.requirement("R3.2.6", "R3.2.7", "R3.2.8", "R3.2.11", "R3.2.12")
async def test_a_page_has_ten_memories_unless_asked(opened: Abilities) -> None:
    ids: list[str] = []
    for number in range(12):
        stored = await opened.call("store_memory", {"type": "task", "content": f"{number}"})
        ids.append(stored["id"])

    first = await opened.call("query_memories")
    rest = await opened.call("query_memories", {"offset": 10})
    await opened.call("delete_memory", {"id": ids[0]})
    without = await opened.call("query_memories", {"limit": 1, "sort_by": "created_at"})
    everything = await opened.call("query_memories", {"archived": True, "type": "task"})

    assert first.keys() == {"memories", "total", "limit", "offset", "has_more", "next_request"}
    assert rest.keys() == first.keys() - {"next_request"}
    assert [len(page["memories"]) for page in (first, rest)] == [10, 2]
    assert (first["total"], first["limit"], first["offset"]) == (12, 10, 0)
    assert (first["has_more"], rest["has_more"]) == (True, False)
    assert (without["total"], everything["total"]) == (11, 12), "archived ones only if asked for"


@pytest.mark.requirement("R3.2.2")
async def test_a_query_takes_any_tags_that_a_memory_can_have(opened: Abilities) -> None:
    tags = [f"t{number}" for number in range(10)]
    await opened.call("store_memory", {"type": "core", "content": "all", "tags": tags})
    await opened.call("store_memory", {"type": "core", "content": "nine", "tags": tags[:9]})

    found = await opened.call("query_memories", {"tags": tags})

    assert [memory["content"] for memory in found["memories"]] == ["all"]
    assert (await opened.call("query_memories", {"tags": [*tags, "t10"]}))["total"] == 0


@pytest.mark.requirement("R3.3.1", "R3.3.7", "R3.3.8")
async def test_an_update_changes_each_field_and_names_it(opened: Abilities) -> None:
    stored = await opened.call("store_memory", {"type": "core", "content": "old"})
    changes = {
        "content": "new",
        "category": "fact",
        "tags": ["a"],
        "importance": "low",
        "archived": True,
    }

    answer = await opened.call("update_memory", {"id": stored["id"], **changes})
    revived = await opened.call("update_memory", {"id": stored["id"], "archived": False})

    assert answer.keys() == {"memory", "updated_fields"}
    assert set(answer["updated_fields"]) >= set(changes)
    for field, value in changes.items():
        assert answer["memory"][field] == value
    assert revived["updated_fields"] == ["archived"]
    assert "archived" not in revived["memory"], "false is left out"


@pytest.mark.requirement("R3.4.1", "R3.4.3", "R3.4.4")
async def test_a_deletion_archives_unless_it_is_permanent(opened: Abilities) -> None:
    memory = {"type": "core", "content": "x", "key": "k"}
    memory_id = (await opened.call("store_memory", memory))["id"]

    archived = await opened.call("delete_memory", {"id": memory_id})
    kept = await opened.call("memory_get", {"key": "k"})
    deleted = await opened.call("delete_memory", {"id": memory_id, "permanent": True})

    assert archived == {"success": True, "action": "archived", "id": memory_id}
    assert deleted == {"success": True, "action": "deleted", "id": memory_id}
    assert kept["data"]["archived"] is True
    with pytest.raises(AbilityError, match="NOT_FOUND"):
        await opened.call("memory_get", {"key": "k"})


@pytest.mark.requirement(
    "R3.5.1", "R3.5.2", "R3.5.3", "R3.5.4", "R3.5.5", "R3.5.6", "R3.5.7", "R3.5.8", "R3.5.9"
)
async def test_the_statistics_have_every_figure(opened: Abilities) -> None:
    kinds = ["core", "core", "learning", "task"]
    levels = ["high", "medium", "low", "low"]
    for number, (kind, level) in enumerate(zip(kinds, levels, strict=True)):
        tags = [f"tag{tag:02}" for tag in range(number, 12)]
        memory = {"type": kind, "content": "x" * 512, "importance": level, "key": f"k{number}"}
        await opened.call("store_memory", {**memory, "tags": tags[:10]})

    old = await opened.call("store_memory", {"type": "task", "content": "old"})
    await opened.call("delete_memory", {"id": old["id"]})
    await opened.call("memory_get", {"key": "k1"})
    await opened.call("store_memory", {"type": "task", "content": "y", "key": "flush"})

    stats = await opened.call("get_memory_stats")

    assert stats["total_memories"] == 5
    assert stats["by_type"] == {"core": 2, "learning": 1, "task": 2}
    assert stats["by_importance"] == {"high": 1, "medium": 2, "low": 2}
    assert stats["archived_count"] == 1
    assert stats["total_storage_kb"] == round((4 * 512 + 3 + 1) / 1024, 3)
    assert stats["most_accessed"]["key"] == "k1"
    assert len(stats["top_tags"]) == 10
    assert stats["top_tags"][0]["count"] == 4
    counts = [tag["count"] for tag in stats["top_tags"]]
    assert counts == sorted(counts, reverse=True)

    oldest, newest = (
        datetime.fromisoformat(stats[f"{end}_memory"]) for end in ("oldest", "newest")
    )
    assert oldest <= newest
    assert newest.tzinfo == UTC


@pytest.mark.requirement("R3.6.1", "R3.7.2")
async def test_an_error_is_a_code_and_a_message_in_an_object(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        reply = await abilities.reply("delete_memory", {"id": UNKNOWN})

    assert reply.failed
    assert reply.payload.keys() == {"error"}
    assert reply.payload["error"]["code"] == "NOT_FOUND"
    assert isinstance(reply.payload["error"]["message"], str)
