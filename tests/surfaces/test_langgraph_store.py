"""LangGraph's store over memories: its operations, names, limits and errors."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.store import base
from langgraph.store.memory import InMemoryStore

from abilities import Abilities, AbilityError, Settings
from abilities.adapters.langgraph_store import AbilitiesStore
from abilities.adapters.langgraph_store.items import ItemName, find_tag, parse_memory_key
from abilities.declarations.limits import MAX_LONG_CONTENT_CHARS
from abilities.declarations.memory import is_key
from abilities.helpers.store.sqlite.store import SqliteEngine
from tests.support import postgres
from tests.support.postgres import count_trips
from tests.support.surfaces import with_changes
from tests.support.tier import size

LONG = {"text": "tea is hot " * 2_000, "end": True}
"""A value that takes several memories."""


@pytest.fixture
def store(abilities: Abilities) -> AbilitiesStore:
    return AbilitiesStore(abilities)


labels = st.text(min_size=1, max_size=40).filter(lambda label: "." not in label)
names = st.builds(ItemName, st.lists(labels, min_size=1, max_size=12).map(tuple), st.text())


@given(names)
@hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=40, full=1_000))
def test_every_name_has_a_key_that_tells_it_unless_it_is_long(name: ItemName) -> None:
    assert is_key(name.memory_key)
    assert len(name.memory_key) <= 190
    assert len(name.tags) <= 10 and all(1 <= len(tag) <= 30 for tag in name.tags)
    assert name.tags[-1] == find_tag(name.namespace)

    told = parse_memory_key(name.memory_key)
    assert told == (None if name.is_shortened else name)


KEYS = {
    "langgraph/users/ada//tea": ItemName(("users", "ada"), "tea"),
    "langgraph/a%2Fb/c%23d//e%7Ef": ItemName(("a/b", "c#d"), "e~f"),
    "langgraph/用户//%20x%20": ItemName(("用户",), " x "),
    "langgraph/a//": ItemName(("a",), ""),
}


def test_a_key_can_be_read_unless_it_is_of_another_memory() -> None:
    for key, name in KEYS.items():
        assert (parse_memory_key(key), name.memory_key) == (name, key)
    for key in ("notes", "langgraph", "langgraph/a", "langgraph/a//b#2", "langgraph/%FF//b"):
        assert parse_memory_key(key) is None


async def test_an_item_has_its_times_and_every_put_can_be_undone(
    store: AbilitiesStore, abilities: Abilities
) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    await store.aput(("users", "ada"), "tea", {"likes": "tea", "n": [1, None, {"x": 2.5}]})
    first = await store.aget(("users", "ada"), "tea")
    await store.aput(("users", "ada"), "tea", {"likes": "mate"})
    second = await store.aget(("users", "ada"), "tea")

    assert first and second
    assert before <= first.created_at == second.created_at <= first.updated_at <= second.updated_at

    await store.adelete(("users", "ada"), "tea")
    history = await abilities.call("memory_history", {"key": "langgraph/users/ada//tea"})
    done = [(entry["action"], entry["by"]) for entry in history["entries"]]
    assert done == [(action, "langgraph") for action in ("deleted", "changed", "created")]
    restored = {"key": "langgraph/users/ada//tea", "version": history["entries"][1]["version"]}
    await abilities.call("memory_restore", restored)
    item = await store.aget(("users", "ada"), "tea")
    assert item and item.value == {"likes": "mate"}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


async def test_every_json_object_comes_back_exactly(store: AbilitiesStore) -> None:

    @given(st.lists(st.dictionaries(st.text(), json_values, max_size=4), min_size=1, max_size=5))
    @hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=8, full=60))
    def check(values: list[dict[str, Any]]) -> None:
        store.batch([base.PutOp(("a",), str(n), value) for n, value in enumerate(values)])
        items = store.batch([base.GetOp(("a",), str(n)) for n in range(len(values))])
        assert [cast(base.Item, item).value for item in items] == values

    await asyncio.to_thread(check)


async def test_a_long_value_comes_back_is_replaced_and_deleted(
    store: AbilitiesStore, abilities: Abilities
) -> None:
    await store.aput(("a",), "long", LONG)
    await store.aput(("a",), "short", {"text": "tea"})

    _, read = await store.abatch([base.GetOp(("a",), "short"), base.GetOp(("a",), "long")])
    assert cast(base.Item, read).value == LONG
    assert {item.key for item in await store.asearch(("a",))} == {"long", "short"}
    assert [item.value for item in await store.asearch((), filter={"end": True})] == [LONG]
    scores = {item.key: item.score for item in await store.asearch((), query="hot")}
    assert cast(float, scores["long"]) > 0

    await store.aput(("a",), "long", {"text": "now short"})
    listed = await abilities.call("memory_list", {"prefix": "langgraph/"})
    keys = [line["key"] for line in listed["memories"]]
    assert keys == ["langgraph/a//long", "langgraph/a//short"]

    await store.aput(("a",), "long", LONG)
    await store.adelete(("a",), "long")
    assert (await abilities.call("get_memory_stats"))["total_memories"] == 1


async def test_a_value_too_long_is_refused_and_nothing_is_lost(store: AbilitiesStore) -> None:
    await store.aput(("a",), "k", {"kept": True})
    too_long = {"text": "x" * MAX_LONG_CONTENT_CHARS}

    with pytest.raises(ValueError, match=r"at most 200,000 .* nothing was stored"):
        await store.abatch(
            [base.PutOp(("a",), "k", {"kept": False}), base.PutOp(("a",), "long", too_long)]
        )

    assert [item.value for item in await store.asearch(())] == [{"kept": True}]


def put(value: Any = None, namespace: Any = ("a",), ttl: float | None = None) -> base.PutOp:
    return base.PutOp(namespace, "k", {} if value is None else value, None, ttl)


WRONG_PUTS = {
    "a value must be": [put({"x": float("nan")}), put({"x": {1}}), put({"x": object()}), put([1])],
    "ttl must be": [put(ttl=float("nan")), put(ttl=float("inf")), put(ttl=1e300)],
    "longer than": [put(namespace=("a" * 5_000,))],
    "[Nn]amespace": [put(namespace=name) for name in ((), ("a.b",), ("a", ""), ("nul\0",), (1,))],
}


async def test_what_cannot_be_an_item_is_refused(store: AbilitiesStore) -> None:
    for words, ops in WRONG_PUTS.items():
        for op in ops:
            with pytest.raises(ValueError, match=words) as refused:
                await store.abatch([op])
            assert isinstance(refused.value, base.InvalidNamespaceError) == (
                words == "[Nn]amespace"
            )


def show(items: Sequence[base.Item]) -> str:
    return " ".join(item.key for item in items)


SEARCHED: list[tuple[dict[str, Any], str]] = [
    ({"n": {"$gt": 2}}, "k4 k3"),
    ({"n": {"$gte": "2", "$lt": 3.5}}, "k3 k2"),
    ({"n": {"$lte": 1, "$ne": 0}}, "k1"),
    ({"of": {"x": 1}, "n": {"$eq": 3}}, "k3"),
    ({"of": {"x": {"$gt": 0}}}, "k3 k1"),
    ({"day": {"$gt": "2026-01-03"}}, "k4 k3"),
    ({"absent": {"$gt": 1}}, ""),
    ({"n": {"x": 1}}, ""),
    ({"n": [1]}, ""),
    ({"n": {"$lte": float("nan")}}, ""),
    ({"n": {"$lt": 10**400}}, ""),
    ({"n": {"$lt": float("inf"), "$gt": 3}}, "k4"),
]


async def test_long_names_are_kept_beside_the_value(store: AbilitiesStore) -> None:
    deep = tuple(f"level {n} of many" for n in range(20))
    for n in range(3):
        await store.aput((*deep, str(n)), "key " * 30, {"n": n})

    for n in range(3):
        item = await store.aget((*deep, str(n)), "key " * 30)
        assert item and item.value == {"n": n}
    found = await store.asearch(deep[:3])
    assert {item.namespace for item in found} == {(*deep, str(n)) for n in range(3)}
    assert [item.value for item in await store.asearch((*deep, "1"))] == [{"n": 1}]
    assert await store.alist_namespaces(prefix=deep, suffix=("2",)) == [(*deep, "2")]


# What the two stores are compared in: not where equal times leave the order open.
few = st.sampled_from(["a", "b", "a/b", "*"])
paths = st.lists(few, min_size=1, max_size=3).map(tuple)
keys = st.sampled_from(["k", "l", "#2", ""])
numbers = (
    st.none()
    | st.integers(-2, 2)
    | st.booleans()
    | st.sampled_from(["1", "x"])
    | st.lists(st.integers(0, 1))
)
values = st.dictionaries(
    st.sampled_from(["n", "m"]), numbers | st.dictionaries(st.just("n"), numbers)
)
operators = st.sampled_from(["$eq", "$ne"])
conditions = (
    numbers
    | st.dictionaries(operators, numbers, min_size=1)
    | st.dictionaries(st.just("n"), numbers)
)
matching = st.builds(base.MatchCondition, st.sampled_from(["prefix", "suffix"]), paths)
operations: st.SearchStrategy[base.Op] = st.one_of(
    st.builds(base.PutOp, paths, keys, values | st.none(), st.none(), st.none()),
    st.builds(base.PutOp, paths, keys, values, st.none(), st.none()),
    st.builds(base.GetOp, paths, keys, st.just(True)),
    st.builds(
        base.SearchOp,
        st.lists(few, max_size=2).map(tuple),
        st.none() | st.dictionaries(st.sampled_from(["n", "m"]), conditions, max_size=2),
        st.just(1_000),
        st.just(0),
        st.none(),
        st.just(True),
    ),
    st.builds(
        base.ListNamespacesOp,
        st.lists(matching, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
)


class Reference(InMemoryStore):
    """LangGraph's own store, without the namespaces that it lists though they hold no items."""

    def batch(self, ops: Any) -> list[base.Result]:
        results = super().batch(ops)
        for namespace in [name for name, items in self._data.items() if not items]:
            del self._data[namespace]
        return results


