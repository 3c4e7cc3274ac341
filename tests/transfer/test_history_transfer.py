"""The history in exports, imports and backups: what it was there, it is here, or nobody says so.

The law of the past, in `test_law.py`, compares all that a store knows after an export and import.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from abilities.declarations.values import utc_now
from abilities.helpers.store.history import Entry, MemoryName, seal
from abilities.helpers.store.model import Row
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.transfer import export_lines, exporting
from abilities.helpers.transfer.exporting import ExportOptions, export
from tests.stores.behaviours.steps import NAMESPACE, expect_stored, plan
from tests.support.places import FilePlace

T = TypeVar("T")

KEPT, GONE = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
NOW = utc_now()
"""Imports forget what is older than the limits allow."""


async def change(store: ServableStore, *arguments: Any, **values: Any) -> None:
    await store.change(NAMESPACE, plan(*arguments, now=NOW, **values))


def use(place: FilePlace, work: Callable[[SqliteStore], Awaitable[T]]) -> T:
    """Open a store, and do some work with it."""

    async def open_and_work() -> T:
        async with place.open() as store:
            return await work(store)

    return asyncio.run(open_and_work())


@pytest.fixture
def store(file_place: FilePlace) -> FilePlace:
    """A store of a memory with three versions, the last one renamed, and one that is deleted."""

    async def make_history(store: SqliteStore) -> None:
        link = {"key": "b", "link_weight": 0.5, "type": "association"}
        await change(store, "store", "a", new_id=KEPT, links=[link], caller="c")
        await change(store, "store", "b", new_id=GONE)
        await change(store, "update", "a", fields={"tags": ["t"], "metadata": {"m": [0.5]}})
        await change(store, "update", "a", new_key="c")
        await change(store, "delete", "b")

    use(file_place, make_history)
    return file_place


@pytest.fixture
def other(store: FilePlace) -> FilePlace:
    """A place for a store beside it."""
    return store.beside("o.db")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test exports to."""
    return tmp_path / "m.jsonl"


def read_actions(place: FilePlace, memory_id: str) -> list[str]:
    """Return what became of a memory, the last change first."""
    name = MemoryName(id=memory_id)
    found = use(place, lambda store: store.read_history(NAMESPACE, name, None, 50))
    return [entry.action for entry in found.entries]


def restore_first(place: FilePlace, memory_id: str) -> Row:
    """Restore the first version of a memory."""

    async def restore(store: SqliteStore) -> Row:
        found = await store.read_history(NAMESPACE, MemoryName(id=memory_id), None, 50)
        first = plan("restore", id=memory_id, to_version=found.earliest, now=NOW)
        return expect_stored(await store.change(NAMESPACE, first)).row

    return use(place, restore)


def test_the_commands_say_how_much_of_the_history_they_moved(
    store: FilePlace, other: FilePlace, file: Path
) -> None:
    """It can be left out, also by an older version, and a dry run takes none."""
    exported = store.run("export", file)
    without = store.run("export", "--no-history")
    tried = other.run("import", file, "--dry-run")
    older = without.stdout.replace('"version":2', '"version":1').encode()

    assert exported.stderr == "Exported 1 memory and 5 entries of history.\n"
    assert without.stderr == "Exported 1 memory.\n" and "history" not in without.stdout
    assert tried.stderr == "Would import: 1 added.\n"
    assert other.run("import", "-", stdin=older).stderr == "Imported: 1 added.\n"
    assert read_actions(other, KEPT) == ["created"]

    third = store.beside("third.db")
    imported = third.run("import", file)
    assert imported.stderr == "Imported: 1 added.\nTook over 5 entries of history.\n"
    assert third.run("import", file).stderr == "Imported: 1 unchanged.\n"
    assert read_actions(third, KEPT) == ["imported", "renamed", "changed", "created"]
    assert restore_first(third, GONE).key == "b"


def test_one_namespace_has_its_own_history(store: FilePlace, other: FilePlace) -> None:
    use(store, lambda opened: opened.change("z", replace(plan("store", "z"), now=NOW)))

    ours, theirs = (store.run("export", "--namespace", name) for name in (NAMESPACE, "z"))

    assert [exported.stdout.count('{"history"') for exported in (ours, theirs)] == [5, 1]
    moved = other.run("import", "--namespace", "team", "-", stdin=ours.stdout_bytes)
    assert moved.stderr == "Imported: 1 added.\nTook over 5 entries of history.\n"
    assert other.run("check").exit_code == 0


