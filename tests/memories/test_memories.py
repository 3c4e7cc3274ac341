"""Stored memories through the public interface.

Rows B and S of the acceptance table, and what each ability promises.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings, render
from abilities.helpers.store import queries
from abilities.helpers.store.query import Matches, Query, split_search
from tests.memories.calls import (
    Payload,
    calls_of,
    find_fault,
    find_reason,
    follow,
    get,
    link_up,
    list_keys,
    list_records,
    open_calls,
    store,
)
from tests.support.file_cases import Row, check_refusal
from tests.support.memory_cases import MEMORY_STORE_ROWS, nest
from tests.support.sample_files import make_roots
from tests.support.stores import tamper
from tests.support.surfaces import SURFACES, Call, CannotCarry, Through, python
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS, gather_in_groups


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a store that no call changes."""
    return make_roots(tmp_path_factory.mktemp("unchanged"))


@pytest.fixture(scope="session")
def refusals() -> dict[str, Payload]:
    """What Python answers to rows, by their ids: asked once, and compared with every surface."""
    return {}


@pytest.mark.requirement(
    "R1.2.2", "R2.2.1", "R2.3.2", "R3.3.2", "R3.4.2", "R3.6.1", "R3.7.1", "R3.7.2", "R4.5.11"
)
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("row", MEMORY_STORE_ROWS, ids=str)
async def test_a_wrong_call_is_refused_alike_on_every_surface(
    row: Row, surface: str, unchanged: Settings, refusals: dict[str, Payload]
) -> None:
    if row.id not in refusals:
        refusals[row.id] = await python(unchanged, row.name, row.arguments)

    expected = refusals[row.id]
    check_refusal(row, expected)
    try:
        assert await SURFACES[surface](unchanged, row.name, row.arguments) == expected
    except CannotCarry:
        assert any(text in ascii(row.arguments) for text in ("\\ud800", "inf", "nan"))


async def test_s1_metadata_is_held_to_a_depth(call: Call) -> None:
    """Over HTTP the bound on a body's depth answers first."""
    for levels in (17, 252):
        fault = await find_fault(
            call, "store_memory", type="core", content="x", metadata=nest(levels)
        )
        assert (fault.reason, fault.field) == ("invalid_format", "metadata")

    stored = await store(call, "a", metadata=nest(16))
    assert stored["memory"]["metadata"] == {"memory_score": 0.6, **nest(16)}


@pytest.mark.requirement("R1.7.1", "R1.8.1", "R2.1.1", "R2.3.1", "R2.5.1", "R4.4.6")
@pytest.mark.parametrize("surface", SURFACES)
async def test_every_surface_answers_the_same_walk_and_memory(
    surface: str, roots: Settings, call: Call
) -> None:
    await link_up(call, A="B C", B="C", C="D")
    walk = await call("bulk_read_memory", key="A", depth=2)
    single = await call("memory_get", key="A")

    async def ask(name: str, **arguments: Any) -> Payload:
        return await SURFACES[surface](roots, name, arguments)

    assert list_keys(walk) == ["A", "B", "C", "D"]
    assert await ask("bulk_read_memory", key="A", depth="2") == walk
    assert await ask("memory_get", key="A", bulkRead=True, depth=2) == walk
    assert await ask("memory_get", key="A") == single

    reply = await ask("memory_read_bulk", targets=[{"type": "stored", "key": key} for key in "AXA"])
    assert [record["success"] for record in reply["results"]] == [True, False, True]


ALL_OTHERS = {key: " ".join([*"ABCDEF".replace(key, ""), key]) for key in "ABCDEF"}


