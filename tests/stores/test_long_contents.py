"""Long contents: one memory each, written, read, changed and moved byte for byte on both stores."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from abilities import Abilities, AbilityError, Settings
from abilities.cli.main import main
from tests.support import postgres
from tests.support.surfaces import SURFACES, CannotCarry, environment

Payload = dict[str, Any]

SIZES = (5_001, 20_000, 200_000)
LINES = {
    "words": "The {} kettle sings.\n",
    "crlf": "line {}\r\n\r\n",
    "cjk": "第{}号茶壶在唱歌。",
    "emoji": "👩‍👩‍👧‍👦{}🏳️‍🌈\n",
}
"""A line of a content, which the number in it makes another one; cuts fall anywhere in it."""

WRITTEN_AT_ONCE = 30_000
"""Characters that fit into one call, however many bytes each one has."""


def write(kind: str, size: int) -> str:
    """Return a content of so many characters."""
    line = LINES[kind]
    text = "".join(line.format(number) for number in range(size // len(line) + 1))
    return text[:size]


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, roots: Settings) -> AsyncIterator[Abilities]:
    """An application on a store of each kind."""
    settings = roots.model_copy(update={"allow_purge": True})
    if request.param == "sqlite":
        async with Abilities.open(settings) as abilities:
            yield abilities
        return

    with postgres.database(request.getfixturevalue("server")) as url:
        async with Abilities.open(settings.model_copy(update={"store_url": url})) as abilities:
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


async def list_keys(app: Abilities) -> list[str]:
    listed = await app.call("memory_list", {"archived": True})
    return [memory["key"] for memory in listed["memories"]]


async def find_reason(app: Abilities, name: str, **arguments: Any) -> str:
    with pytest.raises(AbilityError) as refused:
        await app.call(name, arguments)
    return refused.value.fault.reason


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", LINES)
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
    read = entry["data"]["content"] + await read_on(app, "memory_read_bulk", rest)
    assert read == content

    found = await app.call("query_memories", {"search": content[-40:].split()[-1].casefold()})
    (memory,) = found["memories"]
    cut = memory["truncation"]
    assert cut["total_chars"] == size and cut["returned_chars"] == len(memory["content"]) <= 5_000
    rest = {"targets": [cut["next"]]}
    assert memory["content"] + await read_on(app, "memory_read_bulk", rest) == content

    listed = (await app.call("memory_list", {}))["memories"]
    assert [(line["key"], line["size"]) for line in listed] == [
        ("doc", len(content.encode())),
        ("hub", 4),
    ]
    stats = await app.call("get_memory_stats", {})
    assert stats["total_memories"] == 2


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("kind", ["words", "emoji"])
async def test_every_surface_reads_it_to_the_end(kind: str, surface: str, roots: Settings) -> None:
    content = write(kind, 90_000)
    async with Abilities.open(roots) as app:
        await store(app, "doc", content)

    for name, asked in (
        ("memory_get", {"key": "doc"}),
        ("memory_read_bulk", {"targets": [{"key": "doc"}]}),
        ("read", {"items": [{"memory": "doc"}]}),
    ):
        pieces: list[str] = []
        request: Payload | None = asked
        while request is not None:
            try:
                payload = await SURFACES[surface](roots, name, request)
            except CannotCarry:
                pytest.fail("a long content is nothing that a surface cannot carry")
            record = payload if name == "memory_get" else payload["results"][0]
            pieces.append(record["data"]["content"])
            request = payload.get("next_request")
        assert "".join(pieces) == content and len(pieces) > 1


@pytest.mark.parametrize("kind", LINES)
async def test_it_is_changed_restored_and_purged_as_one(app: Abilities, kind: str) -> None:
    content = write(kind, 20_000)
    first = await store(app, "doc", content)
    appended = await remember(app, op="append", key="doc", content="The end.")
    time = (await app.call("memory_get", {"key": "doc"}))["data"]["updated_at"]
    await asyncio.sleep(0.002)  # times are of milliseconds

    short = await app.call("store_memory", {"type": "core", "key": "doc", "content": "Short."})
    assert await get(app, "doc") == "Short."
    assert await get(app, "doc", as_of=time) == f"{content}The end."
    assert short["memory"]["version"] == appended["version"] + 1

    await app.call("memory_restore", {"key": "doc", "version": appended["version"]})
    assert await get(app, "doc") == f"{content}The end."
    await app.call("memory_restore", {"key": "doc", "version": first["version"]})
    assert await get(app, "doc") == content

    await remember(app, op="rename", key="doc", to="book")
    await remember(app, op="archive", key="book")
    await remember(app, op="update", key="book", archived=False)
    assert await list_keys(app) == ["book"] and await get(app, "book") == content

    deleted = await remember(app, op="delete", key="book", permanent=True)
    assert await list_keys(app) == []
    await remember(app, op="restore", id=deleted["id"], version=first["version"])
    assert await get(app, "doc") == content

    await app.call("delete_memory", {"key": "doc", "purge": True})
    assert await find_reason(app, "memory_history", key="doc") == "not_found"
    found = await app.call("query_memories", {"search": "end.", "archived": True})
    assert found["total"] == 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", LINES)
async def test_it_is_exported_and_imported_with_its_past(
    app: Abilities, kind: str, size: int, tmp_path: Path
) -> None:
    content = write(kind, size)
    first = await store(app, "doc", content)
    await remember(app, op="store", key="doc", content="Short.")
    file = tmp_path / "memories.jsonl"

    await run(app.settings, "export", str(file))
    other = app.settings.model_copy(update={"store_url": f"sqlite:///{tmp_path}/other.db"})
    await run(other, "import", str(file))

    async with Abilities.open(other) as copy:
        assert await get(copy, "doc") == "Short."
        await copy.call("memory_restore", {"key": "doc", "version": first["version"]})
        assert await get(copy, "doc") == content
        await run(other, "export", str(file))
    await run(other, "import", str(file), "--replace")
    async with Abilities.open(other) as copy:
        assert await get(copy, "doc") == content and await list_keys(copy) == ["doc"]


async def run(settings: Settings, *command: str) -> None:
    """Run a command, which must succeed."""
    result = await asyncio.to_thread(
        lambda: CliRunner().invoke(main, command, env=environment(settings))
    )
    assert result.exit_code == 0, result.output


PAGES = [
    f"# Page {number}\n\nThe {word} is kept in cellar {number}.\n{'Lorem ipsum. ' * 90}\n"
    for number, word in enumerate(["kettle", *["broom"] * 28, "astrolabe", *["spoon"] * 20], 1)
]
"""Fifty pages of 1,200 characters; one word is on the 30th alone."""


@pytest.mark.parametrize("tokens", [400, 2_000])
async def test_a_question_brings_the_passage_that_answers_it(app: Abilities, tokens: int) -> None:
    content = "".join(PAGES)
    await store(app, "house/things", content)
    await store(app, "tea", "Tea is kept in the kitchen.")

    request = {"queries": ["Where is the astrolabe?"], "max_tokens": tokens}
    ((hit, *_),) = [one["memories"] for one in (await app.call("recall", request))["results"]]
    read = await app.call("read", {"items": [{"recall": "Where is the astrolabe?"}]})
    (item, *_) = read["results"][0]["data"]["items"]

    place = content.index("# Page 30")
    for shown, starts_at in ((hit, hit["starts_at"]), (item["data"], item["data"]["starts_at"])):
        assert "astrolabe is kept in cellar 30" in shown["content"]
        assert starts_at == place and len(shown["content"]) <= 1_000
    following = await read_on(app, "memory_read_bulk", {"targets": [json.loads(hit["next"])]})
    assert content[:place] + hit["content"] + following == content


async def test_every_word_of_a_long_content_is_found(app: Abilities) -> None:
    words = [f"w{number:05}" for number in range(25_000)]
    await store(app, "doc", " ".join(words))

    for word in (words[0], *words[777::4_321], words[-1]):
        ((hit,),) = [
            one["memories"] for one in (await app.call("recall", {"queries": [word]}))["results"]
        ]
        assert word in hit["content"].split()


async def test_there_is_a_longest_content(app: Abilities) -> None:
    await store(app, "doc", write("words", 199_999))

    results = await app.call(
        "remember",
        {
            "operations": [
                {"op": "append", "key": "doc", "content": "!"},
                {"op": "append", "key": "doc", "content": "!"},
            ],
            "detail": "full",
        },
    )

    fits, too_long = results["results"]
    assert fits["success"] and too_long["error"]["reason"] == "too_long"
    assert too_long["error"]["expected"] == {"max_length": 200_000}
    assert await get(app, "doc") == write("words", 199_999) + "!"
    stored = {"type": "core", "key": "k", "content": write("words", 5_001)}
    assert await find_reason(app, "store_memory", **stored) == "too_long"


async def test_who_stores_guards_the_whole_content(app: Abilities) -> None:
    first = await store(app, "doc", write("words", 20_000))
    await remember(app, op="append", key="doc", content="!")

    late: Payload = {"op": "store", "type": "core", "key": "doc", "content": "lost?"}
    answer = await app.call("remember", {"operations": [{**late, "if_version": first["version"]}]})

    assert answer["results"][0]["reason"] == "version_conflict"
    assert await get(app, "doc") == write("words", 20_000) + "!"


async def test_callers_who_append_at_once_lose_nothing(app: Abilities) -> None:
    await store(app, "log", "x" * 4_900)

    await asyncio.gather(
        *(remember(app, op="append", key="log", content=f"[{number:03}]") for number in range(40))
    )

    whole = await get(app, "log")
    assert len(whole) == 4_900 + 40 * 5
    assert sorted(whole[4_900:].split("]")[:-1]) == [f"[{number:03}" for number in range(40)]
