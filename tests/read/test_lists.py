"""`{"memory": "project/*"}`: the keys that begin alike, without contents."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings
from tests.support.detail_cases import check_schema
from tests.support.reading import follow

Payload = dict[str, Any]

PAGE = 100
"""Memories that one item lists at most."""


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as abilities:
        yield abilities


async def fill(app: Abilities, *keys: str, **more: Any) -> None:
    for start in range(0, len(keys), 50):
        memories = [
            {"op": "store", "type": "task", "key": key, "content": f"About {key}.", **more}
            for key in keys[start : start + 50]
        ]
        await app.call("remember", {"operations": memories})


async def read(app: Abilities, item: Any, **more: Any) -> Payload:
    payload = await app.call("read", {"items": [item], **more})
    check_schema("read", payload)
    return payload


async def list_keys(app: Abilities, pattern: str) -> list[str]:
    (record,) = (await read(app, {"memory": pattern}))["results"]
    return [entry["key"] for entry in record["data"]["items"]]


async def test_a_list_has_the_keys_that_begin_alike(app: Abilities) -> None:
    await fill(app, "project/b", "project/a", "projects", "other", "project/ä")
    await fill(app, "project/old")
    await app.call("delete_memory", {"key": "project/old"})

    assert await list_keys(app, "project/*") == ["project/a", "project/b", "project/ä"]
    assert len(await list_keys(app, "*")) == 5
    assert await list_keys(app, "none*") == []


async def test_an_entry_says_what_there_is_without_its_content(app: Abilities) -> None:
    await fill(app, "plan", summary="In short.")

    (full,) = (await read(app, {"memory": "p*"}))["results"][0]["data"]["items"]
    (concise,) = (await read(app, {"memory": "p*"}, detail="concise"))["results"][0]["items"]

    shown = {"type": "task", "size": 11, "summary": "In short."}
    assert full == {"key": "plan", "success": True, "data": {**shown, "version": 1}}
    assert concise == {"key": "plan", **shown}


@pytest.mark.parametrize("max_tokens", [1_000, None])
@pytest.mark.parametrize("detail", ["full", "concise"])
async def test_pages_have_every_key_once(
    max_tokens: int | None, detail: str, app: Abilities
) -> None:
    keys = [f"k/{number:03}" for number in range(2 * PAGE + 30)]
    await fill(app, *keys)
    pages: list[list[str]] = []
    room = {} if max_tokens is None else {"max_tokens": max_tokens}
    request: Payload | None = {"items": [{"memory": "k/*"}], "detail": detail, **room}

    while request is not None:
        data: Payload = {}
        async for payload in follow(app, "read", request):
            data = payload["results"][0].get("data", payload["results"][0])
            pages.append([entry["key"] for entry in data["items"]])
        request = {"items": [data["more"]], "detail": detail} if "more" in data else None

    assert [key for page in pages for key in page] == keys
    assert max(map(len, pages)) <= PAGE
    assert (len(pages) > 3) == (max_tokens is not None)


async def test_an_entry_without_room_is_refused_with_the_size_that_it_needs(app: Abilities) -> None:
    await fill(app, "界" * 200, summary="\x01" * 500)
    request = {"items": [{"memory": "界" * 199 + "*"}], "max_tokens": 1_000}

    with pytest.raises(AbilityError) as caught:
        await app.call("read", request)
    assert caught.value.fault.expected is not None
    needed = caught.value.fault.expected["minimum"]
    payload = await app.call("read", {**request, "max_tokens": needed})

    assert len(payload["results"][0]["data"]["items"]) == 1


async def test_a_key_that_ends_in_a_star_is_read_as_a_target_or_by_a_walk(app: Abilities) -> None:
    await fill(app, "a*", "ab")

    (target,) = (await read(app, {"type": "stored", "key": "a*"}))["results"]
    (walk,) = (await read(app, {"memory": "a*", "total": 1}))["results"]

    assert target["data"]["content"] == "About a*."
    assert walk["data"]["items"][0]["data"]["content"] == "About a*."
    assert await list_keys(app, "a*") == ["a*", "ab"]
