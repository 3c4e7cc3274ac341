"""Repair of a damaged store: what was acknowledged can be read, changed and exported."""

import asyncio
import base64
import json
import random
import signal
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from abilities import Abilities, AbilityError, Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import Change
from abilities.helpers.store.model import IncomingMemory, StoredMemory
from abilities.helpers.store.query import Query
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.behaviours.steps import plan
from tests.stores.test_stores import DAMAGE as DAMAGED_ROWS
from tests.stores.test_stores import NOW, find_reason, open_store
from tests.stores.test_transfer import export, fill, run, tamper
from tests.support import places
from tests.support.forked import Forked
from tests.support.measurements import reached
from tests.support.places import StorePlace, list_cases
from tests.support.recall_damage import POSTGRES_RECENT, RECENT, SQLITE_RECENT
from tests.support.sources import ROOT
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS, gather_in_groups

KILLED_REPAIRS = size("ABILITIES_KILLED_REPAIRS", quick=3, full=6)

ONE_ID = "(SELECT id FROM memories WHERE key = 'k0001')"

# What a check names, or None for several names, and what does it.
DAMAGE = (
    *((None, statement.replace("'b'", "'k0001'")) for statement in DAMAGED_ROWS),
    ("memories", "UPDATE memories SET content = content || '!' WHERE key = 'k0001'"),
    ("memories", "UPDATE memories SET score = 0.61 WHERE key = 'k0001'"),
    ("memories", f"UPDATE shelf SET size = size + 1 WHERE id = {ONE_ID}"),
    ("memories", "UPDATE shelf SET size = 1 WHERE key = 'k0001'"),
    ("memories", f"DELETE FROM shelf WHERE id = {ONE_ID}"),
    (None, "UPDATE shelf SET key = 'x' WHERE key = 'k0001'"),
    (None, "UPDATE shelf SET id = 'x' WHERE key = 'k0001'"),
    (None, "UPDATE memories SET id = 'x', score = 80 WHERE key = 'k0001'"),
    (None, "UPDATE memories SET key = 'other' WHERE key = 'k0001'"),
    (None, "UPDATE memories SET id = 'none' WHERE key = 'k0001'"),
    (None, "UPDATE memories SET namespace = 'a/b' WHERE key = 'k0001'"),
    (None, "DELETE FROM memories WHERE key = 'k0001'"),
    ("links", "UPDATE links SET weight = 0.4 WHERE source = 'k0001'"),
    ("links", "UPDATE links SET rank = 900000 WHERE source = 'k0001'"),
    ("links", "UPDATE links SET rank = 7 WHERE source = 'k0001'"),
    ("links", "UPDATE links SET back_rank = 900000 WHERE source = 'k0001'"),
    ("links", "UPDATE links SET term = 'other' WHERE source = 'k0001'"),
    ("links", "UPDATE links SET weight = 80, term = 'x' WHERE source = 'k0001'"),
    (None, "UPDATE links SET target = 'k0003', type = '' WHERE source || target = 'k0001k0002'"),
    ("versions", "UPDATE memories SET version = 1 WHERE key = 'k0003'"),
    ("versions", "UPDATE versions SET number = number - 1"),
    ("versions", "UPDATE versions SET number = 1"),
    ("versions", "DELETE FROM versions"),
    ("tags", f"UPDATE tags SET tag = 'u' WHERE tag = 't' AND id = {ONE_ID}"),
    ("tags", f"UPDATE tags SET tag = 'x' WHERE tag = 't1' AND id = {ONE_ID}"),
    ("tags", f"DELETE FROM tags WHERE id = {ONE_ID}"),
    ("tags", "UPDATE counters SET number = 3 WHERE name = 'tag'"),
    ("counters", "UPDATE counters SET number = number + 1 WHERE name = 'type'"),
    ("counters", "UPDATE counters SET number = 99 WHERE name = 'size'"),
    ("counters", "UPDATE counters SET number = 77"),
    ("counters", "DELETE FROM counters"),
    ("counters", "UPDATE link_counts SET outgoing = outgoing + 1 WHERE key = 'k0001'"),
    ("counters", "UPDATE link_counts SET incoming = 0 WHERE key = 'k0001'"),
    ("counters", "UPDATE link_counts SET incoming = 7 WHERE key = 'k0001'"),
    ("counters", "DELETE FROM link_counts WHERE key = 'k0001'"),
    ("counters", "DELETE FROM link_counts"),
    ("counters", "INSERT INTO link_counts VALUES ('default', 'none', 0, 1)"),
    *(("search", statement.replace("'k1'", "'k0001'")) for statement in RECENT),
)
_TEXT = "CAST(x'6bff' AS TEXT)"
NOT_UTF8 = (
    f"UPDATE memories SET key = {_TEXT} WHERE key = 'k0001'",
    f"UPDATE memories SET id = {_TEXT} WHERE key = 'k0001'",
    f"UPDATE memories SET namespace = {_TEXT} WHERE key = 'k0001'",
    f"UPDATE shelf SET id = {_TEXT} WHERE id = {ONE_ID}",
    f"UPDATE shelf SET type = {_TEXT}, created_at = {_TEXT} WHERE id = {ONE_ID}",
    f"UPDATE tags SET tag = {_TEXT} WHERE tag = 't' AND id = {ONE_ID}",
    f"UPDATE tags SET id = {_TEXT} WHERE id = {ONE_ID}",
    f"UPDATE counters SET value = {_TEXT} WHERE name = 'tag' AND value = 't'",
    f"UPDATE link_counts SET key = {_TEXT} WHERE key = 'k0001'",
    f"UPDATE links SET target = {_TEXT} WHERE source || target = 'k0001k0002'",
    f"UPDATE links SET source = {_TEXT} WHERE source = 'k0001'",
    f"UPDATE links SET type = {_TEXT}, term = {_TEXT} WHERE source = 'k0001'",
    f"INSERT INTO stale_ranks VALUES ('{NAMESPACE}', 'target', {_TEXT}, 3, 1, 1.0, '', '')",
    f"INSERT INTO stale_ranks VALUES ('{NAMESPACE}', 'target', 'a', 3, 1, 1.0, {_TEXT}, '')",
)
UNNOTICED = (
    f"UPDATE shelf SET accessed_at = {_TEXT} WHERE id = {ONE_ID}",
    f"INSERT INTO versions (namespace, number, forgotten) VALUES ({_TEXT}, 3, 0)",
)
"""What no check can find, because nothing follows from it."""
SQLITE_DAMAGE = (
    (
        "search",
        "INSERT INTO search (search, rowid, folded) VALUES ('delete', 2, 'content of k0001')",
    ),
    ("index", "DELETE FROM search_data WHERE id = (SELECT max(id) FROM search_data)"),
    *(("search", statement) for statement in SQLITE_RECENT),
    *((None, statement) for statement in NOT_UTF8),
    (None, "UPDATE memories SET summary = CAST(x'ff00' AS TEXT) WHERE key = 'k0001'"),
    (None, "UPDATE memories SET tags = CAST(x'5bff5d' AS TEXT) WHERE key = 'k0001'"),
    (None, "UPDATE links SET namespace = CAST(x'6eff' AS TEXT) WHERE source = 'k0001'"),
    (
        None,
        f"UPDATE links SET target = {_TEXT}, weight = 9e999 WHERE source || target = 'k0001k0002'",
    ),
    (None, "INSERT INTO search_short (search_short, rowid, grams) VALUES ('delete', 2, '6b')"),
)
POSTGRES_DAMAGE = (
    ("search", f"DELETE FROM words WHERE id = {ONE_ID}"),
    ("search", f"UPDATE words SET folded = 'x' WHERE id = {ONE_ID}"),
    *(("search", statement) for statement in POSTGRES_RECENT),
)


