"""`recall`: from questions to memories and notes, over a real store."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from abilities import Abilities, Settings, render
from abilities.cli.printing import print_answer
from abilities.cli.records import AnsweredCall
from abilities.helpers.files.files import Files
from abilities.helpers.memory import targets
from abilities.helpers.memory.recalling import find_within_days
from abilities.helpers.search.passages import MAX_PART_CHARS, split_sections
from abilities.server.telemetry import CallMetrics
from tests.memories.calls import calls_of, find_fault, find_reason
from tests.support.detail_cases import check_schema
from tests.support.read_samples import TODAY, today_is
from tests.support.stores import tamper

Payload = dict[str, Any]


@pytest.fixture(autouse=True)
def today() -> Iterator[None]:
    """A day that does not end during a test."""
    with today_is(TODAY):
        yield


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    """An application with a few memories: Ada leads to tea, tea to the kettle."""
    async with Abilities.open(roots) as abilities:
        await store(abilities, "ada", "Ada writes compilers in Zurich.", links=["tea"])
        await store(abilities, "tea", "A drink of leaves.", links=["kettle"], tags=["drink"])
        await store(abilities, "kettle", "It is on the upper shelf.")
        await store(abilities, "parser", "We chose a PEG parser.", type="task", category="design")
        yield abilities


async def store(abilities: Abilities, key: str, content: str, **more: Any) -> None:
    """Store a memory; links are given by their keys alone."""
    links = [{"key": other} for other in more.pop("links", [])]
    memory = {"type": "core", "key": key, "content": content, "links": links, **more}
    await abilities.call("store_memory", memory)


def write_note(abilities: Abilities, name: str, text: str) -> Path:
    """Write a file of the agent's notes."""
    path = abilities.settings.agent_dir / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


async def link(abilities: Abilities, key: str, other: str, kind: str) -> None:
    """Link two memories, and store each that is not there yet."""
    known = await abilities.call("memory_list")
    for name in {key, other} - {memory["key"] for memory in known["memories"]}:
        await store(abilities, name, "Nothing in common.")
    links = [{"key": other, "type": kind}]
    await abilities.call("update_memory", {"key": key, "links": links})


async def ask(abilities: Abilities, *queries: str, **more: Any) -> list[Payload]:
    """Return the records of the first question's memories."""
    payload = await abilities.call("recall", {"queries": list(queries), **more})
    records: list[Payload] = payload["results"][0].get("data", payload["results"][0])["memories"]
    return records


def names(records: list[Payload]) -> list[str]:
    return [record.get("key") or record["filename"] for record in records]


async def test_a_question_finds_memories_and_what_they_link_to(app: Abilities) -> None:
    records = await ask(app, "Who writes compilers?")

    assert names(records) == ["ada", "tea", "kettle"]
    assert [record.get("via") for record in records] == [None, "ada", "ada"]
    assert records[0]["content"] == "Ada writes compilers in Zurich."
    assert list(records[0]) == ["key", "content", "date", "score"]
    ada = await app.call("memory_get", {"key": "ada"})
    assert records[0]["date"] == ada["data"]["updated_at"][:10]
    assert records[0]["score"] > records[1]["score"] > records[2]["score"] > 0


async def test_a_link_that_led_to_a_memory_is_named_unless_it_is_the_usual_one(
    app: Abilities,
) -> None:
    """Of two links none is named, because neither is between the hit and the memory."""
    await link(app, "parser", "grammar", "depends_on")
    await link(app, "review", "parser", "part of")
    await link(app, "grammar", "file", "kept in")

    for detail in ("concise", "full"):
        records = {record["key"]: record for record in await ask(app, "PEG", detail=detail)}
        ways = {
            key: [records[key].get(name) for name in ("via", "link", "direction")]
            for key in ("grammar", "review", "file")
        }
        assert ways == {
            "grammar": ["parser", "depends_on", None],
            "review": ["parser", "part of", "in"],
            "file": ["parser", None, None],
        }

    payload = await app.call("read", {"items": [{"recall": "PEG"}], "detail": "concise"})
    (grammar,) = [one for one in payload["results"][0]["items"] if one["key"] == "grammar"]
    assert (grammar["via"], grammar["link"]) == ("parser", "depends_on")


