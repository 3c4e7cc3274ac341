"""Facts that were replaced: what is similar to a new one, what replaced another, and since when."""

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, timedelta
from unittest.mock import patch

import pytest

from abilities import Abilities, Settings, render
from abilities.declarations.refusals import Refused
from abilities.helpers.memory import helper as helper_module
from abilities.helpers.store.store import SqlStore
from tests.memories.calls import Payload, calls_of, find_reason, open_calls, store
from tests.support.surfaces import Call, Through

DAY = "2026-03-01"
LATER = "2026-03-05"

NAMES = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Margaret", "Linus")
FACTS = (
    "{} leads the payments team in Lisbon and reviews every database migration on Mondays.",
    "{} prefers green tea in the afternoon, because coffee keeps her awake until midnight.",
    "{} wrote the parser for invoices, which fails on amounts with a comma and two digits.",
    "{} flies to the conference in Helsinki in June with the whole research group.",
    "{} asked for weekly reports in plain English, no longer than half a page each.",
)
REPLACED = {
    "leads": "heads", "reviews": "checks", "every": "each", "prefers": "likes", "awake": "up",
    "because": "since", "wrote": "built", "fails": "breaks", "whole": "entire", "flies": "travels",
    "asked": "wished", "plain": "simple", "longer": "more", "until": "till", "group": "team",
}  # fmt: skip


def paraphrase(fact: str) -> str:
    """Return a fact in other words, its second half first."""
    words = [REPLACED.get(word, word) for word in fact.removesuffix(".").split()]
    half = len(words) // 2
    return " ".join([*words[half:], *words[:half]])


def at_day(day: str) -> AbstractContextManager[object]:
    """Return a patch of the time at which changes are made."""
    return patch.object(helper_module, "utc_now", lambda: f"{day}T12:00:00.000Z")


async def supersede(call: Call, **operation: str) -> Payload:
    answer = await call("remember", operations=[{"op": "supersede", **operation}])
    record: Payload = answer["results"][0]
    return record


async def recall(call: Call, question: str, **more: object) -> list[Payload]:
    answer = await call("recall", queries=[question], hops=0, notes=False, at_least=0, **more)
    memories: list[Payload] = answer["results"][0]["memories"]
    return memories


async def find_keys(call: Call, question: str, **more: object) -> list[str]:
    return sorted(memory["key"] for memory in await recall(call, question, **more))


async def replace_city(call: Call) -> None:
    """Let Ada move: what was stored on a day is replaced on a later one."""
    with at_day(DAY):
        await store(call, "ada/city", "Ada lives in Lisbon.")
    with at_day(LATER):
        await supersede(call, key="ada/city", new_key="ada/city/2", content="Ada lives in Porto.")


async def test_a_new_memory_is_told_what_is_similar(roots: Settings, through: Through) -> None:
    call = through(roots)
    first = await store(call, "ada/city", "Ada lives in Lisbon. She likes it.")
    second = await store(call, "ada", "Ada lives in Porto. She likes it.")
    other = await store(call, "tea", "Green tea needs two minutes.")

    assert "similar" not in first and "similar" not in other
    assert second["similar"] == [{"key": "ada/city", "content": "Ada lives in Lisbon."}]


async def test_only_other_present_memories_of_the_caller_are_similar(roots: Settings) -> None:
    fact = "Ada moved to Porto in the spring of 2026"
    async with Abilities.open(roots) as app:
        call, other = calls_of(app), calls_of(app.for_namespace("other"))
        await store(other, "theirs", fact)
        await store(call, "archived", fact)
        await call("delete_memory", key="archived")
        await store(call, "own", "something else entirely")

        again = await store(call, "own", fact)
        same = await store(call, "own", fact)
        tagged = await store(call, "own", fact, tags=["t"])

    assert all("similar" not in answer for answer in (again, same, tagged))


async def test_three_at_most_are_named_the_most_alike_first(call: Call) -> None:
    fact = "Ada leads the payments team in Lisbon and reviews database migrations"
    for number in range(5):
        await store(call, f"k{number}", f"{fact} {'more ' * number}".strip() + "!" + "?" * 300)

    answer = await store(call, "new", fact)

    assert len(answer["similar"]) == 3
    assert all(len(one["content"]) <= 121 for one in answer["similar"])


async def test_each_stored_memory_of_a_batch_is_told(call: Call) -> None:
    await store(call, "ada/city", "Ada lives in Lisbon.")
    operations: list[Payload] = [
        {"op": "store", "type": "core", "key": "one", "content": "Ada lives in Porto."},
        {"op": "store", "type": "core", "key": "two", "content": "Tea needs hot water."},
        {"op": "append", "key": "two", "content": " Ada lives in Faro."},
    ]

    concise = await call("remember", operations=operations)
    full = await call("remember", operations=[{**operations[0], "key": "n"}], detail="full")

    similar = [[one["key"] for one in record.get("similar", ())] for record in concise["results"]]
    assert similar == [["ada/city"], [], []]
    assert {one["key"] for one in full["results"][0]["data"]["similar"]} == {"ada/city", "one"}


