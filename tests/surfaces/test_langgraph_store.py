"""LangGraph's store over memories: its operations, names, limits and errors."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from abilities import Abilities, Settings
from abilities.adapters.langgraph_store import AbilitiesStore
from abilities.adapters.langgraph_store.items import MAX_VALUE_CHARS
from abilities.adapters.langgraph_store.names import ItemName, find_tag, parse_memory_key
from abilities.declarations.memory import is_key
from tests.support.tier import size

LONG = {"text": "tea is hot " * 2_000, "end": True}
"""A value that takes several memories."""


@pytest.fixture
async def abilities(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as opened:
        yield opened


@pytest.fixture
def store(abilities: Abilities) -> AbilitiesStore:
    return AbilitiesStore(abilities)


labels = st.text(min_size=1, max_size=40).filter(lambda label: "." not in label)
names = st.builds(ItemName, st.lists(labels, min_size=1, max_size=12).map(tuple), st.text())


@given(names)
@hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=100, full=2_000))
def test_every_name_has_a_key_that_tells_it_unless_it_is_long(name: ItemName) -> None:
    assert is_key(name.memory_key)
    assert len(name.memory_key) <= 190
    assert len(name.tags) <= 10 and all(1 <= len(tag) <= 30 for tag in name.tags)
    assert name.tags[-1] == find_tag(name.namespace)

    told = parse_memory_key(name.memory_key)
    assert told == (None if name.is_shortened else name)


@given(names, names)
@hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=50, full=500))
def test_two_names_have_two_keys(first: ItemName, second: ItemName) -> None:
    assert (first == second) == (first.memory_key == second.memory_key)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (ItemName(("users", "ada"), "tea"), "langgraph/users/ada//tea"),
        (ItemName(("a/b", "c#d"), "e~f"), "langgraph/a%2Fb/c%23d//e%7Ef"),
        (ItemName(("用户",), " x "), "langgraph/用户//%20x%20"),
        (ItemName(("a",), ""), "langgraph/a//"),
    ],
)
def test_a_key_can_be_read(name: ItemName, key: str) -> None:
    assert name.memory_key == key
    assert parse_memory_key(key) == name


@pytest.mark.parametrize(
    "key", ["notes", "langgraph", "langgraph/a", "langgraph/a//b#2", "langgraph/%FF//b"]
)
def test_other_memories_are_no_items(key: str) -> None:
    assert parse_memory_key(key) is None


async def test_an_item_comes_back_with_its_times(store: AbilitiesStore) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    await store.aput(("users", "ada"), "tea", {"likes": "tea", "n": [1, None, {"x": 2.5}]})
    first = await store.aget(("users", "ada"), "tea")
    await store.aput(("users", "ada"), "tea", {"likes": "mate"})
    second = await store.aget(("users", "ada"), "tea")

    assert first and second
    assert first.value == {"likes": "tea", "n": [1, None, {"x": 2.5}]}
    assert before <= first.created_at == second.created_at <= first.updated_at <= second.updated_at
    assert second.value == {"likes": "mate"}
    assert await store.aget(("users",), "tea") is None


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def test_every_json_object_comes_back_exactly(roots: Settings) -> None:
    store = AbilitiesStore(roots)

    @given(st.lists(st.dictionaries(st.text(), json_values, max_size=4), min_size=1, max_size=10))
    @hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=15, full=150), deadline=None)
    def check(values: list[dict[str, Any]]) -> None:
        store.batch([PutOp(("a",), str(n), value) for n, value in enumerate(values)])
        items = store.batch([GetOp(("a",), str(n)) for n in range(len(values))])
        assert [cast(Item, item).value for item in items] == values

    check()


async def test_a_long_value_comes_back_is_replaced_and_deleted(
    store: AbilitiesStore, abilities: Abilities
) -> None:
    await store.aput(("a",), "long", LONG)
    await store.aput(("a",), "short", {"text": "tea"})

    assert (await store.abatch([GetOp(("a",), "short"), GetOp(("a",), "long")]))[1].value == LONG  # type: ignore[union-attr]
    assert {item.key for item in await store.asearch(("a",))} == {"long", "short"}
    assert [item.value for item in await store.asearch((), filter={"end": True})] == [LONG]
    assert {item.key: item.score for item in await store.asearch((), query="hot")}["long"] > 0  # type: ignore[operator]

    await store.aput(("a",), "long", {"text": "now short"})
    listed = await abilities.call("memory_list", {"prefix": "langgraph/"})
    assert [line["key"] for line in listed["memories"]] == [
        "langgraph/a//long",
        "langgraph/a//short",
    ]

    await store.aput(("a",), "long", LONG)
    await store.adelete(("a",), "long")
    assert (await abilities.call("get_memory_stats"))["total_memories"] == 1


async def test_a_value_that_is_too_long_is_refused_and_nothing_is_lost(
    store: AbilitiesStore,
) -> None:
    await store.aput(("a",), "k", {"kept": True})
    too_long = {"text": "x" * MAX_VALUE_CHARS}

    with pytest.raises(
        ValueError, match=r"at most 1,000,000 characters as JSON; .* nothing was stored"
    ):
        await store.abatch([PutOp(("a",), "k", {"kept": False}), PutOp(("a",), "long", too_long)])

    assert [item.value for item in await store.asearch(())] == [{"kept": True}]


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": {1, 2}}, {"x": object()}, ["a"]])
async def test_a_value_that_is_no_json_is_refused(store: AbilitiesStore, value: Any) -> None:
    with pytest.raises(ValueError, match="a value must be"):
        await store.aput(("a",), "k", value)


async def test_long_names_are_kept_beside_the_value(store: AbilitiesStore) -> None:
    deep = tuple(f"level {n} of many" for n in range(20))
    for number in range(3):
        await store.aput((*deep, str(number)), "key " * 30, {"n": number})

    assert [(await store.aget((*deep, str(n)), "key " * 30)).value for n in range(3)] == [  # type: ignore[union-attr]
        {"n": 0},
        {"n": 1},
        {"n": 2},
    ]
    assert {item.namespace for item in await store.asearch(deep[:3])} == {
        (*deep, str(n)) for n in range(3)
    }
    assert [item.value for item in await store.asearch((*deep, "1"))] == [{"n": 1}]
    assert await store.alist_namespaces(prefix=deep, suffix=("2",)) == [(*deep, "2")]

    with pytest.raises(ValueError, match="longer than"):
        await store.aput(("a" * 5_000,), "k", {})


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("a", ""), ("nul\0",), (1,)])
async def test_wrong_namespaces_are_refused_in_batches_too(
    store: AbilitiesStore, namespace: Any
) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([PutOp(namespace, "k", {})])


async def test_reads_of_a_batch_come_before_its_puts_and_the_last_put_counts(
    store: AbilitiesStore,
) -> None:
    await store.aput(("a",), "k", {"n": 0})

    results = await store.abatch(
        [
            PutOp(("a",), "k", {"n": 1}),
            GetOp(("a",), "k"),
            PutOp(("a",), "k", None),
            PutOp(("a",), "gone", None),
            PutOp(("a",), "k", {"n": 2}),
            SearchOp(("a",)),
        ]
    )

    assert [type(result) for result in results] == [
        type(None),
        Item,
        type(None),
        type(None),
        type(None),
        list,
    ]
    assert cast(Item, results[1]).value == {"n": 0}
    assert [item.value for item in cast(list[SearchItem], results[5])] == [{"n": 0}]
    assert [item.value for item in await store.asearch(())] == [{"n": 2}]


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
matching = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), paths)
operations: st.SearchStrategy[Op] = st.one_of(
    st.builds(PutOp, paths, keys, values | st.none(), st.none(), st.none()),
    st.builds(PutOp, paths, keys, values, st.none(), st.none()),
    st.builds(GetOp, paths, keys, st.just(True)),
    st.builds(
        SearchOp,
        st.lists(few, max_size=2).map(tuple),
        st.none() | st.dictionaries(st.sampled_from(["n", "m"]), conditions, max_size=2),
        st.just(1_000),
        st.just(0),
        st.none(),
        st.just(True),
    ),
    st.builds(
        ListNamespacesOp,
        st.lists(matching, max_size=2).map(tuple),
        st.none() | st.integers(1, 3),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
)


class Reference(InMemoryStore):
    """LangGraph's own store, without the namespaces that it lists though they hold no items."""

    def batch(self, ops: Any) -> list[Result]:
        results = super().batch(ops)
        for namespace in [name for name, items in self._data.items() if not items]:
            del self._data[namespace]
        return results


