"""The overview that `recall` gives to a question that names nothing to look for."""

from datetime import timedelta
from pathlib import Path

import pytest

from abilities import Abilities, Settings, parse_text, render
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.overview import OVERVIEW_BYTES
from abilities.helpers.reply.formats import Format
from abilities.helpers.search.terms import Language, split_question
from tests.memories.calls import Payload, store
from tests.support.surfaces import Call, Through

QUESTION = "What do you remember about me?"

OPEN = (
    *(QUESTION, "what do you know about me", "Who am I?", "Tell me everything you know.", "???"),
    *("What is in your memory?", "Do you have any notes on us?", "So, what did I tell you?"),
)

CLOSED = (
    *("Who is Zoltan?", "What do you remember about Zoltan?", "What is my favorite color?"),
    *("memory", "notes", "remember", "Do you know why the memory leaks?"),
)


async def fill(call: Call) -> None:
    for place in range(3):
        await store(call, f"user/{place}", f"Likes tea number {place}.")
    await store(call, "user/name", "Her name is Ada.", importance="high")


def write_notes(agent_dir: Path, text: str) -> None:
    agent_dir.mkdir(exist_ok=True)
    (agent_dir / "MEMORY.md").write_text(text)


async def ask(call: Call, question: str = QUESTION, **more: object) -> Payload:
    (record,) = (await call("recall", queries=[question], **more))["results"]
    data: Payload = record.get("data", record)
    return data


async def test_a_question_that_names_nothing_gets_an_overview(roots: Settings, call: Call) -> None:
    write_notes(roots.agent_dir, "Ada lives in Turin.\n")
    await fill(call)

    for question in OPEN:
        data = await ask(call, question)

        notes, *memories = data["overview"]
        assert not data["memories"] and data["matched"] == 0 and "unknown_words" not in data
        assert notes["filename"] == "MEMORY.md" and "Turin" in notes["content"]
        keys = [record["key"] for record in memories]
        assert keys == ["user/name", "user/2", "user/1", "user/0"]
        assert await ask(call, question) == data, "the same question gets the same answer"


async def test_whoever_names_something_or_filters_gets_what_is_found(call: Call) -> None:
    assert "overview" not in await ask(call), "there is nothing yet"
    await fill(call)

    for question in CLOSED:
        data = await ask(call, question)
        assert "overview" not in data and not data["memories"] and data["unknown_words"]

    every: list[JsonObject] = [
        {"type": "task"},
        {"tags": ["a"]},
        {"importance": "high"},
        {"within_days": 3},
    ]
    for filters in every:
        assert "overview" not in await ask(call, **filters)

    for word in ("memory", "notes", "remember"):
        await store(call, "k", f"One {word} of many.")
        assert [found["key"] for found in (await ask(call, word))["memories"]] == ["k"]


async def test_notes_can_be_left_out_and_archived_memories_are(roots: Settings, call: Call) -> None:
    write_notes(roots.agent_dir, "Ada lives in Turin.\n")
    await fill(call)
    await call("delete_memory", key="user/1")

    overview = (await ask(call, notes=False))["overview"]

    assert [record["key"] for record in overview] == ["user/name", "user/2", "user/0"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("detail", ["full", "concise"])
@pytest.mark.parametrize("output_format", ["json", "text", "toon"])
async def test_an_overview_is_short_and_says_how_to_read_on(
    detail: str, output_format: Format, roots: Settings, app: Abilities, call: Call
) -> None:
    write_notes(roots.agent_dir, 'She says "ß".\n' * 400)
    day = app.context.memory.today - timedelta(days=1)
    (roots.agent_dir / "memory").mkdir()
    (roots.agent_dir / f"memory/{day}.md").write_text("Yesterday was long.\n" * 100)
    for place in range(30):
        await store(call, f"k{place}", f"{place} 世 " * 400)

    asked = {"queries": [QUESTION], "detail": detail, "output_format": output_format}
    for max_tokens in (400, 2_000):
        payload = await call("recall", **asked, max_tokens=max_tokens)
        text = render(payload, output_format)
        assert len(text.encode()) <= 4 * max_tokens
        assert output_format != "text" or parse_text(text) == payload

        (record,) = payload["results"]
        overview = record.get("data", record)["overview"]
        assert 1 < json_size(overview) <= OVERVIEW_BYTES

    await check_rests(call, overview)


async def check_rests(call: Call, overview: list[Payload]) -> None:
    """Check that what an overview cuts goes on where it was cut."""
    assert [record for record in overview if "key" in record]
    for record in overview:
        target: Payload = {"type": "long_term"}
        if "key" in record:
            target = {"type": "stored", "key": record["key"]}
        elif "date" in record:
            target = {"type": "short_term", "date": record["date"]}

        payload = await call("memory_read_bulk", targets=[target, record["next"]])
        whole, rest = (read["data"]["content"] for read in payload["results"])
        assert record["content"] and record["content"] + rest == whole


async def test_several_open_questions_get_one_overview(call: Call) -> None:
    await fill(call)

    both = (await call("recall", queries=[QUESTION, "Who am I?"]))["results"]
    mixed = (await call("recall", queries=[QUESTION, "tea"]))["results"]

    assert ["overview" in record for record in both] == [True, False]
    assert not any("overview" in record for record in mixed)
    assert len(mixed[1]["memories"]) == 3


async def test_a_question_of_read_gets_the_same_overview(
    roots: Settings, call: Call, through: Through
) -> None:
    await fill(call)

    payload = await through(roots)("read", items=[{"recall": QUESTION}], detail="full")

    assert payload["results"][0]["data"]["overview"] == (await ask(call))["overview"]


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
