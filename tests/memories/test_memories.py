"""Stored memories through the public interface.

Rows B and S, what each ability promises, and the walk's scenarios.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from toon_format import loads

from abilities import Abilities, AbilityError, Settings, render
from abilities.declarations.bulk_read_memory import BulkReadMemoryAnswer, MemoryGetAnswer
from abilities.declarations.memories import (
    GetMemoryStatsAnswer,
    QueryMemoriesAnswer,
    StoreMemoryAnswer,
    UpdateMemoryAnswer,
)
from abilities.helpers.store import queries
from abilities.helpers.store.query import Matches, Query, split_search
from tests.support.file_cases import Row, check_refusal
from tests.support.memory_cases import MEMORY_STORE_ROWS, nest
from tests.support.stores import tamper
from tests.support.surfaces import SURFACES, Call, CannotCarry, Through, python
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS, gather_in_groups


@pytest.fixture(scope="session")
def refusals() -> dict[str, dict[str, Any]]:
    """What Python answers to rows, by their ids: asked once, and compared with every surface."""
    return {}


@pytest.mark.requirement(
    "R1.2.2", "R2.2.1", "R2.3.2", "R3.3.2", "R3.4.2", "R3.7.1", "R3.7.2", "R4.5.11"
)
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("row", MEMORY_STORE_ROWS, ids=str)
async def test_a_wrong_call_is_refused_alike_on_every_surface(
    row: Row, surface: str, settings: Settings, refusals: dict[str, dict[str, Any]]
) -> None:
    if row.id not in refusals:
        refusals[row.id] = await python(settings, row.name, row.arguments)

    expected = refusals[row.id]
    check_refusal(row, expected)
    try:
        assert await SURFACES[surface](settings, row.name, row.arguments) == expected
    except CannotCarry:
        assert any(text in ascii(row.arguments) for text in ("\\ud800", "inf", "nan"))


@pytest.mark.parametrize("levels", [17, 252])
async def test_s1_metadata_is_held_to_a_depth(levels: int, settings: Settings) -> None:
    """Over HTTP the bound on a body's depth answers first."""
    arguments = {"type": "core", "content": "x", "metadata": nest(levels)}
    fault = (await python(settings, "store_memory", arguments))["error"]

    assert (fault["reason"], fault["field"]) == ("invalid_format", "metadata")


@asynccontextmanager
async def open_calls(settings: Settings) -> AsyncGenerator[Call]:
    """Open an application, and yield a function that calls it with keyword arguments."""
    async with Abilities.open(settings) as abilities:

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            return await abilities.call(name, arguments)

        yield call


async def link_up(call: Call, **edges: str) -> None:
    """Store memories that link to others, for example ``link_up(call, A="B C")``.

    Keys are letters, and the links of each come in falling weight.
    """
    for key in sorted({*edges, *"".join(edges.values()).replace(" ", "")}):
        links = [
            {"key": target, "link_weight": 1 - n / 100}
            for n, target in enumerate(edges.get(key, "").split())
        ]
        await call("store_memory", type="core", content=f"content of {key}", key=key, links=links)