@pytest.mark.requirement("R1.5.1", "R1.8.1", "R2.4.1", "R4.2.4", "R4.4.4", "R4.5.7")
@pytest.mark.parametrize(
    ("edges", "depth", "skipped"),
    [
        pytest.param({"A": "B C", "B": "C", "C": "D"}, 2, 1, id="diamond 2"),
        pytest.param({"A": "B C", "B": "C", "C": "D"}, 3, 1, id="diamond 3"),
        pytest.param(ALL_OTHERS, 3, 25, id="complete graph with links to itself"),
    ],
)
async def test_b4_a_walk_returns_each_memory_once_loses_none_and_ends(
    edges: dict[str, str], depth: int, skipped: int, roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, **edges)

    answer = await call("bulk_read_memory", key="A", depth=depth)

    keys = sorted({*edges, *"".join(edges.values()).replace(" ", "")})
    metadata = answer["metadata"]
    assert sorted(list_keys(answer)) == keys
    assert (metadata["duplicatesSkipped"], metadata["limitsReached"]) == (skipped, [])
    assert metadata["totalRetrieved"] == len(keys)


async def test_b5_missing_and_archived_memories_are_skipped_and_counted(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, A="B C D")
    await call("delete_memory", key="B")
    await call("delete_memory", key="C", permanent=True)

    answer = await call("bulk_read_memory", key="A")

    assert list_keys(answer) == ["A", "D"]
    assert answer["metadata"]["missingLinks"] == 2
    assert (await get(call, "B"))["archived"], "direct reads succeed"
    assert await find_reason(call, "memory_get", key="C") == "not_found"

    await store(call, "C", "again")
    again = list_keys(await call("bulk_read_memory", key="A"))
    assert again == ["A", "C", "D"], "the link waited for it"


DAMAGE = {
    "score": (
        "UPDATE memories SET score = {0}, hash = rehash(namespace, key, id, archived, {0}, scored,"
        " type, importance, category, created_at, updated_at, tags, summary, metadata, content,"
        " version) WHERE key = 'B'"
    ),
    "weight": (
        "UPDATE links SET weight = {0}, hash = link_hash(source, target, type, {0}, term, rank,"
        " back_rank) WHERE target = 'B'"
    ),
}
"""Values that cannot be, with hashes that fit them."""


@pytest.mark.parametrize("value", ["9e999", "-1.0", "2.5"])
@pytest.mark.parametrize("damaged", DAMAGE)
async def test_b6_an_impossible_score_or_weight_is_skipped_by_walks_and_counted(
    damaged: str, value: str, roots: Settings, through: Through
) -> None:
    call = through(roots)
    await link_up(call, A="B C")
    tamper(roots, DAMAGE[damaged].format(value))

    if damaged == "score":
        reason = await find_reason(call, "bulk_read_memory", key="B")
        assert reason == "invalid_stored_value"

    answer = await call("bulk_read_memory", key="A")
    assert list_keys(answer) == ["A", "C"]
    assert answer["metadata"]["invalidLinks"] == 1


