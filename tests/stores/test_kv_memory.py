"""Import from kv-memory: its ranking, times, counts and terms stay, and what cannot is counted."""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.stores.test_transfer import export, read_memories, run
from tests.support.kv_memory import (
    MADE,
    KvLink,
    KvMemory,
    add_links,
    add_memories,
    build_meta,
    create_database,
    write_database,
)

KEPT_NOWHERE = (
    "{memories}: meta.last_linked_at is not kept.\n"
    "{memories}: meta.in_degree is not kept.\n"
    "{memories}: meta.out_degree is not kept.\n"
    "{memories}: meta.traverse_count is not kept.\n"
)
OF_LINKS = "{links}: access_count is not kept.\n{links}: created_at is not kept.\n"


def import_one(folder: Path, memory: KvMemory) -> dict[str, Any]:
    """Import a database of one memory, and return that memory as an export has it."""
    write_database(folder / "kv.db", [memory])
    done = run(folder / "m.db", "import", folder / "kv.db")

    assert done.exit_code == 0, done.output

    (imported,) = read_memories(folder / "m.db").values()
    return imported


def test_memories_keep_their_score_times_counts_status_and_summary(tmp_path: Path) -> None:
    memory = KvMemory(
        "计划:今天 @home", "下雨就看书。", "天气", {"score": 95, "status": "archived"}
    )

    imported = import_one(tmp_path, memory)

    assert imported == {
        "namespace": "default",
        "key": "计划:今天 @home",
        "id": imported["id"],
        "type": "core",
        "content": "下雨就看书。",
        "summary": "天气",
        "importance": "medium",
        "archived": True,
        "memory_score": 0.95,
        "created_at": "2026-01-01T00:00:00.123Z",
        "updated_at": "2026-01-01T00:00:00.123Z",
        "accessed_at": "2026-01-02T00:00:00.123Z",
        "access_count": 2,
    }


def test_links_keep_their_weight_type_and_term(tmp_path: Path) -> None:
    links = [
        KvLink("a", "b", "design", "第一步", 0.95),
        KvLink("a", "a", "design", "itself", 1.0),
        KvLink("a", "c", None, "", 0.0),
        KvLink("b", "a", "bug", "t" * 201, 80),
    ]
    write_database(tmp_path / "kv.db", [KvMemory("a"), KvMemory("b"), KvMemory("c")], links)

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    assert done.exit_code == 0, done.output

    memories = read_memories(tmp_path / "m.db")

    assert memories["a"]["links"] == [
        {"key": "a", "link_weight": 1.0, "type": "design", "term": "itself"},
        {"key": "b", "link_weight": 0.95, "type": "design", "term": "第一步"},
        {"key": "c", "link_weight": 0.0},
    ]

    (link,) = memories["b"]["links"]

    assert (link["link_weight"], len(link["term"])) == (1.0, 200)
    assert memories["b"]["metadata"] == {
        "link_terms": {link["term"]: "t" * 201},
        "link_weights": {"a": "80.0"},
    }


