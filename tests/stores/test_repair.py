"""Repair of a damaged store: what was acknowledged can be read, changed and exported."""

import asyncio
import base64
import json
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import Result

from abilities import Abilities, Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import Change
from abilities.helpers.store.model import IncomingMemory, Query, StoredMemory
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.behaviours.steps import link_to, plan, put_many
from tests.stores.test_stores import DAMAGE as DAMAGED_ROWS
from tests.stores.test_stores import NOW
from tests.support.forked import Forked
from tests.support.measurements import reached
from tests.support.places import (
    FilePlace,
    StorePlace,
    find_damage,
    find_reason,
    list_cases,
)
from tests.support.sources import ROOT
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS

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
    ("about", f"UPDATE about SET root = 'lib' WHERE id = {ONE_ID}"),
    ("about", f"UPDATE about SET rank = '2', entry = 'k0002' WHERE id = {ONE_ID}"),
    ("about", f"UPDATE about SET archived = 1 WHERE id = {ONE_ID}"),
    ("about", f"UPDATE about SET id = 'none' WHERE id = {ONE_ID}"),
    ("about", f"DELETE FROM about WHERE id = {ONE_ID}"),
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
    ("history", "UPDATE versions SET history_bytes = history_bytes + 1"),
    ("history", "INSERT INTO purged SELECT namespace, id, 2, '', '' FROM memories"),
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
    f"UPDATE about SET root = {_TEXT}, entry = {_TEXT} WHERE id = {ONE_ID}",
    f"UPDATE about SET id = {_TEXT} WHERE id = {ONE_ID}",
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
)


async def fill(place: StorePlace, count: int) -> None:
    """Store memories, each with links to the next one and to the first one."""
    changes: list[Change] = []
    for n in range(count):
        links = [*link_to(f"k{n + 1:04}"), *link_to("k0000", weight=0.3)]
        fields = {"type": "core", "content": f"content of k{n:04}", "tags": ["t", f"t{n}"]}
        fields["about"] = ["src/*.py"]
        changes.append(plan("store", f"k{n:04}", fields=fields, links=links))
    async with place.open() as store:
        await put_many(store, changes)


async def find(place: StorePlace) -> list[str]:
    """Return what a full check finds damaged."""
    async with place.open() as store:
        return await find_damage(store)


async def run(place: StorePlace, *command: str | Path) -> Result:
    return await asyncio.to_thread(place.run, *command)


@pytest.mark.parametrize(
    ("place", "damage"),
    list_cases(DAMAGE, sqlite=SQLITE_DAMAGE, postgres=POSTGRES_DAMAGE, sampled=6),
    indirect=["place"],
)
async def test_s16_every_kind_of_damage_is_found_and_mended(
    damage: tuple[str | None, str], place: StorePlace
) -> None:
    name, statement = damage
    await fill(place, 10)
    assert await find(place) == []
    place.tamper(statement)

    found = await find(place)
    assert found and (name is None or name in found)
    before = read_all(place)

    tried = await place.repair(dry_run=True)

    assert [finding.name for finding in tried.damage] == found
    assert read_all(place) == before and not place.originals.exists()

    done = await place.repair()

    assert await find(place) == []
    changed = (done.restored_memories, done.mended_memories, done.mended_links)
    assert changed == (tried.restored_memories, tried.mended_memories, tried.mended_links)
    if sum(changed):
        assert len(place.originals.read_text(encoding="utf-8").splitlines()) == sum(changed)
    assert place.originals.exists() == (sum(changed) > 0)
    has_new_file = bool(list(place.folder.glob("m.db-before-*")))
    assert has_new_file == ("file" in found or "store" in found), "only damaged pages take one"
    assert not list(place.folder.glob("*-new-*"))

    assert (await place.repair()).damage == []
    async with place.open() as store:
        assert await store.count_memories() == 10 - statement.startswith("DELETE FROM memories")
        await put(store, "k0001", content="It goes on.", links=[("k0002", 0.9)])
        assert await find_damage(store) == []