def list_records(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [answer["targetMemory"], *answer["associatedMemories"]]


def list_keys(answer: dict[str, Any]) -> list[str]:
    return [record["key"] for record in list_records(answer)]


async def find_reason(call: Call, name: str, **arguments: Any) -> str:
    """Return why a call is refused."""
    try:
        await call(name, **arguments)
    except AbilityError as error:
        return error.fault.reason

    raise AssertionError("the call was answered")


@pytest.mark.requirement("R1.7.1", "R1.8.1", "R2.1.1", "R2.3.1", "R2.5.1", "R4.4.6")
@pytest.mark.parametrize("surface", SURFACES)
async def test_every_surface_answers_the_same_walk_and_memory(
    surface: str, roots: Settings
) -> None:
    async with open_calls(roots) as call:
        await link_up(call, A="B C", B="C", C="D")
        walk = await call("bulk_read_memory", key="A", depth=2)
        BulkReadMemoryAnswer.model_validate(walk)
        single = await call("memory_get", key="A")
        MemoryGetAnswer.model_validate(single)

    assert list_keys(walk) == ["A", "B", "C", "D"]
    assert await SURFACES[surface](roots, "bulk_read_memory", {"key": "A", "depth": "2"}) == walk
    assert (
        await SURFACES[surface](roots, "memory_get", {"key": "A", "bulkRead": True, "depth": 2})
        == walk
    )
    assert await SURFACES[surface](roots, "memory_get", {"key": "A"}) == single

    targets = {"targets": [{"type": "stored", "key": key} for key in "AXA"]}
    reply = await SURFACES[surface](roots, "memory_read_bulk", targets)

    assert [record["success"] for record in reply["results"]] == [True, False, True]


@pytest.mark.requirement("R1.5.1", "R1.8.1", "R2.4.1", "R4.2.4", "R4.4.4")
@pytest.mark.parametrize("depth", [2, 3])
async def test_b4_a_diamond_returns_each_memory_once_and_loses_none(
    depth: int, roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, A="B C", B="C", C="D")

    answer = await call("bulk_read_memory", key="A", depth=depth)

    assert sorted(list_keys(answer)) == ["A", "B", "C", "D"]
    assert answer["metadata"]["duplicatesSkipped"] == 1
    assert answer["metadata"]["limitsReached"] == []
    assert answer["metadata"]["totalRetrieved"] == 4


@pytest.mark.requirement("R4.5.7")
async def test_b4_cycles_and_complete_graphs_end(roots: Settings, through: Through) -> None:
    call = through(roots)
    edges = {key: " ".join([*"ABCDEF".replace(key, ""), key]) for key in "ABCDEF"}
    await link_up(call, **edges)

    answer = await call("bulk_read_memory", key="A")

    assert sorted(list_keys(answer)) == list("ABCDEF")


async def test_b5_missing_and_archived_memories_are_skipped_and_counted(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, A="B C D")
    ids = {k: (await call("memory_get", key=k))["data"]["id"] for k in "BC"}
    await call("delete_memory", id=ids["B"])
    await call("delete_memory", id=ids["C"], permanent=True)

    answer = await call("bulk_read_memory", key="A")

    assert list_keys(answer) == ["A", "D"]
    assert answer["metadata"]["missingLinks"] == 2
    assert (await call("memory_get", key="B"))["data"]["archived"], "direct reads succeed"
    assert await find_reason(call, "memory_get", key="C") == "not_found"

    await call("store_memory", type="core", content="again", key="C")

    assert list_keys(await call("bulk_read_memory", key="A")) == ["A", "C", "D"], (
        "the link waited for it"
    )


COLUMNS = (
    "namespace, key, id, archived, {score}, scored, type, importance, category,"
    " created_at, updated_at, tags, summary, metadata, content, version"
)


@pytest.mark.parametrize("score", ["9e999", "-1.0", "2.5"])
async def test_b6_an_impossible_score_is_refused_and_skipped_by_walks(
    score: str, roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, A="B C")
    columns = COLUMNS.format(score=score)
    tamper(roots, f"UPDATE memories SET score = {score}, hash = rehash({columns}) WHERE key = 'B'")

    assert await find_reason(call, "bulk_read_memory", key="B") == "invalid_stored_value"

    answer = await call("bulk_read_memory", key="A")

    assert list_keys(answer) == ["A", "C"]
    assert answer["metadata"]["invalidLinks"] == 1


@pytest.mark.parametrize("weight", ["9e999", "-1.0", "7.0"])
async def test_b6_a_link_of_impossible_weight_is_skipped_and_counted(
    weight: str, roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, A="B C")
    hashed = f"link_hash(source, target, type, {weight}, term, rank, back_rank)"
    tamper(roots, f"UPDATE links SET weight = {weight}, hash = {hashed} WHERE target = 'B'")

    answer = await call("bulk_read_memory", key="A")

    assert list_keys(answer) == ["A", "C"]
    assert answer["metadata"]["invalidLinks"] == 1


async def test_b7_equal_weights_give_the_same_bytes_every_time(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    for key in "CABD":
        links = [{"key": k} for k in random.Random(key).sample("ABCD", 4)]
        await call("store_memory", type="core", content=key, key=key, links=links)

    answers = {render(await call("bulk_read_memory", key="A")) for _ in range(5)}

    assert len(answers) == 1
    assert render(await call("bulk_read_memory", key="A")) in answers, "reading left no trace"


HUB_LINKS = size("ABILITIES_HUB_LINKS", quick=10_000, full=100_000)
LAST_HUB_LINK = f"k{HUB_LINKS // 1000 - 1}-0"
CHAIN_LENGTH = size("ABILITIES_CHAIN_LENGTH", quick=500, full=5_000)


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a store that holds a memory with many links, and a long chain of memories."""
    base = tmp_path_factory.mktemp("large")
    settings = Settings(
        agent_dir=base,
        workspace_dir=base,
        store_url=f"sqlite:///{base}/memory.db",
        detail="full",  # on every surface, so that their payloads can be compared
    )

    async def fill() -> None:
        async with open_calls(settings) as call:
            for page in range(HUB_LINKS // 1000):
                links = [{"key": f"k{page}-{n}", "link_weight": n / 1000} for n in range(1000)]
                await call("store_memory", type="core", content="hub", key="hub", links=links)

            await call("store_memory", type="core", content="found", key=LAST_HUB_LINK)
            chain = [{"key": f"c{n}", "links": [{"key": f"c{n + 1}"}]} for n in range(CHAIN_LENGTH)]
            await gather_in_groups(
                call("store_memory", type="core", content="link", **m) for m in chain
            )

    asyncio.run(fill())
    return settings


@pytest.mark.requirement("R4.5.1", "R4.5.4", "R4.5.10")
async def test_b8_a_hub_and_a_chain_are_read_within_the_limits(
    large_store: Settings, through: Through
) -> None:
    call = through(large_store)
    answer = await call("bulk_read_memory", key="hub", depth=6, breadth=20, total=50)

    assert list_keys(answer) == ["hub", LAST_HUB_LINK]
    assert answer["metadata"]["missingLinks"] == 1000, "of any number, the bound is counted"

    shown = await call("memory_get", key="hub", links_offset=HUB_LINKS - 10)

    assert shown["data"]["links_total"] == HUB_LINKS
    assert len(shown["data"]["links"]) == 10

    chain = await call("bulk_read_memory", key="c0", depth=6, total=50)

    assert list_keys(chain) == [f"c{n}" for n in range(7)]
    assert chain["metadata"]["limitsReached"] == ["depth"]


@pytest.mark.requirement("R3.7.5")
@pytest.mark.parametrize(
    "column", ["content = 'changed'", "key = key, tags = '[\"x\"]'", "archived = 0, type = 'task'"]
)
async def test_b9_a_row_that_is_not_as_it_was_written(
    column: str, roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, A="B C")
    tamper(roots, f"UPDATE memories SET {column} WHERE key = 'B'")

    assert await find_reason(call, "bulk_read_memory", key="B") == "checksum_mismatch"
    assert await find_reason(call, "memory_get", key="B") == "checksum_mismatch"

    answer = await call("bulk_read_memory", key="A")
    read = await call("memory_read_bulk", targets=[{"type": "stored", "key": k} for k in "ABC"])
    listed = await call("query_memories")

    assert (len(listed["memories"]), listed["failed"]) == (2, 1)
    assert (listed["total"], listed["limit"]) == (3, 10)
    assert [record["success"] for record in list_records(answer)] == [True, False, True]
    assert answer["metadata"]["failed"] == 1
    assert [record["success"] for record in read["results"]] == [True, False, True]


SEARCHES = [
    "100%",
    "under_score",
    '"quoted"',
    "NEAR(x y)",
    "a AND b",
    "star*",
    "'; DROP TABLE memories",
    "col:on",
    "-minus",
]


@pytest.mark.requirement("R3.2.2", "R3.2.3")
async def test_s4_nothing_searched_for_is_no_filter(roots: Settings, through: Through) -> None:
    call = through(roots)
    tags = [f"t{n}" for n in range(10)]
    await call("store_memory", type="core", content="one", tags=tags)
    await call("store_memory", type="core", content="two")
    every = await call("query_memories")

    for search in ("", " ", "   "):
        assert await call("query_memories", search=search) == every

    assert (await call("query_memories", search=" ", tags=["t1"]))["total"] == 1
    assert (await call("query_memories", tags=[*tags, *tags]))["total"] == 1
    for count in (11, 100):
        answer = await call("query_memories", tags=[f"t{n}" for n in range(count)])
        assert answer["total"] == 0, "no memory has so many tags"


@pytest.mark.requirement("R3.2.3")
async def test_s4_search_is_literal_in_any_language(roots: Settings, through: Through) -> None:
    texts = [*SEARCHES, "日本", "本", "GRÖẞE", "größe", "ﬁne", "İstanbul", "🙂", "a", "\t"]
    async with open_calls(roots) as call:
        for text in texts:
            await call(
                "store_memory",
                type="core",
                content=f"before {text} after 日本語",
                key=text.strip() or "tab",
            )
        await call("store_memory", type="core", content="xyz", key="miss")

    call = through(roots)
    for text in texts:
        for search in {text, text.swapcase()}:
            hits = [t for t in texts if is_found(search, f"before {t} after 日本語", t)]
            page = await call("query_memories", search=search, limit=50)

            assert sorted(memory["key"] for memory in page["memories"]) == sorted(
                hit.strip() or "tab" for hit in hits
            )
            assert page["total"] == len(hits)


@pytest.mark.requirement("R3.7.6")
async def test_s6_a_quota_refuses_new_memories_and_nothing_else(
    roots: Settings, through: Through
) -> None:
    call = through(roots.model_copy(update={"max_memories": 2}))
    for key in "AB":
        await call("store_memory", type="core", content=key, key=key)

    assert (
        await find_reason(call, "store_memory", type="core", content="C", key="C")
        == "storage_quota"
    )
    assert not (await call("store_memory", type="core", content="A again", key="A"))["created"]
    assert (await call("get_memory_stats"))["total_memories"] == 2


async def test_s14_an_id_and_a_key_of_different_memories(roots: Settings, through: Through) -> None:
    call = through(roots)
    a, _ = [await call("store_memory", type="core", content=k, key=k) for k in "AB"]

    assert (
        await find_reason(call, "store_memory", type="core", content="x", key="B", id=a["id"])
        == "key_taken"
    )
    assert (await call("memory_get", key="B"))["data"]["content"] == "B"


@pytest.mark.requirement("R3.1.1", "R3.3.1", "R3.3.8", "R4.1.1")
async def test_storing_merges_and_updating_says_what_changed(roots: Settings) -> None:
    async with open_calls(roots) as call:
        first = await call(
            "store_memory",
            type="core",
            content="one",
            key="k",
            category="fact",
            tags=["a", "b", "a"],
            summary="short",
            importance="high",
            links=[{"key": "x", "link_weight": 0.9}],
            metadata={"source": "chat", "n": [1, {"deep": None}]},
        )
        StoreMemoryAnswer.model_validate(first)
        memory = first["memory"]

        assert first["created"] and memory["tags"] == ["a", "b"]
        assert memory["metadata"] == {
            "memory_score": 0.9,
            "source": "chat",
            "n": [1, {"deep": None}],
        }

        second = await call(
            "store_memory", type="core", content="two", key="k", links=[{"key": "y"}]
        )

        assert not second["created"] and second["id"] == first["id"]
        assert "replaced" not in first and second["replaced"] == memory["version"]
        assert second["memory"] == {
            **memory,
            "content": "two",
            "version": memory["version"] + 1,
            "updated_at": second["memory"]["updated_at"],
            "links": [{"key": "x", "link_weight": 0.9}, {"key": "y", "link_weight": 0.5}],
            "links_total": 2,
        }

        same = await call("store_memory", type="core", content="two", key="k", links=[{"key": "y"}])

        assert same["memory"] == second["memory"], "repeating a request leaves the same state"
        assert "replaced" not in same

        changed = await call(
            "update_memory",
            id=first["id"],
            content="two",
            category="",
            importance="low",
            remove_links=[{"key": "x"}],
            memory_score=0.25,
        )
        UpdateMemoryAnswer.model_validate(changed)

        assert sorted(changed["updated_fields"]) == [
            "category",
            "importance",
            "links",
            "memory_score",
        ]
        assert "category" not in changed["memory"]
        assert changed["memory"]["metadata"]["memory_score"] == 0.25
        assert changed["memory"]["links"] == [{"key": "y", "link_weight": 0.5}]

        kept = await call("update_memory", id=first["id"], importance="high")

        assert kept["memory"]["metadata"]["memory_score"] == 0.25, (
            "a score that was set no longer follows"
        )

        nothing = await call("update_memory", id=first["id"], importance="high")

        assert nothing["updated_fields"] == []


@pytest.mark.requirement("R1.4.1", "R4.4.2", "R4.5.3", "R4.7.1", "R4.7.3")
async def test_a_score_follows_importance_and_ranks_links_to_it(roots: Settings) -> None:
    async with open_calls(roots) as call:
        await link_up(call, A="B C")

        assert list_keys(await call("bulk_read_memory", key="A")) == ["A", "B", "C"]

        name = (await call("memory_get", key="C"))["data"]["id"]
        await call("update_memory", id=name, importance="high")

        assert list_keys(await call("bulk_read_memory", key="A")) == ["A", "C", "B"]

        await call("update_memory", id=name, memory_score=0.0)

        assert list_keys(await call("bulk_read_memory", key="A")) == ["A", "B", "C"]


@pytest.mark.parametrize("zero", [-0.0, "-0", "-0.0"])
async def test_a_negative_zero_is_stored_as_zero(zero: Any, roots: Settings) -> None:
    async with open_calls(roots) as call:
        await call("store_memory", type="core", content="x", key="a", memory_score=zero)
        await call(
            "store_memory", type="core", content="x", key="b", metadata={"memory_score": zero}
        )
        links = [{"key": "a", "link_weight": zero}]
        await call("store_memory", type="core", content="x", key="c", links=links)

        shown = [(await call("memory_get", key=key))["data"] for key in "abc"]

    assert [str(data["metadata"]["memory_score"]) for data in shown] == ["0.0", "0.0", "0.6"]
    assert str(shown[2]["links"][0]["link_weight"]) == "0.0"


async def test_metadata_of_16_levels_is_stored_and_shown(roots: Settings) -> None:
    metadata = nest(16)

    async with open_calls(roots) as call:
        await call("store_memory", type="core", content="x", key="a", metadata=metadata)
        shown = await call("memory_get", key="a")

    assert shown["data"]["metadata"] == {"memory_score": 0.6, **metadata}


@pytest.mark.requirement("R3.4.1", "R3.4.4")
async def test_archiving_deleting_and_reviving(roots: Settings) -> None:
    async with open_calls(roots) as call:
        stored = await call("store_memory", type="task", content="x", key="k", tags=["t"])
        archived = await call("delete_memory", id=stored["id"])

        assert archived == {"success": True, "action": "archived", "id": stored["id"]}
        assert (await call("query_memories"))["total"] == 0
        assert (await call("query_memories", archived=True, tags=["t"]))["total"] == 1
        assert (await call("get_memory_stats"))["archived_count"] == 1

        await call("update_memory", id=stored["id"], archived=False)

        assert (await call("query_memories", tags=["t"]))["total"] == 1
        assert (await call("delete_memory", id=stored["id"], permanent="true"))[
            "action"
        ] == "deleted"
        assert await find_reason(call, "delete_memory", id=stored["id"]) == "not_found"
        assert (await call("get_memory_stats"))["total_storage_kb"] == 0


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_memory_is_changed_and_deleted_by_its_key_as_by_its_id(
    surface: str, roots: Settings
) -> None:
    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        return await SURFACES[surface](roots, name, arguments)

    stored = await call("store_memory", type="task", content="x", key="k")

    updated = await call("update_memory", key="k", content="y")
    archived = await call("delete_memory", key="k")
    deleted = await call("delete_memory", key="k", permanent=True)

    assert updated["updated_fields"] == ["content"]
    assert (updated["memory"]["id"], updated["memory"]["key"]) == (stored["id"], "k")
    assert archived == {"success": True, "action": "archived", "id": stored["id"]}
    assert deleted == {"success": True, "action": "deleted", "id": stored["id"]}


async def test_a_key_beside_an_id_renames_and_in_a_deletion_must_be_the_same_memorys(
    roots: Settings,
) -> None:
    async with open_calls(roots) as call:
        memory_id = (await call("store_memory", type="core", content="x", key="old"))["id"]
        await call("store_memory", type="core", content="x", key="other")

        renamed = await call("update_memory", id=memory_id, key="new")

        assert renamed["memory"]["key"] == "new" and renamed["updated_fields"] == ["key"]
        both = {"id": memory_id, "key": "other"}
        assert await find_reason(call, "delete_memory", **both) == "key_taken"
        assert (await call("delete_memory", id=memory_id, key="new"))["success"]


@pytest.mark.parametrize("name", ["update_memory", "delete_memory", "memory_history"])
async def test_who_names_no_memory_is_told_what_names_one(name: str, roots: Settings) -> None:
    fault = (await python(roots, name, {}))["error"]

    assert (fault["reason"], fault["field"]) == ("missing_argument", "key")
    assert fault["expected"] == {"one_of": ["key", "id"]}


@pytest.mark.requirement("R3.5.8")
async def test_only_memory_get_counts_an_access_and_never_in_its_own_answer(
    roots: Settings,
) -> None:
    async with open_calls(roots) as call:
        await link_up(call, A="B")
        first, second = [render(await call("memory_get", key="A")) for _ in range(2)]

        assert first == second and "access" not in first

        await call("bulk_read_memory", key="A")
        await call("memory_read_bulk", targets=[{"type": "stored", "key": "A"}])
        async with asyncio.timeout(GIVE_UP_SECONDS):  # accesses are written a little later
            while True:
                page = await call("query_memories", sort_by="access_count", limit=1)
                (memory,) = page["memories"]
                if memory["access_count"]:
                    break

                await asyncio.sleep(POLL_SECONDS)

        assert (memory["key"], memory["access_count"]) == ("A", 2)
        assert (await call("get_memory_stats"))["most_accessed"]["key"] == "A"


@pytest.mark.requirement("R3.5.2", "R3.5.7", "R3.5.8")
async def test_an_empty_store_has_zeros_and_no_dates(roots: Settings) -> None:
    async with open_calls(roots) as call:
        answer = await call("get_memory_stats")
        assert (await call("query_memories"))["memories"] == []

    GetMemoryStatsAnswer.model_validate(answer)

    assert answer == {
        "total_memories": 0,
        "by_type": {"core": 0, "learning": 0, "task": 0},
        "by_importance": {"high": 0, "medium": 0, "low": 0},
        "archived_count": 0,
        "total_storage_kb": 0.0,
        "top_tags": [],
    }


async def test_namespaces_never_see_each_other(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        other = abilities.for_namespace("other")
        stored = await abilities.call(
            "store_memory", {"type": "core", "content": "mine", "key": "k", "tags": ["t"]}
        )

        assert (await other.call("query_memories", {"archived": True}))["total"] == 0

        for name, arguments in (
            ("memory_get", {"key": "k"}),
            ("bulk_read_memory", {"key": "k"}),
            ("update_memory", {"id": stored["id"], "content": "stolen"}),
            ("delete_memory", {"id": stored["id"], "permanent": True}),
        ):
            with pytest.raises(AbilityError, match="NOT_FOUND"):
                await other.call(name, arguments)

        await other.call("store_memory", {"type": "core", "content": "theirs", "key": "k"})

        assert (await abilities.call("memory_get", {"key": "k"}))["data"]["content"] == "mine"
        assert (await other.call("query_memories", {"search": "mine"}))["total"] == 0


QUERIES: list[dict[str, Any]] = [
    {},
    {"type": "core"},
    {"importance": "high"},
    {"category": "c1"},
    {"tags": ["t1"]},
    {"tags": ["t1", "t2"]},
    *(
        {"search": text}
        for text in (
            "WORD1",
            "number 7",
            "d",
            "r 1",
            "4 ",
            "世",
            "世界",
            "zz",
            "q",
            "界x",
            "ß",
            "SS",
            "number word1",
            '"number 7"',
            "界 t1",
            "c1 ße 4",
            "7 d",
        )
    ),
    *({"search": text, "archived": True} for text in ("word", "number 1", "e", "rd", "世界")),
    *({"type": "task", "tags": ["t0"], "search": text} for text in ("word", "9", "num")),
    {"category": "c2", "search": "世界"},
    {"archived": True},
    {"archived": True, "tags": ["t2"]},
    {"type": "learning", "importance": "low", "archived": True},
]


@pytest.mark.requirement(
    "R3.2.1", "R3.2.2", "R3.2.3", "R3.2.4", "R3.2.5", "R3.2.6", "R3.2.9", "R3.2.10", "R3.2.11"
)
@pytest.mark.parametrize(
    "sort_by", ["created_at", "updated_at", "accessed_at", "importance", "access_count"]
)
@pytest.mark.parametrize("small", [10, 1_000])
async def test_queries_agree_with_a_plain_list(
    small: int, sort_by: str, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abilities.helpers.store.sqlite.search._SCAN_LIMIT", small)
    if small == 1_000:  # only where others have memories too
        monkeypatch.setattr(
            "abilities.helpers.store.sqlite.search._is_only_namespace", lambda *_: False
        )
    strategies: set[str] = set()
    select = queries._select

    def select_noting(namespace: str, query: Query, matches: Matches) -> Any:
        strategy = "search first" if matches.source else "scan in order"
        strategies.add(strategy if query.search else "")
        return select(namespace, query, matches)

    monkeypatch.setattr(queries, "_select", select_noting)
    chance = random.Random(sort_by)

    async with open_calls(roots) as call:
        for n in range(60):
            await call(
                "store_memory",
                type=chance.choice(["core", "learning", "task"]),
                content=f"word{n % 4} number {n}"
                + " Straße 世界" * (n % 3 == 0)
                + "世" * (n % 7 == 0),
                category=f"c{n % 3}",
                tags=chance.sample(["t0", "t1", "t2"], 2),
                importance=chance.choice(["high", "medium", "low"]),
            )

        every = (await call("query_memories", limit=100))["memories"]
        for memory in chance.sample(every, 12):
            await call("delete_memory", id=memory["id"])

        for memory in chance.sample(every, 12):
            await call("memory_get", key=memory["key"])

        await call("store_memory", type="core", content="flushes the accesses", key="flush")
        every = (await call("query_memories", limit=100, archived=True))["memories"]
        for query in QUERIES:
            for order in ("asc", "desc"):
                await check_query(
                    call, every, {**query, "sort_by": sort_by, "sort_order": order}, chance
                )

        for memory in every:
            await call("update_memory", id=memory["id"], archived=False)

        for text in ("word", "number 1", "er 5", "w", "世"):
            page = await call("query_memories", search=text)
            found = [memory for memory in every if is_found(text, *list_searched(memory))]
            assert page["total"] == len(found)

    by_scan = {"", "scan in order"}

    assert strategies == (by_scan | {"search first"} if small == 10 else by_scan)


async def check_query(
    call: Call, every: list[dict[str, Any]], query: dict[str, Any], chance: random.Random
) -> None:
    """Check that a query's page holds what filtering and sorting a list in Python gives."""
    rank = {"low": 0, "medium": 1, "high": 2}
    matching = [m for m in every if matches(m, query)]
    by = query["sort_by"]
    matching.sort(
        key=lambda m: (rank[m[by]] if by == "importance" else m[by], m["id"]),
        reverse=query["sort_order"] == "desc",
    )
    limit, offset = chance.randint(1, 20), chance.randint(0, 30)
    page = await call("query_memories", **query, limit=limit, offset=offset)
    QueryMemoriesAnswer.model_validate(page)

    assert [m["id"] for m in page["memories"]] == [
        m["id"] for m in matching[offset : offset + limit]
    ], query
    assert page["total"] == len(matching), query
    assert page["has_more"] == (offset + limit < len(matching))

    followed = await follow(call, page)
    assert [m["id"] for m in followed] == [m["id"] for m in matching[offset + limit :]], query


async def follow(call: Call, page: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the memories behind a page, by its next request and those of the pages that follow."""
    followed: list[dict[str, Any]] = []
    while page["has_more"]:
        following = await call("query_memories", **page["next_request"])
        assert following["offset"] == page["offset"] + page["limit"]

        page = following
        followed += page["memories"]

    assert "next_request" not in page
    return followed


def matches(memory: dict[str, Any], query: dict[str, Any]) -> bool:
    return (
        (query.get("archived", False) or not memory.get("archived", False))
        and all(
            memory.get(name) == query[name]
            for name in ("type", "importance", "category")
            if name in query
        )
        and set(query.get("tags", ())) <= set(memory.get("tags", ()))
        and is_found(query.get("search", ""), *list_searched(memory))
    )


def list_searched(memory: dict[str, Any]) -> list[str]:
    """Return the texts of a memory that a search looks into."""
    texts = [memory.get(name, "") for name in ("key", "summary", "content", "category")]
    return [*texts, *memory.get("tags", ())]


def is_found(search: str, *texts: str) -> bool:
    """Return whether each term of a search is in one of a memory's texts."""
    folded = [text.casefold() for text in texts]
    return all(any(term in text for text in folded) for term in split_search(search))


@pytest.mark.requirement("R4.5.4", "R4.5.5")
async def test_a_walk_shares_the_budget_and_its_rest_can_be_fetched(roots: Settings) -> None:
    limit = 40_000
    async with open_calls(roots.model_copy(update={"max_response_bytes": limit})) as call:
        texts = {f"k{n}": f"{n}" + "\x01" * 4_998 for n in range(30)}
        for key, text in texts.items():
            number = int(key[1:])
            links = [{"key": f"k{(number + step) % 30}"} for step in range(1, 21)]
            await call("store_memory", type="core", content=text, key=key, links=links)

        for name, more in (("bulk_read_memory", {}), ("memory_get", {"bulkRead": True})):
            total = "totalLimit" if more else "total"
            answer = await call(name, key="k0", depth=6, breadth=20, **{total: 30}, **more)
            BulkReadMemoryAnswer.model_validate(answer)

            assert len(render(answer).encode()) <= limit
            assert len(list_keys(answer)) == 30

        received = {
            record["key"]: record["data"]["content"]
            for record in list_records(answer)
            if record["success"]
        }

        assert received

        for request in answer["next_requests"]:
            while request:
                reply = await call("memory_read_bulk", **request)
                for record in reply["results"]:
                    if record["success"]:
                        key = record["data"]["key"]
                        received[key] = received.get(key, "") + record["data"]["content"]
                request = reply.get("next_request")

        assert received == texts

        listed = await call("query_memories", limit=30)

        assert len(render(listed).encode()) <= limit
        assert listed["limit"] == len(listed["memories"]) < 30 and listed["has_more"]

        stored = await call("store_memory", type="core", content="\x01" * 5_000, key="k0")

        assert len(render(stored).encode()) <= limit


async def test_the_best_memories_of_a_walk_are_whole_and_the_others_are_left_out(
    roots: Settings,
) -> None:
    """A chain of good links stands behind a poor one; two notes are small."""
    text = "x" * 5_000
    async with open_calls(roots.model_copy(update={"max_response_bytes": 40_000})) as call:
        for n in range(12):
            await call("store_memory", type="core", content=text, key=f"leaf{n}")
        for n in range(2):
            await call("store_memory", type="core", content="small", key=f"small{n}")

        poor = [{"key": f"leaf{n}", "link_weight": 0.3 + n / 100} for n in range(6)]
        good = [{"key": f"leaf{n}", "link_weight": 0.8 + n / 100} for n in range(6, 12)]
        little = [{"key": f"small{n}", "link_weight": 0.1} for n in range(2)]
        await call("store_memory", type="core", content=text, key="hub", links=[*good, *little])
        links = [*poor, {"key": "hub", "link_weight": 0.2}]
        await call("store_memory", type="core", content=text, key="root", links=links)

        answer = await call("bulk_read_memory", key="root", depth=2, breadth=20)

    records = list_records(answer)
    left_out = [record["key"] for record in records if not record["success"]]
    cut = [record["key"] for record in records if "truncation" in record]
    by_score = sorted(
        (record for record in records[1:] if not record["key"].startswith("small")),
        key=lambda record: -record["combinedScore"],
    )

    assert len(render(answer).encode()) <= 40_000
    assert len(records) == 16
    assert records[0]["data"]["content"] == text
    assert [record["key"] for record in by_score[-len(left_out) :]] == sorted(
        left_out, key=[record["key"] for record in by_score].index
    )
    assert cut == [by_score[-len(left_out) - 1]["key"]]
    assert all(
        record["error"]["size_bytes"] == 5_000 for record in records if not record["success"]
    )


@pytest.mark.requirement("R1.7.2")
async def test_toon_and_json_carry_the_same_walk(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        for key, links in (("A", ["B", "C"]), ("B", ["C"]), ("C", [])):
            await abilities.call(
                "store_memory",
                {
                    "type": "core",
                    "content": f'{key}, "quoted"\n- x: 1',
                    "key": key,
                    "links": [{"key": k} for k in links],
                },
            )
        reply = await abilities.reply("bulk_read_memory", {"key": "A", "output_format": "toon"})
        assert (
            loads(reply.text)
            == reply.payload
            == await abilities.call("bulk_read_memory", {"key": "A"})
        )


async def test_toon_keeps_the_bound_too(roots: Settings) -> None:
    async with Abilities.open(roots.model_copy(update={"max_response_bytes": 40_000})) as abilities:
        keys = [f"k{n}" for n in range(50)]
        for number, key in enumerate(keys):
            links = [{"key": keys[(number + step) % 50]} for step in range(1, 21)]
            content = "\n".join(f'- {key}: {n}, "quoted"' for n in range(200))
            await abilities.call(
                "store_memory", {"type": "core", "content": content, "key": key, "links": links}
            )
        for total in (1, 5, 20, 50):
            limits = {"breadth": 20, "depth": 6, "total": total}
            arguments = {"key": "k0", **limits, "output_format": "toon"}
            reply = await abilities.reply("bulk_read_memory", arguments)
            from_python = render(await abilities.call("bulk_read_memory", arguments), "toon")

            assert from_python == reply.text
            assert len(reply.text.encode()) <= 40_000
            assert len(list_records(reply.payload)) == total


async def test_a_memory_in_a_walk_costs_few_characters_beyond_its_content(roots: Settings) -> None:
    async with open_calls(roots) as call:
        keys = [f"{n:02}".ljust(40, "k") for n in range(20)]
        for key in keys:
            links = [{"key": other} for other in keys if other != key]
            await call(
                "store_memory",
                type="core",
                content="x" * 200,
                key=key,
                links=links,
                category="fact",
                tags=["a", "b"],
            )
        answer = await call("bulk_read_memory", key=keys[0], breadth=20)

    answer["metadata"]["frontier"] = []

    assert (len(render(answer)) - 20 * 200) / 20 <= 450


async def test_many_writers_and_readers_at_once(roots: Settings) -> None:
    async with open_calls(roots) as call:
        writes = [
            call("store_memory", type="core", content=f"{n}", key=f"k{n % 50}") for n in range(300)
        ]
        reads = [call("query_memories", limit=5) for _ in range(100)]
        await asyncio.gather(*writes, *reads)

        assert (await call("get_memory_stats"))["total_memories"] == 50


async def test_a_store_path_is_made_with_its_folder(tmp_path: Path) -> None:
    settings = Settings(store_url=f"sqlite:///{tmp_path}/deep/er/memory.db", workspace_dir=tmp_path)
    async with open_calls(settings) as call:
        await call("store_memory", type="core", content="x", key="k")

    assert (tmp_path / "deep" / "er" / "memory.db").stat().st_mode & 0o777 == 0o600


async def test_a_key_alone_names_a_memory(roots: Settings, through: Through) -> None:
    call = through(roots)
    content = "Green tea. " * 400
    await call("store_memory", type="core", key="tea", content=content)

    bulk = await call("memory_read_bulk", targets=[{"key": "tea"}], max_chars_per_item=100)
    named = await call(
        "memory_read_bulk", targets=[{"type": "stored", "key": "tea"}], max_chars_per_item=100
    )
    mixed = await call("read", items=[{"key": "tea"}, {"memory": "tea"}])

    assert bulk["results"][0]["data"] == named["results"][0]["data"]
    assert bulk["next_request"] == named["next_request"]
    first, second = mixed["results"]
    assert first["input"] == '{"key":"tea"}' and first["data"] == second["data"]
    assert first["data"]["content"] == content