def simplify(result: base.Result) -> Any:
    """Return what two stores must agree in, whatever their clocks say."""
    if isinstance(result, base.Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list):
        simple = [simplify(cast(Any, entry)) for entry in result]
        return sorted(simple, key=repr) if result and isinstance(result[0], base.Item) else simple
    return result


async def test_random_batches_answer_as_langgraphs_own_store(abilities: Abilities) -> None:
    tried = 0

    @given(st.lists(st.lists(operations, max_size=8), max_size=6))
    @hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=20, full=150))
    def check(batches: list[list[base.Op]]) -> None:
        nonlocal tried
        tried += 1
        reference, store = Reference(), AbilitiesStore(abilities, namespace=tried)
        for ops in batches:
            # Theirs lists a namespace in which a get of the same batch has found nothing.
            lists = [op for op in ops if isinstance(op, base.ListNamespacesOp)]
            others = [op for op in ops if not isinstance(op, base.ListNamespacesOp)]
            for part in (lists, others):
                expected = [simplify(result) for result in reference.batch(part)]
                assert [simplify(result) for result in store.batch(part)] == expected

    await asyncio.to_thread(check)
    assert tried >= 10


async def test_a_search_filters_and_without_a_question_the_last_written_come_first(
    store: AbilitiesStore,
) -> None:
    for number in range(5):
        value = {"n": number, "day": f"2026-01-0{number + 1}", "of": {"x": number % 2}}
        await store.aput(("a", str(number % 2)), f"k{number}", value)
        await asyncio.sleep(0.002)  # so that each has a time of its own

    for condition, keys in SEARCHED:
        assert show(await store.asearch(("a",), filter=condition)) == keys, condition
    with pytest.raises(ValueError, match=r"Unsupported operator: \$in"):
        await store.asearch(("a",), filter={"n": {"$in": [1]}})

    await store.aput(("a", "1"), "k1", {"n": 1, "new": True})
    assert show(await store.asearch(("a",))) == "k1 k4 k3 k2 k0"
    assert show(await store.asearch(("a",), limit=2, offset=1)) == "k4 k3"
    assert show(await store.asearch(("a", "0"))) == "k4 k2 k0"
    assert await store.asearch(("a",), limit=0) == []


