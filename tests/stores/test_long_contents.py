"""Long contents: one memory each, written and read byte for byte on both stores.

That they are changed, restored and moved as others are is shown by the trials, in `test_law.py`.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from abilities import Settings
from tests.memories.calls import get, open_calls, read_whole
from tests.support.places import StorePlace
from tests.support.surfaces import Call
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

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
async def call(place: StorePlace, roots: Settings) -> AsyncIterator[Call]:
    """Calls of an application on a store of each kind."""
    settings = roots.model_copy(update={"allow_purge": True, "store_url": place.url})
    async with open_calls(settings) as call:
        yield call


async def store(call: Call, key: str, content: str, **more: Any) -> None:
    """Store a content, with as many calls as it takes."""
    operation = {"op": "store", "type": "core", **more}
    for start in range(0, len(content), WRITTEN_AT_ONCE):
        piece = content[start : start + WRITTEN_AT_ONCE]
        await call("remember", operations=[{**operation, "key": key, "content": piece}])
        operation = {"op": "append"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "size"), CONTENTS)
async def test_every_way_of_reading_comes_to_the_end(call: Call, kind: str, size: int) -> None:
    content = write(kind, size)
    await store(call, "doc", content)
    await store(call, "hub", "Hub.", links=[{"key": "doc"}])

    assert await read_whole(call, "memory_get", key="doc") == content
    target = {"type": "stored", "key": "doc"}
    assert await read_whole(call, "memory_read_bulk", targets=[target]) == content
    assert await read_whole(call, "read", items=[{"memory": "doc"}]) == content

    walked = await call("bulk_read_memory", key="hub")
    (entry,) = walked["associatedMemories"]
    (rest,) = walked["next_requests"]
    assert walked["metadata"]["truncated"] == 1 and len(entry["data"]["content"]) <= 5_000
    assert entry["data"]["content"] + await read_whole(call, "memory_read_bulk", **rest) == content

    found = await call("query_memories", search=content[-40:].split()[-1].casefold())
    (memory,) = found["memories"]
    cut = memory["truncation"]
    assert cut["total_chars"] == size and cut["returned_chars"] == len(memory["content"]) <= 5_000
    rest = {"targets": [cut["next"]]}
    assert memory["content"] + await read_whole(call, "memory_read_bulk", **rest) == content

    listed = (await call("memory_list"))["memories"]
    sizes = [(line["key"], line["size"]) for line in listed]
    assert sizes == [("doc", len(content.encode())), ("hub", 4)]

    time = (await get(call, "doc"))["updated_at"]
    await asyncio.sleep(0.002)  # times are of milliseconds
    await store(call, "doc", "Short.")
    assert await read_whole(call, "memory_get", key="doc", as_of=time) == content


PAGES = [
    f"# Page {number}\n\nThe {word} is kept in cellar {number}.\n{'Lorem ipsum. ' * 90}\n"
    for number, word in enumerate(["kettle", *["broom"] * 28, "astrolabe", *["spoon"] * 20], 1)
]
"""Fifty pages of 1,200 characters; one word is on the 30th alone."""


async def test_a_question_brings_the_passage_that_answers_it(call: Call) -> None:
    content = "".join(PAGES)
    await store(call, "house/things", content)
    await store(call, "tea", "Tea is kept in the kitchen.")

    request = {"queries": ["Where is the astrolabe?"], "max_tokens": 400}
    (hit, *_) = (await call("recall", **request))["results"][0]["memories"]
    read = await call("read", items=[{"recall": "Where is the astrolabe?"}])
    (item, *_) = read["results"][0]["data"]["items"]

    place = content.index("# Page 30")
    for shown in (hit, item["data"]):
        assert "astrolabe is kept in cellar 30" in shown["content"]
        assert shown["starts_at"] == place and len(shown["content"]) <= 1_000
    following = await read_whole(call, "memory_read_bulk", targets=[json.loads(hit["next"])])
    assert content[:place] + hit["content"] + following == content


async def test_there_is_a_longest_content_whose_every_word_is_found(call: Call) -> None:
    words = [f"w{number:06}" for number in range(25_000)]
    content = " ".join(words)
    await store(call, "doc", content)

    append = {"op": "append", "key": "doc", "content": "!"}
    results = await call("remember", operations=[append, append], detail="full")

    fits, too_long = results["results"]
    assert fits["success"] and too_long["error"]["reason"] == "too_long"
    assert too_long["error"]["expected"] == {"max_length": 200_000}
    assert await read_whole(call, "memory_get", key="doc") == content + "!"

    async with asyncio.timeout(GIVE_UP_SECONDS):  # what is read is counted a little later
        while "most_accessed" not in (stats := await call("get_memory_stats")):
            await asyncio.sleep(POLL_SECONDS)
    assert stats["most_accessed"]["truncation"]["total_chars"] == 200_000

    for word in (words[0], *words[777::4_321], words[-2]):
        (hit,) = (await call("recall", queries=[word]))["results"][0]["memories"]
        assert word in hit["content"].split()
