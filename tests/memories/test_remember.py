"""`remember`: many writes in one call, each with its own outcome, long contents included."""

import asyncio
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, render
from tests.memories.calls import (
    Payload,
    calls_of,
    find_fault,
    find_reason,
    get,
    open_calls,
    read_whole,
)
from tests.support.memory_cases import UNKNOWN
from tests.support.sample_files import make_roots
from tests.support.surfaces import SURFACES, Call, CannotCarry

LONG = " ".join(f"word{number}" for number in range(4_000))
BOUND = 40_000


def store(key: str, content: str = "Tea.", **more: Any) -> Payload:
    """Return an operation that stores a memory."""
    return {"op": "store", "type": "core", "key": key, "content": content, **more}


def append(key: str, content: str) -> Payload:
    """Return an operation that appends to a memory."""
    return {"op": "append", "key": key, "content": content}


async def remember(call: Call, *operations: Any, **more: Any) -> list[Payload]:
    """Return the records of operations."""
    payload = await call("remember", operations=list(operations), **more)

    records: list[Payload] = payload["results"]
    assert [record["input"] for record in records] == list(range(len(operations)))
    failed = sum("reason" in record or "error" in record for record in records)
    assert payload["summary"]["failed"] == failed
    assert payload["summary"]["succeeded"] == len(operations) - failed
    return records


async def list_stored(call: Call) -> list[str]:
    return [memory["key"] for memory in (await call("memory_list", archived=True))["memories"]]


async def test_one_answer_of_50_stores_is_short(call: Call) -> None:
    operations = [store(f"project/decisions/{number:03}") for number in range(50)]

    payload = await call("remember", operations=operations)

    assert len(render(payload, "toon").encode()) <= 5_000
    fields = ("input", "id", "key", "version", "created")
    assert [tuple(record) for record in payload["results"]] == [fields] * 50


HOSTILE: list[tuple[Any, str, str | None]] = [
    (5, "wrong_type", "operation"),
    (None, "wrong_type", "operation"),
    ([], "wrong_type", "operation"),
    ("store", "wrong_type", "operation"),
    ({}, "missing_argument", "op"),
    ({"op": "stroe"}, "not_one_of", "op"),
    ({"op": "purge", "key": "tea"}, "not_one_of", "op"),
    ({"op": "store", "content": "c"}, "missing_argument", "type"),
    ({"op": "store", "type": "core"}, "missing_argument", "content"),
    (store("k", ""), "too_short", "content"),
    (store("k", "a\0b"), "invalid_format", "content"),
    (store(" k"), "invalid_key", "key"),
    (store("k" * 201), "invalid_key", "key"),
    (store("k", importance="critical"), "not_one_of", "importance"),
    (store("k", tags=["t" * 31]), "too_long", "tags[0]"),
    (store("k", tags=[str(n) for n in range(11)]), "too_many", "tags"),
    (store("k", links=[{"key": "l", "link_weight": 2}]), "out_of_range", "links[0].link_weight"),
    (store("k", memory_score=80), "out_of_range", "memory_score"),
    (store("k", expires_at="2001-01-01T00:00:00Z"), "invalid_format", "expires_at"),
    (store("k", expires_at="tomorrow"), "invalid_format", "expires_at"),
    (store("k", expires_at="2999-02-30T00:00:00Z"), "invalid_format", "expires_at"),
    (store("k", if_version=-1), "out_of_range", "if_version"),
    (store("k", if_version=7), "version_conflict", None),
    (store("k", to="l"), "unknown_argument", "to"),
    (store("k", recursive=True), "unknown_argument", "recursive"),
    ({"op": "store", "type": "core", "content": "c", "id": UNKNOWN}, "not_found", None),
    ({"op": "update", "summary": "s"}, "missing_argument", "key"),
    ({"op": "update", "key": "nobody", "summary": "s"}, "not_found", None),
    ({"op": "update", "id": "no id", "summary": "s"}, "invalid_id", "id"),
    ({"op": "update", "key": "tea", "type": "task"}, "unknown_argument", "type"),
    ({"op": "append", "key": "tea"}, "missing_argument", "content"),
    ({"op": "append", "key": "nobody", "content": "c"}, "not_found", None),
    ({"op": "append", "id": UNKNOWN, "content": "c"}, "not_found", None),
    ({"op": "link", "key": "tea"}, "missing_argument", "links"),
    ({"op": "unlink", "key": "tea", "links": []}, "missing_argument", "remove_links"),
    ({"op": "rename", "key": "tea"}, "missing_argument", "to"),
    ({"op": "rename", "key": "nobody", "to": "l"}, "not_found", None),
    ({"op": "rename", "key": "tea", "to": "taken"}, "key_taken", None),
    ({"op": "rename", "key": "tea", "to": "a\nb"}, "invalid_key", "to"),
    ({"op": "archive", "key": "nobody"}, "not_found", None),
    ({"op": "archive", "key": "tea", "permanent": True}, "unknown_argument", "permanent"),
    ({"op": "delete", "key": "nobody"}, "not_found", None),
    ({"op": "delete", "key": "tea", "purge": True}, "unknown_argument", "purge"),
    ({"op": "delete", "key": "tea", "if_version": 999}, "version_conflict", None),
]


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_wrong_operation_fails_alone_on_every_surface(
    surface: str, roots: Settings, call: Call
) -> None:
    await remember(call, store("tea"), store("taken"))
    operations = [store("before"), *(wrong for wrong, _, _ in HOSTILE), store("after")]

    try:
        payload = await SURFACES[surface](
            roots, "remember", {"operations": operations, "detail": "full"}
        )
    except CannotCarry:
        return

    first, *failed, last = payload["results"]
    assert first["success"] and last["success"]
    told = [(record["error"]["reason"], record["error"].get("field")) for record in failed]
    assert told == [(reason, field) for _, reason, field in HOSTILE]
    changed = (await call("memory_changes"))["changes"]
    assert [change["key"] for change in changed] == ["tea", "taken", "before", "after"]


