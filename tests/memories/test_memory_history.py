"""The history of memories: what it tells, reading and restoring what was, listing and changes."""

import orjson
import pytest

from abilities import Abilities, Settings
from tests.memories import calls
from tests.support.surfaces import Call


@pytest.fixture
def roots(roots: Settings) -> Settings:
    """Settings with which memories may be purged."""
    return roots.model_copy(update={"allow_purge": True})


async def test_a_history_tells_who_did_what(app: Abilities, call: Call) -> None:
    stored = await calls.store(call, "tea", "Green.")
    laptop = calls.calls_of(app.for_caller("laptop of Ada"))
    await calls.store(laptop, "tea", "Black.", tags=["t"], links=[{"key": "x"}])
    await call("update_memory", id=stored["id"], key="black tea")
    await call("delete_memory", id=stored["id"])

    history = await call("memory_history", key="tea")
    entries = await calls.follow(call, "memory_history", {"key": "tea", "limit": 3}, "entries")

    assert history == await call("memory_history", id=stored["id"])
    assert (history["id"], history["key"], history["version"]) == (stored["id"], "black tea", 4)
    assert (history["earliest"], history["entries"]) == (1, entries)
    told = [(e["version"], e["by"], e["action"], e.get("changed")) for e in entries]
    assert told == [
        (4, "python", "archived", ["archived"]),
        (3, "python", "renamed", ["key"]),
        (2, "laptop of Ada", "changed", ["content", "tags", "links"]),
        (1, "python", "created", None),
    ]


async def test_a_deleted_memory_is_told_of_and_what_never_was_is_not_restored(call: Call) -> None:
    await calls.store(call, "tea")
    await call("delete_memory", key="tea", permanent=True)
    history = await call("memory_history", key="tea")
    assert history["deleted"] and "version" not in history

    for name, arguments, reason in (
        ("memory_restore", {"key": "tea", "version": 99}, "version_not_found"),
        ("memory_restore", {"key": "nobody", "version": 1}, "not_found"),
        ("memory_restore", {"version": 1}, "missing_argument"),
        ("memory_restore", {"key": "tea", "version": 1, "if_version": 1}, "version_conflict"),
        ("memory_history", {}, "missing_argument"),
        ("memory_get", {"key": "tea", "as_of": "now"}, "invalid_format"),
    ):
        assert await calls.find_reason(call, name, **arguments) == reason


async def test_what_was_deleted_is_for_those_who_may_write(app: Abilities, call: Call) -> None:
    stored = (await calls.store(call, "tea"))["memory"]
    reading = calls.calls_of(app.for_namespace("default", read_only=True))
    past = {"key": "tea", "as_of": stored["updated_at"]}
    assert await reading("memory_history", key="tea")
    assert await reading("memory_get", **past)

    await call("delete_memory", key="tea", permanent=True)

    assert await calls.find_reason(reading, "memory_history", key="tea") == "scope"
    assert await calls.find_reason(reading, "memory_get", **past) == "scope"


async def test_what_was_purged_does_not_come_back(call: Call) -> None:
    await calls.store(call, "doc", "secret")

    purged = await call("delete_memory", key="doc", purge=True)

    assert purged["action"] == "purged"
    assert (await call("memory_list", archived=True))["memories"] == []
    assert await calls.find_reason(call, "memory_history", key="doc") == "not_found"
    changes = (await call("memory_changes"))["changes"]
    assert {change["action"] for change in changes} == {"purged"}
    assert all("key" not in change for change in changes)


async def test_purging_needs_a_right_of_its_own(roots: Settings) -> None:
    async with Abilities.open(roots.model_copy(update={"allow_purge": False})) as app:
        allowed = app.for_caller("Ada", may_purge=True)
        reading = allowed.for_namespace("default", read_only=True)
        assert not reading.context.may_purge
        await calls.store(calls.calls_of(app), "tea")

        purge = {"key": "tea", "purge": True}
        for caller in (app, reading):
            assert (
                await calls.find_reason(calls.calls_of(caller), "delete_memory", **purge) == "scope"
            )
        assert (await calls.calls_of(allowed)("delete_memory", **purge))["success"]


async def test_a_list_shows_what_is_known_without_contents(call: Call) -> None:
    for number in range(5):
        await calls.store(call, f"project/{number}", "é" * (number + 1), summary=f"Part {number}.")
    await calls.store(call, "other")
    await calls.store(call, "project/9")
    await call("delete_memory", key="project/9")

    listed = await calls.follow(call, "memory_list", {"prefix": "project/", "limit": 2}, "memories")
    everything = (await call("memory_list", archived=True))["memories"]

    assert [memory["key"] for memory in listed] == [f"project/{n}" for n in range(5)]
    shown = {"key": "project/1", "type": "core", "size": 4, "version": 2, "summary": "Part 1."}
    assert listed[1] == shown
    assert everything[-1]["archived"] and len(everything) == 7


async def test_pages_keep_the_bound_of_an_answer(roots: Settings) -> None:
    memory = {"op": "store", "type": "core", "content": "c", "summary": "é" * 500}
    keys = [f"{number:03}{'🍵' * 197}" for number in range(150)]

    async with calls.open_calls(roots.model_copy(update={"max_response_bytes": 40_000})) as call:
        for start in range(0, 150, 50):
            operations = [{**memory, "key": key} for key in keys[start : start + 50]]
            await call("remember", operations=operations)

        async def call_within_bound(name: str, **arguments: object) -> calls.Payload:
            page = await call(name, **arguments)
            assert len(orjson.dumps(page)) <= 40_000
            return page

        for name, entries in (("memory_list", "memories"), ("memory_changes", "changes")):
            found = await calls.follow(call_within_bound, name, {"limit": 500}, entries)
            assert sorted(entry["key"] for entry in found) == keys


async def test_an_end_is_shown_and_can_be_cleared(call: Call) -> None:
    stored = await calls.store(call, "tea", expires_at="2999-01-01T01:00:00+01:00")
    kept = await call("update_memory", key="tea", summary="s", expires_at=None)
    cleared = await call("update_memory", key="tea", expires_at="")

    for answer in (stored, kept):
        assert answer["memory"]["expires_at"] == "2999-01-01T00:00:00.000Z"
    assert "expires_at" not in cleared["memory"]
    assert cleared["updated_fields"] == ["expires_at"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("store_memory", {"type": "core", "content": "x", "if_version": 0}),
        ("update_memory", {"summary": "t"}),
        ("delete_memory", {}),
        ("delete_memory", {"permanent": True}),
        ("delete_memory", {"purge": True}),
    ],
)
async def test_s15_a_change_can_expect_a_version(
    name: str, arguments: calls.Payload, call: Call
) -> None:
    await calls.store(call, "tea", if_version=0)
    await call("update_memory", key="tea", summary="s", if_version=1)

    fault = await calls.find_fault(call, name, **{"key": "tea", "if_version": 1, **arguments})

    assert (fault.reason, fault.expected) == ("version_conflict", {"version": 2})
    assert (await calls.get(call, "tea"))["version"] == 2
