"""Callers who change one content at once, while others make it longer, shorter, or take it away."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.application import open_store
from abilities.declarations.values import utc_now
from abilities.helpers.stores.changes import Change, Kind
from abilities.helpers.stores.parts import make_part_key
from abilities.helpers.stores.postgres.store import PostgresStore
from abilities.helpers.stores.sqlite.store import SqliteStore
from tests.support import postgres
from tests.support.tier import QUICK

Payload = dict[str, Any]
Act = Callable[[], Awaitable[None]]

LONG = "word " * 1_100
LONGER = "other " * 1_700


def store(content: str, key: str = "doc", **more: Any) -> Payload:
    """Return an operation that stores a memory."""
    return {"op": "store", "type": "core", "key": key, "content": content, **more}


OPERATIONS: dict[str, Payload] = {
    "short": store("Short.", tags=["short"]),
    "long": store(LONG),
    "longer": store(LONGER, tags=["long"]),
    "append": {"op": "append", "key": "doc", "content": "more " * 300},
    "update": {"op": "update", "key": "doc", "content": "Updated.", "importance": "high"},
    "archive": {"op": "archive", "key": "doc"},
    "delete": {"op": "delete", "key": "doc", "permanent": True},
    "rename away": {"op": "rename", "key": "doc", "to": "book"},
    "rename into": {"op": "rename", "key": "other", "to": "doc"},
    "purge": {"op": "purge"},
}
"""Changes of the memory ``doc``; a purge is no operation, but an ability of its own."""

BEFORE: dict[str, list[Payload]] = {
    "absent": [store("Other.", "other")],
    "short": [store("short " * 700), store(LONG, "other")],
    "long": [store(LONG), store("Other.", "other")],
}

AT_ONCE = [("short", name, "long") for name in ("short", "update", "delete", "rename away")]
"""What was there, a change, and one that comes between its reading and its writing."""

if not QUICK:
    AT_ONCE += list(itertools.product(BEFORE, OPERATIONS, OPERATIONS))[::13]


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, roots: Settings) -> AsyncIterator[Abilities]:
    """An application on a store of each kind."""
    settings = roots.model_copy(update={"allow_purge": True, "max_response_bytes": 1_000_000})
    if request.param == "sqlite":
        async with Abilities.open(settings) as abilities:
            yield abilities
        return

    with postgres.database(request.getfixturevalue("server")) as url:
        async with Abilities.open(settings.model_copy(update={"store_url": url})) as abilities:
            yield abilities


async def remember(app: Abilities, *operations: Payload, atomic: bool = False) -> list[Payload]:
    arguments = {"operations": list(operations), "atomic": atomic}
    results: list[Payload] = (await app.call("remember", arguments))["results"]
    return results


async def perform(app: Abilities, name: str, *, atomic: bool) -> None:
    """Make a change; there may be nothing that it could change."""
    if name != "purge":
        (record,) = await remember(app, OPERATIONS[name], atomic=atomic)
        assert record.get("reason") in (None, "not_found", "key_taken"), record
        return

    try:
        found = await app.call("memory_get", {"key": "doc"})
        await app.call("delete_memory", {"id": found["data"]["id"], "purge": True})
    except AbilityError as error:
        assert error.fault.reason == "not_found", error


async def read_all(app: Abilities) -> dict[str, tuple[str, bool]]:
    """Return the contents of a namespace by their keys, and whether they are archived.

    A part that no content goes on in is one by itself.
    """
    listed = (await app.call("memory_list", {"archived": True}))["memories"]
    keys = {memory["key"] for memory in listed}
    contents: dict[str, tuple[str, bool]] = {}

    while keys:
        key = min(keys, key=len)
        whole = (await app.call("memory_get", {"key": key, "whole": True}))["data"]
        contents[key] = (whole["content"], whole.get("archived", False))
        keys -= {key, *[make_part_key(key, number) for number in await list_parts(app, key)]}

    return contents


async def list_parts(app: Abilities, key: str) -> list[int]:
    """Return the numbers of the further parts that a content goes on in."""
    numbers: list[int] = []
    for number in itertools.count(2):
        payload = await app.call("memory_get", {"key": make_part_key(key, number - 1)})
        next_key = make_part_key(key, number)
        links = payload["data"].get("links", [])
        if not any((link["key"], link["type"]) == (next_key, "continues") for link in links):
            break
        numbers.append(number)

    return numbers


async def check_that_the_key_is_free(app: Abilities) -> None:
    """Check that a long content can be written, read and deleted."""
    assert "reason" not in (await remember(app, store(LONGER)))[0]
    assert (await read_all(app))["doc"] == (LONGER, False)

    await remember(app, {"op": "delete", "key": "doc", "permanent": True})
    assert not any(key.startswith("doc") for key in await read_all(app))


def let_in(monkeypatch: pytest.MonkeyPatch, waiting: list[Act], call: int) -> None:
    """Let one who waits act just before a store makes changes, at a call counted from 0."""
    calls = itertools.count()

    def replace(kind: type[SqliteStore] | type[PostgresStore]) -> None:
        change_many = kind.change_many

        async def change_later(self: Any, *arguments: Any, **options: Any) -> Any:
            if next(calls) == call:
                await waiting.pop()()
            return await change_many(self, *arguments, **options)

        monkeypatch.setattr(kind, "change_many", change_later)

    replace(SqliteStore)
    replace(PostgresStore)


async def test_two_changes_at_once_are_as_one_after_the_other(
    app: Abilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the second comes between the reading and the writing of the first."""
    for number, (before, first, second) in enumerate(AT_ONCE):
        atomic = bool(number % 2)
        states: list[object] = []
        for order in ((first, second), (second, first)):
            view = app.for_namespace(f"{number}-{len(states)}")
            await remember(view, *BEFORE[before])
            for name in order:
                await perform(view, name, atomic=atomic)
            states.append(await read_all(view))

        for call in (0, 1):
            view = app.for_namespace(f"{number}-at-{call}")
            await remember(view, *BEFORE[before])
            waiting: list[Act] = [partial(perform, view, second, atomic=atomic)]
            with monkeypatch.context() as patch:
                let_in(patch, waiting, call)
                await perform(view, first, atomic=atomic)
            for act in waiting:  # there was no such call
                await act()

            assert await read_all(view) in states, (before, first, second, call)
            await check_that_the_key_is_free(view)