async def test_a_full_record_names_what_raised_a_memory_that_has_words(app: Abilities) -> None:
    await store(app, "said", "Ada: a compiler compiles compilers.")
    await store(app, "long", "Ada was there. " + "Nothing more to say of that. " * 20)
    await link(app, "said", "long", "about")

    records = {one["key"]: one for one in await ask(app, "Ada's compilers", detail="full")}

    assert records["said"]["named"] is True
    assert (records["long"]["via"], records["long"]["link"]) == ("said", "about")
    assert 0 < records["long"]["own_score"] < records["long"]["score"]
    assert not any(
        "via" in one for one in await ask(app, "Ada's compilers") if one["key"] == "long"
    )


async def test_one_string_is_one_question_under_either_name(app: Abilities) -> None:
    expected = await app.call("recall", {"queries": ["compilers"]})

    assert await app.call("recall", {"queries": "compilers"}) == expected
    assert await app.call("recall", {"query": "compilers"}) == expected
    assert await app.call("recall", {"queries": '["compilers"]'}) == expected


async def test_a_question_about_something_else_is_answered_by_silence(app: Abilities) -> None:
    question = "Which shelf of the library has novels about compilers?"

    payload = await app.call("recall", {"queries": [question]})
    (record,) = payload["results"]
    words = {"unknown_words": ["library", "novels"]}
    bare = {"memories": [], "matched": 0, "confidence": "none"}
    assert payload == {"results": [{"input": question, **bare, **words}]}
    assert len(orjson.dumps({**record, "input": "", "unknown_words": []})) <= 80

    item = (await app.call("read", {"items": [{"recall": question}]}))["results"][0]
    assert item["data"] | words | {"matched": 0, "confidence": "none"} == item["data"]
    assert item["data"]["items"] == []

    shown = await app.call("recall", {"queries": [question], "at_least": 0})
    assert shown["results"][0]["confidence"] == "none"
    assert {"ada", "kettle"} <= set(names(shown["results"][0]["memories"]))


async def test_a_question_that_names_a_time_is_told_the_argument_for_it(app: Abilities) -> None:
    question = "What did Ada write about compilers in the last 2 weeks?"

    (record,) = (await app.call("recall", {"queries": [question]}))["results"]
    (limited,) = (await app.call("recall", {"queries": [question], "within_days": 14}))["results"]

    assert record["did_you_mean"] == {"within_days": 14}
    assert "did_you_mean" not in limited
    assert names(limited["memories"])[0] == "ada"


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What changed since Monday?", 3),
        ("since last Thursday", 7),
        ("What did we do today?", 1),
        ("last week's decisions", 10),
        ("this month", 25),
        ("last month", 56),
        ("in the past 3 months", 90),
        ("On Monday we met", None),
        ("the last stand", None),
    ],
)
def test_the_days_back_to_a_time_that_a_question_names(question: str, days: int | None) -> None:
    assert find_within_days(question, date(2026, 11, 26)) == days


@pytest.mark.parametrize("setting", ["full", "concise"])
async def test_records_are_concise_unless_the_call_says_full(setting: str, roots: Settings) -> None:
    async with Abilities.open(roots.model_copy(update={"detail": setting})) as abilities:
        await store(abilities, "a", "tea")
        concise = await abilities.call("recall", {"queries": ["tea"]})
        full = await abilities.call("recall", {"queries": ["tea"], "detail": "full"})

    assert list(concise) == ["results"]
    assert list(concise["results"][0]) == ["input", "memories", "matched", "confidence"]
    assert full["summary"]["returned_chars"] == 3
    assert list(full["results"][0]) == ["input", "success", "data"]