async def test_a_wrong_operation_gets_the_fault_of_the_single_ability(call: Call) -> None:
    valid = {"type": "core", "content": "c"}
    for wrong in (
        {"content": ""},
        {"type": "fact"},
        {"importence": "high"},
        {"id": UNKNOWN},
        {"key": "k", "if_version": 3},
        {"expires_at": "now"},
        {"links": [{"kay": "k"}]},
    ):
        fault = await find_fault(call, "store_memory", **{**valid, **wrong})
        (record,) = await remember(call, {"op": "store", **valid, **wrong}, detail="full")

        told = [record["error"].get(name) for name in ("reason", "field", "message")]
        assert told == [fault.reason, fault.field, fault.message]


async def test_all_or_none(call: Call) -> None:
    await remember(call, store("tea"))

    for wrong, reason in (
        ({"op": "stroe"}, "not_one_of"),
        (append("nobody", "c"), "not_found"),
        (store("tea", if_version=9), "version_conflict"),
    ):
        records = await remember(call, store("a"), wrong, store("b", LONG), atomic=True)
        assert [record["reason"] for record in records] == ["rolled_back", reason, "rolled_back"]
        assert await list_stored(call) == ["tea"]

    assert (await get(call, "tea"))["version"] == 1
    records = await remember(call, store("a"), store("b", LONG), atomic=True)
    assert all(record["created"] for record in records)


async def test_s15_a_conflict_tells_the_current_version(call: Call) -> None:
    (stored,) = await remember(call, store("tea"))
    (changed,) = await remember(call, store("tea", "Hot.", if_version=stored["version"]))

    (concise,) = await remember(call, store("tea", "Cold.", if_version=stored["version"]))
    (full,) = await remember(call, store("tea", "Cold.", if_version=1), detail="full")
    (new,) = await remember(call, store("cup", if_version=1))

    assert concise == {"input": 0, "version": changed["version"], "reason": "version_conflict"}
    assert full["error"]["expected"] == {"version": changed["version"]}
    assert new["version"] == 0
    assert (await get(call, "tea"))["content"] == "Hot."