async def test_many_who_write_and_delete_one_key_at_once_leave_it_free(app: Abilities) -> None:
    names = ["long", "delete", "short", "longer", "delete", "append", "archive", "rename away"] * 2

    # The other one has a store of its own, as another process has.
    async with Abilities.open(app.settings) as other:
        changes = [
            perform((app, other)[number % 2], name, atomic=number % 3 == 0)
            for number, name in enumerate(names)
        ]
        await asyncio.gather(*changes)

    for key, (content, _) in (await read_all(app)).items():
        assert key in ("doc", "book") and "#" not in key, key
        assert content.startswith((LONG, LONGER, "Short.", "Updated.")), key
    await check_that_the_key_is_free(app)


@pytest.mark.parametrize("content", [LONG, "long " * 3_000], ids=["two parts", "three parts"])
async def test_parts_that_older_versions_left_behind_are_in_nobodys_way(
    app: Abilities, content: str
) -> None:
    await remember(app, store(content))
    await change_first(app, "delete")
    assert "doc#2" in await read_all(app)

    await check_that_the_key_is_free(app)


async def test_parts_that_a_restored_version_left_behind_are_in_nobodys_way(
    app: Abilities,
) -> None:
    (first,) = await remember(app, store("Short."))
    await remember(app, store(LONG))
    await app.call("memory_restore", {"key": "doc", "version": first["version"]})

    await check_that_the_key_is_free(app)


async def test_a_memory_of_its_own_is_never_taken_for_a_part(app: Abilities) -> None:
    """Neither if the content had such a part once, nor if another content goes on in it."""
    mine = store("Mine.", "doc#2")
    await remember(app, store(LONG), store("Short."), mine)
    assert (await remember(app, store(LONG)))[0]["reason"] == "key_taken"

    await remember(app, {"op": "delete", "key": "doc", "permanent": True})
    assert (await remember(app, store(LONG)))[0]["reason"] == "key_taken"
    assert (await read_all(app))["doc#2"] == ("Mine.", False)

    await remember(app, {"op": "delete", "key": "doc#2", "permanent": True}, store(LONG))
    await change_first(app, "update", new_key="book")
    assert (await remember(app, store(LONG)))[0]["reason"] == "key_taken"
    rest = (await read_all(app))["doc#2"]
    assert rest[0] and LONG.endswith(rest[0])


async def change_first(app: Abilities, kind: Kind, **values: Any) -> None:
    """Change the first memory of a content alone, as older versions did."""
    change = Change(kind, utc_now(), key="doc", **values)
    opened = open_store(app.settings)
    await opened.change(app.settings.namespace, change)
    await opened.close()


async def test_a_content_is_archived_deleted_and_renamed_as_one_by_its_id(app: Abilities) -> None:
    (record,) = await remember(app, store(LONG))
    memory = {"id": record["id"]}

    await app.call("update_memory", {**memory, "key": "book"})
    assert await read_all(app) == {"book": (LONG, False)}

    await app.call("delete_memory", memory)
    listed = (await app.call("memory_list", {}))["memories"]
    assert listed == []

    await remember(app, {"op": "update", **memory, "archived": False})
    assert await read_all(app) == {"book": (LONG, False)}

    await remember(app, {"op": "append", **memory, "content": "x" * 5_000})
    assert await read_all(app) == {"book": (LONG + "x" * 5_000, False)}

    await app.call("delete_memory", {**memory, "permanent": True})
    assert await read_all(app) == {}


async def test_operations_after_one_on_a_long_content_come_after_it(app: Abilities) -> None:
    """A store makes the changes of short contents together, before it knows which are long."""
    await remember(app, store(LONG))

    for atomic in (False, True):
        records = await remember(
            app,
            store("Before.", "other"),
            {"op": "rename", "key": "doc", "to": "book"},
            store("New.", "doc"),
            {"op": "append", "key": "doc", "content": "x" * 5_000},
            {"op": "delete", "key": "book", "permanent": True},
            {"op": "rename", "key": "doc", "to": "book"},
            {"op": "delete", "key": "other", "permanent": True},
            atomic=atomic,
        )

        assert [record.get("reason") for record in records] == [None] * 7
        assert await read_all(app) == {"book": ("New." + "x" * 5_000, False)}
        await remember(app, {"op": "rename", "key": "book", "to": "doc"})


async def test_an_addition_to_what_is_not_there_is_refused_alone(app: Abilities) -> None:
    missing = {"op": "append", "key": "nobody", "content": "x" * 6_000}

    records = await remember(app, store("One.", "a"), missing, store("Two.", "b"))

    assert [record.get("reason") for record in records] == [None, "not_found", None]