def test_what_is_not_kept_is_counted_once_per_kind(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    connection = create_database(tmp_path / "kv.db")
    add_memories(connection, [KvMemory(f"k{n}") for n in range(30)])
    add_memories(connection, [KvMemory("mood", meta={"mood": "calm"}), KvMemory("x\ty")])
    add_links(connection, [KvLink("k1", f"k{n}") for n in range(25)])
    add_links(connection, [KvLink("nobody", "k1")])
    connection.execute("INSERT INTO kv_cache VALUES ('session', '{}', 1, NULL)")
    connection.commit()
    connection.close()

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db", "--report", report)

    key = next(key for key in read_memories(tmp_path / "m.db") if key.startswith("x y~"))

    assert done.stderr == (
        f"memory 32 ({key}): Its name is not a valid key: the key is {key}; "
        "metadata.name and the content have the name.\n"
        + KEPT_NOWHERE.format(memories="32 memories")
        + "1 memory: Further fields of meta became metadata.\n"
        + OF_LINKS.format(links="26 links")
        + "1 link: Links from a memory that does not exist are not imported.\n"
        "1 row: The table kv_cache is not imported.\n"
        "Imported: 32 added, 1 adjusted.\n"
    )

    lines = [json.loads(line) for line in report.read_text().splitlines()]

    assert lines[1] == {
        "place": "32 memories",
        "key": None,
        "words": "meta.last_linked_at is not kept.",
        "rows": 32,
    }


def test_counted_remarks_are_printed_however_many_others_there_are(tmp_path: Path) -> None:
    write_database(tmp_path / "kv.db", [KvMemory(f"a\t{n}") for n in range(40)])

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    assert "40 memories: meta.in_degree is not kept.\n" in done.stderr
    assert "... and 20 other remarks.\n--report FILE writes all of them.\n" in done.stderr


def test_an_import_can_be_repeated_tried_and_forced(tmp_path: Path) -> None:
    store, file = tmp_path / "m.db", tmp_path / "kv.db"
    memories = [KvMemory("a", "a " * 4_000, meta={"score": 10}), KvMemory("b")]
    write_database(file, memories, [KvLink("a", "b", term="t")])
    counted = KEPT_NOWHERE.format(memories="2 memories") + OF_LINKS.format(links="1 link")

    tried = run(store, "import", file, "--dry-run")

    assert tried.stderr == f"{counted}Would import: 2 added.\n"
    assert run(store, "import", file).stderr == f"{counted}Imported: 2 added.\n"

    before = export(store)
    again = run(store, "import", file, "--replace")

    assert again.stderr.endswith("Imported: 2 unchanged.\n")

    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE memory_links SET weight = 0.7")
        connection.execute("UPDATE memories SET meta = ? WHERE key = 'b'", ['{"score": 20}'])

    connection.close()
    kept = run(store, "import", file)

    assert kept.stderr.endswith("Imported: 2 kept.\n")
    assert export(store) == before

    replaced = run(store, "import", file, "--replace")

    assert replaced.stderr.endswith("Imported: 2 replaced.\n")
    assert read_memories(store)["a"]["links"][0]["link_weight"] == 0.7
    assert read_memories(store)["b"]["memory_score"] == 0.2


def test_the_file_is_only_read_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    write_database(folder / "kv.db", [KvMemory("a")])
    before = (folder / "kv.db").read_bytes()

    run(tmp_path / "m.db", "import", folder / "kv.db")

    assert [path.name for path in folder.iterdir()] == ["kv.db"]
    assert (folder / "kv.db").read_bytes() == before


def test_what_kv_memory_has_not_yet_written_to_its_file_is_imported_too(tmp_path: Path) -> None:
    connection = create_database(tmp_path / "kv.db")
    connection.commit()
    add_memories(connection, [KvMemory("in the WAL")])
    connection.commit()

    run(tmp_path / "m.db", "import", tmp_path / "kv.db")
    connection.close()

    assert list(read_memories(tmp_path / "m.db")) == ["in the WAL"]


@pytest.mark.parametrize(
    ("meta", "score", "kept"),
    [
        ({"score": 0}, 0.0, None),
        ({"score": 100}, 1.0, None),
        ({"score": 33.3}, 33.3 / 100, None),
        ({"score": None}, 0.5, None),
        ({"score": 250}, 1.0, 250),
        ({"score": -1}, 0.0, -1),
        ({"score": "95"}, 0.5, "95"),
        ({"score": True}, 0.5, True),
    ],
)
def test_scores_of_every_kind(
    meta: dict[str, Any], score: float, kept: object, tmp_path: Path
) -> None:
    imported = import_one(tmp_path, KvMemory("a", meta=meta))

    assert imported["memory_score"] == score
    assert imported.get("metadata", {}).get("score") == kept


@pytest.mark.parametrize(
    ("column", "meta", "created_at", "updated_at", "kept"),
    [
        (MADE, MADE, "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.123Z", None),
        (MADE + 7, MADE, "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.130Z", None),
        (MADE, None, "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.123Z", None),
        (0, None, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", None),
        (-1, None, "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z", None),
        ("soon", MADE, "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.123Z", "soon"),
        (10**17, None, "2026-01-02T00:00:00.123Z", "2026-01-02T00:00:00.123Z", 10**17),
    ],
)
def test_times_of_every_kind(
    column: object,
    meta: object,
    created_at: str,
    updated_at: str,
    kept: object,
    tmp_path: Path,
) -> None:
    memory = KvMemory("a", meta={"created_at": meta}, created_at=column)

    imported = import_one(tmp_path, memory)

    assert (imported["created_at"], imported["updated_at"]) == (created_at, updated_at)
    assert imported["accessed_at"] == "2026-01-02T00:00:00.123Z"
    assert imported.get("metadata", {}).get("created_at") == kept


@pytest.mark.parametrize(
    ("status", "archived", "metadata"),
    [
        ("active", False, None),
        (None, False, None),
        ("archived", True, None),
        ("deleted", True, {"status": "deleted"}),
        ("cold", False, {"status": "cold"}),
        (7, False, {"status": 7}),
    ],
)
def test_statuses_of_every_kind(
    status: object, archived: bool, metadata: object, tmp_path: Path
) -> None:
    imported = import_one(tmp_path, KvMemory("a", meta={"status": status}))

    assert imported.get("archived", False) is archived
    assert imported.get("metadata") == metadata


def test_values_that_fit_nowhere_become_metadata(tmp_path: Path) -> None:
    meta = {
        "access_count": "many",
        "last_accessed_at": "never",
        "id": "another",
        "memory_score": 1,
        "version": 4,
        "owner": {"name": "世", "n": 10**30},
    }

    imported = import_one(tmp_path, KvMemory("a", meta=meta))

    assert imported["metadata"] == {
        "access_count": "many",
        "last_accessed_at": "never",
        "id": "another",
        "original_memory_score": 1,
        "owner": {"name": "世", "n": str(10**30)},
    }
    assert "access_count" not in imported
    assert imported["accessed_at"] == imported["created_at"]


def test_damaged_values_are_imported_and_reported(tmp_path: Path) -> None:
    connection = create_database(tmp_path / "kv.db")
    connection.execute("INSERT INTO memories VALUES ('a', '', CAST(x'61ff' AS TEXT), '[1', 'x')")
    connection.execute("INSERT INTO memories VALUES ('b', '', '', '{}', 1)")
    add_links(connection, [KvLink("b", "a", weight="heavy")])
    connection.commit()
    connection.close()

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    memories = read_memories(tmp_path / "m.db")

    assert done.exit_code == 0
    assert "Characters that cannot be stored were replaced." in done.stderr
    assert memories["a"]["content"] == "a\ufffd"
    assert memories["a"]["metadata"] == {"meta": "[1", "created_at": "x"}
    assert memories["b"]["links"] == [{"key": "a", "link_weight": 0.5, "type": "design"}]
    assert memories["b"]["metadata"] == {"link_weights": {"a": "heavy"}}
    assert "1 memory: meta is not a JSON object; it became metadata." in done.stderr
    assert "2 memories: Without a score, kv-memory ranks a memory by 50" in done.stderr


def test_links_that_become_one_are_not_lost(tmp_path: Path) -> None:
    links = [KvLink("a", "b", None, "one", 0.9), KvLink("a", "b", "association", "two", 0.1)]
    write_database(tmp_path / "kv.db", [KvMemory("a"), KvMemory("b")], links)

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    memory = read_memories(tmp_path / "m.db")["a"]

    assert "Links with the same target and type became one" in done.stderr
    assert memory["links"] == [{"key": "b", "link_weight": 0.1, "term": "two"}]
    assert memory["metadata"] == {"links": [{"key": "b", "link_weight": 0.9, "term": "one"}]}


def test_the_score_in_meta_counts_rather_than_its_copy(tmp_path: Path) -> None:
    connection = create_database(tmp_path / "kv.db", "1.8")
    add_memories(connection, [KvMemory("a", meta={"score": 70}), KvMemory("b")])
    add_memories(connection, [KvMemory("c", meta={"score": None})])
    connection.execute("UPDATE memories SET score = 30 WHERE key = 'c'")
    connection.commit()
    connection.close()

    run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    memories = read_memories(tmp_path / "m.db")

    assert [memories[key]["memory_score"] for key in "abc"] == [0.7, 0.5, 0.3]
    assert "metadata" not in memories["a"]


def test_the_terms_of_version_1_2_are_in_its_json(tmp_path: Path) -> None:
    connection = create_database(tmp_path / "kv.db", "1.2")
    links = [
        {"type": "design", "key": "b", "term": "why", "weight": 1},
        {"type": "bug", "key": "missing", "term": "", "weight": 0.2},
        {"type": "bug", "term": "to no key", "weight": 0.2},
    ]
    row = ("a", "", "text", json.dumps(build_meta("a", score=None)), json.dumps(links), MADE)
    connection.execute("INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    (memory,) = read_memories(tmp_path / "m.db").values()

    assert done.exit_code == 0, done.output
    assert memory["links"] == [
        {"key": "b", "link_weight": 1.0, "type": "design", "term": "why"},
        {"key": "missing", "link_weight": 0.2, "type": "bug"},
    ]
    assert memory["metadata"] == {"links": [links[2]]}
    assert "1 memory: Links that lead to no key became metadata." in done.stderr


def test_the_terms_of_a_database_that_was_upgraded_are_found(tmp_path: Path) -> None:
    connection = create_database(tmp_path / "kv.db", "1.2")
    older = [
        {"type": "design", "key": "b", "term": "older", "weight": 0.1},
        {"type": "bug", "key": "b", "term": "older", "weight": 0.2},
        {"type": "bug", "key": "gone", "term": "removed", "weight": 0.3},
    ]
    row = ("a", "", "text", json.dumps(build_meta("a")), json.dumps(older), MADE)
    connection.execute("INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.execute("ALTER TABLE memory_links ADD COLUMN term TEXT NOT NULL DEFAULT ''")
    add_memories(connection, [KvMemory("b")])
    add_links(connection, [KvLink("a", "b", "design", "", 0.9), KvLink("a", "b", "bug", "newer")])
    connection.commit()
    connection.close()

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    memories = read_memories(tmp_path / "m.db")

    assert memories["a"]["links"] == [
        {"key": "b", "link_weight": 0.5, "type": "bug", "term": "newer"},
        {"key": "b", "link_weight": 0.9, "type": "design", "term": "older"},
    ]
    assert memories["a"]["metadata"] == {
        "links": [{"key": "gone", "type": "bug", "term": "removed", "weight": 0.3}]
    }
    assert "metadata" not in memories["b"]
    assert "1 memory: Links in the column links alone became metadata.\n" in done.stderr


def test_columns_that_kv_memory_does_not_have_become_metadata(tmp_path: Path) -> None:
    connection = create_database(tmp_path / "kv.db")
    connection.execute("ALTER TABLE memories ADD COLUMN mood TEXT")
    add_memories(connection, [KvMemory("a", meta={"mood": "merry"}), KvMemory("b")])
    connection.execute("UPDATE memories SET mood = 'calm' WHERE key = 'a'")
    connection.commit()
    connection.close()

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    memory = read_memories(tmp_path / "m.db")["a"]

    assert memory["metadata"] == {"mood": "merry", "original_mood": "calm"}
    assert "1 memory: The column mood became metadata.\n" in done.stderr


def test_a_database_of_the_older_format_is_called_by_its_name(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute("CREATE TABLE keyv (key VARCHAR(255) PRIMARY KEY, value TEXT)")
    connection.close()

    done = run(tmp_path / "m.db", "import", tmp_path / "old.db")

    assert done.exit_code == 1
    assert "The database has the format of Keyv, which kv-memory used before" in done.stderr
    assert not (tmp_path / "m.db").exists()


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE other (x)",
        "CREATE TABLE memories (key, content)",
        "CREATE TABLE memories (key, summary, text, meta, created_at)",
    ],
)
def test_a_database_of_something_else_is_refused(schema: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute(schema)

    connection.close()

    done = run(tmp_path / "m.db", "import", tmp_path / "other.db")

    assert done.exit_code == 1
    assert done.stderr == (
        "Error: The database is not kv-memory's: its tables memories and memory_links are missing "
        "or have other columns. Bring its contents as lines: docs/moving.md shows the form.\n"
    )
    assert not (tmp_path / "m.db").exists()


def test_a_store_of_this_package_is_refused_and_what_to_do_is_said(tmp_path: Path) -> None:
    write_database(tmp_path / "kv.db", [KvMemory("a")])
    run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    done = run(tmp_path / "n.db", "import", tmp_path / "m.db")

    assert done.exit_code == 1
    assert (
        "The file is a store of this package. Take its memories over: abilities export"
        in done.stderr
    )


@pytest.mark.parametrize("kept", [100, 5_000, 60_000, 150_000])
def test_a_damaged_database_is_refused_in_a_sentence(kept: int, tmp_path: Path) -> None:
    write_database(tmp_path / "kv.db", [KvMemory(f"k{n}", "x" * 3_000) for n in range(50)])
    size = os.stat(tmp_path / "kv.db").st_size

    with (tmp_path / "kv.db").open("r+b") as file:
        file.seek(kept)
        file.write(b"\xff" * (size - kept))

    done = run(tmp_path / "m.db", "import", tmp_path / "kv.db")

    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("Error: The database cannot be read: ")
