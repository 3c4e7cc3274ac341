"""The history in exports, imports and backups: what it was there, it is here, or nobody says so."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from abilities.declarations.values import utc_now
from abilities.helpers.store.history import Entry, MemoryName, seal
from abilities.helpers.store.model import Row
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.transfer import exporting
from abilities.helpers.transfer.export_lines import (
    UnusableLine,
    format_entry,
    keep_sound,
    parse_entry,
)
from abilities.helpers.transfer.exporting import ExportOptions, export
from tests.stores.behaviours.steps import NAMESPACE, expect_stored, plan
from tests.support.places import FilePlace

T = TypeVar("T")

KEPT, GONE = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
NOW = utc_now()
"""Imports forget what is older than the limits allow."""


async def change(store: SqliteStore, *arguments: Any, **values: Any) -> None:
    await store.change(NAMESPACE, replace(plan(*arguments, **values), now=NOW))


def describe(content: str) -> dict[str, str]:
    return {"type": "core", "content": content}


def use(place: FilePlace, work: Callable[[SqliteStore], Awaitable[T]]) -> T:
    """Open a store, and do some work with it."""

    async def open_and_work() -> T:
        async with place.open() as store:
            return await work(store)

    return asyncio.run(open_and_work())


async def make_history(store: SqliteStore) -> None:
    """Make a memory with three versions, the last one renamed, and one that is deleted."""
    link = {"key": "b", "link_weight": 0.5, "type": "association"}
    await change(store, "store", "a", new_id=KEPT, links=[link], caller="c")
    await change(store, "store", "b", new_id=GONE, fields=describe("rose"))
    await change(store, "update", "a", fields={"tags": ["t"], "metadata": {"m": [0.5]}})
    await change(store, "update", "a", new_key="c")
    await change(store, "delete", "b")


@pytest.fixture
def store(file_place: FilePlace) -> FilePlace:
    """A store with a history."""
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

    async def read(store: SqliteStore) -> list[str]:
        found = await store.read_history(NAMESPACE, MemoryName(id=memory_id), None, 50)
        return [entry.action for entry in found.entries]

    return use(place, read)


def restore_first(place: FilePlace, memory_id: str) -> Row:
    """Restore the first version of a memory."""

    async def restore(store: SqliteStore) -> Row:
        found = await store.read_history(NAMESPACE, MemoryName(id=memory_id), None, 50)
        first = plan("restore", id=memory_id, to_version=found.earliest)
        return expect_stored(await store.change(NAMESPACE, replace(first, now=NOW))).row

    return use(place, restore)


def test_a_deletion_is_undone_in_the_store_that_it_was_moved_to(
    store: FilePlace, other: FilePlace, file: Path
) -> None:
    exported = store.run("export", file)
    imported = other.run("import", file)

    assert exported.stderr == "Exported 1 memory and 5 entries of history.\n"
    assert imported.stderr == "Imported: 1 added.\nTook over 5 entries of history.\n"
    assert read_actions(other, KEPT) == ["imported", "renamed", "changed", "created"]
    again = other.run("import", file)
    assert again.stderr == "Imported: 1 unchanged.\n"
    assert read_actions(other, GONE) == ["deleted", "created"]
    assert restore_first(other, GONE).content == "rose"
    first = restore_first(other, KEPT)
    assert (first.key, first.tags) == ("c", "[]")
    assert other.run("check", "--full").exit_code == 0


def test_the_history_can_be_left_out_and_a_dry_run_takes_none(
    store: FilePlace, other: FilePlace, file: Path
) -> None:
    without = store.run("export", "--no-history")
    store.run("export", file)
    tried = other.run("import", file, "--dry-run")

    assert "history" not in without.stdout
    assert without.stderr == "Exported 1 memory.\n"
    assert tried.stderr == "Would import: 1 added.\n"
    other.run("import", "-", stdin=without.stdout_bytes)
    assert read_actions(other, KEPT) == ["created"]


def test_a_version_1_export_is_imported(store: FilePlace, other: FilePlace) -> None:
    older = store.run("export", "--no-history").stdout.replace('"version":2', '"version":1')

    imported = other.run("import", "-", stdin=older.encode())

    assert imported.stderr == "Imported: 1 added.\n"


def test_an_end_travels(file_place: FilePlace) -> None:
    fields = {**describe("c"), "expires_at": "9999-01-01T00:00:00.000Z"}
    use(file_place, lambda opened: change(opened, "store", "a", fields=fields))
    other = file_place.beside("o.db")

    exported = file_place.export()
    other.run("import", "-", stdin=exported)

    assert json.loads(exported.splitlines()[1])["expires_at"] == fields["expires_at"]
    assert other.export() == exported


async def purge(store: SqliteStore, memory_id: str) -> None:
    await change(store, "purge", id=memory_id)


def test_what_was_purged_is_refused_and_the_rest_imported(store: FilePlace, file: Path) -> None:
    report = file.with_name("report.jsonl")
    store.run("export", file)
    for memory_id in (KEPT, GONE):
        use(store, partial(purge, memory_id=memory_id))

    done = store.run("import", file, "--replace", "--report", report)

    assert done.exit_code == 1
    assert done.stderr.endswith("Imported: 1 refused.\n")
    assert "purged from this store" in json.loads(report.read_text())["words"]
    assert len(store.run("export").stdout.splitlines()) == 1, "nothing came back"


def test_a_backup_has_the_history(store: FilePlace) -> None:
    copy = store.beside("copy.db")
    whole = store.run("export").stdout

    assert store.run("backup", copy.path).exit_code == 0
    assert copy.run("export").stdout == whole

    restore_first(store, GONE)
    assert store.run("restore", "--replace", copy.path).exit_code == 0
    assert store.run("export").stdout == whole


def test_one_namespace_has_its_own_history(store: FilePlace, other: FilePlace) -> None:
    use(store, lambda opened: opened.change("z", replace(plan("store", "z"), now=NOW)))

    ours = store.run("export", "--namespace", NAMESPACE)
    theirs = store.run("export", "--namespace", "z")

    assert ours.stdout.count('{"history"') == 5
    assert theirs.stdout.count('{"history"') == 1
    moved = other.run("import", "--namespace", "team", "-", stdin=ours.stdout_bytes)
    assert moved.stderr == "Imported: 1 added.\nTook over 5 entries of history.\n"
    assert other.run("check").exit_code == 0


def test_a_damaged_entry_is_left_out_and_what_comes_after_it_is_kept(
    store: FilePlace, other: FilePlace, file: Path
) -> None:
    store.tamper("UPDATE history SET caller = 'else' WHERE action = 'changed'")

    done = store.run("export", file)

    assert done.exit_code == 1
    assert done.stderr.endswith(
        "Exported 1 memory and 4 entries of history, left out 1 damaged entry.\n"
    )
    other.run("import", file)
    assert read_actions(other, KEPT) == ["imported", "renamed"]
    assert other.run("check").exit_code == 0


@pytest.mark.parametrize(
    "meddle",
    [
        pytest.param(
            lambda store: change(store, "update", "c", fields=describe("x")), id="changed"
        ),
        pytest.param(lambda store: change(store, "update", "c", new_key="0"), id="renamed"),
        pytest.param(lambda store: change(store, "delete", "c"), id="deleted"),
        pytest.param(lambda store: change(store, "store", "new"), id="created"),
        pytest.param(lambda store: change(store, "restore", id=GONE, to_version=2), id="restored"),
    ],
)
def test_a_store_that_changes_during_an_export_gives_matching_pasts(
    meddle: Callable[[SqliteStore], Any], store: FilePlace, other: FilePlace, file: Path
) -> None:
    """Between the history and the memories something changes."""

    class Changing(SqliteStore):
        has_changed = False

        async def read_page(self, after: tuple[str, str], limit: int) -> Any:
            if not self.has_changed:
                self.has_changed = True
                await meddle(self)
            return await super().read_page(after, limit)

    async def write() -> None:
        opened = Changing(store.path)
        await export(opened, file, ExportOptions(), lambda _: None)
        await opened.close()

    asyncio.run(write())
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

    for length in range(0, len(whole) + 1, 7):
        file = tmp_path / f"{length}.jsonl"
        file.with_name(f"{file.name}.part").write_bytes(whole[:length])

        assert store.run("export", "--resume", file).exit_code == 0
        assert file.read_bytes() == whole


def make_entry(version: int, previous: int, action: Any, before: str = '{"row":{}}') -> Entry:
    return seal(Entry("n", version, KEPT, "k", previous, action, NOW, "", before))


def test_entries_that_lead_nowhere_are_left_out() -> None:
    created = make_entry(1, 0, "created", '{"row":null}')
    changed = make_entry(3, 1, "changed")
    relinked = make_entry(4, 3, "relinked")
    archived = make_entry(6, 3, "archived")

    assert keep_sound([created, changed, relinked, archived]) == [
        created,
        changed,
        relinked,
        archived,
    ]
    assert keep_sound([created, archived]) == [archived]
    assert keep_sound([changed, created]) == [created]
    assert keep_sound([relinked, archived]) == [relinked, archived]


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
    value = json.loads(format_entry(make_entry(3, 1, "changed")))["history"] | fields
    if before is not None:
        value["before"] = before

    with pytest.raises(UnusableLine):
        parse_entry(json.dumps({"history": value}).encode())


def test_an_entry_comes_back_from_its_line(store: FilePlace) -> None:
    entries = use(store, lambda opened: opened.read_entries(("", "", 0), 100))

    assert len(entries) == 5
    for entry in entries:
        assert isinstance(entry, Entry)
        assert parse_entry(format_entry(entry)) == entry