async def test_s16_the_commands_say_what_is_damaged_and_what_was_mended(place: StorePlace) -> None:
    await fill(place, 10)
    sound = await run(place, "check", "--full")
    place.tamper("UPDATE memories SET score = 0.61 WHERE key = 'k0001'")
    before = read_all(place)

    checked = await run(place, "check", "--full", "--json")
    printed = await run(place, "check", "--full")
    dry = await run(place, "repair", "--dry-run")

    assert sound.exit_code == 0 and "Links to memories that do not exist: 1." in sound.stdout
    assert checked.exit_code == 1
    damage = [line for line in json.loads(checked.stdout) if line["state"] == "damaged"]
    assert damage and all(line["number"] > 0 for line in damage)
    assert printed.exit_code == 1 and "abilities repair" in printed.stderr
    assert all(f"damaged {line['words']}" in printed.stdout for line in damage)
    assert dry.exit_code == 0 and "dry run" in dry.stdout and read_all(place) == before

    done = await run(place, "repair", "--aside", place.originals)
    again = await run(place, "repair")

    assert done.exit_code == 0 and str(place.originals) in done.stdout
    assert "damaged" not in (await run(place, "check", "--full")).stdout
    assert again.exit_code == 0 and "sound" in again.stdout


def read_all(place: StorePlace) -> object:
    """Return all that a store has, so that it can be compared."""
    if place.engine == "sqlite":
        return (place.folder / "m.db").read_bytes()

    return place.fetch("SELECT *, xmin::text, ctid::text FROM memories ORDER BY namespace, key")


async def test_s16_the_rows_as_they_stood_are_kept_byte_for_byte(file_place: FilePlace) -> None:
    aside = file_place.originals
    await fill(file_place, 5)
    file_place.tamper(
        "UPDATE memories SET summary = CAST(x'ff41' AS TEXT), score = 9e999 WHERE key = 'k0001'",
        "UPDATE links SET weight = 80 WHERE source || target = 'k0002k0000'",
    )

    await run(file_place, "repair", "--aside", aside)

    memory, link = map(json.loads, aside.read_text().splitlines())
    assert memory["table"] == "memories" and memory["key"] == "k0001"
    assert base64.b64decode(memory["summary"]["base64"]) == b"\xffA"
    assert memory["score"] == {"float": "inf"} and memory["content"] == "content of k0001"
    assert link["table"] == "links" and (link["source"], link["weight"]) == ("k0002", 80.0)
    assert aside.stat().st_mode & 0o777 == 0o600

    file_place.tamper("UPDATE memories SET score = 80 WHERE key = 'k0002'")
    refused = await run(file_place, "repair", "--aside", aside)

    assert refused.exit_code == 1 and "already exists" in refused.stderr
    assert await find(file_place)


OTHER_NAMES = (
    "UPDATE memories SET key = 'other' WHERE key = 'k0001'",
    "UPDATE memories SET id = 'none', type = 'x', archived = 7 WHERE key = 'k0002'",
)
UNREADABLE_NAMES = (
    "UPDATE memories SET key = CAST(x'6bff' AS TEXT) WHERE key = 'k0001'",
    "UPDATE memories SET id = 'none', type = 'x', archived = 7 WHERE key = 'k0002'",
    "UPDATE memories SET namespace = CAST(x'ff' AS TEXT) WHERE key = 'k0003'",
)


@pytest.mark.parametrize(
    ("place", "statements"),
    list_cases([OTHER_NAMES], sqlite=[UNREADABLE_NAMES]),
    indirect=["place"],
)
async def test_s16_a_damaged_name_is_told_from_the_index_and_the_links(
    statements: Sequence[str], place: StorePlace
) -> None:
    number = len(statements)
    await fill(place, 5)
    before = await run(place, "export", "--no-history")
    place.tamper(*statements)

    exported = await run(place, "export", "--no-history")
    done = await run(place, "repair", "--aside", place.originals)
    after = await run(place, "export", "--no-history")

    assert exported.exit_code == 1 and exported.stdout.count("\n") == 6 - number
    assert exported.stderr.count("checksum_mismatch") == number
    assert done.exit_code == 0 and f"{number} memories exactly as written" in done.stdout
    assert (after.exit_code, after.stdout) == (0, before.stdout)


async def test_two_memories_with_one_damaged_name_are_both_kept(file_place: FilePlace) -> None:
    await fill(file_place, 4)
    file_place.tamper(
        "UPDATE memories SET key = CAST(x'6bff' AS TEXT), content = 'one' WHERE key = 'k0001'",
        "UPDATE memories SET namespace = 'de/ault', content = 'two' WHERE key = 'k0002'",
        "UPDATE memories SET namespace = 'de_ault', content = 'six' WHERE key = 'k0003'",
        "UPDATE memories SET key = 'k0003' WHERE content = 'two'",
    )

    await file_place.repair()

    assert await find(file_place) == []
    rows = file_place.fetch("SELECT namespace, key, content FROM memories")
    assert len({row[:2] for row in rows}) == len(rows) == 4
    assert {content for *_, content in rows} >= {"one", "two", "six"}