def find_damage(store: Path) -> list[dict[str, Any]]:
    findings = json.loads(run(store, "check", "--full", "--json").stdout)
    return [finding for finding in findings if finding["state"] == "damaged"]


async def fill_place(place: StorePlace, count: int) -> None:
    """Store memories, each with links to the next one and to the first one."""
    async with place.open() as store:
        await gather_in_groups(
            put(
                store,
                f"k{n:04}",
                links=[(f"k{n + 1:04}", 0.5), ("k0000", 0.3)],
                tags=["t", f"t{n}"],
            )
            for n in range(count)
        )


@pytest.mark.parametrize(
    ("place", "damage"),
    list_cases(DAMAGE, sqlite=SQLITE_DAMAGE, postgres=POSTGRES_DAMAGE),
    indirect=["place"],
)
async def test_s16_every_kind_of_damage_is_found_and_mended(
    damage: tuple[str | None, str], place: StorePlace
) -> None:
    name, statement = damage
    await fill_place(place, 10)
    await asyncio.to_thread(check_commands, place, name, statement)

    async with place.open() as store:
        await put(store, "k0001", content="It goes on.", links=[("k0002", 0.9)])
        assert await places.find_damage(store) == []


def check_commands(place: StorePlace, name: str | None, statement: str) -> None:
    """Damage a store of ten memories, check it, try to repair it, and repair it."""
    sound = place.run("check", "--full")
    assert sound.exit_code == 0
    assert "Links to memories that do not exist: 1." in sound.stdout

    place.tamper(statement)

    checked = place.run("check", "--full", "--json")
    damage = [found for found in json.loads(checked.stdout) if found["state"] == "damaged"]
    assert checked.exit_code == 1 and damage
    assert all(found["number"] > 0 for found in damage)
    assert name is None or name in {found["name"] for found in damage}, damage
    printed = place.run("check", "--full")
    assert printed.exit_code == 1 and "abilities repair" in printed.stderr
    for found in damage:
        assert f"damaged {found['words']}" in printed.stdout
    before = read_all(place)

    tried = asyncio.run(place.repair(dry_run=True))

    assert [finding.name for finding in tried.damage] == [found["name"] for found in damage]
    dry = place.run("repair", "--dry-run")
    assert dry.exit_code == 0 and "dry run" in dry.stdout
    assert read_all(place) == before and not place.originals.exists()

    done = asyncio.run(place.repair())

    assert "damaged" not in place.run("check", "--full").stdout
    exported = place.run("export", "--no-history")
    memories = 10 - statement.startswith("DELETE FROM memories")
    assert exported.exit_code == 0 and exported.stdout.count("\n") == memories + 1
    changed = (done.restored_memories, done.mended_memories, done.mended_links)
    assert changed == (tried.restored_memories, tried.mended_memories, tried.mended_links)
    assert place.originals.exists() == (sum(changed) > 0)
    if sum(changed):
        assert len(place.originals.read_text(encoding="utf-8").splitlines()) == sum(changed)
    previous = list(place.folder.glob("m.db-before-*"))
    if any(found["name"] in ("file", "store") for found in damage):
        assert find_damage(*previous), "only damaged pages take a new file"
    else:
        assert not previous

    again = place.run("repair")

    assert again.exit_code == 0 and "sound" in again.stdout
    assert not list(place.folder.glob("*-new-*"))