@pytest.mark.parametrize("error", [Refused("unavailable"), RuntimeError("a defect")])
async def test_a_lookup_that_fails_fails_no_write(
    error: Exception, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(call, "ada/city", "Ada lives in Lisbon.")

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(SqlStore, "find_alike", fail)
    answer = await store(call, "ada", "Ada lives in Porto.")

    assert answer["created"] and "similar" not in answer


def make_facts(names: Sequence[str]) -> dict[str, str]:
    return {f"{name}/{n}": fact.format(name) for name in names for n, fact in enumerate(FACTS)}


async def test_a_fact_in_other_words_is_recognized_and_another_fact_is_not(call: Call) -> None:
    known = make_facts(NAMES[:4])
    for key, fact in known.items():
        await store(call, key, f"{fact} It was said in room {random.Random(key).randrange(900)}.")

    found = 0
    for number, (key, fact) in enumerate(known.items()):
        answer = await store(call, f"new{number}", paraphrase(fact))
        found += any(one["key"] == key for one in answer.get("similar", ()))
        await call("delete_memory", key=f"new{number}", permanent=True)
    unrelated = [
        await store(call, f"other{number}", text)
        for number, text in enumerate(
            (
                "The invoices of the research group are paid in June.",
                "Ada reviews the parser with Grace on Mondays in Helsinki.",
                "Alan drinks coffee until midnight.",
                "Weekly database reports are sent to the payments team.",
            )
        )
    ]

    assert found >= 0.8 * len(known)
    assert all("similar" not in answer for answer in unrelated)


async def test_who_is_asked_gets_the_new_fact_and_on_request_the_old_one(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    question = "Where does Ada live?"
    async with open_calls(roots) as here:
        await replace_city(here)

    (new,) = await recall(call, question)
    both = await recall(call, question, superseded=True)
    before = await find_keys(call, question, as_of="2026-03-04")
    since = await find_keys(call, question, as_of=LATER)
    old = await call("memory_get", key="ada/city", detail="concise")

    assert new["key"] == "ada/city/2" and new["since"] == LATER
    assert {memory["key"]: memory.get("replaced_by") for memory in both} == {
        "ada/city": "ada/city/2",
        "ada/city/2": None,
    }
    assert before == ["ada/city"] and since == ["ada/city/2"]
    assert old["archived"] and old["replaced_by"] == "ada/city/2"


async def test_whoever_reads_the_old_memory_is_led_to_the_new_one(call: Call) -> None:
    await replace_city(call)
    target = {"type": "stored", "key": "ada/city"}

    walk = await call("bulk_read_memory", key="ada/city")
    (read,) = (await call("read", items=[{"memory": "ada/city"}], detail="full"))["results"]
    (bulk,) = (await call("memory_read_bulk", targets=[target]))["results"]
    queried = await call("query_memories", search="Lisbon", archived=True)

    assert [memory["key"] for memory in walk["associatedMemories"]] == ["ada/city/2"]
    for data in (walk["targetMemory"]["data"], read["data"], bulk["data"], queried["memories"][0]):
        assert data["replaced_by"] == "ada/city/2"


async def test_what_was_replaced_is_not_replaced_again(call: Call) -> None:
    await replace_city(call)

    record = await supersede(call, key="ada/city", content="Ada lives in Faro.")

    itself = await supersede(call, key="ada/city/2", new_key="ada/city/2", content="In Faro.")
    assert itself["reason"] == "key_taken"
    assert record["reason"] == "memory_archived" and record["did_you_mean"] == "ada/city/2"
    assert (await call("get_memory_stats"))["total_memories"] == 1


@pytest.mark.parametrize("day", ["2026-3-1", "2026-02-30", "yesterday", "2026-03-01T00:00:00Z"])
async def test_a_day_that_is_none_is_refused(day: str, call: Call) -> None:
    assert await find_reason(call, "recall", queries="tea", as_of=day) == "invalid_format"


async def test_notes_are_not_searched_as_of_a_day(app: Abilities, roots: Settings) -> None:
    today = datetime.now(UTC).date() + timedelta(days=1)
    (roots.agent_dir / "MEMORY.md").write_text("Ada lives in Lisbon.\n")
    call = calls_of(app)
    asked = {"queries": "Where does Ada live?", "at_least": 0}

    with_notes = await call("recall", **asked)
    without = await call("recall", **asked, as_of=date.isoformat(today))

    assert with_notes["results"][0]["matched"] == 1
    assert without["results"][0]["matched"] == 0


async def test_a_store_without_anything_similar_costs_not_one_byte(call: Call) -> None:
    answer = await store(call, "tea", "Green tea needs two minutes.", detail="concise")

    assert set(answer) == {"id", "key", "version", "created"}
    assert "similar" not in render(answer, "text")