async def test_a_question_ranks_by_words_and_the_others_follow(store: AbilitiesStore) -> None:
    for key, text in (("tea", "Ada likes green tea"), ("cat", "The cat sleeps"), ("mug", "a mug")):
        await store.aput(("m",), key, {"text": text})
    await store.aput(("m",), "hidden", {"text": "green green tea"}, index=False)
    # Items are ranked among those of their namespace.
    await store.abatch([base.PutOp(("other",), str(n), {"text": "green tea"}) for n in range(300)])

    found = await store.asearch(("m",), query="Who drinks green tea?")
    first, *others = [(item.key, item.score) for item in found]

    assert first[0] == "tea" and first[1] is not None and first[1] > 0
    assert sorted(others) == [("cat", 0.0), ("hidden", None), ("mug", 0.0)]
    assert show(await store.asearch(("m",), query="green tea", limit=1)) == "tea"
    page = await store.asearch(("m",), query="green tea", limit=3, offset=1)
    assert show(page) == show(found[1:])
    passing = await store.asearch(("m",), query="tea " * 1_000, filter={"text": "a mug"})
    assert show(passing) == "mug"
    assert len(await store.asearch((), query="", limit=400)) == 304


async def test_a_search_says_when_it_would_look_at_too_much(abilities: Abilities) -> None:
    store = AbilitiesStore(abilities, max_scanned=300)
    await store.abatch([base.PutOp(("a", str(n % 2)), str(n), {"n": n}) for n in range(602)])

    assert len(await store.asearch(("a",), limit=300)) == 300
    assert len(await store.asearch(("a",), query="nothing", limit=400)) == 300
    for op in (
        base.SearchOp(("a",), {"n": -1}),
        base.SearchOp(("a",), offset=300),
        base.ListNamespacesOp(),
    ):
        with pytest.raises(ValueError, match="more than 300 memories"):
            await store.abatch([op])
    # What lies in one namespace is passed over.
    store = AbilitiesStore(abilities, max_scanned=1_100)
    assert await store.alist_namespaces() == [("a", "0"), ("a", "1")]