async def test_b7_equal_weights_give_the_same_bytes_every_time(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    for key in "CABD":
        links = [{"key": other} for other in random.Random(key).sample("ABCD", 4)]
        await store(call, key, links=links)

    answers = {render(await call("bulk_read_memory", key="A")) for _ in range(3)}

    assert len(answers) == 1, "reading left no trace"


HUB_LINKS = size("ABILITIES_HUB_LINKS", quick=3_000, full=100_000)
LAST_HUB_LINK = f"k{HUB_LINKS // 1000 - 1}-0"
CHAIN_LENGTH = size("ABILITIES_CHAIN_LENGTH", quick=50, full=5_000)


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a store that holds a memory with many links, and a long chain of memories."""
    settings = make_roots(tmp_path_factory.mktemp("large"))

    async def fill() -> None:
        async with open_calls(settings) as call:
            for page in range(HUB_LINKS // 1000):
                links = [{"key": f"k{page}-{n}", "link_weight": n / 1000} for n in range(1000)]
                await store(call, "hub", links=links)

            await store(call, LAST_HUB_LINK)
            await gather_in_groups(
                store(call, f"c{n}", links=[{"key": f"c{n + 1}"}]) for n in range(CHAIN_LENGTH)
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

    shown = await get(call, "hub", links_offset=HUB_LINKS - 10)
    assert (shown["links_total"], len(shown["links"])) == (HUB_LINKS, 10)

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

    for name in ("bulk_read_memory", "memory_get"):
        assert await find_reason(call, name, key="B") == "checksum_mismatch"

    answer = await call("bulk_read_memory", key="A")
    read = await call("memory_read_bulk", targets=[{"type": "stored", "key": k} for k in "ABC"])
    listed = await call("query_memories")

    assert (len(listed["memories"]), listed["failed"]) == (2, 1)
    assert (listed["total"], listed["limit"]) == (3, 10)
    assert answer["metadata"]["failed"] == 1
    for records in (list_records(answer), read["results"]):
        assert [record["success"] for record in records] == [True, False, True]


@pytest.mark.requirement("R3.2.2", "R3.2.3")
async def test_s4_nothing_searched_for_is_no_filter(call: Call) -> None:
    tags = [f"t{n}" for n in range(10)]
    await store(call, "one", tags=tags)
    await store(call, "two", tags=tags[:9])
    every = await call("query_memories")

    for search in ("", " ", "   "):
        assert await call("query_memories", search=search) == every

    for given, total in (
        (["t1"], 2),
        (tags, 1),
        ([*tags, *tags], 1),
        ([*tags, "t10"], 0),  # no memory has so many tags
        ([f"t{n}" for n in range(100)], 0),
    ):
        assert (await call("query_memories", search=" ", tags=given))["total"] == total


SEARCHES = (
    *("100%", "'; DROP TABLE memories", '"quoted"', "NEAR(x y)", "GRÖẞE", "a AND b", "star*"),
    *("under_score", "col:on", "-minus", "日本", "本", "größe", "ﬁne", "İstanbul", "🙂", "a", "\t"),
)


@pytest.mark.requirement("R3.2.3")
async def test_s4_search_is_literal_in_any_language(
    roots: Settings, call: Call, through: Through
) -> None:
    contents = {text.strip() or "tab": f"before {text} after 日本語" for text in SEARCHES}
    await store(call, "miss", "xyz")
    for key, content in contents.items():
        await store(call, key, content)

    async def check_search(call: Call, search: str) -> None:
        hits = [key for key, content in contents.items() if is_found(search, content, key)]
        page = await call("query_memories", search=search, limit=50)

        assert sorted(memory["key"] for memory in page["memories"]) == sorted(hits)
        assert page["total"] == len(hits)

    for search in (*SEARCHES, *(text.swapcase() for text in SEARCHES)):
        await check_search(call, search)
    for search in SEARCHES[:5]:
        await check_search(through(roots), search)


@pytest.mark.requirement("R3.7.6")
async def test_s6_a_quota_refuses_new_memories_and_nothing_else(
    roots: Settings, through: Through
) -> None:
    call = through(roots.model_copy(update={"max_memories": 2}))
    for key in "AB":
        await store(call, key)

    new = {"type": "core", "content": "C", "key": "C"}
    assert await find_reason(call, "store_memory", **new) == "storage_quota"
    assert not (await store(call, "A", "A again"))["created"]
    assert (await call("get_memory_stats"))["total_memories"] == 2


async def test_s14_an_id_and_a_key_of_different_memories(roots: Settings, through: Through) -> None:
    call = through(roots)
    a, _ = [await store(call, key, key) for key in "AB"]

    both = {"type": "core", "content": "x", "key": "B", "id": a["id"]}
    assert await find_reason(call, "store_memory", **both) == "key_taken"
    assert (await get(call, "B"))["content"] == "B"


@pytest.mark.requirement("R3.1.1", "R3.3.1", "R3.3.8", "R4.1.1")
async def test_storing_merges_and_updating_says_what_changed(call: Call) -> None:
    metadata = {"source": "chat", "n": [1, {"deep": None}]}
    fields: Payload = {"category": "fact", "summary": "short", "importance": "high"}
    fields |= {"tags": ["a", "b", "a"], "links": [{"key": "x", "link_weight": 0.9}]}
    first = await store(call, "k", "one", metadata=metadata, **fields)
    memory = first["memory"]

    assert first["created"] and memory["tags"] == ["a", "b"]
    assert memory["metadata"] == {"memory_score": 0.9, **metadata}

    second = await store(call, "k", "two", links=[{"key": "y"}])

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

    same = await store(call, "k", "two", links=[{"key": "y"}])

    assert same["memory"] == second["memory"], "repeating a request leaves the same state"
    assert "replaced" not in same

    changes: Payload = {"category": "", "importance": "low", "memory_score": 0.25}
    changes |= {"content": "two", "remove_links": [{"key": "x"}]}
    changed = await call("update_memory", id=first["id"], **changes)

    fields_changed = ["category", "importance", "links", "memory_score"]
    assert sorted(changed["updated_fields"]) == fields_changed
    assert "category" not in changed["memory"]
    assert changed["memory"]["metadata"]["memory_score"] == 0.25
    assert changed["memory"]["links"] == [{"key": "y", "link_weight": 0.5}]

    kept, nothing = [
        await call("update_memory", id=first["id"], importance="high") for _ in range(2)
    ]

    assert kept["memory"]["metadata"]["memory_score"] == 0.25, "it was set: it follows no longer"
    assert nothing["updated_fields"] == []


@pytest.mark.requirement("R1.4.1", "R4.4.2", "R4.5.3", "R4.7.1", "R4.7.3")
async def test_a_score_follows_importance_and_ranks_links_to_it(call: Call) -> None:
    await link_up(call, A="B C")

    for change, keys in (
        ({}, ["A", "B", "C"]),
        ({"importance": "high"}, ["A", "C", "B"]),
        ({"memory_score": 0.0}, ["A", "B", "C"]),
    ):
        await call("update_memory", key="C", **change)
        assert list_keys(await call("bulk_read_memory", key="A")) == keys


@pytest.mark.parametrize("zero", [-0.0, "-0", "-0.0"])
async def test_a_negative_zero_is_stored_as_zero(zero: Any, call: Call) -> None:
    await store(call, "a", memory_score=zero)
    await store(call, "b", metadata={"memory_score": zero})
    await store(call, "c", links=[{"key": "a", "link_weight": zero}])

    scores = [(await get(call, key))["metadata"]["memory_score"] for key in "ab"]
    (link,) = (await get(call, "c"))["links"]
    assert [str(value) for value in (*scores, link["link_weight"])] == ["0.0"] * 3


async def test_a_memory_is_named_by_its_key_or_its_id_and_a_key_beside_an_id_renames(
    call: Call,
) -> None:
    memory_id = (await store(call, "old"))["id"]
    await store(call, "other")

    renamed = await call("update_memory", id=memory_id, key="new")
    updated = await call("update_memory", key="new", content="y")

    assert (renamed["memory"]["key"], renamed["updated_fields"]) == ("new", ["key"])
    assert (updated["memory"]["id"], updated["updated_fields"]) == (memory_id, ["content"])
    both = {"id": memory_id, "key": "other"}
    for name in ("update_memory", "delete_memory"):
        assert await find_reason(call, name, **both) == "key_taken"

    archived = await call("delete_memory", id=memory_id, key="new")
    deleted = await call("delete_memory", key="new", permanent=True)
    assert archived == {"success": True, "action": "archived", "id": memory_id}
    assert deleted == {"success": True, "action": "deleted", "id": memory_id}


@pytest.mark.parametrize("name", ["update_memory", "delete_memory", "memory_history"])
async def test_who_names_no_memory_is_told_what_names_one(name: str, call: Call) -> None:
    fault = await find_fault(call, name)

    assert (fault.reason, fault.field) == ("missing_argument", "key")
    assert fault.expected == {"one_of": ["key", "id"]}


@pytest.mark.requirement("R3.5.8")
async def test_only_memory_get_counts_an_access_and_never_in_its_own_answer(call: Call) -> None:
    await link_up(call, A="B")
    first, second = [render(await call("memory_get", key="A")) for _ in range(2)]

    assert first == second and "access" not in first

    await call("bulk_read_memory", key="A")
    await call("memory_read_bulk", targets=[{"type": "stored", "key": "A"}])
    async with asyncio.timeout(GIVE_UP_SECONDS):  # accesses are written a little later
        while True:
            (memory,) = (await call("query_memories", sort_by="access_count", limit=1))["memories"]
            if memory["access_count"]:
                break

            await asyncio.sleep(POLL_SECONDS)

    assert (memory["key"], memory["access_count"]) == ("A", 2)
    assert (await call("get_memory_stats"))["most_accessed"]["key"] == "A"


@pytest.mark.requirement("R3.5.2", "R3.5.7", "R3.5.8")
async def test_an_empty_store_has_zeros_and_no_dates(call: Call) -> None:
    assert (await call("query_memories"))["memories"] == []
    assert await call("get_memory_stats") == {
        "total_memories": 0,
        "by_type": {"core": 0, "learning": 0, "task": 0},
        "by_importance": {"high": 0, "medium": 0, "low": 0},
        "archived_count": 0,
        "total_storage_kb": 0.0,
        "top_tags": [],
    }


async def test_namespaces_never_see_each_other(app: Abilities, call: Call) -> None:
    other = calls_of(app.for_namespace("other"))
    memory_id = (await store(call, "k", "mine", tags=["t"]))["id"]

    assert (await other("query_memories", archived=True))["total"] == 0
    for name, arguments in (
        ("memory_get", {"key": "k"}),
        ("bulk_read_memory", {"key": "k"}),
        ("update_memory", {"id": memory_id, "content": "stolen"}),
        ("delete_memory", {"id": memory_id, "permanent": True}),
    ):
        assert await find_reason(other, name, **arguments) == "not_found"

    await store(other, "k", "theirs")

    assert (await get(call, "k"))["content"] == "mine"
    assert (await other("query_memories", search="mine"))["total"] == 0


WORDS = (
    *("WORD1", "number 7", "d", "r 1", "4 ", "世", "世界", "zz", "q", "界x", "ß", "SS"),
    *("number word1", '"number 7"', "界 t1", "c1 ße 4", "7 d"),
)
QUERIES: list[Payload] = [
    {},
    {"type": "core"},
    {"importance": "high"},
    {"category": "c1"},
    {"tags": ["t1"]},
    {"tags": ["t1", "t2"]},
    *({"search": text} for text in WORDS),
    *({"search": text, "archived": True} for text in ("word", "number 1", "e", "rd", "世界")),
    *({"type": "task", "tags": ["t0"], "search": text} for text in ("word", "9", "num")),
    {"category": "c2", "search": "世界"},
    {"tags": ["rare"], "search": "word"},
    {"archived": True},
    {"archived": True, "tags": ["t2"]},
    {"type": "learning", "importance": "low", "archived": True},
]


@pytest.fixture(scope="module")
def mixed_store(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a store whose memories are of all kinds; some are archived, some were read."""
    settings = make_roots(tmp_path_factory.mktemp("mixed"))
    chance = random.Random(1)

    async def fill() -> None:
        async with open_calls(settings) as call:
            for n in range(60):
                await store(
                    call,
                    f"k{n}",
                    f"word{n % 4} number {n}" + " Straße 世界" * (n % 3 == 0) + "世" * (n % 7 == 0),
                    type=chance.choice(["core", "learning", "task"]),
                    category=f"c{n % 3}",
                    tags=chance.sample(["t0", "t1", "t2"], 2) + ["rare"] * (n % 5 == 0),
                    importance=chance.choice(["high", "medium", "low"]),
                )

            archived, read = (chance.sample(range(60), count) for count in (16, 12))
            for n in archived:
                await call("delete_memory", key=f"k{n}")
            for n in archived[12:]:
                await call("update_memory", key=f"k{n}", archived=False)
            for n in read:
                await call("memory_get", key=f"k{n}")

    asyncio.run(fill())
    return settings


@pytest.mark.requirement(
    "R3.2.1", "R3.2.2", "R3.2.3", "R3.2.4", "R3.2.5", "R3.2.6", "R3.2.9", "R3.2.10", "R3.2.11"
)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "sort_by", ["created_at", "updated_at", "accessed_at", "importance", "access_count"]
)
@pytest.mark.parametrize("small", [10, 1_000])
async def test_queries_agree_with_a_plain_list(
    small: int, sort_by: str, mixed_store: Settings, monkeypatch: pytest.MonkeyPatch
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

    async with open_calls(mixed_store) as call:
        every = (await call("query_memories", limit=100, archived=True))["memories"]
        for query in QUERIES:
            for order in ("asc", "desc"):
                asked = {**query, "sort_by": sort_by, "sort_order": order}
                await check_query(call, every, asked, chance)

    by_scan = {"", "scan in order"}
    assert strategies == (by_scan | {"search first"} if small == 10 else by_scan)


async def check_query(
    call: Call, every: list[Payload], query: Payload, chance: random.Random
) -> None:
    """Check that a query's page holds what filtering and sorting a list in Python gives."""
    by = query["sort_by"]
    rank = {"low": 0, "medium": 1, "high": 2}
    matching = sorted(
        (memory for memory in every if matches(memory, query)),
        key=lambda memory: (rank[memory[by]] if by == "importance" else memory[by], memory["id"]),
        reverse=query["sort_order"] == "desc",
    )
    ids = [memory["id"] for memory in matching]
    limit, offset = chance.randint(8, 30), chance.randint(0, 30)
    end = offset + limit

    page = await call("query_memories", **query, limit=limit, offset=offset)

    assert [memory["id"] for memory in page["memories"]] == ids[offset:end], query
    assert (page["total"], page["has_more"]) == (len(ids), end < len(ids)), query
    assert page["has_more"] == ("next_request" in page)

    rest = await follow(call, "query_memories", page.get("next_request", {}), "memories")
    assert [memory["id"] for memory in rest] == ids[end:], query


def matches(memory: Payload, query: Payload) -> bool:
    """Return whether a memory is what a query asks for."""
    texts = [memory.get(name, "") for name in ("key", "summary", "content", "category")]
    tags = memory.get("tags", [])

    return (
        (query.get("archived", False) or not memory.get("archived", False))
        and all(
            memory.get(name) == query[name]
            for name in ("type", "importance", "category")
            if name in query
        )
        and set(query.get("tags", ())) <= set(tags)
        and is_found(query.get("search", ""), *texts, *tags)
    )


def is_found(search: str, *texts: str) -> bool:
    """Return whether each term of a search is in one of a memory's texts."""
    folded = [text.casefold() for text in texts]
    return all(any(term in text for text in folded) for term in split_search(search))


@pytest.mark.requirement("R4.5.4", "R4.5.5")
async def test_a_walk_shares_the_budget_and_its_rest_can_be_fetched(roots: Settings) -> None:
    limit = 40_000
    texts = {f"k{n}": f"{n}" + "\x01" * 4_998 for n in range(30)}
    async with open_calls(roots.model_copy(update={"max_response_bytes": limit})) as call:
        for n, (key, text) in enumerate(texts.items()):
            links = [{"key": f"k{(n + step) % 30}"} for step in range(1, 21)]
            await store(call, key, text, links=links)

        walk = {"key": "k0", "depth": 6, "breadth": 20}
        answer = await call("bulk_read_memory", **walk, total=30)
        assert await call("memory_get", **walk, bulkRead=True, totalLimit=30) == answer
        assert len(render(answer).encode()) <= limit
        assert len(list_keys(answer)) == 30

        ends = (await call("bulk_read_memory", key="k0", total=5))["metadata"]
        assert (len(ends["frontier"]), ends["frontier_more"]) == (10, True)

        records = [record for record in list_records(answer) if record["success"]]
        received = {record["key"]: record["data"]["content"] for record in records}
        assert received

        for request in answer["next_requests"]:
            for record in await follow(call, "memory_read_bulk", request, "results"):
                if record["success"]:
                    key = record["data"]["key"]
                    received[key] = received.get(key, "") + record["data"]["content"]

        assert received == texts

        stored = await store(call, "k0", "\x01" * 5_000)
        assert len(render(stored).encode()) <= limit


async def test_the_best_memories_of_a_walk_are_whole_and_the_others_are_left_out(
    roots: Settings,
) -> None:
    """A chain of good links stands behind a poor one; two notes are small."""
    text = "x" * 5_000
    leaves = [{"key": f"leaf{n}", "link_weight": 0.3 + n / 100} for n in range(6)]
    leaves += [{"key": f"leaf{n}", "link_weight": 0.8 + n / 100} for n in range(6, 12)]
    small = [{"key": f"small{n}", "link_weight": 0.1} for n in range(2)]

    async with open_calls(roots.model_copy(update={"max_response_bytes": 40_000})) as call:
        for link in (*leaves, *small):
            key = str(link["key"])
            await store(call, key, "small" if link in small else text)

        await store(call, "hub", text, links=[*leaves[6:], *small])
        await store(call, "root", text, links=[*leaves[:6], {"key": "hub", "link_weight": 0.2}])
        answer = await call("bulk_read_memory", key="root", depth=2, breadth=20)

    target, *others = list_records(answer)
    best_first = sorted(others, key=lambda record: -record["combinedScore"])
    large = [record for record in best_first if not record["key"].startswith("small")]
    whole = [record["success"] and "truncation" not in record for record in large]

    assert len(render(answer).encode()) <= 40_000
    assert len(others) == 15
    assert target["data"]["content"] == text
    assert 0 < sum(whole) < 12 and whole == sorted(whole, reverse=True)
    assert "truncation" in large[sum(whole)]
    assert all(record["success"] for record in others if record not in large)
    for record in large[sum(whole) + 1 :]:
        assert record["error"]["size_bytes"] == 5_000


async def test_a_store_path_is_made_with_its_folder(tmp_path: Path) -> None:
    settings = Settings(store_url=f"sqlite:///{tmp_path}/deep/er/memory.db", workspace_dir=tmp_path)
    async with open_calls(settings) as call:
        await store(call, "k")

    assert (tmp_path / "deep" / "er" / "memory.db").stat().st_mode & 0o777 == 0o600


async def test_a_key_alone_names_a_memory(roots: Settings, through: Through) -> None:
    call = through(roots)
    content = "Green tea. " * 400
    await store(call, "tea", content)

    bulk, named = [
        await call("memory_read_bulk", targets=[target], max_chars_per_item=100)
        for target in ({"key": "tea"}, {"type": "stored", "key": "tea"})
    ]
    mixed = await call("read", items=[{"key": "tea"}, {"memory": "tea"}])

    assert bulk["results"][0]["data"] == named["results"][0]["data"]
    assert bulk["next_request"] == named["next_request"]
    first, second = mixed["results"]
    assert first["input"] == '{"key":"tea"}' and first["data"] == second["data"]
    assert first["data"]["content"] == content