def read_all(place: StorePlace) -> object:
    """Return all that a store has, so that it can be compared."""
    if place.engine == "sqlite":
        return (place.folder / "m.db").read_bytes()

    return place.fetch("SELECT *, xmin::text, ctid::text FROM memories ORDER BY namespace, key")


async def test_s16_a_short_content_is_no_longer_found_after_it_was_mended(
    place: StorePlace,
) -> None:
    async with place.open() as opened:
        await put(opened, "a", content="xy")
        await put(opened, "b", content="xyz")
    place.tamper("UPDATE memories SET content = 'zz' WHERE key = 'a'")

    async with place.open() as opened:
        (stored,) = (await opened.query(NAMESPACE, Query(search=("xyz",)))).memories
        await opened.change(NAMESPACE, Change("update", NOW, key="a", fields={"tags": ["t"]}))
        found = await opened.query(NAMESPACE, Query(search=("xy",)))
        assert await places.find_damage(opened) == []

    assert found.total == 1 and found.memories == (stored,)


def test_s16_the_rows_as_they_stood_are_kept_byte_for_byte(tmp_path: Path) -> None:
    store, aside = tmp_path / "m.db", tmp_path / "aside.jsonl"
    fill(store, 5)
    tamper(
        store,
        "UPDATE memories SET summary = CAST(x'ff41' AS TEXT), score = 9e999 WHERE key = 'k0001'",
        "UPDATE links SET weight = 80 WHERE source = 'k0002'",
    )

    done = run(store, "repair", "--aside", aside)

    assert done.exit_code == 0 and str(aside) in done.stdout
    memory, link = map(json.loads, aside.read_text().splitlines())
    assert memory["table"] == "memories" and memory["key"] == "k0001"
    assert base64.b64decode(memory["summary"]["base64"]) == b"\xffA"
    assert memory["score"] == {"float": "inf"} and memory["content"] == "content of k0001"
    assert link["table"] == "links" and (link["source"], link["weight"]) == ("k0002", 80.0)
    assert aside.stat().st_mode & 0o777 == 0o600

    tamper(store, "UPDATE memories SET score = 80 WHERE key = 'k0002'")
    refused = run(store, "repair", "--aside", aside)

    assert refused.exit_code == 1 and "already exists" in refused.stderr
    assert find_damage(store)


