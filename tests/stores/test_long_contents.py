"""Long contents in the past: they are purged, restored and read with all their parts."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.helpers.stores.former import Deletion, Family, KeyChange
from abilities.helpers.stores.parts import split_text
from tests.support import postgres
from tests.support.stores import store_file

Payload = dict[str, Any]
Scenario = Callable[[Abilities], Awaitable[None]]

SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def write(word: str, length: int) -> str:
    """Return a text of a word and a number, that many characters long."""
    return "".join(f"{word}{number} " for number in range(length))[:length]


async def remember(app: Abilities, **operation: Any) -> int:
    """Make one operation; return the version that it made."""
    if operation["op"] == "store":
        operation["type"] = "core"
    (record,) = (await app.call("remember", {"operations": [operation]}))["results"]
    assert "reason" not in record and "error" not in record, record
    return int(record.get("version", 0))


async def store(app: Abilities, key: str, content: str) -> int:
    return await remember(app, op="store", key=key, content=content)


async def restore(app: Abilities, key: str, version: int, **more: Any) -> Payload:
    return await app.call("memory_restore", {"key": key, "version": version, **more})


async def read_whole(app: Abilities, key: str, **more: Any) -> str:
    request: Payload | None = {"key": key, "whole": True, **more}
    pieces: list[str] = []
    while request is not None:
        payload = await app.call("memory_get", request)
        pieces.append(payload["data"]["content"])
        request = payload.get("next_request")

    return "".join(pieces)


async def find_reason(app: Abilities, name: str, **arguments: Any) -> str:
    with pytest.raises(AbilityError) as refused:
        await app.call(name, arguments)
    return refused.value.fault.reason


async def list_keys(app: Abilities) -> list[str]:
    listed = await app.call("memory_list", {"archived": True})
    return [memory["key"] for memory in listed["memories"]]


async def purge(app: Abilities, key: str) -> None:
    history = await app.call("memory_history", {"key": key})
    await app.call("delete_memory", {"id": history["id"], "purge": True})


async def expect_forgotten(app: Abilities, *keys: str) -> None:
    for key in keys:
        assert await find_reason(app, "memory_history", key=key) == "not_found"


@scenario
async def a_deleted_content_is_purged_with_all_parts(app: Abilities) -> None:
    await store(app, "del", write("secret", 13_000))
    await remember(app, op="delete", key="del", permanent=True)

    await purge(app, "del")

    await expect_forgotten(app, "del", "del#2", "del#3")


@scenario
async def parts_that_a_content_no_longer_has_are_purged(app: Abilities) -> None:
    await store(app, "short", write("secret", 13_000))
    await store(app, "short", "ok")
    await store(app, "other#2", "Another memory.")

    await purge(app, "short")

    await expect_forgotten(app, "short", "short#2", "short#3")
    assert await list_keys(app) == ["other#2"]


@scenario
async def parts_that_were_left_behind_are_purged(app: Abilities) -> None:
    await store(app, "doc", write("secret", 13_000))
    await remember(app, op="unlink", key="doc", remove_links=[{"key": "doc#2"}])
    await remember(app, op="delete", key="doc", permanent=True)
    assert await list_keys(app) == ["doc#2", "doc#3"]

    await purge(app, "doc")

    await expect_forgotten(app, "doc", "doc#2", "doc#3")


@scenario
async def a_purge_takes_along_what_had_the_key_before(app: Abilities) -> None:
    await store(app, "again", write("first", 8_000))
    old = await app.call("memory_history", {"key": "again"})
    await remember(app, op="delete", key="again", permanent=True)
    await store(app, "again", "second")

    await purge(app, "again")

    await expect_forgotten(app, "again", "again#2")
    assert await find_reason(app, "memory_history", id=old["id"]) == "not_found"


@scenario
async def parts_under_a_former_key_are_purged_and_no_others(app: Abilities) -> None:
    await store(app, "from", write("secret", 13_000))
    await store(app, "from", "short")
    await remember(app, op="rename", key="from", to="to")
    version = await store(app, "from", write("kept", 13_000))
    await store(app, "from", "kept")
    former = await app.call("memory_history", {"key": "from#3"})

    await purge(app, "to")

    await expect_forgotten(app, "to", "to#2")
    await restore(app, "from", version)
    assert await read_whole(app, "from") == write("kept", 13_000)
    kept = await app.call("memory_history", {"key": "from#3"})
    assert kept["id"] == former["id"]
    actions = [(await app.call("memory_changes", {"limit": 200}))["changes"]]
    purged = [change for change in actions[0] if change["action"] == "purged"]
    assert len(purged) == 3


@scenario
async def a_deleted_memory_is_purged_beside_the_one_that_has_its_key(app: Abilities) -> None:
    await store(app, "k", write("old", 13_000))
    old = await app.call("memory_history", {"key": "k"})
    await remember(app, op="delete", key="k", permanent=True)
    version = await store(app, "k", write("new", 13_000))
    await store(app, "k", "new")

    await app.call("delete_memory", {"id": old["id"], "purge": True})

    await restore(app, "k", version)
    assert await read_whole(app, "k") == write("new", 13_000)
    changes = (await app.call("memory_changes", {"limit": 200}))["changes"]
    assert len([change for change in changes if change["action"] == "purged"]) == 3


@scenario
async def an_addition_is_undone(app: Abilities) -> None:
    first = await store(app, "log", write("a", 12_000))
    second = await remember(app, op="append", key="log", content="WRONG")

    restored = await restore(app, "log", first)

    assert restored["memory"]["version"] > second
    assert restored["updated_fields"] == ["content"]
    assert await read_whole(app, "log") == write("a", 12_000)
    await restore(app, "log", second)
    assert await read_whole(app, "log") == write("a", 12_000) + "WRONG"
    again = await restore(app, "log", second)
    assert again["updated_fields"] == []


@scenario
async def contents_are_not_mixed(app: Abilities) -> None:
    texts = [write("a", 12_000), write("b", 24_000), "short", write("c", 7_000), "b" * 4_000]
    versions = [await store(app, "doc", text) for text in texts]

    for index in (0, 1, 3, 0, 2, 1, 4, 3, 2, 0):
        version = await restore(app, "doc", versions[index], detail="concise")
        assert await read_whole(app, "doc") == texts[index]

        # What was restored is a version like any other.
        texts.append(texts[index])
        versions.append(version["version"])

    await remember(app, op="append", key="doc", content="END")
    assert await read_whole(app, "doc") == texts[0] + "END"
    for index in range(len(texts) - 1, 4, -1):
        await restore(app, "doc", versions[index])
        assert await read_whole(app, "doc") == texts[index]
    assert await list_keys(app) == ["doc", "doc#2", "doc#3"]


@scenario
async def a_deleted_content_comes_back_whole(app: Abilities) -> None:
    version = await store(app, "gone", write("a", 13_000))
    ids = [(await app.call("memory_get", {"key": key}))["data"]["id"] for key in ("gone", "gone#3")]
    await remember(app, op="delete", key="gone", permanent=True)

    await restore(app, "gone", version, if_version=0)

    assert await read_whole(app, "gone") == write("a", 13_000)
    assert ids == [
        (await app.call("memory_get", {"key": key}))["data"]["id"] for key in ("gone", "gone#3")
    ]


@scenario
async def a_renamed_content_comes_back_under_its_new_key(app: Abilities) -> None:
    first = await store(app, "old", write("a", 13_000))
    second = await store(app, "old", write("b", 7_000))
    await remember(app, op="rename", key="old", to="new")

    await restore(app, "new", first)

    assert await read_whole(app, "new") == write("a", 13_000)
    assert await list_keys(app) == ["new", "new#2", "new#3"]
    await restore(app, "new", second)
    assert await read_whole(app, "new") == write("b", 7_000)
    assert await list_keys(app) == ["new", "new#2"]


@scenario
async def nothing_is_restored_if_a_part_cannot_be(app: Abilities) -> None:
    version = await store(app, "doc", write("a", 13_000))
    await store(app, "doc", "short")
    await store(app, "doc#3", "Mine.")
    assert await find_reason(app, "memory_restore", key="doc", version=version) == "key_taken"
    assert await list_keys(app) == ["doc", "doc#3"]
    assert await read_whole(app, "doc") == "short"

    await purge(app, "doc#3")
    reason = await find_reason(app, "memory_restore", key="doc", version=version)
    assert reason == "version_not_found"
    assert await read_whole(app, "doc") == "short"
    conflict = await find_reason(app, "memory_restore", key="doc", version=version, if_version=1)
    assert conflict in ("version_conflict", "version_not_found")


@scenario
async def a_missing_part_is_told(app: Abilities) -> None:
    await store(app, "doc", write("a", 13_000))
    third = (await app.call("memory_get", {"key": "doc#3"}))["data"]["id"]
    await app.call("delete_memory", {"id": third, "permanent": True})

    assert await find_reason(app, "memory_get", key="doc", whole=True) == "not_found"
    assert (await app.call("memory_get", {"key": "doc"}))["data"]["content"]
    await store(app, "doc", write("b", 13_000))
    assert await read_whole(app, "doc") == write("b", 13_000)


@scenario
async def a_content_is_read_as_it_was_before(app: Abilities) -> None:
    await store(app, "old", write("a", 13_000))
    time = (await app.call("memory_get", {"key": "old"}))["data"]["updated_at"]
    later = time
    while later == time:
        await store(app, "clock", later)
        later = (await app.call("memory_get", {"key": "clock"}))["data"]["updated_at"]
    await remember(app, op="rename", key="old", to="new")
    await store(app, "new", "short")
    await store(app, "new", write("b", 13_000))

    assert await read_whole(app, "new", as_of=time) == write("a", 13_000)
    assert await read_whole(app, "new") == write("b", 13_000)


@pytest.fixture
def settings(roots: Settings) -> Settings:
    return roots.model_copy(update={"allow_purge": True})


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(settings) as abilities:
        yield abilities


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_past_of_long_contents(app: Abilities, scenario: Scenario) -> None:
    await scenario(app)


async def test_the_past_of_long_contents_in_postgres(settings: Settings, server: str) -> None:
    with postgres.database(server) as url:
        async with Abilities.open(settings.model_copy(update={"store_url": url})) as app:
            for each in SCENARIOS:
                await each(app.for_namespace(each.__name__))


async def test_restorations_and_additions_at_once_mix_nothing(settings: Settings) -> None:
    texts = [write("a", 12_000), write("b", 21_000), "short"]

    async with Abilities.open(settings) as app, Abilities.open(settings) as other:
        versions = [await store(app, "doc", text) for text in texts]
        works: list[Awaitable[object]] = []
        for number, version in enumerate(versions * 3):
            works.append(restore((app, other)[number % 2], "doc", version))
            works.append(remember(other, op="append", key="doc", content=f"<{number}>"))
        await asyncio.gather(*works)

        whole = await read_whole(app, "doc")
        keys = await list_keys(app)

    rest = next(whole.removeprefix(text) for text in texts if whole.startswith(text))
    assert re.fullmatch(r"(<\d>)*", rest)
    assert len(keys) == len(split_text(whole))


async def test_nothing_is_left_in_the_file(settings: Settings, tmp_path: Path) -> None:
    async with Abilities.open(settings) as app:
        await parts_that_a_content_no_longer_has_are_purged(app)
        await a_deleted_content_is_purged_with_all_parts(app)

    content = store_file(settings).read_bytes()
    assert b"Another memory." in content and b"secret1" not in content


def test_who_belongs_to_a_memory() -> None:
    changes = [KeyChange(1, "a", 0), KeyChange(5, "a", 1), KeyChange(9, "a", 5)]
    family = Family(changes, "b", exists=True, owns=True)

    assert family.keys == ["a", "b"]
    assert family.has("a", 2, Deletion("x", 6, is_gone=True))
    assert not family.has("a", 2, Deletion("x", 6, is_gone=False))
    assert not family.has("a", 2, Deletion("x", 12, is_gone=True))
    assert not family.has("a", 1, Deletion("x", 6, is_gone=True))
    assert family.has("b", 1, Deletion("x", 2, is_gone=True))
    assert not Family(changes, "b", exists=False, owns=False).has("b", 1, Deletion("x", 2, True))