@pytest.mark.parametrize(
    "query",
    [
        "the of and",
        "?!.,;:",
        "🙂",
        " ",
        "\n\t\x01\x1b[31m",
        "' OR 1=1; DROP TABLE memories; --",
        'NEAR("a" b) AND c* NOT ^d',
        "%_\\",
        "世界和平",
        "\u202egnp.exe \u200b",
        " ".join(f"w{number}" for number in range(200)),
        "x" * 1_000,
    ],
)
async def test_hostile_questions_are_answered(query: str, app: Abilities) -> None:
    payload = await app.call("recall", {"queries": [query, "compilers"]})

    first, second = payload["results"]
    assert first["input"] == query[:80]
    assert second["memories"][0]["key"] == "ada"
    assert len(first.get("unknown_words", [])) <= 10
    check_schema("recall", payload)


async def test_notes_answer_too_in_parts_by_heading(app: Abilities) -> None:
    text = "# Lasting\n\n## Tools\nWe use the zebra linter.\n\n## People\nGrace likes maps.\n"
    write_note(app, "MEMORY.md", text)
    day = TODAY - timedelta(days=3)
    write_note(app, f"memory/{day}.md", "## Plan\nPaint the zebra crossing.\n")

    records = await ask(app, "zebra")
    people = await ask(app, "Grace's maps")

    assert sorted(names(records)) == ["MEMORY.md", f"memory/{day}.md"]
    lasting = next(record for record in records if record["filename"] == "MEMORY.md")
    daily = next(record for record in records if record["filename"] != "MEMORY.md")
    assert lasting["content"] == "# Lasting\n\n## Tools\nWe use the zebra linter."
    assert daily["content"] == "## Plan\nPaint the zebra crossing."
    assert daily["date"] == day.isoformat()
    assert "next" not in daily
    assert people[0]["heading"] == "Lasting"
    assert people[0]["content"] == "## People\nGrace likes maps."


@pytest.mark.parametrize("detail", ["concise", "full"])
async def test_a_note_is_read_on_from_its_part(detail: str, app: Abilities) -> None:
    write_note(app, "MEMORY.md", "# Zebras\nStripes.\n\n# Others\nSpots, é.\n")

    (record,) = await ask(app, "zebras", detail=detail)
    rest = await app.call("memory_read_bulk", {"targets": [record["next"]]})

    assert record["content"] == "# Zebras\nStripes."
    assert rest["results"][0]["data"]["content"] == "\n\n# Others\nSpots, é.\n"


async def test_notes_are_left_out_by_request_by_filters_and_by_age(app: Abilities) -> None:
    old = TODAY - timedelta(days=20)
    write_note(app, f"memory/{old}.md", "zebra\n")
    write_note(app, f"memory/{TODAY - timedelta(days=40)}.md", "zebra\n")

    assert names(await ask(app, "zebra")) == [f"memory/{old}.md"]
    assert names(await ask(app, "zebra", within_days=20)) == [f"memory/{old}.md"]
    for more in (
        {"notes": False},
        {"type": "core"},
        {"tags": ["t"]},
        {"category": "c"},
        {"category": ""},
        {"importance": "low"},
        {"within_days": 19},
    ):
        assert await ask(app, "zebra", **more) == [], more


async def test_a_note_that_cannot_be_read_fails_nothing(app: Abilities) -> None:
    write_note(app, "MEMORY.md", "zebra\n")
    yesterday = TODAY - timedelta(days=1)
    write_note(app, f"memory/{yesterday}.md", "zebra\0\n")
    (app.settings.agent_dir / "memory" / f"{TODAY}.md").symlink_to("/etc/passwd")

    assert names(await ask(app, "zebra")) == ["MEMORY.md"]


async def test_notes_that_are_stuck_fail_nothing(
    app: Abilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Files, "map", hang)
    monkeypatch.setattr(targets, "NOTES_SECONDS", 0.01)

    assert names(await ask(app, "compilers", hops=0)) == ["ada"]