@pytest.mark.parametrize(
    ("place", "statements"),
    list_cases(
        [
            (
                "UPDATE memories SET key = 'other' WHERE key = 'k0001'",
                "UPDATE memories SET id = 'none', type = 'x', archived = 7 WHERE key = 'k0002'",
            )
        ],
        sqlite=[
            (
                "UPDATE memories SET key = CAST(x'6bff' AS TEXT) WHERE key = 'k0001'",
                "UPDATE memories SET id = 'none', type = 'x', archived = 7 WHERE key = 'k0002'",
                "UPDATE memories SET namespace = CAST(x'ff' AS TEXT) WHERE key = 'k0003'",
            )
        ],
    ),
    indirect=["place"],
)
async def test_s16_a_damaged_name_is_told_from_the_index_and_the_links(
    statements: Sequence[str], place: StorePlace
) -> None:
    number = len(statements)
    await fill_place(place, 5)
    before = await asyncio.to_thread(place.run, "export", "--no-history")
    place.tamper(*statements)

    exported = await asyncio.to_thread(place.run, "export", "--no-history")

    assert exported.exit_code == 1 and exported.stdout.count("\n") == 6 - number
    assert exported.stderr.count("checksum_mismatch") == number

    done = await asyncio.to_thread(place.run, "repair", "--aside", place.originals)
    after = await asyncio.to_thread(place.run, "export", "--no-history")

    assert done.exit_code == 0 and f"{number} memories exactly as written" in done.stdout
    assert (after.exit_code, after.stdout) == (0, before.stdout)