async def test_an_item_lives_on_if_it_is_read(store: AbilitiesStore, abilities: Abilities) -> None:
    await store.aput(("a",), "k", {"n": 1}, ttl=10)
    written = await store.aget(("a",), "k")

    async def read_memory() -> dict[str, Any]:
        payload = await abilities.call("memory_get", {"key": "langgraph/a//k"})
        memory: dict[str, Any] = payload["data"]
        return memory

    first = await read_memory()
    assert first["expires_at"] > (datetime.now(UTC) + timedelta(minutes=10)).isoformat()
    sooner = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    await abilities.call("update_memory", {"id": first["id"], "expires_at": sooner})

    await store.aget(("a",), "k", refresh_ttl=False)
    assert (await read_memory())["expires_at"] < first["expires_at"]
    assert await store.asearch(("a",), refresh_ttl=True)
    renewed = await read_memory()
    assert renewed["expires_at"] >= first["expires_at"]
    read = await store.aget(("a",), "k")  # renewed a moment ago
    assert (await read_memory())["version"] == renewed["version"]
    assert read and written and (read.value, read.created_at) == (written.value, written.created_at)

    await store.aput(("a",), "k", {"n": 2})
    assert "expires_at" not in await read_memory()


async def test_a_read_that_renews_a_life_leaves_the_time_of_writing(
    abilities: Abilities, store: AbilitiesStore
) -> None:
    await store.aput(("a",), "k", LONG, ttl=0.05)
    written = await store.aget(("a",), "k", refresh_ttl=False)
    await asyncio.sleep(0.3)

    await store.aget(("a",), "k")

    renewed = await store.aget(("a",), "k", refresh_ttl=False)
    memory = (await abilities.call("memory_get", {"key": "langgraph/a//k"}))["data"]
    assert renewed == written
    assert memory["updated_at"] > memory["metadata"]["langgraph"]["written_at"]


async def test_what_has_expired_is_gone_until_it_is_put_again(abilities: Abilities) -> None:
    store = AbilitiesStore(abilities, ttl={"default_ttl": 0.001, "refresh_on_read": False})
    await store.aput(("a",), "k", {"n": 1})
    await store.aput(("a",), "stays", {"n": 2}, ttl=None)
    await asyncio.sleep(0.08)

    assert await store.aget(("a",), "k") is None
    assert show(await store.asearch(("a",))) == "stays"
    await store.adelete(("a",), "stays")
    assert await store.alist_namespaces() == []

    await store.aput(("a",), "k", {"n": 3}, ttl=None)
    assert show(await store.asearch(("a",))) == "k"


async def test_a_view_to_read_changes_nothing(abilities: Abilities, store: AbilitiesStore) -> None:
    await store.aput(("a",), "k", {"n": 1}, ttl=0.02)
    reader = AbilitiesStore(abilities.for_namespace("default", read_only=True))
    await asyncio.sleep(0.1)

    assert await reader.aget(("a",), "k")
    for op in (base.PutOp(("a",), "k", {"n": 2}), base.PutOp(("a",), "k", None)):
        with pytest.raises(AbilityError, match="PERMISSION_ERROR \\(scope\\)"):
            await reader.abatch([op])
    history = await abilities.call("memory_history", {"key": "langgraph/a//k"})
    assert len(history["entries"]) == 1


async def test_what_the_settings_disable_is_refused(roots: Settings) -> None:
    ops: dict[str, base.Op] = {
        "get": base.GetOp(("a",), "k"),
        "search": base.SearchOp(("a",)),
        "list": base.ListNamespacesOp(),
        "put": base.PutOp(("a",), "k", {}),
    }
    for disabled, refused in (
        ("remember", "put"),
        ("recall", "search list"),
        ("memory_read_bulk", "get"),
        ("store_memory", ""),
    ):
        # A short list of tools takes nothing from the store.
        settings = with_changes(roots, disabled=(disabled,), tools=("lean",))
        async with Abilities.open(settings) as abilities:
            for name, op in ops.items():
                call = AbilitiesStore(abilities).abatch([op])
                if name not in refused.split():
                    await call
                    continue
                with pytest.raises(AbilityError, match="PERMISSION_ERROR \\(disabled\\)"):
                    await call


