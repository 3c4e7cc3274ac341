"""The history in exports, imports and backups: what it was there, it is here, or nobody says so."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from abilities.declarations.values import utc_now
from abilities.helpers.store.history import Entry, MemoryName, seal
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.helpers.transfer import exporting
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.exporting import ExportOptions, export
from abilities.helpers.transfer.history_lines import format_entry, keep_sound, parse_entry
from tests.stores.behaviours.steps import NAMESPACE, plan
from tests.stores.test_stores import open_store
from tests.stores.test_transfer import run, tamper

KEPT, GONE = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
NOW = utc_now()
"""Imports forget what is older than the limits allow."""


async def change(store: SqliteStore, *arguments: Any, **values: Any) -> None:
    await store.change(NAMESPACE, replace(plan(*arguments, **values), now=NOW))


def fill(path: Path) -> None:
    """Make a memory with three versions, the last one renamed, and one that is deleted."""

    async def make() -> None:
        link = {"key": "b", "link_weight": 0.5, "type": "association"}
        async with open_store(path) as store:
            await change(store, "store", "a", new_id=KEPT, links=[link], caller="c")
            await change(store, "store", "b", new_id=GONE, fields=describe("rose"))
            await change(store, "update", "a", fields={"tags": ["t"], "metadata": {"m": [0.5]}})
            await change(store, "update", "a", new_key="c")
            await change(store, "delete", "b")

    asyncio.run(make())


def describe(content: str) -> dict[str, str]:
    return {"type": "core", "content": content}


def read_actions(path: Path, memory_id: str) -> list[str]:
    async def read() -> list[str]:
        async with open_store(path) as store:
            found = await store.read_history(NAMESPACE, MemoryName(id=memory_id), None, 50)
            return [entry.action for entry in found.entries]

    return asyncio.run(read())


def restore_first(path: Path, memory_id: str) -> StoredMemory | None:
    """Restore the first version of a memory."""

    async def make() -> StoredMemory | None:
        async with open_store(path) as store:
            found = await store.read_history(NAMESPACE, MemoryName(id=memory_id), None, 50)
            first = plan("restore", id=memory_id, to_version=found.earliest)
            return (await store.change(NAMESPACE, replace(first, now=NOW))).stored

    return asyncio.run(make())


def test_a_deletion_is_undone_in_the_store_that_it_was_moved_to(tmp_path: Path) -> None:
    store, other, file = tmp_path / "m.db", tmp_path / "o.db", tmp_path / "m.jsonl"
    fill(store)

    exported = run(store, "export", file)
    imported = run(other, "import", file)

    assert exported.stderr == "Exported 1 memory and 5 entries of history.\n"
    assert imported.stderr == "Imported: 1 added.\nTook over 5 entries of history.\n"
    assert read_actions(other, KEPT) == ["imported", "renamed", "changed", "created"]
    again = run(other, "import", file)
    assert again.stderr == "Imported: 1 unchanged.\n"
    assert read_actions(other, GONE) == ["deleted", "created"]
    restored = restore_first(other, GONE)
    assert restored is not None and restored.row.content == "rose"
    first = restore_first(other, KEPT)
    assert first is not None and (first.row.key, first.row.tags) == ("c", "[]")
    assert run(other, "check", "--full").exit_code == 0


def test_the_history_can_be_left_out_and_a_dry_run_takes_none(tmp_path: Path) -> None:
    store, other, file = tmp_path / "m.db", tmp_path / "o.db", tmp_path / "m.jsonl"
    fill(store)

    without = run(store, "export", "--no-history")
    run(store, "export", file)
    tried = run(other, "import", file, "--dry-run")

    assert "history" not in without.stdout
    assert without.stderr == "Exported 1 memory.\n"
    assert tried.stderr == "Would import: 1 added.\n"
    run(other, "import", "-", stdin=without.stdout_bytes)
    assert read_actions(other, KEPT) == ["created"]


def test_a_version_1_export_is_imported(tmp_path: Path) -> None:
    store, other = tmp_path / "m.db", tmp_path / "o.db"
    fill(store)
    older = run(store, "export", "--no-history").stdout.replace('"version":2', '"version":1')

    imported = run(other, "import", "-", stdin=older.encode())

    assert imported.stderr == "Imported: 1 added.\n"


def test_an_end_travels(tmp_path: Path) -> None:
    store, other = tmp_path / "m.db", tmp_path / "o.db"
    end = "9999-01-01T00:00:00.000Z"

    async def make() -> None:
        async with open_store(store) as opened:
            fields = {**describe("c"), "expires_at": end}
            await change(opened, "store", "a", fields=fields)

    asyncio.run(make())
    exported = run(store, "export", "--no-history").stdout
    run(other, "import", "-", stdin=exported.encode())

    assert json.loads(exported.splitlines()[1])["expires_at"] == end
    assert run(other, "export", "--no-history").stdout == exported


def test_what_was_purged_is_refused_and_the_rest_imported(tmp_path: Path) -> None:
    store, file, report = tmp_path / "m.db", tmp_path / "m.jsonl", tmp_path / "report.jsonl"
    fill(store)
    run(store, "export", file)

    async def purge() -> None:
        async with open_store(store) as opened:
            for memory_id in (KEPT, GONE):
                await change(opened, "purge", id=memory_id)

    asyncio.run(purge())
    done = run(store, "import", file, "--replace", "--report", report)

    assert done.exit_code == 1
    assert done.stderr.endswith("Imported: 1 refused.\n")
    assert "purged from this store" in json.loads(report.read_text())["words"]
    assert len(run(store, "export").stdout.splitlines()) == 1, "nothing came back"


def test_a_backup_has_the_history(tmp_path: Path) -> None:
    store, copy = tmp_path / "m.db", tmp_path / "copy.db"
    fill(store)
    whole = run(store, "export").stdout

    assert run(store, "backup", copy).exit_code == 0
    assert run(copy, "export").stdout == whole

    restored = restore_first(store, GONE)
    assert restored is not None
    assert run(store, "restore", "--replace", copy).exit_code == 0
    assert run(store, "export").stdout == whole


def test_one_namespace_has_its_own_history(tmp_path: Path) -> None:
    store, other = tmp_path / "m.db", tmp_path / "o.db"
    fill(store)

    async def make() -> None:
        async with open_store(store) as opened:
            await opened.change("z", replace(plan("store", "z"), now=NOW))

    asyncio.run(make())
    ours = run(store, "export", "--namespace", NAMESPACE)
    theirs = run(store, "export", "--namespace", "z")

    assert ours.stdout.count('{"history"') == 5
    assert theirs.stdout.count('{"history"') == 1
    moved = run(other, "import", "--namespace", "team", "-", stdin=ours.stdout_bytes)
    assert moved.stderr == "Imported: 1 added.\nTook over 5 entries of history.\n"
    assert run(other, "check").exit_code == 0


def test_a_damaged_entry_is_left_out_and_what_comes_after_it_is_kept(tmp_path: Path) -> None:
    store, other, file = tmp_path / "m.db", tmp_path / "o.db", tmp_path / "m.jsonl"
    fill(store)
    tamper(store, "UPDATE history SET caller = 'else' WHERE action = 'changed'")

    done = run(store, "export", file)

    assert done.exit_code == 1
    assert done.stderr.endswith(
        "Exported 1 memory and 4 entries of history, left out 1 damaged entry.\n"
    )
    run(other, "import", file)
    assert read_actions(other, KEPT) == ["imported", "renamed"]
    assert run(other, "check").exit_code == 0


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
    meddle: Callable[[SqliteStore], Any], tmp_path: Path
) -> None:
    """Between the history and the memories something changes."""
    store, other, file = tmp_path / "m.db", tmp_path / "o.db", tmp_path / "m.jsonl"
    fill(store)

    class Changing(SqliteStore):
        has_changed = False

        async def read_page(self, after: tuple[str, str], limit: int) -> Any:
            if not self.has_changed:
                self.has_changed = True
                await meddle(self)
            return await super().read_page(after, limit)

    async def write() -> None:
        opened = Changing(store)
        await export(opened, file, ExportOptions(), lambda _: None)
        await opened.close()

    asyncio.run(write())
    run(other, "import", file)

    assert read_actions(other, KEPT) == ["imported", "renamed", "changed", "created"]
    first = restore_first(other, KEPT)
    assert first is not None
    assert (first.row.content, first.row.tags) == ("content of a", "[]")
    assert run(other, "check").exit_code == 0


def test_an_interrupted_export_goes_on_wherever_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "m.db"
    fill(store)
    whole = run(store, "export").stdout_bytes
    monkeypatch.setattr(exporting, "PAGE", 2)

    for length in range(0, len(whole) + 1, 7):
        file = tmp_path / f"{length}.jsonl"
        file.with_name(f"{file.name}.part").write_bytes(whole[:length])

        assert run(store, "export", "--resume", file).exit_code == 0
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


def test_an_entry_comes_back_from_its_line(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    fill(store)

    async def read() -> list[Any]:
        async with open_store(store) as opened:
            return await opened.read_entries(("", "", 0), 100)

    entries = asyncio.run(read())

    assert len(entries) == 5
    for entry in entries:
        assert parse_entry(format_entry(entry)) == entry