def test_two_memories_with_one_damaged_name_are_both_kept(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    fill(store, 4)
    tamper(
        store,
        "UPDATE memories SET key = CAST(x'6bff' AS TEXT), content = 'one' WHERE key = 'k0001'",
        "UPDATE memories SET namespace = 'de/ault', content = 'two' WHERE key = 'k0002'",
        "UPDATE memories SET namespace = 'de_ault', content = 'six' WHERE key = 'k0003'",
    )
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE memories SET key = 'k0003' WHERE content = 'two'")
    connection.close()

    done = run(store, "repair")

    assert done.exit_code == 0 and "3 memories" in done.stdout
    assert find_damage(store) == []
    lines = export_memories(store)
    names = {(line["namespace"], line["key"]) for line in lines}
    assert len(names) == 4 and {line["content"] for line in lines} >= {"one", "two", "six"}


def spoil_pages(path: Path, *tables: str) -> None:
    """Overwrite one leaf page of each table or index with bytes that are no page."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = [
            connection.execute(
                "SELECT max(pageno) FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,)
            ).fetchone()[0]
            for table in tables
        ]
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()

    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * page_size)
            file.write(b"\xee" * page_size)


def export_memories(store: Path) -> list[Any]:
    """Return the exported memories of a store without their history."""
    lines = [json.loads(line) for line in export(store).splitlines()]
    return [line for line in lines if "key" in line]


def export_history(store: Path) -> list[Any]:
    """Return the exported entries of a store's history."""
    lines = map(json.loads, run(store, "export").stdout.splitlines())
    return [line for line in lines if "history" in line]


@pytest.mark.parametrize(
    "tables",
    [
        ("memories",),
        ("links",),
        ("links", "links_incoming"),
        ("shelf",),
        ("sqlite_autoindex_memories_1", "memories_id", "tags"),
        ("search_data", "counters", "versions", "link_counts"),
        ("memories", "shelf_memory", "shelf", "links_name"),
        ("history",),
        ("history_id",),
    ],
)
def test_a_store_with_damaged_pages_is_recovered_as_far_as_it_can_be_read(
    tables: tuple[str, ...], tmp_path: Path
) -> None:
    store = tmp_path / "m.db"
    fill(store, 300)
    before = export_memories(store)
    entries = export_history(store)
    spoil_pages(store, *tables)

    assert find_damage(store)

    done = run(store, "repair")

    assert done.exit_code == 0, done.output
    assert find_damage(store) == []
    after = export_memories(store)
    lost = len(before) - len(after)
    if "memories" in tables:
        assert 0 < lost < 40
        assert f"lost      {lost} memor" in done.stdout
    else:
        assert lost == 0
    if "links" not in tables:
        assert all(memory in before for memory in after)
    if not {"memories", "history"} & {*tables}:
        assert export_history(store) == entries
    assert len(export_history(store)) > len(entries) - 40
    assert len(list(tmp_path.glob("m.db-before-*"))) == 1


def test_what_is_no_database_any_more_is_not_repaired_and_says_the_way_out(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    assert "there is no store" in run(store, "repair").stderr

    fill(store, 5)
    raw = store.read_bytes()
    for spoilt in (b"x" * 5000, b"", raw[:100] + b"\xee" * 4000 + raw[4100:]):
        store.write_bytes(spoilt)
        done = run(store, "repair")

        assert done.exit_code == 1 and "abilities restore BACKUP --replace" in done.stderr
        assert store.read_bytes() == spoilt


REPAIR = """
import asyncio, os, signal, sys, threading, time
from functools import partial
from pathlib import Path
from abilities.helpers.store.opening import repair_store
url, originals, seconds = sys.argv[1:]
threading.Timer(float(seconds), partial(os.kill, os.getpid(), signal.SIGKILL)).start()
asyncio.run(repair_store(url, Path(originals), lambda _: None, dry_run=False))
time.sleep(60)  # however fast the repair was, it dies
"""


SOUND = "SELECT * FROM memories WHERE key >= 'k10' ORDER BY namespace, key"


async def test_s16_a_repair_that_is_killed_is_finished_by_doing_it_again(place: StorePlace) -> None:
    namespaces = [f"n{number}" for number in range(5)]
    async with place.open() as store:
        for namespace in namespaces:
            changes = [plan("store", f"k{n:02}", new_id=f"{namespace}{n}") for n in range(60)]
            await store.change_many(namespace, changes, atomic=True)

    before = place.fetch(SOUND)
    chance = random.Random(7)
    for attempt in range(KILLED_REPAIRS):
        place.tamper(
            "UPDATE memories SET content = content || '!' WHERE key < 'k10'",
            "UPDATE shelf SET size = size + 1",
            "UPDATE counters SET number = 7",
        )
        originals = place.folder / f"{attempt}.jsonl"
        repair = Forked(REPAIR, place.url, originals, chance.random() * 0.3)
        repair.communicate(timeout=GIVE_UP_SECONDS)
        assert repair.returncode == -signal.SIGKILL
    await place.repair()

    async with place.open() as store:
        assert await places.find_damage(store) == []
    assert place.fetch(SOUND) == before
    mended = place.fetch("SELECT namespace, key, content FROM memories WHERE key < 'k10'")
    assert {content for _, _, content in mended} == {
        f"content of k{n:02}{'!' * KILLED_REPAIRS}" for n in range(10)
    }
    kept = {line for path in place.folder.glob("*.jsonl") for line in path.read_text().split("\n")}
    for namespace, key, content in mended:
        row = f'{{"table":"memories","namespace":"{namespace}","key":"{key}",'
        assert any(line.startswith(row) and f'"{content}"' in line for line in kept)

    reached(5, f"{KILLED_REPAIRS} kills of a repair in {place.engine}, nothing lost")


async def test_s16_a_repair_goes_on_while_others_write(place: StorePlace) -> None:
    await fill_place(place, 40)
    place.tamper("UPDATE memories SET score = 80 WHERE key = 'k0007'")
    async with place.open() as store:
        await put(store, "a")

        tried = await asyncio.to_thread(place.run, "repair", "--dry-run")
        writing = [put(store, f"n{number}", links=[("k0007", 0.5)]) for number in range(50)]
        repairing = asyncio.to_thread(place.run, "repair", "--aside", place.originals)
        done, _ = await asyncio.gather(repairing, asyncio.gather(*writing))

        assert tried.exit_code == 0 and "1 memory" in tried.stdout
        assert done.exit_code == 0 and "1 memory" in done.stdout, done.output
        assert await places.find_damage(store) == []
        (stored,) = await store.read(NAMESPACE, ["k0007"])
        assert isinstance(stored, StoredMemory) and stored.backlinks_total == 51
        await put(store, "k0007", content="It goes on.")
        (stored,) = await store.read(NAMESPACE, ["k0007"])
        assert isinstance(stored, StoredMemory) and stored.row.content == "It goes on."
        assert await places.find_damage(store) == []


async def test_s16_wrong_words_are_mended_without_counting_again(url: str, tmp_path: Path) -> None:
    place = places.DatabasePlace(url, tmp_path)
    await fill_place(place, 5)
    place.tamper("UPDATE words SET folded = 'x'")
    # Each row of the memory index, with the transaction that wrote it.
    shelf = "SELECT id, xmin::text FROM shelf ORDER BY id"
    shelved = place.fetch(shelf)
    async with place.open() as store:
        assert await places.find_damage(store) == ["search"]

        await place.repair()

        assert await places.find_damage(store) == []
    assert place.fetch(shelf) == shelved


async def test_a_store_with_damaged_pages_in_use_is_not_repaired_and_says_so(
    tmp_path: Path,
) -> None:
    store = tmp_path / "m.db"
    await asyncio.to_thread(fill, store, 300)
    spoil_pages(store, "counters")
    async with open_store(store) as opened:
        await opened.read(NAMESPACE, ["k0001"])
        refused = await asyncio.to_thread(run, store, "repair")
        tried = await asyncio.to_thread(run, store, "repair", "--dry-run")

    assert refused.exit_code == 1 and "stop all that use it" in refused.stderr
    assert tried.exit_code == 0 and "dry run" in tried.stdout


@pytest.mark.parametrize("statement", [*NOT_UTF8, *UNNOTICED])
async def test_s16_one_damaged_name_keeps_nobody_from_the_other_memories(
    statement: str, tmp_path: Path
) -> None:
    store = tmp_path / "m.db"
    await asyncio.to_thread(fill, store, 5)
    tamper(store, statement)
    (tmp_path / "agent").mkdir()
    (tmp_path / "work").mkdir()
    settings = Settings(
        agent_dir=tmp_path / "agent",
        workspace_dir=tmp_path / "work",
        store_url=f"sqlite:///{store}",
        namespace=NAMESPACE,
    )

    async with Abilities.open(settings) as abilities:
        for name, arguments in (
            ("memory_get", {"key": "k0002", "direction": "both"}),
            ("query_memories", {}),
            ("query_memories", {"tags": ["t"], "sort_by": "created_at"}),
            ("query_memories", {"search": "content"}),
            ("get_memory_stats", {}),
            ("bulk_read_memory", {"key": "k0000", "direction": "both"}),
            ("memory_read_bulk", {"targets": [{"type": "stored", "key": "k0002"}]}),
            ("store_memory", {"key": "k0001", "type": "core", "content": "new"}),
            ("store_memory", {"key": "k0002", "type": "core", "content": "new", "tags": ["u"]}),
        ):
            try:
                answer = await abilities.call(name, arguments)
            except AbilityError as error:
                raise AssertionError((name, arguments, str(error))) from None
            json.dumps(answer, ensure_ascii=False).encode()

    findings = await asyncio.to_thread(run, store, "check", "--full")
    repaired = await asyncio.to_thread(run, store, "repair")

    assert repaired.exit_code == 0, repaired.output
    assert "Traceback" not in findings.output
    assert await asyncio.to_thread(find_damage, store) == []


async def test_s16_an_import_replaces_a_damaged_memory_if_asked(place: StorePlace) -> None:
    exported = place.folder / "all.jsonl"
    await fill_place(place, 5)
    await asyncio.to_thread(place.run, "export", "--no-history", exported)
    place.tamper("UPDATE memories SET content = 'x', score = 80, tags = '[' WHERE key = 'k0001'")

    kept = await asyncio.to_thread(place.run, "import", exported)
    tried = await asyncio.to_thread(place.run, "import", exported, "--replace", "--dry-run")

    assert kept.exit_code == 1 and "--replace puts this one in its place" in kept.stderr
    assert tried.exit_code == 0 and "1 replaced, 4 unchanged" in tried.stderr
    async with place.open() as store:
        assert await places.find_damage(store)

        done = await asyncio.to_thread(place.run, "import", exported, "--replace")

        assert done.exit_code == 0 and "1 replaced, 4 unchanged" in done.stderr
        assert await places.find_damage(store) == []
    again = await asyncio.to_thread(place.run, "export", "--no-history")
    assert again.stdout_bytes == exported.read_bytes()


@pytest.mark.parametrize("name", ["store_memory", "update_memory", "delete_memory"])
async def test_s16_the_answer_to_a_change_says_what_was_mended(
    name: str, place: StorePlace
) -> None:
    (place.folder / "agent").mkdir()
    (place.folder / "work").mkdir()
    settings = Settings(
        agent_dir=place.folder / "agent",
        workspace_dir=place.folder / "work",
        store_url=place.url,
    )
    async with Abilities.open(settings) as abilities:
        fields = {"key": "a", "type": "core", "content": "c", "tags": ["t"]}
        memory_id = (await abilities.call("store_memory", fields))["id"]
        place.tamper("UPDATE memories SET tags = '[', created_at = 'x', score = 80")
        arguments = {
            "store_memory": {"key": "a", "type": "core", "content": "new"},
            "update_memory": {"id": memory_id, "content": "new"},
            "delete_memory": {"id": memory_id},
        }

        first = await abilities.call(name, arguments[name])
        second = await abilities.call(name, arguments[name])

    assert first["mended"] == ["memory_score", "created_at", "tags"]
    assert "mended" not in second


@pytest.mark.parametrize("value", [b"x", "\ud800", "a\0b", 7, object(), ("x", b"y")])
async def test_impossible_values_are_refused_whoever_calls(value: Any, place: StorePlace) -> None:
    """Wherever a store takes a value that no key can have."""
    async with place.open() as store:
        await put(store, "a")
        fields = {"type": "core", "content": "c"}
        link = {"key": value, "link_weight": 0.5, "type": "association"}
        limits = WalkLimits(1, 1, 1)
        calls = (
            store.change(NAMESPACE, Change("store", NOW, key=value, new_id="i", fields=fields)),
            store.change(NAMESPACE, Change("update", NOW, id=value, fields=fields)),
            store.change(NAMESPACE, Change("update", NOW, key="a", links=[link])),
            store.change(NAMESPACE, Change("update", NOW, key="a", fields={"content": value})),
            store.change(value, Change("update", NOW, key="a", fields=fields)),
            store.read(NAMESPACE, ["a", value]),
            store.read_linked(NAMESPACE, value, 0, 1),
            store.read_backlinks(NAMESPACE, value, 0, 1),
            store.walk(NAMESPACE, value, limits),
            store.query(value, Query()),
        )

        for call in calls:
            assert await find_reason(call) in (
                "wrong_type",
                "invalid_format",
                "invalid_stored_value",
            )

        (stored,) = await store.read(NAMESPACE, ["a"])
        assert isinstance(stored, StoredMemory)
        row = stored.row._replace(key=value, id=str(uuid4()))
        (refused,) = await store.import_batch([IncomingMemory(StoredMemory(row, accessed_at=NOW))])
        assert isinstance(refused, Refused) and refused.reason == "invalid_stored_value"


def test_the_steps_of_the_documents_mend_a_damaged_store(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    fill(store, 5)
    tamper(store, "UPDATE memories SET score = 80 WHERE key = 'k0003'")
    section = (ROOT / "docs/operating.md").read_text().partition("## A damaged store")[2]
    block = section.partition("```console\n")[2].partition("```")[0]

    codes: list[int] = []
    for part in block.split("$ abilities ")[1:]:
        command, *expected = part.splitlines()
        arguments = [tmp_path / word if word.endswith(".db") else word for word in command.split()]
        done = run(store, *arguments)
        codes.append(done.exit_code)
        for line in expected:
            assert line == "..." or line in done.stdout, (command, done.output)

    assert codes == [1, 1, 0, 0, 0]
    assert find_damage(tmp_path / "before.db")