async def test_items_of_one_namespace_are_hidden_from_others(abilities: Abilities) -> None:
    first, second = (AbilitiesStore(abilities, namespace=name) for name in ("ada", 42))
    await first.aput(("a",), "k", {"n": 1})

    assert await second.aget(("a",), "k") is None
    assert await second.asearch((), query="n") == []
    assert await second.alist_namespaces() == []
    with pytest.raises(ValueError, match="a namespace is"):
        await AbilitiesStore(abilities, namespace="no/slash").aget(("a",), "k")


async def test_a_memory_that_is_no_item_any_more_fails_alone(
    store: AbilitiesStore, abilities: Abilities, caplog: pytest.LogCaptureFixture
) -> None:
    await store.abatch([base.PutOp(("a",), key, {"n": 1}) for key in ("edited", "kept")])
    edit = {"op": "update", "key": "langgraph/a//edited", "content": "no JSON"}
    own = {"op": "store", "key": "own", "type": "core", "content": "{}", "tags": ["langgraph"]}
    await abilities.call("remember", {"operations": [edit, own]})

    assert show(await store.asearch(("a",))) == "kept"
    assert "left out a damaged item" in caplog.text
    with pytest.raises(AbilityError, match="CORRUPTED_DATA"):
        await store.aget(("a",), "edited")
    await store.aput(("a",), "edited", {"n": 2})
    assert len(await store.asearch(())) == 2


async def test_a_hundred_gets_are_one_read_and_a_hundred_puts_one_transaction(
    store: AbilitiesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def count(name: str) -> None:
        original: Callable[..., Any] = getattr(SqliteEngine, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return await original(*arguments, **options)

        monkeypatch.setattr(SqliteEngine, name, call)

    count("read")
    count("write")
    await store.abatch([base.PutOp(("a",), str(n), {"n": n}) for n in range(100)])
    assert calls == ["write"]

    items = await store.abatch([base.GetOp(("a",), str(n)) for n in range(100)])
    assert [cast(base.Item, item).value["n"] for item in items] == list(range(100))
    assert calls == ["write", "read"]


async def test_many_tasks_write_and_read_at_the_same_time(store: AbilitiesStore) -> None:
    async def use(number: int) -> None:
        await store.aput(("a",), "shared", LONG if number % 2 else {"n": number})
        await store.adelete(("a",), "shared")
        await store.aput(("own", str(number)), "k", {"n": number})
        item = await store.aget(("a",), "shared")
        assert item is None or item.value == LONG or set(item.value) == {"n"}

    await asyncio.gather(*(use(number) for number in range(20)))

    assert len(await store.asearch(("own",), limit=100)) == 20


async def test_settings_are_a_source_and_sync_methods_work_within_an_event_loop(
    roots: Settings, store: AbilitiesStore
) -> None:
    AbilitiesStore(roots).put(("a",), "k", {"n": 1})

    for each in (store, AbilitiesStore(roots)):
        assert [item.value for item in each.search(("a",))] == [{"n": 1}]


@pytest.mark.thorough
async def test_a_hundred_gets_take_as_many_statements_of_postgresql_as_one(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.database(server) as url:
        async with Abilities.open(Settings(store_url=url)) as abilities:
            store = AbilitiesStore(abilities)
            await store.abatch(
                [base.PutOp(("a",), str(n), {"n": n, "t": "tea"}) for n in range(100)]
            )
            trips = count_trips(monkeypatch)
            await store.aget(("a",), "0")
            single = len(trips)
            items = await store.abatch([base.GetOp(("a",), str(n)) for n in range(100)])

            assert len(trips) == 2 * single <= 4
            assert [cast(base.Item, item).value["n"] for item in items] == list(range(100))
            assert len(await store.asearch(("a",), query="tea", limit=200)) == 100
            assert await store.asearch((), filter={"n": {"$lt": 0}}) == []
            assert await store.alist_namespaces() == [("a",)]
            await store.aput(("a",), "long", LONG)
            assert [i.value for i in await store.asearch((), filter={"end": True})] == [LONG]
            await store.adelete(("a",), "long")
            assert len(await store.asearch((), limit=200)) == 100