def spoil_pages(place: FilePlace, *tables: str) -> None:
    """Overwrite one leaf page of each table or index with bytes that are no page."""
    place.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
    last_page = "SELECT max(pageno) FROM dbstat WHERE pagetype = 'leaf' AND name = '{}'"
    pages = [place.fetch(last_page.format(table))[0][0] for table in tables]
    ((page_size,),) = place.fetch("PRAGMA page_size")

    with place.path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * page_size)
            file.write(b"\xee" * page_size)


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> FilePlace:
    """A store of 300 memories, for tests to copy."""
    place = FilePlace(tmp_path_factory.mktemp("filled") / "m.db")
    asyncio.run(fill(place, 300))
    return place


@pytest.fixture
def many(filled_file: FilePlace, file_place: FilePlace) -> FilePlace:
    """A store of 300 memories."""
    file_place.copy(filled_file)
    return file_place


@pytest.mark.parametrize(
    "tables",
    [
        ("memories",),
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
    tables: tuple[str, ...], many: FilePlace
) -> None:
    def read_lines() -> tuple[set[bytes], set[bytes]]:
        """Return the exported memories, and the entries of the history."""
        memories = set(many.export().splitlines()[1:])
        return memories, set(many.run("export").stdout_bytes.splitlines()[1:]) - memories

    before, entries = read_lines()
    spoil_pages(many, *tables)
    assert asyncio.run(find(many))

    done = many.run("repair")

    assert done.exit_code == 0, done.output
    assert asyncio.run(find(many)) == []
    after, entries_after = read_lines()
    lost = len(before) - len(after)
    if "memories" in tables:
        assert 0 < lost < 40
        assert f"lost      {lost} memor" in done.stdout
    else:
        assert lost == 0
    if "links" not in tables:
        assert after <= before
    if not {"memories", "history"} & {*tables}:
        assert entries_after == entries
    assert len(entries_after) > len(entries) - 40
    assert len(list(many.folder.glob("m.db-before-*"))) == 1


async def test_what_is_no_database_any_more_is_not_repaired_and_says_the_way_out(
    file_place: FilePlace,
) -> None:
    assert "there is no store" in (await run(file_place, "repair")).stderr

    await fill(file_place, 5)
    raw = file_place.path.read_bytes()
    for spoilt in (b"x" * 5000, b"", raw[:100] + b"\xee" * 4000 + raw[4100:]):
        file_place.path.write_bytes(spoilt)
        done = await run(file_place, "repair")

        assert done.exit_code == 1 and "abilities restore BACKUP --replace" in done.stderr
        assert file_place.path.read_bytes() == spoilt


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
        assert await find_damage(store) == []
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
    await fill(place, 40)
    place.tamper("UPDATE memories SET score = 80 WHERE key = 'k0007'")
    async with place.open() as store:
        await put(store, "a")

        writing = [put(store, f"n{number}", links=[("k0007", 0.5)]) for number in range(50)]
        repairing = run(place, "repair", "--aside", place.originals)
        done, _ = await asyncio.gather(repairing, asyncio.gather(*writing))

        assert done.exit_code == 0 and "1 memory" in done.stdout, done.output
        assert await find_damage(store) == []
        assert (await store.read_linked(NAMESPACE, "k0007", 0, 1)).backlinks_total == 51
        await put(store, "k0007", content="It goes on.")
        memory = await store.read_linked(NAMESPACE, "k0007", 0, 1)
        assert memory.row.content == "It goes on."
        assert await find_damage(store) == []


async def test_a_store_with_damaged_pages_in_use_is_not_repaired_and_says_so(
    many: FilePlace,
) -> None:
    spoil_pages(many, "counters")
    async with many.open() as opened:
        await opened.read(NAMESPACE, ["k0001"])
        refused = await run(many, "repair")
        tried = await run(many, "repair", "--dry-run")

    assert refused.exit_code == 1 and "stop all that use it" in refused.stderr
    assert tried.exit_code == 0 and "dry run" in tried.stdout


@pytest.mark.parametrize("statement", [*NOT_UTF8, *UNNOTICED])
async def test_s16_one_damaged_name_keeps_nobody_from_the_other_memories(
    statement: str, file_place: FilePlace, roots: Settings
) -> None:
    await fill(file_place, 5)
    file_place.tamper(statement)
    chosen = {"store_url": file_place.url, "namespace": NAMESPACE}

    async with Abilities.open(roots.model_copy(update=chosen)) as abilities:
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
            answer = await abilities.call(name, arguments)
            json.dumps(answer, ensure_ascii=False).encode()

    checked = await run(file_place, "check", "--full")
    assert "Traceback" not in checked.output
    await file_place.repair()
    assert await find(file_place) == []


async def test_s16_an_import_replaces_a_damaged_memory_if_asked(place: StorePlace) -> None:
    exported = place.folder / "all.jsonl"
    await fill(place, 5)
    await run(place, "export", "--no-history", exported)
    place.tamper("UPDATE memories SET content = 'x', score = 80, tags = '[' WHERE key = 'k0001'")

    kept = await run(place, "import", exported)
    tried = await run(place, "import", exported, "--replace", "--dry-run")
    assert kept.exit_code == 1 and "--replace puts this one in its place" in kept.stderr
    assert await find(place)
    done = await run(place, "import", exported, "--replace")

    for result in (tried, done):
        assert result.exit_code == 0 and "1 replaced, 4 unchanged" in result.stderr
    assert await find(place) == []
    again = await run(place, "export", "--no-history")
    assert again.stdout_bytes == exported.read_bytes()


async def test_s16_the_answer_to_a_change_says_what_was_mended(
    place: StorePlace, roots: Settings
) -> None:
    new = {"type": "core", "content": "new"}
    changes = {
        "a": ("store_memory", new),
        "b": ("update_memory", {"content": "new"}),
        "c": ("delete_memory", {}),
    }
    settings = roots.model_copy(update={"store_url": place.url})
    async with Abilities.open(settings) as abilities:
        for key in changes:
            await abilities.call("store_memory", {**new, "key": key, "tags": ["t"]})
        place.tamper("UPDATE memories SET tags = '[', created_at = 'x', score = 80")

        for key, (name, fields) in changes.items():
            first = await abilities.call(name, {"key": key, **fields})
            second = await abilities.call(name, {"key": key, **fields})
            assert first["mended"] == ["memory_score", "created_at", "tags"], name
            assert "mended" not in second


async def test_impossible_values_are_refused_whoever_calls(place: StorePlace) -> None:
    """Wherever a store takes a value that no key can have."""
    reasons = {"wrong_type", "invalid_format", "invalid_stored_value"}
    fields, limits = {"type": "core", "content": "c"}, WalkLimits(1, 1, 1)
    values: list[Any] = [b"x", "\ud800", "a\0b", 7, object(), ("x", b"y")]
    async with place.open() as store:
        await put(store, "a")
        stored = await store.read_linked(NAMESPACE, "a", 0, 1)
        for value in values:
            link = {"key": value, "link_weight": 0.5, "type": "association"}
            for call in (
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
            ):
                assert await find_reason(call) in reasons

            row = stored.row._replace(key=value, id=str(uuid4()))
            incoming = IncomingMemory(StoredMemory(row, accessed_at=NOW))
            (refused,) = await store.import_batch([incoming])
            assert isinstance(refused, Refused) and refused.reason == "invalid_stored_value"
        assert await store.read_linked(NAMESPACE, "a", 0, 1) == stored


async def test_the_steps_of_the_documents_mend_a_damaged_store(file_place: FilePlace) -> None:
    await fill(file_place, 5)
    file_place.tamper("UPDATE memories SET score = 80 WHERE key = 'k0003'")
    section = (ROOT / "docs/operating.md").read_text().partition("## A damaged store")[2]
    block = section.partition("```console\n")[2].partition("```")[0]

    codes: list[int] = []
    for part in block.split("$ abilities ")[1:]:
        command, *expected = part.splitlines()
        words = command.split()
        done = await run(
            file_place,
            *(file_place.folder / word if word.endswith(".db") else word for word in words),
        )
        codes.append(done.exit_code)
        for line in expected:
            assert line == "..." or line in done.stdout, (command, done.output)

    assert codes == [1, 1, 0, 0, 0]
    assert await find(file_place.beside("before.db"))