def simplify(result: Result) -> Any:
    """Return what two stores must agree in, whatever their clocks say."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list):
        simple = [simplify(cast(Any, entry)) for entry in result]
        return sorted(simple, key=repr) if result and isinstance(result[0], Item) else simple
    return result


def test_random_batches_answer_as_langgraphs_own_store(roots: Settings) -> None:
    with_names = 0

    @given(st.lists(st.lists(operations, max_size=8), max_size=6))
    @hypothesis_settings(max_examples=size("ABILITIES_EXAMPLES", quick=25, full=250), deadline=None)
    def check(batches: list[list[Op]]) -> None:
        nonlocal with_names
        with_names += 1
        reference, store = Reference(), AbilitiesStore(opened, namespace=f"n{with_names}")
        for ops in batches:
            # It lists a namespace that a get of the same batch has only looked at.
            for part in (
                [op for op in ops if isinstance(op, ListNamespacesOp)],
                [op for op in ops if not isinstance(op, ListNamespacesOp)],
            ):
                expected = [simplify(result) for result in reference.batch(part)]
                assert [simplify(result) for result in store.batch(part)] == expected

    async def run() -> None:
        nonlocal opened
        async with Abilities.open(roots) as opened:
            await asyncio.to_thread(check)

    opened: Any = None
    asyncio.run(run())
    assert with_names >= 10
