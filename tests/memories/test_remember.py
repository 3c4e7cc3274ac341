"""`remember`: many writes in one call, each with its own outcome, long contents included."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, AbilityError, Settings, render
from tests.support.detail_cases import check_schema
from tests.support.surfaces import SURFACES, CannotCarry, python

Payload = dict[str, Any]

UNKNOWN = "00000000-0000-4000-8000-000000000000"
LONG = " ".join(f"word{number}" for number in range(4_000))


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as abilities:
        yield abilities


def store(key: str, content: str = "Tea.", **more: Any) -> Payload:
    """Return an operation that stores a memory."""
    return {"op": "store", "type": "core", "key": key, "content": content, **more}


async def remember(app: Abilities, *operations: Any, **more: Any) -> list[Payload]:
    """Return the records of operations."""
    arguments = {"operations": list(operations), **more}
    payload = await app.call("remember", arguments)
    check_schema("remember", payload)

    records: list[Payload] = payload["results"]
    assert [record["input"] for record in records] == list(range(len(operations)))
    failed = sum("reason" in record or "error" in record for record in records)
    assert payload["summary"]["failed"] == failed
    assert payload["summary"]["succeeded"] == len(operations) - failed
    return records


async def get(app: Abilities, key: str) -> Payload:
    payload = await app.call("memory_get", {"key": key})
    data: Payload = payload["data"]
    return data


async def read_whole(app: Abilities, key: str, **more: Any) -> str:
    """Return a long content, read until there is no next request."""
    request: Payload | None = {"key": key, **more}
    pieces: list[str] = []

    while request is not None:
        payload = await app.call("memory_get", request)
        assert len(orjson.dumps(payload)) <= app.settings.max_response_bytes
        pieces.append(payload["data"]["content"])
        request = payload.get("next_request")

    return "".join(pieces)


async def list_keys(app: Abilities) -> list[str]:
    payload = await app.call("memory_list", {"archived": True})
    return [memory["key"] for memory in payload["memories"]]


async def test_every_operation_does_what_it_says(app: Abilities) -> None:
    records = await remember(
        app,
        store("tea", "Green"),
        store("ada", "Ada", links=[{"key": "tea"}], expires_at="2999-01-01T00:00:00Z"),
        {"op": "append", "key": "tea", "content": " tea."},
        {"op": "update", "key": "tea", "summary": "A drink.", "importance": "high"},
        {"op": "link", "key": "tea", "links": [{"key": "kettle", "link_weight": 0.9}]},
        {"op": "link", "key": "tea", "links": [{"key": "cup"}]},
        {"op": "unlink", "key": "tea", "remove_links": [{"key": "cup"}]},
        {"op": "rename", "key": "tea", "to": "green tea"},
        {"op": "archive", "key": "ada"},
        store("gone"),
        {"op": "delete", "key": "gone", "permanent": True},
    )

    assert [record.get("created", False) for record in records] == [
        *(True, True),
        *[False] * 7,
        True,
        False,
    ]
    tea = await get(app, "green tea")
    assert tea["content"] == "Green tea." and tea["summary"] == "A drink."
    assert [link["key"] for link in tea["links"]] == ["kettle"]
    assert tea["version"] == records[7]["version"] and records[7]["key"] == "green tea"

    ada = await get(app, "ada")
    assert ada["archived"] and ada["expires_at"] == "2999-01-01T00:00:00.000Z"
    assert [link["key"] for link in ada["links"]] == ["green tea"]
    assert await list_keys(app) == ["ada", "green tea"]


@pytest.mark.parametrize("first", ["Short.", LONG])
@pytest.mark.parametrize("second", ["Other.", f"{LONG} And more."])
async def test_who_replaces_a_content_can_bring_it_back(
    first: str, second: str, app: Abilities
) -> None:
    (before,) = await remember(app, store("tea", first))
    (after,) = await remember(app, store("tea", second))
    (same,) = await remember(app, store("tea", second))

    assert "replaced" not in before and "replaced" not in same
    assert after["replaced"] == before["version"]
    full = await remember(app, store("tea", first), detail="full")
    assert full[0]["data"]["replaced"] == same["version"]

    await app.call("memory_restore", {"key": "tea", "version": same["version"]})
    assert await read_whole(app, "tea") == second
    await app.call("memory_restore", {"key": "tea", "version": after["replaced"]})
    assert await read_whole(app, "tea") == first


async def test_one_answer_of_50_stores_is_short(app: Abilities) -> None:
    operations = [store(f"project/decisions/{number:03}") for number in range(50)]

    payload = await app.call("remember", {"operations": operations})

    assert len(render(payload, "toon").encode()) <= 5_000
    assert len(payload["results"]) == 50
    assert {tuple(record) for record in payload["results"]} == {
        ("input", "id", "key", "version", "created")
    }


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
    surface: str, roots: Settings
) -> None:
    await python(roots, "remember", {"operations": [store("tea"), store("taken")]})
    wrong = [operation for operation, _, _ in HOSTILE]
    operations = [store("before"), *wrong, store("after")]

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
    changed = await python(roots, "memory_changes", {})
    assert [change["key"] for change in changed["changes"]] == ["tea", "taken", "before", "after"]


async def test_a_wrong_operation_gets_the_fault_of_the_single_ability(app: Abilities) -> None:
    cases: list[tuple[str, Payload]] = [
        ("store_memory", {"type": "core", "content": ""}),
        ("store_memory", {"type": "fact", "content": "c"}),
        ("store_memory", {"content": "c", "importence": "high"}),
        ("store_memory", {"type": "core", "content": "c", "id": UNKNOWN}),
        ("store_memory", {"type": "core", "content": "c", "key": "k", "if_version": 3}),
        ("store_memory", {"type": "core", "content": "c", "expires_at": "now"}),
        ("store_memory", {"type": "core", "content": "c", "links": [{"kay": "k"}]}),
    ]

    for name, arguments in cases:
        with pytest.raises(AbilityError) as single:
            await app.call(name, arguments)
        (record,) = await remember(app, {"op": "store", **arguments}, detail="full")

        assert record["error"]["reason"] == single.value.fault.reason
        assert record["error"].get("field") == single.value.fault.field
        assert record["error"]["message"] == single.value.fault.message


async def test_all_or_none(app: Abilities) -> None:
    await remember(app, store("tea"))

    for wrong, reason in (
        ({"op": "stroe"}, "not_one_of"),
        ({"op": "append", "key": "nobody", "content": "c"}, "not_found"),
        (store("tea", if_version=9), "version_conflict"),
    ):
        records = await remember(app, store("a"), wrong, store("b", LONG), atomic=True)
        assert [record["reason"] for record in records] == ["rolled_back", reason, "rolled_back"]
        assert await list_keys(app) == ["tea"]

    assert (await get(app, "tea"))["version"] == 1
    records = await remember(app, store("a"), store("b", LONG), atomic=True)
    assert all(record["created"] for record in records)


async def test_a_conflict_tells_the_current_version(app: Abilities) -> None:
    (stored,) = await remember(app, store("tea"))
    (changed,) = await remember(app, store("tea", "Hot.", if_version=stored["version"]))

    (concise,) = await remember(app, store("tea", "Cold.", if_version=stored["version"]))
    (full,) = await remember(app, store("tea", "", if_version=1), detail="full")
    (full,) = await remember(app, store("tea", "Cold.", if_version=1), detail="full")
    (new,) = await remember(app, store("cup", if_version=1))

    assert concise == {"input": 0, "version": changed["version"], "reason": "version_conflict"}
    assert full["error"]["expected"] == {"version": changed["version"]}
    assert new["version"] == 0
    assert (await get(app, "tea"))["content"] == "Hot."


async def test_the_operations_of_a_call_are_bounded(app: Abilities) -> None:
    for operations, reason in (
        ([], "too_few"),
        ([store("k")] * 51, "too_many"),
        ([store("k", "x" * 100_001)] * 2, "too_long"),
        ("store", "wrong_type"),
    ):
        with pytest.raises(AbilityError) as refused:
            await app.call("remember", {"operations": operations})
        assert refused.value.fault.reason == reason
        assert refused.value.fault.field == "operations"

    assert await list_keys(app) == []


async def test_what_was_made_is_told_even_if_the_answer_is_at_its_bound(
    roots: Settings,
) -> None:
    small = roots.model_copy(update={"max_response_bytes": 40_000})
    keys = [f"{'🍵' * 195}{number:03}" for number in range(50)]

    async with Abilities.open(small) as app:
        payload = await app.call("remember", {"operations": [store(key) for key in keys]})
        assert payload["summary"]["succeeded"] == 50
        assert len(orjson.dumps(payload)) <= 40_000
        assert all("id" in record for record in payload["results"])

        wrong = {"op": "update", "a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8}
        payload = await app.call("remember", {"operations": [wrong] * 50, "detail": "full"})
        assert payload["summary"]["failed"] == 50
        assert len(orjson.dumps(payload)) <= 40_000


async def test_a_reading_caller_may_not_remember(app: Abilities) -> None:
    reading = app.for_namespace("default", read_only=True)

    for name, arguments in (
        ("remember", {"operations": [store("tea")]}),
        ("memory_restore", {"key": "tea", "version": 1}),
    ):
        with pytest.raises(AbilityError) as refused:
            await reading.call(name, arguments)
        assert refused.value.fault.reason == "scope"


async def test_operations_on_one_long_content_in_one_call(app: Abilities) -> None:
    operations = [
        store("doc", "a" * 4_000),
        {"op": "append", "key": "doc", "content": "b" * 4_000},
        {"op": "rename", "key": "doc", "to": "book"},
        {"op": "append", "key": "book", "content": "c" * 9_000},
    ]

    for atomic in (False, True):
        records = await remember(app, *operations, atomic=atomic)
        assert [record.get("reason") for record in records] == [None] * 4
        assert await read_whole(app, "book") == "a" * 4_000 + "b" * 4_000 + "c" * 9_000
        await remember(app, {"op": "delete", "key": "book", "permanent": True})
        assert await list_keys(app) == []


@pytest.mark.parametrize("atomic", [False, True])
async def test_operations_by_id_and_by_key_on_one_long_content(
    app: Abilities, atomic: bool
) -> None:
    (made,) = await remember(app, store("doc", "a" * 4_000))
    by_id = made["id"]

    records = await remember(
        app,
        {"op": "update", "id": by_id, "importance": "high"},
        {"op": "append", "key": "doc", "content": "b" * 8_000},
        {"op": "rename", "id": by_id, "to": "book"},
        {"op": "append", "key": "book", "content": "c" * 4_000},
        {"op": "update", "id": by_id, "summary": "A book."},
        atomic=atomic,
    )

    assert [record.get("reason") for record in records] == [None] * 5
    assert await read_whole(app, "book") == "a" * 4_000 + "b" * 8_000 + "c" * 4_000
    book = await get(app, "book")
    assert (book["id"], book["importance"], book["summary"]) == (by_id, "high", "A book.")


TEXTS = st.text(st.sampled_from("ab \n🍵é"), min_size=1, max_size=30)


@hypothesis_settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["store", "append"]), TEXTS, st.integers(1, 900)),
        min_size=1,
        max_size=5,
    ),
    atomic=st.booleans(),
    together=st.booleans(),
)
def test_what_was_written_is_read_back(
    steps: list[tuple[str, str, int]], atomic: bool, together: bool, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("long")
    settings = Settings(
        agent_dir=folder, workspace_dir=folder, store_url=f"sqlite:///{folder}/memory.db"
    )
    expected = "First."
    operations: list[Payload] = [store("doc", "First.")]
    for op, text, times in steps:
        content = text * times
        expected = content if op == "store" else expected + content
        operation = {"op": op, "key": "doc", "content": content}
        operations.append({**operation, "type": "core"} if op == "store" else operation)

    async def write_and_read() -> tuple[str, list[str]]:
        async with Abilities.open(settings) as app:
            if together:
                await remember(app, *operations, atomic=atomic)
            else:
                for operation in operations:
                    await remember(app, operation, atomic=atomic)
            return await read_whole(app, "doc"), await list_keys(app)

    whole, keys = asyncio.run(write_and_read())

    assert whole == expected
    assert keys == ["doc"]


async def test_the_version_of_a_long_content_tells_of_every_change(app: Abilities) -> None:
    """Two who have read it cannot overwrite each other, wherever they write."""
    book = {"op": "store", "type": "core", "key": "book", "content": "a" * 12_000}
    versions = [(await remember(app, book))[0]["version"]]

    for operation in (
        {"op": "append", "key": "book", "content": "b"},
        {**book, "content": "a" * 12_000},
        {**book, "content": "a" * 11_000 + "c"},
    ):
        (record,) = await remember(app, {**operation, "if_version": versions[-1]})
        versions.append(record["version"])

    assert versions == sorted(set(versions))
    late = await remember(app, {**book, "content": "lost?", "if_version": versions[0]})
    assert late[0]["reason"] == "version_conflict"
    same = await remember(app, {**book, "content": "a" * 11_000 + "c"})
    assert same[0]["version"] == versions[-1]