async def test_the_operations_of_a_call_are_bounded(call: Call) -> None:
    for operations, reason in (
        ([], "too_few"),
        ([store("k")] * 51, "too_many"),
        ([store("k", "x" * 100_001)] * 2, "too_long"),
        ("store", "wrong_type"),
    ):
        fault = await find_fault(call, "remember", operations=operations)
        assert (fault.reason, fault.field) == (reason, "operations")

    assert await list_stored(call) == []


async def test_what_was_made_is_told_even_if_the_answer_is_at_its_bound(roots: Settings) -> None:
    keys = [f"{'🍵' * 195}{number:03}" for number in range(50)]
    wrong: Payload = {"op": "update", **dict.fromkeys("abcdefgh", 1)}

    async with open_calls(roots.model_copy(update={"max_response_bytes": BOUND})) as call:
        made = await call("remember", operations=[store(key) for key in keys])
        refused = await call("remember", operations=[wrong] * 50, detail="full")

    assert made["summary"]["succeeded"] == refused["summary"]["failed"] == 50
    assert all("id" in record for record in made["results"])
    for payload in (made, refused):
        assert len(orjson.dumps(payload)) <= BOUND


async def test_a_reading_caller_may_not_remember(app: Abilities) -> None:
    reading = calls_of(app.for_namespace("default", read_only=True))

    assert await find_reason(reading, "remember", operations=[store("tea")]) == "scope"
    assert await find_reason(reading, "memory_restore", key="tea", version=1) == "scope"


@pytest.mark.parametrize("atomic", [False, True])
async def test_operations_by_id_and_by_key_on_one_long_content(atomic: bool, call: Call) -> None:
    (made,) = await remember(call, store("doc", "a" * 4_000))
    by_id = made["id"]

    records = await remember(
        call,
        {"op": "update", "id": by_id, "importance": "high"},
        append("doc", "b" * 8_000),
        {"op": "rename", "id": by_id, "to": "book"},
        append("book", "c" * 4_000),
        {"op": "update", "id": by_id, "summary": "A book."},
        store("other", "d" * 4_000),
        append("other", "e" * 9_000),
        atomic=atomic,
    )

    assert [record.get("reason") for record in records] == [None] * 7
    read = partial(read_whole, call, "memory_get")
    assert await read(key="book") == "a" * 4_000 + "b" * 8_000 + "c" * 4_000
    assert await read(key="other") == "d" * 4_000 + "e" * 9_000
    book = await get(call, "book")
    assert (book["id"], book["importance"], book["summary"]) == (by_id, "high", "A book.")

    await remember(call, {"op": "delete", "key": "book", "permanent": True})
    assert await list_stored(call) == ["other"]


@hypothesis_settings(max_examples=12)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["store", "append"]),
            st.text(st.sampled_from("ab \n🍵é"), min_size=1, max_size=30),
            st.integers(1, 900),
        ),
        min_size=1,
        max_size=5,
    ),
    atomic=st.booleans(),
    together=st.booleans(),
)
def test_what_was_written_is_read_back(
    steps: list[tuple[str, str, int]],
    atomic: bool,
    together: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    expected = "First."
    operations = [store("doc", "First.")]
    for op, text, times in steps:
        content = text * times
        expected = content if op == "store" else expected + content
        operations.append(store("doc", content) if op == "store" else append("doc", content))

    async def write_and_read() -> None:
        async with open_calls(make_roots(tmp_path_factory.mktemp("long"))) as call:
            groups = [operations] if together else [[operation] for operation in operations]
            for group in groups:
                await remember(call, *group, atomic=atomic)

            assert await read_whole(call, "memory_get", key="doc") == expected
            assert await list_stored(call) == ["doc"]

    asyncio.run(write_and_read())