def test_a_damaged_entry_is_left_out_and_what_comes_after_it_is_kept(
    store: FilePlace, other: FilePlace, file: Path
) -> None:
    store.tamper("UPDATE history SET caller = 'else' WHERE action = 'changed'")

    done = store.run("export", file)

    assert done.exit_code == 1
    words = "Exported 1 memory and 4 entries of history, left out 1 damaged entry.\n"
    assert done.stderr.endswith(words)
    other.run("import", file)
    assert read_actions(other, KEPT) == ["imported", "renamed"]
    assert other.run("check").exit_code == 0


MEDDLING: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "changed": (("update", "c"), {"fields": {"content": "x"}}),
    "renamed": (("update", "c"), {"new_key": "0"}),
    "deleted": (("delete", "c"), {}),
    "created": (("store", "new"), {}),
    "restored": (("restore",), {"id": GONE, "to_version": 2}),
}


@pytest.mark.parametrize("name", MEDDLING)
def test_a_store_that_changes_during_an_export_gives_matching_pasts(
    name: str, store: FilePlace, other: FilePlace, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the history and the memories something changes."""
    arguments, values = MEDDLING[name]

    async def export_and_meddle(opened: SqliteStore) -> None:
        read_page = opened.read_page

        async def read_changed_page(after: tuple[str, str], limit: int) -> Any:
            monkeypatch.undo()
            await change(opened, *arguments, **values)
            return await read_page(after, limit)

        monkeypatch.setattr(opened, "read_page", read_changed_page)
        await export(opened, file, ExportOptions(), lambda _: None)

    use(store, export_and_meddle)
    other.run("import", file)

    assert read_actions(other, KEPT) == ["imported", "renamed", "changed", "created"]
    first = restore_first(other, KEPT)
    assert (first.content, first.tags) == ("content of a", "[]")
    assert other.run("check").exit_code == 0


def test_an_interrupted_export_goes_on_wherever_it_stopped(
    store: FilePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = store.run("export").stdout_bytes
    monkeypatch.setattr(exporting, "PAGE", 2)

    for length in range(0, len(whole) + 1, 61):
        file = tmp_path / f"{length}.jsonl"
        part = file.with_name(f"{file.name}.part")
        part.write_bytes(whole[:length])

        assert store.run("export", "--resume", file).exit_code == 0
        assert file.read_bytes() == whole and not part.exists()


def make_entry(version: int, previous: int, action: Any, before: str = '{"row":{}}') -> Entry:
    return seal(Entry("n", version, KEPT, "k", previous, action, NOW, "", before))


@pytest.mark.parametrize(
    ("fields", "before"),
    [
        ({"version": 0}, None),
        ({"id": "x"}, None),
        ({"action": "none"}, None),
        ({"new": 1}, None),
        ({"made_at": "today"}, None),
        ({"previous": 0}, None),
        ({"action": "relinked"}, {"row": {"content": "x"}}),
        ({"action": "deleted"}, {"row": {"content": "x"}}),
        ({}, {"row": {"id": GONE}}),
        ({}, {"row": {"content": ""}}),
        ({}, {"row": {"content": "\0"}}),
        ({}, {"row": {"score": 2}}),
        ({}, {"row": {"tags": [1]}}),
        ({}, {"row": {"version": 1}}),
        ({}, {"row": {}, "links": [["a"]]}),
        ({}, {"row": {}, "links": [["a", "t", 2.0, ""]]}),
        ({}, {}),
    ],
)
def test_a_line_that_fits_no_memory_is_refused(
    fields: dict[str, Any], before: dict[str, Any] | None
) -> None:
    value = json.loads(export_lines.format_entry(make_entry(3, 1, "changed")))["history"] | fields
    if before is not None:
        value["before"] = before

    with pytest.raises(export_lines.UnusableLine):
        export_lines.parse_entry(json.dumps({"history": value}).encode())
