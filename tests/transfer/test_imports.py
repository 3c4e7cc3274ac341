"""Imports: of files of every origin, what is in the store afterwards and what the import says."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from abilities.helpers.store.mending import make_id, make_key
from abilities.helpers.transfer import importing, sources
from abilities.helpers.transfer.adjustment import adjust
from abilities.helpers.transfer.export_lines import HEADING, format_line
from abilities.helpers.transfer.importing import open_source
from abilities.helpers.transfer.sources import ForeignMemory
from tests.support.importing import import_file
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
from tests.support.memory_cases import nest
from tests.support.places import FilePlace

Database = Callable[[sqlite3.Connection], None]
"""What fills a database of kv-memory."""


class Case(NamedTuple):
    """A file, what a store holds after its import, and what the import says.

    ``memories`` are the fields to compare, by key; None is a field that the memory does not have.
    ``said`` are all lines but the last one, which has the ``counts`` of the memories, and but those
    that name what kv-memory alone keeps. An import is refused in part if the counts say so.
    """

    source: bytes | Database
    memories: dict[str, dict[str, Any]]
    counts: str
    said: tuple[str, ...] = ()
    version: Any = "1.3"

    def write(self, file: Path) -> None:
        """Write the file."""
        if isinstance(self.source, bytes):
            file.write_bytes(self.source)
            return

        with closing(create_database(file, self.version)) as connection:
            self.source(connection)
            connection.commit()


def entity(name: str, *observations: str, kind: str = "person", **fields: Any) -> dict[str, Any]:
    return {
        "type": "entity",
        "name": name,
        "entityType": kind,
        "observations": observations,
        **fields,
    }


def relation(source: str, target: str, kind: str = "knows", **fields: Any) -> dict[str, Any]:
    return {"type": "relation", "from": source, "to": target, "relationType": kind, **fields}


def write_lines(*values: object) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def fill_with(*rows: KvMemory | KvLink) -> Database:
    """Fill a database with memories and links."""

    def fill(connection: sqlite3.Connection) -> None:
        add_memories(connection, [row for row in rows if isinstance(row, KvMemory)])
        add_links(connection, [row for row in rows if isinstance(row, KvLink)])

    return fill


LONG = "n" * 300
ODD = " odd\tname"
GRAPH = [
    entity("Ada", "writes compilers", "likes tea"),
    entity("tea", kind=""),
    entity(ODD, "a" * 4_000, "b " * 4_000, kind="t" * 80),
    entity(LONG, "long name", kind="x", extra={"kept": True}),
    relation("Ada", "tea", "drinks"),
    relation("Ada", "tea", "drinks"),
    relation("Ada", LONG, "r" * 60),
    relation("Ada", "not there"),
    relation("ghost", "Ada", "haunts"),
]
CUT = "t" * 191 + "~743d6229"
SHORTENED = "r" * 41 + "~fba0a27e"
NAMES = ["ada@example.org", "Ada Lovelace", "@home", "计划: 今天"]
ODD_NAMES = [
    "n" * 190 + " of 300 " + "n" * 102,
    " at both ends ",
    "a\ttab",
    "two\nlines",
    LONG,
    "\u202eright to left",
]
"""Names that are no keys."""

TEA: dict[str, Any] = {"key": "tea", "content": "Green tea."}
NO_ID = "No id; it was made of the namespace and the key."
NO_CONTENT = "It had no content; its name became the content."
NO_KEY = "; metadata.name and the content have the name."
NO_SCORE = "1 memory: Without a score, kv-memory ranks a memory by 50; that became its score."
FURTHER_FIELDS = "1 memory: Further fields of meta became metadata."
EXPORTED: dict[str, Any] = {
    "namespace": "default",
    "id": "00000000-0000-4000-8000-000000000001",
    "type": "core",
    "importance": "medium",
    **TEA,
    **dict.fromkeys(("created_at", "updated_at", "accessed_at"), "2026-01-01T00:00:00.000Z"),
}


def fill_damaged(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO memories VALUES ('a', '', CAST(x'61ff' AS TEXT), '[1', 'x')")
    connection.execute("INSERT INTO memories VALUES ('b', '', '', '{}', 1)")
    add_links(connection, [KvLink("b", "a", weight="heavy")])


def fill_scored(connection: sqlite3.Connection) -> None:
    memories = [KvMemory("a", meta={"score": 70}), KvMemory("b")]
    add_memories(connection, [*memories, KvMemory("c", meta={"score": None})])
    connection.execute("UPDATE memories SET score = 30 WHERE key = 'c'")


def add_older(connection: sqlite3.Connection, links: object, **meta: object) -> None:
    """Insert a memory of version 1.2, which has its links beside it."""
    row = ("a", "", "text", json.dumps(build_meta("a", **meta)), json.dumps(links), MADE)
    connection.execute("INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?)", row)


TO_NO_KEY = {"type": "bug", "term": "to no key", "weight": 0.2}


def fill_older(connection: sqlite3.Connection) -> None:
    why = {"type": "design", "key": "b", "term": "why", "weight": 1}
    missing = {"type": "bug", "key": "missing", "term": "", "weight": 0.2}
    add_older(connection, [why, missing, TO_NO_KEY], score=None)


GONE = {"type": "bug", "key": "gone", "term": "removed", "weight": 0.3}


def fill_upgraded(connection: sqlite3.Connection) -> None:
    older = [
        {"type": "design", "key": "b", "term": "older", "weight": 0.1},
        {"type": "bug", "key": "b", "term": "older", "weight": 0.2},
    ]
    add_older(connection, [*older, GONE])
    connection.execute("ALTER TABLE memory_links ADD COLUMN term TEXT NOT NULL DEFAULT ''")
    add_memories(connection, [KvMemory("b")])
    add_links(connection, [KvLink("a", "b", "design", "", 0.9), KvLink("a", "b", "bug", "newer")])


def fill_with_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE memories ADD COLUMN mood TEXT")
    add_memories(connection, [KvMemory("a", meta={"mood": "merry"}), KvMemory("b")])
    connection.execute("UPDATE memories SET mood = 'calm' WHERE key = 'a'")


MADE_AT = "2026-01-01T00:00:00.123Z"
READ_AT = "2026-01-02T00:00:00.123Z"
OLD = "1970-01-01T00:00:00.000Z"
VALUES: list[tuple[dict[str, Any], object, dict[str, Any]]] = [
    ({"score": 0}, MADE, {"memory_score": 0.0, "metadata": None}),
    ({"score": 100}, MADE, {"memory_score": 1.0, "metadata": None}),
    ({"score": 33.3}, MADE, {"memory_score": 33.3 / 100, "metadata": None}),
    ({"score": None}, MADE, {"memory_score": 0.5, "metadata": None}),
    ({"score": 250}, MADE, {"memory_score": 1.0, "metadata": {"score": 250}}),
    ({"score": -1}, MADE, {"memory_score": 0.0, "metadata": {"score": -1}}),
    ({"score": "95"}, MADE, {"memory_score": 0.5, "metadata": {"score": "95"}}),
    ({"score": True}, MADE, {"memory_score": 0.5, "metadata": {"score": True}}),
    ({}, MADE, {"created_at": MADE_AT, "updated_at": MADE_AT, "accessed_at": READ_AT}),
    ({}, MADE + 7, {"created_at": MADE_AT, "updated_at": "2026-01-01T00:00:00.130Z"}),
    ({"created_at": None}, MADE, {"created_at": MADE_AT, "updated_at": MADE_AT}),
    ({"created_at": None}, 0, {"created_at": OLD, "updated_at": OLD, "accessed_at": READ_AT}),
    ({"created_at": None}, -1, {"created_at": "1969-12-31T23:59:59.999Z", "metadata": None}),
    ({}, "soon", {"created_at": MADE_AT, "metadata": {"created_at": "soon"}}),
    ({"created_at": None}, 10**17, {"created_at": READ_AT, "metadata": {"created_at": 10**17}}),
    ({"status": "active"}, MADE, {"archived": None, "metadata": None}),
    ({"status": None}, MADE, {"archived": None, "metadata": None}),
    ({"status": "archived"}, MADE, {"archived": True, "metadata": None}),
    ({"status": "deleted"}, MADE, {"archived": True, "metadata": {"status": "deleted"}}),
    ({"status": "cold"}, MADE, {"archived": None, "metadata": {"status": "cold"}}),
    ({"status": 7}, MADE, {"archived": None, "metadata": {"status": 7}}),
    (
        {
            "access_count": "many",
            "last_accessed_at": "never",
            "id": "another",
            "memory_score": 1,
            "version": 4,
            "owner": {"name": "世", "n": 10**30},
        },
        MADE,
        {
            "metadata": {
                "access_count": "many",
                "last_accessed_at": "never",
                "id": "another",
                "original_memory_score": 1,
                "owner": {"name": "世", "n": str(10**30)},
            },
            "access_count": None,
            "accessed_at": MADE_AT,
        },
    ),
]
"""The meta of a memory, the time in its column, and what becomes of them."""

CASES = {
    "a graph of the MCP memory server": Case(
        write_lines(*GRAPH),
        {
            "Ada": {
                "type": "core",
                "category": "person",
                "content": "writes compilers\nlikes tea",
                "links": [
                    {"key": make_key(LONG), "link_weight": 0.5, "type": SHORTENED},
                    {"key": "not there", "link_weight": 0.5, "type": "knows"},
                    {"key": "tea", "link_weight": 0.5, "type": "drinks"},
                ],
                "metadata": {"link_types": {SHORTENED: "r" * 60}},
            },
            "tea": {"content": "tea"},
            make_key(ODD): {
                "metadata": {"name": ODD, "category": "t" * 80},
                "content": f"{ODD}\n{'a' * 4_000}\n{'b ' * 4_000}",
            },
            make_key(LONG): {
                "metadata": {"name": LONG, "extra": {"kept": True}},
                "content": f"{LONG}\nlong name",
            },
            "ghost": {"links": [{"key": "Ada", "link_weight": 0.5, "type": "haunts"}]},
        },
        "5 added, 5 adjusted",
        (
            "line 1 (Ada): A link's type is over 50 characters; metadata.link_types has it.",
            f"line 2 (tea): {NO_CONTENT}",
            f"{NO_KEY} Its category is over 50 characters; metadata.category has it.",
            NO_KEY,
            "entity 'ghost' (ghost): It has relations but is no entity; its name became",
        ),
    ),
    "one line after a byte order mark": Case(
        b"\xef\xbb\xbf" + write_lines(GRAPH[0]), {"Ada": {"category": "person"}}, "1 added"
    ),
    "lines after a byte order mark": Case(
        b"\xef\xbb\xbf" + write_lines(GRAPH[0], GRAPH[5]), {"Ada": {}}, "1 added"
    ),
    "names that are valid keys": Case(
        write_lines(*(entity(name, "x") for name in NAMES), *map(relation, NAMES, NAMES)),
        {name: {"links": [{"key": name, "link_weight": 0.5, "type": "knows"}]} for name in NAMES},
        "4 added",
    ),
    "relations with fields of their own": Case(
        write_lines(entity("Ada", "x"), *(relation("Ada", f"t{n}", since=1843) for n in range(3))),
        {"Ada": {"content": "x"}},
        "1 added",
        ("3 relations: Fields other than from, to and relationType are not kept.",),
    ),
    "two entities with one name": Case(
        write_lines(entity("Ada", "first"), entity("Ada", "first"), entity("Ada", "second")),
        {"Ada": {"content": "first"}},
        "1 added, 1 refused",
        ("line 3: An earlier line has the same name; that one counts.",),
    ),
    "a torn first line": Case(
        b'y","observations":[]}\n' + write_lines(entity("Ada", "x")),
        {"Ada": {"content": "x"}},
        "1 added, 1 refused",
        ("line 1: The line is not valid JSON",),
    ),
    "lines without ids": Case(
        write_lines(*({**TEA, "key": f"k{n}"} for n in range(50))),
        {"k7": {"id": make_id("default", "k7"), "content": "Green tea."}},
        "50 added",
        (f"50 memories: {NO_ID}",),
    ),
    "a line without an id, with other fields": Case(
        write_lines(
            {
                **TEA,
                "type": "task",
                "tags": ["drink"],
                "archived": False,
                "created_at": "2026-01-31T09:30:00.000Z",
                "links": [{"key": "cup", "link_weight": 0.5}],
            }
        ),
        {
            "tea": {
                "type": "task",
                "tags": ["drink"],
                "importance": "medium",
                "created_at": "2026-01-31T09:30:00.000Z",
                "updated_at": "2026-01-31T09:30:00.000Z",
                "links": [{"key": "cup", "link_weight": 0.5}],
            }
        },
        "1 added",
        (f"1 memory: {NO_ID}",),
    ),
    "lines that are no memories": Case(
        write_lines(
            {**TEA, "key": "first"},
            {"key": "tea"},
            {**TEA, "key": " tea"},
            {**TEA, "type": "fact"},
            {**TEA, "tags": "drink"},
            {**TEA, "weight": 1},
            {**TEA, "content": 1},
            {**TEA, "created_at": "today"},
            [TEA],
        ),
        {"first": {"content": "Green tea."}},
        "1 added, 8 refused",
        (
            "line 2: The field content is missing.",
            "line 3: The field key is wrong: key must be 1 to 200 printable",
            "line 4: The field type must be 'core', 'learning' or 'task'.",
            "line 5: The field tags must be a list.",
            "line 6: The field weight is unknown.",
            "line 7: The field content must be text.",
            "line 8: The field created_at must match ^",
            "line 9: The line is not a memory: it must be a JSON object.",
            f"1 memory: {NO_ID}",
        ),
    ),
    "a score among the metadata of an export": Case(
        HEADING
        + write_lines(
            {
                **EXPORTED,
                "metadata": {"memory_score": -0.0, "mine": 1},
                "links": [{"key": "a", "link_weight": -0.0}],
            }
        ),
        {"tea": {"memory_score": 0.0, "metadata": {"mine": 1}}},
        "1 added",
    ),
    "a tag that an export has twice": Case(
        HEADING + write_lines({**EXPORTED, "tags": ["b", "a", "b"]}),
        {"tea": {"tags": ["b", "a"]}},
        "1 added",
    ),
    "a memory of kv-memory": Case(
        fill_with(
            KvMemory("计划:今天 @home", "下雨就看书。", "天气", {"score": 95, "status": "archived"})
        ),
        {
            "计划:今天 @home": {
                "namespace": "default",
                "type": "core",
                "content": "下雨就看书。",
                "summary": "天气",
                "importance": "medium",
                "archived": True,
                "memory_score": 0.95,
                "created_at": MADE_AT,
                "updated_at": MADE_AT,
                "accessed_at": READ_AT,
                "access_count": 2,
                "metadata": None,
                "links": None,
                "tags": None,
            }
        },
        "1 added",
    ),
    "links of kv-memory": Case(
        fill_with(
            *map(KvMemory, "abc"),
            KvLink("a", "b", "design", "第一步", 0.95),
            KvLink("a", "a", "design", "itself", 1.0),
            KvLink("a", "c", None, "", 0.0),
            KvLink("b", "a", "bug", "t" * 201, 80),
        ),
        {
            "a": {
                "links": [
                    {"key": "a", "link_weight": 1.0, "type": "design", "term": "itself"},
                    {"key": "b", "link_weight": 0.95, "type": "design", "term": "第一步"},
                    {"key": "c", "link_weight": 0.0},
                ]
            },
            "b": {
                "links": [{"key": "a", "link_weight": 1.0, "type": "bug", "term": CUT}],
                "metadata": {"link_terms": {CUT: "t" * 201}, "link_weights": {"a": "80.0"}},
            },
        },
        "3 added, 1 adjusted",
        (
            "memory 2 (b): A link's term is over 200 characters; metadata.link_terms has it."
            " A link's weight is not from 0 to 1; metadata.link_weights has it.",
        ),
    ),
    "values of every kind": Case(
        fill_with(
            *(
                KvMemory(f"v{number}", meta=meta, created_at=column)
                for number, (meta, column, _) in enumerate(VALUES)
            )
        ),
        {f"v{number}": fields for number, (*_, fields) in enumerate(VALUES)},
        "22 added",
        (
            NO_SCORE,
            "4 memories: score cannot be used as it is; it became metadata.",
            "2 memories: created_at cannot be used as it is; it became metadata.",
            "3 memories: A status other than active and archived became metadata.",
            "1 memory: last_accessed_at cannot be used as it is; it became metadata.",
            "1 memory: access_count cannot be used as it is; it became metadata.",
            FURTHER_FIELDS,
        ),
    ),
    "damaged values": Case(
        fill_damaged,
        {
            "a": {"content": "a\ufffd", "metadata": {"meta": "[1", "created_at": "x"}},
            "b": {
                "links": [{"key": "a", "link_weight": 0.5, "type": "design"}],
                "metadata": {"link_weights": {"a": "heavy"}},
            },
        },
        "2 added, 2 adjusted",
        (
            "memory 1 (a): Characters that cannot be stored were replaced.",
            f"memory 2 (b): {NO_CONTENT}",
            "1 memory: meta is not a JSON object; it became metadata.",
            NO_SCORE.replace("1 memory", "2 memories"),
            "1 memory: created_at cannot be used as it is; it became metadata.",
            "1 memory: link_weights cannot be used as it is; it became metadata.",
        ),
    ),
    "links that become one": Case(
        fill_with(
            *map(KvMemory, "ab"),
            KvLink("a", "b", None, "one", 0.9),
            KvLink("a", "b", "association", "two", 0.1),
        ),
        {
            "a": {
                "links": [{"key": "b", "link_weight": 0.1, "term": "two"}],
                "metadata": {"links": [{"key": "b", "link_weight": 0.9, "term": "one"}]},
            }
        },
        "2 added, 1 adjusted",
        ("Links with the same target and type became one",),
    ),
    "a score in meta and its copy": Case(
        fill_scored,
        {
            "a": {"memory_score": 0.7, "metadata": None},
            "b": {"memory_score": 0.5},
            "c": {"memory_score": 0.3},
        },
        "3 added",
        version="1.8",
    ),
    "terms of version 1.2": Case(
        fill_older,
        {
            "a": {
                "links": [
                    {"key": "b", "link_weight": 1.0, "type": "design", "term": "why"},
                    {"key": "missing", "link_weight": 0.2, "type": "bug"},
                ],
                "metadata": {"links": [TO_NO_KEY]},
            }
        },
        "1 added",
        (NO_SCORE, "1 memory: Links that lead to no key became metadata."),
        version="1.2",
    ),
    "terms of a database that was upgraded": Case(
        fill_upgraded,
        {
            "a": {
                "links": [
                    {"key": "b", "link_weight": 0.5, "type": "bug", "term": "newer"},
                    {"key": "b", "link_weight": 0.9, "type": "design", "term": "older"},
                ],
                "metadata": {"links": [GONE]},
            },
            "b": {"metadata": None},
        },
        "2 added",
        ("1 memory: Links in the column links alone became metadata.",),
        version="1.2",
    ),
    "a column that kv-memory does not have": Case(
        fill_with_column,
        {"a": {"metadata": {"mood": "merry", "original_mood": "calm"}}, "b": {"metadata": None}},
        "2 added",
        (FURTHER_FIELDS, "1 memory: The column mood became metadata."),
    ),
}


@pytest.fixture
def file(folder: Path) -> Path:
    """Where a test writes what is imported: the only file of a folder."""
    return folder / "source"


def expect_memories(place: FilePlace, expected: dict[str, dict[str, Any]]) -> None:
    """Compare fields of memories; None is a field that a memory does not have."""
    found = place.read_memories()
    for key, fields in expected.items():
        assert {name: found[key].get(name) for name in fields} == fields, key


@pytest.mark.parametrize("name", CASES)
def test_what_is_imported_is_there_and_what_cannot_be_is_said(
    name: str, file: Path, file_place: FilePlace
) -> None:
    """A dry run says the same before, and the same again changes nothing; the file is as it was."""
    case = CASES[name]
    case.write(file)
    before = file.read_bytes()

    tried = file_place.run("import", file, "--dry-run")
    done = file_place.run("import", file)

    assert done.exit_code == ("refused" in case.counts), done.output
    assert done.stderr.endswith(f"Imported: {case.counts}.\n"), done.stderr
    remarks = [line for line in done.stderr.splitlines() if not line.endswith("is not kept.")]
    for line, words in zip(remarks[:-1], case.said, strict=True):
        assert words in line
    assert (tried.exit_code, tried.stderr) == (
        done.exit_code,
        done.stderr.replace("Imported", "Would import"),
    )
    expect_memories(file_place, case.memories)

    exported = file_place.export()
    again = file_place.run("import", file, "--replace")
    assert again.stderr == done.stderr.replace("added", "unchanged")
    assert file_place.export() == exported
    assert file_place.run("check").exit_code == 0
    assert [path.name for path in file.parent.iterdir()] == ["source"]
    assert file.read_bytes() == before

    if isinstance(case.source, bytes):
        other = file_place.beside("stream.db")
        streamed = other.run("import", "-", stdin=case.source)
        assert (streamed.exit_code, streamed.stderr) == (done.exit_code, done.stderr)
        assert other.read_memories().keys() == file_place.read_memories().keys()


def test_a_name_that_is_no_key_is_found_by_a_search_for_it(
    file: Path, file_place: FilePlace
) -> None:
    links = [relation("Ada", name) for name in ODD_NAMES]
    observed = [entity(name, "observed") for name in ODD_NAMES]
    file.write_bytes(write_lines(entity("Ada", "x"), *links, *observed))

    done = file_place.run("import", file)

    assert done.exit_code == 0, done.output
    memories = file_place.read_memories()
    for line, name in enumerate(ODD_NAMES, len(ODD_NAMES) + 2):
        key = make_key(name)
        arguments = json.dumps({"search": name[:200], "limit": 100})
        found = json.loads(file_place.run("call", "query_memories", arguments).stdout)
        assert [memory["key"] for memory in found["memories"]] == [key]
        assert memories[key]["metadata"]["name"] == name
        assert memories[key]["content"] == f"{name}\nobserved"
        assert key in {link["key"] for link in memories["Ada"]["links"]}
        assert f"line {line} ({key}): Its name is not a valid key" in done.stderr


def test_what_is_not_kept_is_counted_once_per_kind_however_many_other_remarks_there_are(
    file: Path, file_place: FilePlace
) -> None:
    report = file_place.folder / "report.jsonl"
    with closing(create_database(file)) as connection:
        add_memories(connection, [KvMemory(f"k{n}") for n in range(30)])
        add_memories(connection, [KvMemory(f"a\t{n}") for n in range(40)])
        add_links(connection, [KvLink("k1", f"k{n}") for n in range(25)])
        add_links(connection, [KvLink("nobody", "k1")])
        connection.execute("INSERT INTO kv_cache VALUES ('session', '{}', 1, NULL)")
        connection.commit()

    done = file_place.run("import", file, "--report", report)

    counts = "last_linked_at", "in_degree", "out_degree", "traverse_count"
    assert done.stderr.splitlines()[20:] == [
        *(f"70 memories: meta.{name} is not kept." for name in counts),
        "26 links: access_count is not kept.",
        "26 links: created_at is not kept.",
        "1 link: Links from a memory that does not exist are not imported.",
        "1 row: The table kv_cache is not imported.",
        "... and 20 other remarks.",
        f"All of them are in {report}.",
        "Imported: 70 added, 40 adjusted.",
    ]
    lines = map(json.loads, report.read_text().splitlines())
    words = "meta.last_linked_at is not kept."
    assert {"place": "70 memories", "key": None, "words": words, "rows": 70} in lines


def test_of_equal_remarks_twenty_are_printed_and_of_others_the_first(
    file: Path, file_place: FilePlace
) -> None:
    without_content = [{"key": f"k{n}"} for n in range(60)]
    file.write_bytes(write_lines(TEA, *without_content, {**TEA, "tags": 1}, {**TEA, "tags": 1}))

    lines = file_place.run("import", file).stderr.splitlines()

    assert sum("The field content is missing." in line for line in lines) == 21
    assert "line 62: The field tags must be a list." in lines
    assert "... and 40 more of: The field content is missing." in lines
    assert "... and 1 more of: The field tags must be a list." in lines


def test_a_database_that_changed_replaces_only_if_asked(file: Path, file_place: FilePlace) -> None:
    """What kv-memory has not yet written from its log to its file is imported too."""
    write_database(file, [KvMemory("a", "a " * 4_000), KvMemory("b")], [KvLink("a", "b")])
    file_place.run("import", file)
    before = file_place.export()

    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA journal_mode = wal").fetchone() == ("wal",)
        connection.execute("UPDATE memory_links SET weight = 0.7")
        connection.execute("UPDATE memories SET meta = ? WHERE key = 'b'", ['{"score": 20}'])

        kept = file_place.run("import", file)
        assert kept.stderr.endswith("Imported: 2 kept.\n")
        assert file_place.export() == before
        replaced = file_place.run("import", file, "--replace")

    assert replaced.stderr.endswith("Imported: 2 replaced.\n")
    links = [{"key": "b", "link_weight": 0.7, "type": "design"}]
    expect_memories(file_place, {"a": {"links": links}, "b": {"memory_score": 0.2}})


NOT_KV_MEMORY = (
    "CREATE TABLE keyv (key VARCHAR(255) PRIMARY KEY, value TEXT)",
    "CREATE TABLE memories (key, content)",
    "CREATE TABLE memories (key, summary, text, meta, created_at)",
)
STREAMS = {
    b"\n\n": "There is nothing to import",
    b"hello\n" * 100: "The file is neither an export, nor an MCP memory server",
    b'{"format":"agent-abilities","version":4}\n': "The file was written by a newer version",
}


def expect_refused(place: FilePlace, source: Path | bytes, words: str) -> None:
    """Import a file or a stream, which must be refused and make no store."""
    if isinstance(source, bytes):
        done = place.run("import", "-", stdin=source)
    else:
        done = place.run("import", source)

    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith(f"Error: {words}"), done.stderr
    assert not place.path.exists()


def test_a_damaged_database_is_refused_in_a_sentence(file: Path, file_place: FilePlace) -> None:
    write_database(file, [KvMemory(f"k{n}", "x" * 3_000) for n in range(50)])
    raw = file.read_bytes()
    for kept in (100, 5_000, 60_000, 150_000):
        file.write_bytes(raw[:kept] + b"\xff" * (len(raw) - kept))
        done = file_place.run("import", file)

        assert done.exit_code == 1
        assert done.stderr.splitlines()[-1].startswith("Error: The database cannot be read: ")


def test_what_is_no_source_is_refused_and_makes_no_store(file: Path, file_place: FilePlace) -> None:
    for schema in NOT_KV_MEMORY:
        file.unlink(missing_ok=True)
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(schema)
        expect_refused(file_place, file, "The database is not kv-memory's")

    other = file_place.beside("other.db")
    other.fill(1)
    expect_refused(file_place, other.path, "The file is a store of this package.")
    expect_refused(file_place, file.read_bytes(), "A database cannot be read from a stream")
    for source, words in STREAMS.items():
        file.write_bytes(source)
        expect_refused(file_place, source, words)
        expect_refused(file_place, file, words)

    assert file_place.run("import", file_place.folder / "none").exit_code == 2


def test_lines_that_are_no_memories_are_reported_and_the_rest_is_imported(
    file: Path, file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_LINE", 2_000)
    monkeypatch.setattr(sources, "CHUNK", 500)
    report = file_place.folder / "report.jsonl"
    wrong: list[dict[str, Any]] = [
        {"content": ""},
        {"new": 1},
        {"id": "x"},
        {"metadata": [1]},
        {"metadata": {"memory_score": 80}},
        {"metadata": {"n": 10**400}},
        {"metadata": nest(17)},
        {"tags": ["\ud800"]},
        {"links": [{"key": "a", "link_weight": 10**400}]},
    ]
    lines = [b"{", b"[]", b"\xff", b"x" * 3_000, b'{"namespace": NaN}']
    lines += [json.dumps({**EXPORTED, **fields}).encode() for fields in wrong]
    file.write_bytes(b"\n".join([HEADING.strip(), *lines, b"", json.dumps(EXPORTED).encode()]))

    done = file_place.run("import", file, "--report", report)

    assert done.exit_code == 1
    assert done.stderr.endswith("Imported: 1 added, 14 refused.\n"), done.stderr
    notes = [json.loads(line) for line in report.read_text().splitlines()]
    assert [note["place"] for note in notes] == [f"line {n}" for n in range(2, 16)]
    assert "too long" in notes[3]["words"]


@pytest.mark.parametrize("named", [{}, {"namespace": "mine"}])
def test_a_namespace_for_all_takes_lines_without_an_id_too(
    named: dict[str, str], file: Path, file_place: FilePlace
) -> None:
    get = ("call", "memory_get", '{"key": "tea"}', "--namespace")
    file.write_bytes(write_lines({**TEA, **named}))

    file_place.run("import", file, "--namespace", "team")

    found = json.loads(file_place.run(*get, "team").stdout)
    assert found["data"]["id"] == make_id("team", "tea")
    file_place.run("import", file)
    assert file_place.run(*get, named.get("namespace", "default")).exit_code == 0


def test_an_export_replaces_no_file_of_such_lines(file: Path, file_place: FilePlace) -> None:
    file.write_bytes(write_lines(TEA))
    file_place.run("import", file)

    refused = file_place.run("export", file)

    assert refused.exit_code == 1 and "is no export" in refused.stderr
    assert file.read_bytes() == write_lines(TEA)


def test_the_copy_of_a_stream_is_private_and_deleted(
    file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = file_place.folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    modes: list[int] = []
    make_folder = tempfile.mkdtemp

    def note_folder(*arguments: Any, **options: Any) -> str:
        folder: str = make_folder(*arguments, **options)
        modes.append(os.stat(folder).st_mode & 0o777)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", note_folder)

    file_place.run("import", "-", stdin=write_lines(entity("Ada", "x")))

    assert modes == [0o700]
    assert list(temporary.iterdir()) == []


def test_a_pipe_that_has_a_path_is_read_like_stdin(file: Path, file_place: FilePlace) -> None:
    file.write_bytes(write_lines(relation("Ada", "tea"), entity("Ada", "x")))
    command = f'"{sys.executable}" -m abilities import <(cat "{file}")'
    environment = {**os.environ, "ABILITIES_STORE_URL": file_place.url}

    done = subprocess.run(
        ["bash", "-c", command], env=environment, cwd=file.parent, capture_output=True, check=False
    )

    assert done.stderr == b"Imported: 1 added.\n"
    assert len(file_place.read_memories()["Ada"]["links"]) == 1


@pytest.mark.parametrize("kind", ["relations", "an export", "a database"])
async def test_progress_counts_every_line_and_reaches_its_end(
    kind: str, file: Path, file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 5)
    if kind == "relations":
        relations = [relation("Ada", f"t{n}") for n in range(20)]
        file.write_bytes(write_lines(entity("Ada", "x"), *relations) + b"\n\n")
    elif kind == "an export":
        foreign = [ForeignMemory(f"e{n}", "x") for n in range(16)]
        memories = [adjust(memory, "default", MADE_AT).memory.stored for memory in foreign]
        file.write_bytes(HEADING + b"".join(map(format_line, memories)))
    else:
        write_database(file, [KvMemory(f"k{n}") for n in range(16)])

    positions: list[int] = []
    async with file_place.open() as store:
        await import_file(store, file, progress=positions.append)
    async with open_source(file, "default", all_into_it=False) as opened:
        length = opened.length

    assert positions == sorted(positions)
    assert positions[-1] == length
    assert len(positions) >= 4
