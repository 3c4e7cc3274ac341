"""The overview that `recall` gives to a question that names nothing to look for."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings, parse_text, render
from abilities.declarations.values import json_size
from abilities.helpers.memory.overview import OVERVIEW_BYTES
from abilities.helpers.reply.formats import Format
from abilities.helpers.search.terms import Language, split_question
from tests.support import postgres
from tests.support.detail_cases import check_schema
from tests.support.surfaces import Through

Payload = dict[str, Any]

QUESTION = "What do you remember about me?"

OPEN = (
    *(QUESTION, "what do you know about me", "Who am I?", "Tell me everything you know.", "???"),
    *("What is in your memory?", "Do you have any notes on us?", "So, what did I tell you?"),
)

CLOSED = (
    *("Who is Zoltan?", "What do you remember about Zoltan?", "What is my favorite color?"),
    *("memory", "notes", "remember", "Do you know why the memory leaks?"),
)


async def fill(app: Abilities, number: int = 3) -> None:
    for place in range(number):
        await app.call("store_memory", memory(f"user/{place}", f"Likes tea number {place}."))
    await app.call("store_memory", memory("user/name", "Her name is Ada.", importance="high"))


def memory(key: str, content: str, **more: Any) -> Payload:
    return {"type": "core", "key": key, "content": content, **more}


def write_notes(agent_dir: Path, text: str) -> None:
    agent_dir.mkdir(exist_ok=True)
    (agent_dir / "MEMORY.md").write_text(text)


async def ask(app: Abilities, question: str = QUESTION, **more: Any) -> Payload:
    payload = await app.call("recall", {"queries": [question], **more})
    check_schema("recall", payload)
    (record,) = payload["results"]
    data: Payload = record.get("data", record)
    return data


@pytest.mark.parametrize("question", OPEN)
async def test_a_question_that_names_nothing_gets_an_overview(
    question: str, roots: Settings
) -> None:
    write_notes(roots.agent_dir, "Ada lives in Turin.\n")
    async with Abilities.open(roots) as app:
        await fill(app)

        data = await ask(app, question)

        overview = data["overview"]
        assert not data["memories"] and data["matched"] == 0 and "unknown_words" not in data
        assert overview[0]["filename"] == "MEMORY.md" and "Turin" in overview[0]["content"]
        keys = [record["key"] for record in overview[1:]]
        assert keys == ["user/name", "user/2", "user/1", "user/0"]
        assert await ask(app, question) == data, "the same question gets the same answer"


@pytest.mark.parametrize("question", CLOSED)
async def test_a_question_that_names_something_gets_none(question: str, roots: Settings) -> None:
    async with Abilities.open(roots) as app:
        await fill(app)

        data = await ask(app, question)

        assert "overview" not in data and not data["memories"] and data["unknown_words"]


@pytest.mark.parametrize("word", ["memory", "notes", "remember"])
async def test_a_word_alone_is_looked_for(word: str, roots: Settings) -> None:
    async with Abilities.open(roots) as app:
        await app.call("store_memory", memory("k", f"One {word} of many."))

        assert [found["key"] for found in (await ask(app, word))["memories"]] == ["k"]


async def test_without_notes_and_memories_there_is_no_overview(roots: Settings) -> None:
    async with Abilities.open(roots) as app:
        assert "overview" not in await ask(app)


@pytest.mark.parametrize(
    "filters", [{"type": "task"}, {"tags": ["a"]}, {"importance": "high"}, {"within_days": 3}]
)
async def test_filters_ask_for_some_memories_only(filters: Payload, roots: Settings) -> None:
    async with Abilities.open(roots) as app:
        await fill(app)

        assert "overview" not in await ask(app, **filters)


async def test_notes_can_be_left_out_and_archived_memories_are(roots: Settings) -> None:
    write_notes(roots.agent_dir, "Ada lives in Turin.\n")
    async with Abilities.open(roots) as app:
        await fill(app)
        await app.call("delete_memory", {"key": "user/1"})

        overview = (await ask(app, notes=False))["overview"]

        assert [record["key"] for record in overview] == ["user/name", "user/2", "user/0"]


@pytest.mark.parametrize("detail", ["full", "concise"])
@pytest.mark.parametrize("output_format", ["json", "text", "toon"])
async def test_an_overview_is_short_and_says_how_to_read_on(
    detail: str, output_format: Format, roots: Settings
) -> None:
    write_notes(roots.agent_dir, 'She says "ß".\n' * 400)
    async with Abilities.open(roots) as app:
        day = app.context.memory.today - timedelta(days=1)
        (roots.agent_dir / "memory").mkdir()
        (roots.agent_dir / f"memory/{day}.md").write_text("Yesterday was long.\n" * 100)
        for place in range(30):
            await app.call("store_memory", memory(f"k{place}", f"{place} 世 " * 400))

        for max_tokens in (400, 2_000):
            arguments = {"queries": [QUESTION], "max_tokens": max_tokens, "detail": detail}
            payload = await app.call("recall", {**arguments, "output_format": output_format})
            text = render(payload, output_format)
            assert len(text.encode()) <= 4 * max_tokens
            if output_format == "text":
                assert parse_text(text) == payload

            (record,) = payload["results"]
            overview = record.get("data", record)["overview"]
            assert 1 < json_size(overview) <= OVERVIEW_BYTES

        await check_rests(app, overview)


async def check_rests(app: Abilities, overview: list[Payload]) -> None:
    """Check that what an overview cuts goes on where it was cut."""
    assert [record for record in overview if "key" in record]
    for record in overview:
        target: Payload = {"type": "stored", "key": record.get("key")}
        if "key" not in record:
            target = {"type": "long_term"}
        if "date" in record and "key" not in record:
            target = {"type": "short_term", "date": record["date"]}

        targets = [target, record["next"]]
        payload = await app.call("memory_read_bulk", {"targets": targets})
        whole, rest = (read["data"]["content"] for read in payload["results"])
        assert record["content"] and record["content"] + rest == whole


async def test_several_open_questions_get_one_overview(roots: Settings) -> None:
    async with Abilities.open(roots) as app:
        await fill(app)

        payload = await app.call("recall", {"queries": [QUESTION, "Who am I?"]})
        mixed = await app.call("recall", {"queries": [QUESTION, "tea"]})

        assert ["overview" in record for record in payload["results"]] == [True, False]
        assert not any("overview" in record for record in mixed["results"])
        assert len(mixed["results"][1]["memories"]) == 3


async def test_a_question_of_read_gets_the_same_overview(roots: Settings, through: Through) -> None:
    async with Abilities.open(roots) as app:
        await fill(app)
        expected = (await ask(app))["overview"]
    call = through(roots)

    payload = await call("read", items=[{"recall": QUESTION}], detail="full")

    check_schema("read", payload)
    assert payload["results"][0]["data"]["overview"] == expected


async def test_both_stores_give_the_same_overview(roots: Settings, server: str) -> None:
    answers: list[Payload] = []
    with postgres.database(server) as url:
        for settings in (roots, roots.model_copy(update={"store_url": url})):
            async with Abilities.open(settings) as app:
                await fill(app)
                answers.append(await ask(app))

    assert answers[0] == answers[1] and answers[0]["overview"]


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("german", "Was weißt du über mich?"),
        ("german", "An was kannst du dich erinnern?"),
        ("french", "Que sais-tu de moi ?"),
        ("french", "De quoi te souviens-tu ?"),
        ("spanish", "¿Qué sabes de mí?"),
        ("italian", "Cosa ricordi di me?"),
        ("portuguese", "O que você sabe?"),
        ("dutch", "Wat weet je over mij?"),
    ],
)
def test_other_languages_ask_for_memories_too(language: str, question: str) -> None:
    assert split_question(question, Language(language)) == ()
    assert split_question(f"{question} Ada", Language(language))