async def test_secrets_in_notes_are_not_shown(app: Abilities) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    write_note(app, "MEMORY.md", f"zebra token {secret}\n")

    (record,) = await ask(app, "zebra")

    assert secret not in record["content"]
    assert "[secret" in record["content"]


async def test_one_file_for_many_days_is_read_once(roots: Settings) -> None:
    settings = roots.model_copy(update={"short_term_file": "notes-%Y.md"})
    async with Abilities.open(settings) as abilities:
        for year in (TODAY.year, TODAY.year - 1):
            write_note(abilities, f"notes-{year}.md", "zebra\n")
        records = await ask(abilities, "zebra")

    assert len(records) == len({record["filename"] for record in records}) >= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n", []),
        ("plain\n\ntext\n", [("plain\n\ntext", ())]),
        ("# A\na\n## B\nb\n# C\n", [("# A\na", ()), ("## B\nb", ("A",)), ("# C", ())]),
        ("# A\n\n## B\n\n### C\nc", [("# A\n\n## B\n\n### C\nc", ())]),
        ("# A\n# B\nb", [("# A", ()), ("# B\nb", ())]),
        ("```\n# no heading\n```\n# A", [("```\n# no heading\n```", ()), ("# A", ())]),
        ("#tag is no heading\n####### nor this", [("#tag is no heading\n####### nor this", ())]),
        (
            "# A #\r\na\r\n## B ##\r\nb\r\n### C",
            [("# A #\r\na", ()), ("## B ##\r\nb", ("A",)), ("### C", ("A", "B"))],
        ),
    ],
)
def test_a_text_is_divided_at_its_headings(
    text: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    sections = split_sections(text)

    assert [(text[start:end], headings) for start, end, headings in sections] == expected


def test_a_long_section_is_divided_between_lines() -> None:
    text = "# A\n" + "word " * 50 * 9 + "\n" + "line\n" * 500

    sections = split_sections(text)

    assert all(0 < end - start <= MAX_PART_CHARS for start, end, _ in sections)
    assert " ".join(text[start:end] for start, end, _ in sections).split() == text.split()
    assert {headings for _, _, headings in sections[1:]} == {("A",)}


async def test_a_cursor_of_another_state_is_refused(app: Abilities) -> None:
    call = calls_of(app)
    for number in range(40):
        await store(app, f"long{number}", f"zebra number {number} " + "and more " * 100)
    request = (await app.call("recall", {"queries": ["zebra"]}))["next_request"]

    other = {**request, "queries": ["zebras and compilers"]}
    assert await find_reason(call, "recall", **other) == "changed"
    assert "next_request" in await app.call("recall", request)

    await store(app, "new", "a zebra")
    fault = await find_fault(call, "recall", **request)
    assert fault.code == "INVALID_INPUT"
    assert fault.message == "The memories or notes changed; ask again without 'after'."

    fresh = (await app.call("recall", {"queries": ["zebra"]}))["next_request"]
    write_note(app, "MEMORY.md", "zebra\n")
    assert await find_reason(call, "recall", **fresh) == "changed"


@pytest.mark.parametrize("output_format", ["json", "text", "toon", "auto"])
@pytest.mark.parametrize("detail", ["concise", "full"])
async def test_an_answer_fills_its_tokens_as_it_is_sent(
    output_format: str, detail: str, app: Abilities
) -> None:
    for number in range(80):
        await store(app, f"z{number}", f"zebra {number} " + 'said "so"\n' * 30)

    for tokens in (400, 1_000, 2_000, 16_000):
        asked = {"queries": ["zebra"], "max_tokens": tokens, "detail": detail}
        asked |= {"output_format": output_format}
        for structured in (False, True):
            reply = await app.reply("recall", asked, for_model=True, structured=structured)
            sent = [reply.text]
            if structured:
                sent.append(render(reply.payload))
            sizes = [len(text.encode()) for text in sent]
            assert max(sizes) <= 4 * tokens
            if 400 < tokens < 16_000 and output_format != "auto" and not structured:
                assert sizes[0] > 0.85 * 4 * tokens


async def test_max_tokens_must_have_room_for_something(app: Abilities) -> None:
    key = "🙂" * 200
    await store(app, key, "zebra " * 100)
    query = "zebra " + "世" * 900

    fault = await find_fault(calls_of(app), "recall", queries=[query], max_tokens=400)
    needed = (fault.expected or {})["minimum"]
    payload = await app.call("recall", {"queries": [query], "max_tokens": needed})

    assert fault.field == "max_tokens"
    assert payload["results"][0]["memories"][0]["content"].startswith("zebra")
    assert len(render(payload).encode()) <= 4 * needed


async def test_by_default_many_long_questions_have_room(app: Abilities) -> None:
    await store(app, "z", "zebra " * 100)
    queries = [f"zebra {number}" + "x" * 980 for number in range(8)]

    payload = await app.call("recall", {"queries": queries})

    assert names(payload["results"][0]["memories"]) == ["z"]


async def test_concise_text_costs_few_bytes_beyond_contents_keys_and_questions(
    app: Abilities,
) -> None:
    """60 bytes per record and 170 per answer; a link's origin adds 9 beyond its key."""
    for number in range(30):
        content = f"The zebra number {number} eats grass. " + "Day by day. " * 10
        await store(app, f"zebra{number}", content, links=[f"leaf{number}"])
        await store(app, f"leaf{number}", "Green, and all around. " * 5)

    reply = await app.reply("recall", {"queries": ["zebra qwx"]}, for_model=True)
    records = reply.payload["results"][0]["memories"]
    lines = reply.text.encode().split(b"\n")
    head = lines[0].decode()
    bodies = len(reply.text.encode()) - len(lines[0]) - 1

    named = sum(len(f"{r['content']}{r['key']}{r.get('via', '')}".encode()) for r in records)
    linked = sum("via" in record for record in records)
    beyond = bodies - named
    assert 0 < linked < len(records)
    assert beyond - 9 * linked <= 55 * len(records)
    assert beyond <= 60 * len(records)
    assert len(head.replace("zebra qwx", "").replace("qwx", "").encode()) <= 170
    assert "next_request" in head


async def test_a_damaged_memory_is_a_failed_record_in_its_place(app: Abilities) -> None:
    expected = names(await ask(app, "compilers"))
    tamper(app.settings, "UPDATE memories SET content = 'other' WHERE key = 'tea'")

    concise = await ask(app, "compilers")
    full = await ask(app, "compilers", detail="full")
    payload = await app.call("recall", {"queries": ["compilers"]})

    assert names(concise) == names(full) == expected
    assert concise[1].keys() == {"key", "score", "via", "reason"}
    assert concise[1]["reason"] == full[1]["error"]["reason"] == "checksum_mismatch"
    assert CallMetrics.from_payload(payload).faults == {"CORRUPTED_DATA": 1}


async def test_the_command_line_prints_a_table_per_question(
    app: Abilities, capsys: pytest.CaptureFixture[str]
) -> None:
    for detail in ("concise", "full"):
        asked = {"queries": ["compilers", "zebras"], "detail": detail}
        print_answer(AnsweredCall("recall", asked, await app.call("recall", asked)), Console())

        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert lines[0] == "compilers"
        assert "ada" in lines[2]
        assert "tea (via ada)" in lines[3]
        assert lines[5] == "3 of 3 matches shown"
        assert lines[6:8] == ["zebras", "0 of 0 matches shown; in no memory: zebras"]


def test_a_terminal_names_the_words_that_are_archived_and_the_time(capsys: Any) -> None:
    absent = {"unknown_words": ["zebra"], "archived_words": ["PEG"]}
    time = {"did_you_mean": {"within_days": 7}}
    record = {"input": "?", "memories": [], "matched": 0, "confidence": "none", **absent, **time}

    print_answer(AnsweredCall("recall", {}, {"results": [record]}), Console(width=200))

    printed = capsys.readouterr().out
    assert "in no memory: zebra; only in archived memories: PEG" in printed
    assert "within_days 7" in printed
