"""Long contents: one memory each, written and read byte for byte on both stores.

That they are changed, restored and moved as others are is shown by the trials, in `test_law.py`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from abilities import Abilities, Settings
from tests.support.places import StorePlace
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

Payload = dict[str, Any]

LINES = {
    "words": "The {} kettle sings.\n",
    "crlf": "line {}\r\n\r\n",
    "cjk": "第{}号茶壶在唱歌。",
    "emoji": "👩‍👩‍👧‍👦{}🏳️‍🌈\n",
}
"""A line of a content, which the number in it makes another one; cuts fall anywhere in it."""

CONTENTS = [*((kind, 20_000) for kind in LINES), ("words", 5_001), ("emoji", 40_000)]

WRITTEN_AT_ONCE = 30_000
"""Characters that fit into one call, however many bytes each one has."""


def write(kind: str, size: int) -> str:
    """Return a content of so many characters."""
    line = LINES[kind]
    text = "".join(line.format(number) for number in range(size // len(line) + 1))
    return text[:size]


@pytest.fixture
async def app(place: StorePlace, roots: Settings) -> AsyncIterator[Abilities]:
    """An application on a store of each kind."""
    settings = roots.model_copy(update={"allow_purge": True, "store_url": place.url})
    async with Abilities.open(settings) as abilities:
        yield abilities


async def remember(app: Abilities, **operation: Any) -> Payload:
    """Make one operation; return its record."""
    if operation["op"] == "store":
        operation.setdefault("type", "core")
    request = {"operations": [operation], "detail": "full"}
    (record,) = (await app.call("remember", request))["results"]
    data: Payload = record["data"]
    return data


async def store(app: Abilities, key: str, content: str) -> Payload:
    """Store a content, with as many calls as it takes; return the last one's record."""
    written = await remember(app, op="store", key=key, content=content[:WRITTEN_AT_ONCE])
    for start in range(WRITTEN_AT_ONCE, len(content), WRITTEN_AT_ONCE):
        piece = content[start : start + WRITTEN_AT_ONCE]
        written = await remember(app, op="append", key=key, content=piece)

    return written


async def read_on(app: Abilities, name: str, request: Payload | None) -> str:
    """Return the content that a request reads, followed to its end."""
    pieces: list[str] = []
    while request is not None:
        payload = await app.call(name, request)
        record = payload if name == "memory_get" else payload["results"][0]
        assert ("next_request" in payload) is ("truncation" in record)
        pieces.append(record["data"]["content"])
        request = payload.get("next_request")

    return "".join(pieces)


async def get(app: Abilities, key: str, **more: Any) -> str:
    return await read_on(app, "memory_get", {"key": key, **more})


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "size"), CONTENTS)
async def test_every_way_of_reading_comes_to_the_end(app: Abilities, kind: str, size: int) -> None:
    content = write(kind, size)
    await store(app, "doc", content)
    await remember(app, op="store", key="hub", content="Hub.", links=[{"key": "doc"}])

    assert await get(app, "doc") == content
    target = {"type": "stored", "key": "doc"}
    assert await read_on(app, "memory_read_bulk", {"targets": [target]}) == content
    assert await read_on(app, "read", {"items": [{"memory": "doc"}]}) == content

    walked = await app.call("bulk_read_memory", {"key": "hub"})
    (entry,) = walked["associatedMemories"]
    (rest,) = walked["next_requests"]
    assert walked["metadata"]["truncated"] == 1 and len(entry["data"]["content"]) <= 5_000
    assert entry["data"]["content"] + await read_on(app, "memory_read_bulk", rest) == content

    found = await app.call("query_memories", {"search": content[-40:].split()[-1].casefold()})
    (memory,) = found["memories"]
    cut = memory["truncation"]
    assert cut["total_chars"] == size and cut["returned_chars"] == len(memory["content"]) <= 5_000
    rest = {"targets": [cut["next"]]}
    assert memory["content"] + await read_on(app, "memory_read_bulk", rest) == content

    listed = (await app.call("memory_list", {}))["memories"]
    sizes = [(line["key"], line["size"]) for line in listed]
    assert sizes == [("doc", len(content.encode())), ("hub", 4)]

    time = (await app.call("memory_get", {"key": "doc"}))["data"]["updated_at"]
    await asyncio.sleep(0.002)  # times are of milliseconds
    await remember(app, op="store", key="doc", content="Short.")
    assert await get(app, "doc", as_of=time) == content


PAGES = [
    f"# Page {number}\n\nThe {word} is kept in cellar {number}.\n{'Lorem ipsum. ' * 90}\n"
    for number, word in enumerate(["kettle", *["broom"] * 28, "astrolabe", *["spoon"] * 20], 1)
]
"""Fifty pages of 1,200 characters; one word is on the 30th alone."""


async def test_a_question_brings_the_passage_that_answers_it(app: Abilities) -> None:
    content = "".join(PAGES)
    await store(app, "house/things", content)
    await store(app, "tea", "Tea is kept in the kitchen.")

    request = {"queries": ["Where is the astrolabe?"], "max_tokens": 400}
    (hit, *_) = (await app.call("recall", request))["results"][0]["memories"]
    read = await app.call("read", {"items": [{"recall": "Where is the astrolabe?"}]})
    (item, *_) = read["results"][0]["data"]["items"]

    place = content.index("# Page 30")
    for shown in (hit, item["data"]):
        assert "astrolabe is kept in cellar 30" in shown["content"]
        assert shown["starts_at"] == place and len(shown["content"]) <= 1_000
    following = await read_on(app, "memory_read_bulk", {"targets": [json.loads(hit["next"])]})
    assert content[:place] + hit["content"] + following == content


async def test_there_is_a_longest_content_whose_every_word_is_found(app: Abilities) -> None:
    words = [f"w{number:06}" for number in range(25_000)]
    content = " ".join(words)
    await store(app, "doc", content)

    append = {"op": "append", "key": "doc", "content": "!"}
    results = await app.call("remember", {"operations": [append, append], "detail": "full"})

    fits, too_long = results["results"]
    assert fits["success"] and too_long["error"]["reason"] == "too_long"
    assert too_long["error"]["expected"] == {"max_length": 200_000}
    assert await get(app, "doc") == content + "!"

    async with asyncio.timeout(GIVE_UP_SECONDS):  # what is read is counted a little later
        while "most_accessed" not in (stats := await app.call("get_memory_stats", {})):
            await asyncio.sleep(POLL_SECONDS)
    assert stats["most_accessed"]["truncation"]["total_chars"] == 200_000

    for word in (words[0], *words[777::4_321], words[-2]):
        (hit,) = (await app.call("recall", {"queries": [word]}))["results"][0]["memories"]
        assert word in hit["content"].split()
