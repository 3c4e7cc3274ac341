"""Stored memories through the public interface.

Rows B and S of the acceptance table, and what each ability promises.
"""

import asyncio
import random
from pathlib import Path

import pytest

from abilities import Settings, render
from abilities.helpers.store.model import split_search
from tests.memories import calls
from tests.support.file_cases import Row, check_refusal
from tests.support.memory_cases import MEMORY_STORE_ROWS
from tests.support.sample_files import make_roots
from tests.support.stores import tamper
from tests.support.surfaces import SURFACES, Call, CannotCarry, Through, python
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a store that no call changes."""
    return make_roots(tmp_path_factory.mktemp("unchanged"))


@pytest.fixture(scope="session")
def refusals() -> dict[str, calls.Payload]:
    """What Python answers to rows, by their ids: asked once, and compared with every surface."""
    return {}


@pytest.mark.requirement(
    "R1.2.2", "R2.2.1", "R2.3.2", "R3.3.2", "R3.4.2", "R3.6.1", "R3.7.1", "R3.7.2", "R4.5.11"
)
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("row", MEMORY_STORE_ROWS, ids=str)
async def test_a_wrong_call_is_refused_alike_on_every_surface(
    row: Row, surface: str, unchanged: Settings, refusals: dict[str, calls.Payload]
) -> None:
    if row.id not in refusals:
        refusals[row.id] = await python(unchanged, row.name, row.arguments)

    expected = refusals[row.id]
    check_refusal(row, expected)
    try:
        assert await SURFACES[surface](unchanged, row.name, row.arguments) == expected
    except CannotCarry:
        assert any(text in ascii(row.arguments) for text in ("\\ud800", "inf", "nan"))


@pytest.mark.requirement("R1.7.1", "R1.8.1", "R2.1.1", "R2.3.1", "R2.5.1", "R4.4.6")
async def test_every_surface_answers_the_same_walk_and_memory(
    roots: Settings, call: Call, through: Through
) -> None:
    await calls.link_up(call, A="B C", B="C", C="D")
    ask = through(roots)
    walk = await ask("bulk_read_memory", key="A", depth=2)

    assert calls.list_keys(walk) == ["A", "B", "C", "D"]
    assert await ask("bulk_read_memory", key="A", depth="2") == walk
    assert await ask("memory_get", key="A", bulkRead=True, depth=2) == walk
    assert (await calls.get(ask, "A"))["content"] == "content of A"

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
    await calls.link_up(call, **edges)

    answer = await call("bulk_read_memory", key="A", depth=depth)

    keys = sorted({*edges, *"".join(edges.values()).replace(" ", "")})
    metadata = answer["metadata"]
    assert sorted(calls.list_keys(answer)) == keys
    assert (metadata["duplicatesSkipped"], metadata["limitsReached"]) == (skipped, [])
    assert metadata["totalRetrieved"] == len(keys)


async def test_b5_missing_and_archived_memories_are_skipped_and_counted(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    await calls.link_up(call, A="B C D")
    await call("delete_memory", key="B")
    await call("delete_memory", key="C", permanent=True)

    answer = await call("bulk_read_memory", key="A")

    assert calls.list_keys(answer) == ["A", "D"]
    assert answer["metadata"]["missingLinks"] == 2
    assert (await calls.get(call, "B"))["archived"], "direct reads succeed"
    assert await calls.find_reason(call, "memory_get", key="C") == "not_found"

    await calls.store(call, "C", "again")
    again = calls.list_keys(await call("bulk_read_memory", key="A"))
    assert again == ["A", "C", "D"], "the link waited for it"


async def test_b7_equal_weights_give_the_same_bytes_every_time(
    roots: Settings, through: Through
) -> None:
    call = through(roots)
    for key in "CABD":
        links = [{"key": other} for other in random.Random(key).sample("ABCD", 4)]
        await calls.store(call, key, links=links)

    answers = {render(await call("bulk_read_memory", key="A")) for _ in range(3)}

    assert len(answers) == 1, "reading left no trace"


async def test_s14_an_id_and_a_key_of_different_memories(roots: Settings, through: Through) -> None:
    call = through(roots)
    a, _ = [await calls.store(call, key, key) for key in "AB"]

    both = {"type": "core", "content": "x", "key": "B", "id": a["id"]}
    assert await calls.find_reason(call, "store_memory", **both) == "key_taken"
    assert (await calls.get(call, "B"))["content"] == "B"


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
    await calls.link_up(call, A="B C")
    tamper(roots, DAMAGE[damaged].format(value))

    if damaged == "score":
        reason = await calls.find_reason(call, "bulk_read_memory", key="B")
        assert reason == "invalid_stored_value"

    answer = await call("bulk_read_memory", key="A")
    assert calls.list_keys(answer) == ["A", "C"]
    assert answer["metadata"]["invalidLinks"] == 1


HUB_LINKS = size("ABILITIES_HUB_LINKS", quick=3_000, full=100_000)
LAST_HUB_LINK = f"k{HUB_LINKS // 1000 - 1}-0"
CHAIN_LENGTH = size("ABILITIES_CHAIN_LENGTH", quick=50, full=5_000)


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of a store that holds a memory with many links, and a long chain of memories."""
    settings = make_roots(tmp_path_factory.mktemp("large"))

    async def fill() -> None:
        async with calls.open_calls(settings) as call:
            for page in range(HUB_LINKS // 1000):
                links = [{"key": f"k{page}-{n}", "link_weight": n / 1000} for n in range(1000)]
                await calls.store(call, "hub", links=links)

            await calls.store(call, LAST_HUB_LINK)
            memory = {"op": "store", "type": "core", "content": "x"}
            for start in range(0, CHAIN_LENGTH, 50):
                chain = [
                    {**memory, "key": f"c{n}", "links": [{"key": f"c{n + 1}"}]}
                    for n in range(start, start + 50)
                ]
                await call("remember", operations=chain)

    asyncio.run(fill())
    return settings


@pytest.mark.requirement("R4.5.1", "R4.5.4", "R4.5.10")
async def test_b8_a_hub_and_a_chain_are_read_within_the_limits(
    large_store: Settings, through: Through
) -> None:
    call = through(large_store)
    answer = await call("bulk_read_memory", key="hub", depth=6, breadth=20, total=50)

    assert calls.list_keys(answer) == ["hub", LAST_HUB_LINK]
    assert answer["metadata"]["missingLinks"] == 1000, "of any number, the bound is counted"

    shown = await calls.get(call, "hub", links_offset=HUB_LINKS - 10)
    assert (shown["links_total"], len(shown["links"])) == (HUB_LINKS, 10)

    chain = await call("bulk_read_memory", key="c0", depth=6, total=50)
    assert calls.list_keys(chain) == [f"c{n}" for n in range(7)]
    assert chain["metadata"]["limitsReached"] == ["depth"]


@pytest.mark.requirement("R3.7.5")
@pytest.mark.parametrize(
    "column", ["content = 'changed'", "key = key, tags = '[\"x\"]'", "archived = 0, type = 'task'"]
)
async def test_b9_a_row_that_is_not_as_it_was_written(
    column: str, roots: Settings, through: Through
) -> None:
    call = through(roots)
    await calls.link_up(call, A="B C")
    tamper(roots, f"UPDATE memories SET {column} WHERE key = 'B'")

    for name in ("bulk_read_memory", "memory_get"):
        assert await calls.find_reason(call, name, key="B") == "checksum_mismatch"

    answer = await call("bulk_read_memory", key="A")
    read = await call("memory_read_bulk", targets=[{"type": "stored", "key": k} for k in "ABC"])
    listed = await call("query_memories")

    assert (len(listed["memories"]), listed["failed"]) == (2, 1)
    assert (listed["total"], listed["limit"]) == (3, 10)
    assert answer["metadata"]["failed"] == 1
    for records in (calls.list_records(answer), read["results"]):
        assert [record["success"] for record in records] == [True, False, True]


@pytest.mark.requirement("R3.2.2", "R3.2.3")
async def test_s4_nothing_searched_for_is_no_filter(call: Call) -> None:
    tags = [f"t{n}" for n in range(10)]
    await calls.store(call, "one", tags=tags)
    await calls.store(call, "two", tags=tags[:9])
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
    await calls.store(call, "miss", "xyz")
    for key, content in contents.items():
        await calls.store(call, key, content)

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
        await calls.store(call, key)

    new = {"type": "core", "content": "C", "key": "C"}
    assert await calls.find_reason(call, "store_memory", **new) == "storage_quota"
    assert not (await calls.store(call, "A", "A again"))["created"]
    assert (await call("get_memory_stats"))["total_memories"] == 2


@pytest.mark.requirement("R1.4.1", "R3.3.1", "R4.1.1", "R4.4.2", "R4.5.3", "R4.7.1", "R4.7.3")
async def test_a_score_follows_importance_and_ranks_links_to_it(call: Call) -> None:
    await calls.link_up(call, A="B C")

    for change, keys in (
        ({}, ["A", "B", "C"]),
        ({"importance": "high"}, ["A", "C", "B"]),
        ({"memory_score": "0.0"}, ["A", "B", "C"]),
    ):
        await call("update_memory", key="C", **change)
        assert calls.list_keys(await call("bulk_read_memory", key="A")) == keys


@pytest.mark.parametrize("name", ["update_memory", "delete_memory", "memory_history"])
async def test_who_names_no_memory_is_told_what_names_one(name: str, call: Call) -> None:
    fault = await calls.find_fault(call, name)

    assert (fault.reason, fault.field) == ("missing_argument", "key")
    assert fault.expected == {"one_of": ["key", "id"]}


@pytest.mark.requirement("R3.5.8")
async def test_only_memory_get_counts_an_access_and_never_in_its_own_answer(call: Call) -> None:
    await calls.link_up(call, A="B")
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


def is_found(search: str, *texts: str) -> bool:
    """Return whether each term of a search is in one of a memory's texts."""
    folded = [text.casefold() for text in texts]
    return all(any(term in text for text in folded) for term in split_search(search))


@pytest.mark.requirement("R4.5.4", "R4.5.5")
async def test_a_walk_shares_the_budget_and_its_rest_can_be_fetched(roots: Settings) -> None:
    limit = 40_000
    texts = {f"k{n}": f"{n}" + "\x01" * 4_998 for n in range(30)}
    async with calls.open_calls(roots.model_copy(update={"max_response_bytes": limit})) as call:
        for n, (key, text) in enumerate(texts.items()):
            links = [{"key": f"k{(n + step) % 30}"} for step in range(1, 21)]
            await calls.store(call, key, text, links=links)

        walk = {"key": "k0", "depth": 6, "breadth": 20}
        answer = await call("bulk_read_memory", **walk, total=30)
        assert await call("memory_get", **walk, bulkRead=True, totalLimit=30) == answer
        assert len(render(answer).encode()) <= limit
        assert len(calls.list_keys(answer)) == 30

        ends = (await call("bulk_read_memory", key="k0", total=5))["metadata"]
        assert (len(ends["frontier"]), ends["frontier_more"]) == (10, True)

        records = [record for record in calls.list_records(answer) if record["success"]]
        received = {record["key"]: record["data"]["content"] for record in records}
        assert received

        for request in answer["next_requests"]:
            for record in await calls.follow(call, "memory_read_bulk", request, "results"):
                if record["success"]:
                    key = record["data"]["key"]
                    received[key] = received.get(key, "") + record["data"]["content"]

        assert received == texts

        stored = await calls.store(call, "k0", "\x01" * 5_000)
        assert len(render(stored).encode()) <= limit


async def test_the_best_memories_of_a_walk_are_whole_and_the_others_are_left_out(
    roots: Settings,
) -> None:
    """A chain of good links stands behind a poor one; two notes are small."""
    text = "x" * 5_000
    leaves = [{"key": f"leaf{n}", "link_weight": 0.3 + n / 100} for n in range(6)]
    leaves += [{"key": f"leaf{n}", "link_weight": 0.8 + n / 100} for n in range(6, 12)]
    small = [{"key": f"small{n}", "link_weight": 0.1} for n in range(2)]

    async with calls.open_calls(roots.model_copy(update={"max_response_bytes": 40_000})) as call:
        for link in (*leaves, *small):
            key = str(link["key"])
            await calls.store(call, key, "small" if link in small else text)

        await calls.store(call, "hub", text, links=[*leaves[6:], *small])
        await calls.store(
            call, "root", text, links=[*leaves[:6], {"key": "hub", "link_weight": 0.2}]
        )
        answer = await call("bulk_read_memory", key="root", depth=2, breadth=20)

    target, *others = calls.list_records(answer)
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
    async with calls.open_calls(settings) as call:
        await calls.store(call, "k")

    assert (tmp_path / "deep" / "er" / "memory.db").stat().st_mode & 0o777 == 0o600


async def test_a_key_alone_names_a_memory(roots: Settings, through: Through) -> None:
    call = through(roots)
    content = "Green tea. " * 400
    await calls.store(call, "tea", content)

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
