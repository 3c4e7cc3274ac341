"""The history of memories: what it tells, reading and restoring what was, listing and changes."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from abilities import Abilities, AbilityError, Settings
from tests.support.detail_cases import check_schema

Payload = dict[str, Any]


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots.model_copy(update={"allow_purge": True})) as abilities:
        yield abilities


async def call(app: Abilities, name: str, **arguments: Any) -> Payload:
    payload = await app.call(name, arguments)
    check_schema(name, payload)
    return payload


async def store(app: Abilities, key: str, content: str, **more: Any) -> Payload:
    return await call(app, "store_memory", type="core", key=key, content=content, **more)


async def find_reason(app: Abilities, name: str, **arguments: Any) -> str:
    """Return why a call is refused."""
    with pytest.raises(AbilityError) as refused:
        await app.call(name, arguments)
    return refused.value.fault.reason


async def test_a_history_tells_who_did_what(app: Abilities) -> None:
    stored = await store(app, "tea", "Green.")
    agent = app.for_caller("laptop of Ada")
    await store(agent, "tea", "Black.", tags=["drink"])
    await call(app, "update_memory", id=stored["id"], key="black tea")
    await call(app, "delete_memory", id=stored["id"])

    history = await call(app, "memory_history", key="tea")

    assert history == await call(app, "memory_history", id=stored["id"])
    assert (history["id"], history["key"], history["version"]) == (stored["id"], "black tea", 4)
    assert history["earliest"] == 1
    told = [(e["version"], e["by"], e["action"], e.get("changed")) for e in history["entries"]]
    assert told == [
        (4, "python", "archived", ["archived"]),
        (3, "python", "renamed", ["key"]),
        (2, "laptop of Ada", "changed", ["content", "tags"]),
        (1, "python", "created", None),
    ]


async def test_a_history_comes_in_pages(app: Abilities) -> None:
    for number in range(7):
        await store(app, "tea", f"Cup {number}.")

    request: Payload | None = {"key": "tea", "limit": 3}
    versions: list[int] = []
    while request is not None:
        page = await call(app, "memory_history", **request)
        versions += [entry["version"] for entry in page["entries"]]
        request = page.get("next_request")

    assert versions == [7, 6, 5, 4, 3, 2, 1]


async def test_a_memory_is_read_as_it_was(app: Abilities) -> None:
    first = (await store(app, "tea", "Green.", links=[{"key": "cup"}]))["memory"]
    second = (await store(app, "tea", "Black.", links=[{"key": "pot"}]))["memory"]
    times = (first["updated_at"], second["updated_at"])

    then = await call(app, "memory_get", key="tea", as_of=times[0])
    now = await call(app, "memory_get", key="tea", as_of="2999-01-01T00:00:00+01:00")

    if times[0] < times[1]:
        assert then["data"]["content"] == "Green." and then["data"]["version"] == 1
        assert [link["key"] for link in then["data"]["links"]] == ["cup"]
    assert now["data"]["content"] == "Black."
    assert len(now["data"]["links"]) == 2
    before = "2001-01-01T00:00:00Z"
    assert await find_reason(app, "memory_get", key="tea", as_of=before) == "version_not_found"
    assert await find_reason(app, "memory_get", key="tea", as_of="now") == "invalid_format"


async def test_any_version_comes_back(app: Abilities) -> None:
    shown: list[Payload] = []
    for number in range(4):
        links = [{"key": f"link {number}"}]
        await store(app, "tea", f"Cup {number}. 🍵", tags=[f"tag{number}"], links=links)
        shown.append((await call(app, "memory_get", key="tea"))["data"])

    for version in (2, 4, 1, 3):
        restored = await call(app, "memory_restore", key="tea", version=version)
        data = (await call(app, "memory_get", key="tea"))["data"]

        wanted = shown[version - 1]
        changing = ("version", "updated_at")
        assert restored["memory"]["content"] == wanted["content"]
        assert {name: data[name] for name in data if name not in changing} == {
            name: wanted[name] for name in wanted if name not in changing
        }

    assert await find_reason(app, "memory_restore", key="tea", version=99) == "version_not_found"
    assert await find_reason(app, "memory_restore", key="nobody", version=1) == "not_found"
    assert await find_reason(app, "memory_restore", version=1) == "missing_argument"
    assert await find_reason(app, "memory_history") == "missing_argument"
    conflict = await find_reason(app, "memory_restore", key="tea", version=1, if_version=1)
    assert conflict == "version_conflict"


async def test_a_deleted_memory_comes_back(app: Abilities) -> None:
    stored = await store(app, "tea", "Green.", links=[{"key": "cup"}])
    deleted = await call(app, "delete_memory", id=stored["id"], permanent=True)
    assert deleted["action"] == "deleted"

    history = await call(app, "memory_history", key="tea")
    assert history["deleted"] and "version" not in history
    version = history["entries"][1]["version"]
    await call(app, "memory_restore", id=stored["id"], version=version)

    data = (await call(app, "memory_get", key="tea"))["data"]
    assert data["id"] == stored["id"] and data["links"][0]["key"] == "cup"


async def test_what_was_deleted_is_for_those_who_may_write(app: Abilities) -> None:
    stored = (await store(app, "tea", "Green."))["memory"]
    reading = app.for_namespace("default", read_only=True)
    assert await call(reading, "memory_history", key="tea")
    assert await call(reading, "memory_get", key="tea", as_of=stored["updated_at"])

    await call(app, "delete_memory", id=stored["id"], permanent=True)

    assert await find_reason(reading, "memory_history", key="tea") == "scope"
    past = {"key": "tea", "as_of": stored["updated_at"]}
    assert await find_reason(reading, "memory_get", **past) == "scope"


async def test_what_was_purged_does_not_come_back(app: Abilities) -> None:
    await call(
        app,
        "remember",
        operations=[{"op": "store", "type": "core", "key": "doc", "content": "secret " * 2_000}],
    )
    stored = (await call(app, "memory_get", key="doc"))["data"]

    purged = await call(app, "delete_memory", id=stored["id"], purge=True)

    assert purged["action"] == "purged"
    assert (await call(app, "memory_list", archived=True))["memories"] == []
    assert await find_reason(app, "memory_history", key="doc") == "not_found"
    assert await find_reason(app, "memory_history", key="doc#2") == "not_found"
    changes = (await call(app, "memory_changes"))["changes"]
    assert {change["action"] for change in changes} == {"purged"}
    assert all("key" not in change for change in changes)


async def test_purging_needs_a_right_of_its_own(roots: Settings) -> None:
    async with Abilities.open(roots) as app:
        stored = await store(app, "tea", "Green.")
        assert await find_reason(app, "delete_memory", id=stored["id"], purge=True) == "scope"

        allowed = app.for_caller("Ada", may_purge=True)
        reading = allowed.for_namespace("default", read_only=True)
        assert not reading.context.may_purge
        assert await find_reason(reading, "delete_memory", id=stored["id"], purge=True) == "scope"
        assert (await call(allowed, "delete_memory", id=stored["id"], purge=True))["success"]


async def test_a_list_shows_what_is_known_without_contents(app: Abilities) -> None:
    for number in range(5):
        await store(app, f"project/{number}", "é" * (number + 1), summary=f"Part {number}.")
    await store(app, "other", "Tea.")
    archived = await store(app, "project/9", "Old.")
    await call(app, "delete_memory", id=archived["id"])

    request: Payload | None = {"prefix": "project/", "limit": 2}
    listed: list[Payload] = []
    while request is not None:
        page = await call(app, "memory_list", **request)
        listed += page["memories"]
        request = page.get("next_request")

    assert [memory["key"] for memory in listed] == [f"project/{n}" for n in range(5)]
    assert listed[1] == {
        "key": "project/1",
        "type": "core",
        "size": 4,
        "version": 2,
        "summary": "Part 1.",
    }
    everything = await call(app, "memory_list", archived=True)
    assert everything["memories"][-1]["archived"]
    assert len(everything["memories"]) == 7


async def test_pages_keep_the_bound_of_an_answer(roots: Settings) -> None:
    small = roots.model_copy(update={"max_response_bytes": 40_000})
    async with Abilities.open(small) as app:
        for start in range(0, 150, 50):
            operations = [
                {
                    "op": "store",
                    "type": "core",
                    "key": f"{number:03}{'🍵' * 197}",
                    "content": "c",
                    "summary": "é" * 500,
                }
                for number in range(start, start + 50)
            ]
            await app.call("remember", {"operations": operations})

        for name, entries in (("memory_list", "memories"), ("memory_changes", "changes")):
            request: Payload | None = {"limit": 500}
            keys: list[str] = []
            while request is not None:
                page = await call(app, name, **request)
                assert len(orjson.dumps(page)) <= 40_000
                keys += [entry["key"] for entry in page[entries]]
                request = page.get("next_request")
            assert len(keys) == len(set(keys)) == 150


async def test_changes_are_a_cursor(app: Abilities) -> None:
    first = await store(app, "tea", "Green.")
    page = await call(app, "memory_changes")
    assert [(c["key"], c["action"]) for c in page["changes"]] == [("tea", "created")]

    assert (await call(app, "memory_changes", since=page["next"]))["changes"] == []
    await store(app, "tea", "Black.")
    await store(app, "tea", "White.")
    await store(app, "cup", "Blue.")
    await call(app, "delete_memory", id=first["id"], permanent=True)
    later = await call(app, "memory_changes", since=page["next"])

    assert [(c["key"], c["action"]) for c in later["changes"]] == [
        ("cup", "created"),
        ("tea", "deleted"),
    ]


async def test_an_end_is_shown_and_can_be_cleared(app: Abilities) -> None:
    stored = await store(app, "tea", "Green.", expires_at="2999-01-01T01:00:00+01:00")
    assert stored["memory"]["expires_at"] == "2999-01-01T00:00:00.000Z"

    kept = await call(app, "update_memory", id=stored["id"], summary="s", expires_at=None)
    assert kept["memory"]["expires_at"] == "2999-01-01T00:00:00.000Z"
    cleared = await call(app, "update_memory", id=stored["id"], expires_at="")
    assert "expires_at" not in cleared["memory"]
    assert cleared["updated_fields"] == ["expires_at"]


async def test_a_change_can_expect_a_version(app: Abilities) -> None:
    stored = await store(app, "tea", "Green.", if_version=0)
    name = stored["id"]
    await call(app, "update_memory", id=name, summary="s", if_version=1)

    for ability, arguments in (
        ("store_memory", {"type": "core", "key": "tea", "content": "x", "if_version": 0}),
        ("update_memory", {"id": name, "summary": "t", "if_version": 1}),
        ("delete_memory", {"id": name, "if_version": 1}),
        ("delete_memory", {"id": name, "permanent": True, "if_version": 1}),
        ("delete_memory", {"id": name, "purge": True, "if_version": 1}),
    ):
        with pytest.raises(AbilityError) as refused:
            await app.call(ability, arguments)
        assert refused.value.fault.reason == "version_conflict"
        assert refused.value.fault.expected == {"version": 2}

    assert (await call(app, "memory_get", key="tea"))["data"]["version"] == 2
