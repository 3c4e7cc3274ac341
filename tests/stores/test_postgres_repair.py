"""Repair of a damaged store in PostgreSQL, while it is in use."""

import asyncio
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from abilities.cli.main import main
from abilities.helpers.stores.changes import Change
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.postgres.store import PostgresStore
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_repair import BAD_VALUES, refuse_bad_values
from tests.stores.test_stores import DAMAGE as DAMAGED_ROWS
from tests.stores.test_stores import NOW
from tests.support.recall_damage import POSTGRES_RECENT


def run(url: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(
        main, [str(argument) for argument in arguments], env={"ABILITIES_STORE_URL": url}
    )


def tamper(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = abilities_data")
        assert connection.execute(statement.encode()).rowcount > 0


async def fill(url: str, count: int) -> None:
    store = PostgresStore(url)
    for number in range(count):
        links = [(f"k{number + 1}", 0.5), ("k0", 0.3)]
        await put(store, f"k{number}", links=links, tags=["t", f"t{number}"])
    await store.close()


async def find_damage(store: PostgresStore) -> list[str]:
    findings = await store.check(lambda _: None, full=True)
    return [finding.name for finding in findings if finding.state == "damaged"]


ONE_ID = "(SELECT id FROM memories WHERE key = 'k1')"
STATEMENTS = (
    *(statement.replace("'b'", "'k1'") for statement in DAMAGED_ROWS),
    "UPDATE memories SET key = 'other' WHERE key = 'k1'",
    "UPDATE memories SET id = 'none' WHERE key = 'k1'",
    "UPDATE memories SET namespace = 'a/b' WHERE key = 'k1'",
    "UPDATE memories SET version = 1 WHERE key = 'k3'",
    "UPDATE shelf SET key = 'x' WHERE key = 'k1'",
    "UPDATE shelf SET size = 1 WHERE key = 'k1'",
    "DELETE FROM shelf WHERE key = 'k1'",
    "DELETE FROM memories WHERE key = 'k1'",
    f"UPDATE tags SET tag = 'x' WHERE tag = 't1' AND id = {ONE_ID}",
    f"DELETE FROM words WHERE id = {ONE_ID}",
    f"UPDATE words SET folded = 'x' WHERE id = {ONE_ID}",
    "UPDATE versions SET number = 1",
    "DELETE FROM versions",
    "UPDATE counters SET number = 77",
    "DELETE FROM counters",
    "UPDATE link_counts SET incoming = 7 WHERE key = 'k1'",
    "DELETE FROM link_counts",
    "UPDATE links SET rank = 7 WHERE source = 'k1'",
    *POSTGRES_RECENT,
    "UPDATE links SET weight = 80, term = 'x' WHERE source = 'k1'",
    "UPDATE links SET target = 'k3', type = '' WHERE source = 'k1' AND target = 'k2'",
)


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_s16_a_repair_mends_every_kind_of_damage(
    statement: str, url: str, tmp_path: Path
) -> None:
    await fill(url, 5)
    tamper(url, statement)
    aside = tmp_path / "aside.jsonl"
    store = PostgresStore(url)
    damage = await find_damage(store)
    assert damage

    tried = await store.repair(aside, lambda _: None, dry_run=True)

    assert [finding.name for finding in tried.damage] == damage
    assert await find_damage(store) == damage and not aside.exists()

    done = await store.repair(aside, lambda _: None, dry_run=False)

    assert await find_damage(store) == []
    changed = (done.restored_memories, done.mended_memories, done.mended_links)
    assert changed == (tried.restored_memories, tried.mended_memories, tried.mended_links)
    if sum(changed):
        lines = [json.loads(line) for line in aside.read_text().splitlines()]
        assert len(lines) == sum(changed)
    else:
        assert not aside.exists()

    await put(store, "k1", content="It goes on.", links=[("k2", 0.9)])
    assert await find_damage(store) == []
    assert (await store.repair(None, lambda _: None, dry_run=False)).damage == []
    await store.close()


async def test_s16_wrong_words_are_mended_without_counting_again(url: str) -> None:
    await fill(url, 5)
    tamper(url, "UPDATE words SET folded = 'x'")
    shelved = read_shelf(url)
    store = PostgresStore(url)
    assert await find_damage(store) == ["search"]

    await store.repair(None, lambda _: None, dry_run=False)

    assert await find_damage(store) == []
    assert read_shelf(url) == shelved
    await store.close()


def read_shelf(url: str) -> list[tuple[Any, ...]]:
    """Return the rows of the memory index, each with the transaction that wrote it."""
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = abilities_data")
        return connection.execute("SELECT id, xmin::text FROM shelf ORDER BY id").fetchall()


async def test_s16_a_repair_goes_on_while_others_write(url: str, tmp_path: Path) -> None:
    await fill(url, 40)
    tamper(url, "UPDATE memories SET score = 80 WHERE key = 'k7'")
    store = PostgresStore(url)

    writing = [put(store, f"n{number}", links=[("k7", 0.5)]) for number in range(50)]
    repairing = asyncio.to_thread(run, url, "repair", "--aside", tmp_path / "a")
    done, _ = await asyncio.gather(repairing, asyncio.gather(*writing))

    assert done.exit_code == 0 and "1 memory" in done.stdout, done.output
    assert await find_damage(store) == []
    (stored,) = await store.read(NAMESPACE, ["k7"])
    assert isinstance(stored, StoredMemory) and stored.backlinks_total == 51
    await store.close()


async def test_s16_a_damaged_name_is_told_from_the_index(url: str, tmp_path: Path) -> None:
    await fill(url, 5)
    before = await asyncio.to_thread(run, url, "export", "--no-history")
    tamper(url, "UPDATE memories SET key = 'other' WHERE key = 'k1'")
    tamper(url, "UPDATE memories SET id = 'none', type = 'x' WHERE key = 'k2'")

    done = await asyncio.to_thread(run, url, "repair", "--aside", tmp_path / "a")
    after = await asyncio.to_thread(run, url, "export", "--no-history")

    assert "2 memories exactly as written" in done.stdout
    assert after.stdout == before.stdout


async def test_s16_a_change_says_what_it_mended_and_an_import_replaces(
    url: str, tmp_path: Path
) -> None:
    await fill(url, 3)
    exported = tmp_path / "all.jsonl"
    await asyncio.to_thread(run, url, "export", exported)
    tamper(url, "UPDATE memories SET score = 80, tags = '[' WHERE key = 'k1'")

    kept = await asyncio.to_thread(run, url, "import", exported)
    tried = await asyncio.to_thread(run, url, "import", exported, "--replace", "--dry-run")
    done = await asyncio.to_thread(run, url, "import", exported, "--replace")

    assert kept.exit_code == 1 and "--replace puts this one in its place" in kept.stderr
    assert "1 replaced" in tried.stderr and "1 replaced" in done.stderr
    store = PostgresStore(url)
    assert await find_damage(store) == []

    tamper(url, "UPDATE memories SET score = 80, tags = '[' WHERE key = 'k1'")
    change = Change("update", NOW, key="k1", fields={"summary": "s"})

    assert (await store.change(NAMESPACE, change)).mended == ("memory_score", "tags")
    assert (await store.change(NAMESPACE, change)).mended is None
    await store.close()


@pytest.mark.parametrize("value", BAD_VALUES)
async def test_impossible_values_are_refused_whoever_calls(value: Any, url: str) -> None:
    store = PostgresStore(url)
    await refuse_bad_values(store, value)
    await store.close()
