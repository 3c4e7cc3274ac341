"""Import, export, backup, restore and check: nothing is lost; what is killed can be finished."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings, strategies

from abilities.cli.main import main
from abilities.declarations.values import utc_now
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.store.names import make_key, to_storable
from abilities.helpers.transfer import streams
from abilities.helpers.transfer.adjustment import adjust, adjust_item
from abilities.helpers.transfer.export_lines import format_line, parse_line
from abilities.helpers.transfer.foreign import ForeignLink, ForeignMemory
from benchmarks.generate import generate
from tests.stores.behaviours import put
from tests.stores.test_stores import check_whole, open_store
from tests.support.forked import COMMAND_LINE, Forked
from tests.support.measurements import reached
from tests.support.memory_cases import nest
from tests.support.tier import size
from tests.support.waiting import gather_in_groups

KILLED_IMPORTS = size("ABILITIES_KILLED_IMPORTS", quick=2, full=6)
BACKUPS = size("ABILITIES_BACKUPS", quick=1, full=5)
MEMORIES = size("ABILITIES_MEMORIES", quick=500, full=5000)
NOW = "2026-01-01T00:00:00.000Z"


def run(store: Path, *arguments: str | Path, stdin: bytes | None = None) -> Result:
    """Run a command on a store, in this process."""
    environment = {
        "ABILITIES_STORE_URL": f"sqlite:///{store}",
        "ABILITIES_WORKSPACE_DIR": str(store.parent),
    }
    return CliRunner().invoke(main, [str(a) for a in arguments], input=stdin, env=environment)


def export(store: Path) -> bytes:
    done = run(store, "export", "--no-history")

    assert done.exit_code == 0, done.output

    return done.stdout_bytes


texts = strategies.text(
    strategies.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40
)
keys = strategies.text("abc/:#é世 ", min_size=1, max_size=6).filter(lambda key: key == key.strip())
shares = strategies.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1.0])
json_values = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers(-(2**53), 2**53) | texts,
    lambda inner: (
        strategies.lists(inner, max_size=2) | strategies.dictionaries(texts, inner, max_size=2)
    ),
    max_leaves=4,
)
times = strategies.integers(0, 2**31).map(
    lambda s: time.strftime("%Y-%m-%dT%H:%M:%S.123Z", time.gmtime(s))
)
links = strategies.fixed_dictionaries(
    {"key": keys, "link_weight": shares},
    optional={"type": texts.filter(bool), "term": texts},
)
memories = strategies.fixed_dictionaries(
    {
        "namespace": strategies.sampled_from(["default", "other"]),
        "key": keys,
        "id": strategies.uuids(version=4).map(str),
        "type": strategies.sampled_from(["core", "learning", "task"]),
        "content": texts.filter(bool),
        "importance": strategies.sampled_from(["high", "medium", "low"]),
        "created_at": times,
        "updated_at": times,
        "accessed_at": times,
    },
    optional={
        "summary": texts,
        "category": texts,
        "tags": strategies.lists(texts.filter(bool).map(lambda t: t[:30]), max_size=3, unique=True),
        "archived": strategies.booleans(),
        "memory_score": shares,
        "metadata": strategies.dictionaries(texts, json_values, max_size=3),
        "access_count": strategies.integers(0, 99),
        "links": strategies.lists(links, max_size=4),
    },
)


@given(
    strategies.lists(
        memories,
        min_size=1,
        max_size=6,
        unique_by=(lambda m: (m["namespace"], m["key"]), lambda m: m["id"]),
    )
)
@settings(max_examples=size("ABILITIES_EXAMPLES", quick=5, full=40), deadline=None)
def test_what_was_exported_comes_back_byte_for_byte(memories: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "one.db", Path(folder) / "two.db"
        stored = [parse_line(json.dumps(memory).encode()) for memory in memories]

        async def fill() -> None:
            async with open_store(first) as store:
                await store.import_batch([IncomingMemory(memory) for memory in stored])

        asyncio.run(fill())
        lines = export(first)

        assert lines.count(b"\n") == len(memories) + 1

        imported = run(second, "import", "-", stdin=lines)

        assert imported.exit_code == 0, imported.output
        assert export(second) == lines

        again = run(second, "import", "-", stdin=lines)

        assert again.stderr == f"Imported: {len(memories):,} unchanged.\n"
        assert export(second) == lines

        for line in lines.splitlines()[1:]:
            assert format_line(parse_line(line)) == line + b"\n"


def fill(path: Path, count: int, **fields: Any) -> None:
    async def store_all() -> None:
        async with open_store(path) as store:
            await gather_in_groups(
                put(store, f"k{n:04}", links=[(f"k{n + 1:04}", 0.5)], tags=["t"], **fields)
                for n in range(count)
            )

    asyncio.run(store_all())


def test_what_differs_is_kept_unless_asked(tmp_path: Path) -> None:
    store, other, file = tmp_path / "m.db", tmp_path / "o.db", tmp_path / "m.jsonl"
    fill(store, 3)
    run(store, "export", "--no-history", file)
    changed = file.read_text().replace("content of k0001", "changed")
    file.write_text(changed)

    kept = run(store, "import", file)

    assert kept.exit_code == 0
    assert kept.stderr == (
        "line 3 (k0001): It differs from the stored memory, which was kept.\n"
        "Imported: 2 unchanged, 1 kept.\n"
    )

    dry = run(store, "import", file, "--replace", "--dry-run")

    assert dry.stderr == "Would import: 1 replaced, 2 unchanged.\n"
    assert b"changed" not in export(store)
    assert run(store, "import", file, "--replace").stderr == "Imported: 1 replaced, 2 unchanged.\n"
    assert export(store) == changed.encode()

    lines = changed.splitlines()
    other_key = json.dumps({**json.loads(lines[1]), "key": "x"})
    refused = run(store, "import", "-", stdin=f"{lines[0]}\n{other_key}".encode())

    assert refused.exit_code == 1
    assert "line 2 (x): The id and the key name different memories." in refused.stderr
    assert run(other, "import", file, "--namespace", "team").exit_code == 0
    assert (
        export(other)
        == changed.replace('"default"', '"team"').replace('"conformance"', '"team"').encode()
    )
    assert export(other).count(b"\n") == 4

    part = run(other, "export", "--namespace", "none")

    assert part.stdout_bytes.count(b"\n") == 1


def test_lines_that_are_no_memories_are_reported_and_the_rest_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, file, report = tmp_path / "m.db", tmp_path / "m.jsonl", tmp_path / "report.jsonl"
    fill(store, 2)
    run(store, "export", "--no-history", file)
    heading, good, other = file.read_bytes().splitlines()
    memory = json.loads(other)
    bad = [
        b"{",
        b"[]",
        b"\xff",
        json.dumps({**memory, "content": ""}).encode(),
        json.dumps({**memory, "new": 1}).encode(),
    ]
    bad += [
        json.dumps({**memory, "id": "x"}).encode(),
        b"x" * 3_000,
        json.dumps({**memory, "metadata": [1]}).encode(),
        json.dumps({**memory, "metadata": {"memory_score": 80}}).encode(),
        json.dumps({**memory, "metadata": {"n": 10**400}}).encode(),
        json.dumps({**memory, "metadata": nest(17)}).encode(),
        json.dumps({**memory, "tags": ["\ud800"]}).encode(),
        json.dumps({**memory, "links": [{"key": "a", "link_weight": 10**400}]}).encode(),
        b'{"namespace": NaN}',
    ]
    monkeypatch.setattr(streams, "MAX_LINE", 2_000)
    monkeypatch.setattr(streams, "CHUNK", 500)
    file.write_bytes(b"\n".join([heading, *bad, b"", good]))

    done = run(tmp_path / "n.db", "import", file, "--report", report)

    assert done.exit_code == 1
    assert done.stderr.endswith("Imported: 1 added, 14 refused.\n"), done.stderr

    notes = [json.loads(line) for line in report.read_text().splitlines()]

    assert [note["place"] for note in notes] == [f"line {n}" for n in range(2, 16)]
    assert "too long" in notes[6]["words"]

    newer = tmp_path / "newer.jsonl"
    newer.write_text('{"format":"agent-abilities","version":3}\n')

    assert "newer version" in run(store, "import", newer).stderr

    newer.write_text("hello")

    assert "neither" in run(store, "import", newer).stderr
    assert run(store, "import", tmp_path / "none").exit_code == 2
    assert run(store, "export", "--namespace", "n o").exit_code == 2
    assert run(store, "export", "--namespace", "").exit_code == 2


def test_a_score_in_the_metadata_of_a_line_is_the_score(tmp_path: Path) -> None:
    store, file = tmp_path / "m.db", tmp_path / "m.jsonl"
    fill(store, 1)
    run(store, "export", "--no-history", file)
    heading, line = file.read_bytes().splitlines()
    memory = json.loads(line)
    memory["metadata"] = {"memory_score": -0.0, "mine": 1}
    memory["links"] = [{"key": "a", "link_weight": -0.0}]
    file.write_bytes(heading + b"\n" + json.dumps(memory).encode())

    assert run(tmp_path / "n.db", "import", file).exit_code == 0

    exported = json.loads(export(tmp_path / "n.db").splitlines()[1])
    assert (str(exported["memory_score"]), exported["metadata"]) == ("0.0", {"mine": 1})
    assert str(exported["links"][0]["link_weight"]) == "0.0"
    assert run(tmp_path / "n.db", "check").exit_code == 0


def test_a_tag_that_a_line_has_twice_is_kept_once(tmp_path: Path) -> None:
    store, file = tmp_path / "m.db", tmp_path / "m.jsonl"
    fill(store, 1)
    run(store, "export", "--no-history", file)
    heading, line = file.read_bytes().splitlines()
    memory = json.loads(line) | {"tags": ["b", "a", "b"]}
    file.write_bytes(heading + b"\n" + json.dumps(memory).encode())

    done = run(tmp_path / "n.db", "import", file)

    assert done.exit_code == 0, done.output
    exported = json.loads(export(tmp_path / "n.db").splitlines()[1])
    assert exported["tags"] == ["b", "a"]
    assert "1 unchanged" in run(tmp_path / "n.db", "import", file).stderr


GRAPH = [
    {
        "type": "entity",
        "name": "Ada",
        "entityType": "person",
        "observations": ["writes compilers", "likes tea"],
    },
    {"type": "entity", "name": "tea", "entityType": "", "observations": []},
    {
        "type": "entity",
        "name": " odd\tname",
        "entityType": "t" * 80,
        "observations": ["a" * 4_000, "b " * 4_000],
    },
    {
        "type": "entity",
        "name": "n" * 300,
        "entityType": "x",
        "observations": ["long name"],
        "extra": {"kept": True},
    },
    {"type": "relation", "from": "Ada", "to": "tea", "relationType": "drinks"},
    {"type": "relation", "from": "Ada", "to": "tea", "relationType": "drinks"},
    {"type": "relation", "from": "Ada", "to": "n" * 300, "relationType": "r" * 60},
    {"type": "relation", "from": "Ada", "to": "not there", "relationType": "knows"},
    {"type": "relation", "from": "ghost", "to": "Ada", "relationType": "haunts"},
]


def read_memories(store: Path) -> dict[str, dict[str, Any]]:
    return {memory["key"]: memory for memory in map(json.loads, export(store).splitlines()[1:])}


@pytest.mark.parametrize("lines", [1, 4])
def test_a_byte_order_mark_is_no_part_of_a_file(lines: int, tmp_path: Path) -> None:
    store, file = tmp_path / "m.db", tmp_path / "memory.jsonl"
    text = "\n".join(map(json.dumps, GRAPH[:lines]))
    file.write_text(text, encoding="utf-8-sig")

    done = run(store, "import", file)

    assert done.exit_code == 0, done.stderr
    assert "Ada" in read_memories(store)


def test_the_mcp_memory_servers_file_is_imported(tmp_path: Path) -> None:
    store, file = tmp_path / "m.db", tmp_path / "memory.jsonl"
    file.write_text("\n".join(map(json.dumps, GRAPH)))

    done = run(store, "import", file)

    assert done.exit_code == 0, done.stderr

    memories = read_memories(store)
    long, odd = make_key("n" * 300), make_key(" odd\tname")

    assert memories["Ada"]["content"] == "writes compilers\nlikes tea"
    assert (memories["Ada"]["type"], memories["Ada"]["category"]) == ("core", "person")

    links = {(link["key"], link["type"]): link["link_weight"] for link in memories["Ada"]["links"]}
    (shortened,) = (kind for key, kind in links if key == long)

    assert links == {("tea", "drinks"): 0.5, (long, shortened): 0.5, ("not there", "knows"): 0.5}
    assert memories["Ada"]["metadata"]["link_types"] == {shortened: "r" * 60}
    assert memories["tea"]["content"] == "tea"
    assert memories[odd]["metadata"] == {"name": " odd\tname", "category": "t" * 80}

    observations = "a" * 4_000 + "\n" + "b " * 4_000

    assert memories[odd]["content"] == f" odd\tname\n{observations}"
    assert memories[long]["metadata"] == {"name": "n" * 300, "extra": {"kept": True}}
    assert memories[long]["content"] == "n" * 300 + "\nlong name"
    assert memories["ghost"]["links"] == [{"key": "Ada", "link_weight": 0.5, "type": "haunts"}]
    assert done.stderr.endswith("Imported: 5 added, 5 adjusted.\n"), done.stderr

    before = export(store)
    again = run(store, "import", file)

    assert again.stderr.endswith("Imported: 5 unchanged, 5 adjusted.\n")
    assert export(store) == before


anything = strategies.text(max_size=30) | strategies.text("ab \n", min_size=4, max_size=9).map(
    lambda t: t * 1_400
)
foreigners = strategies.builds(
    ForeignMemory,
    name=anything,
    content=anything,
    category=anything,
    summary=anything,
    tags=strategies.lists(anything, max_size=12),
    links=strategies.lists(
        strategies.builds(ForeignLink, anything, anything, strategies.floats(), anything),
        max_size=3,
    ),
    score=strategies.none() | shares,
    created_at=strategies.none() | strategies.just(NOW),
    access_count=strategies.integers(0, 9),
    metadata=strategies.dictionaries(
        strategies.text(max_size=5), anything | strategies.integers(), max_size=2
    ),
)


@given(foreigners)
@settings(max_examples=size("ABILITIES_EXAMPLES", quick=10, full=100), deadline=None)
def test_foreign_memories_are_adjusted_to_our_bounds_without_loss(
    foreign: ForeignMemory,
) -> None:
    incoming = adjust(foreign, "default", NOW).memory
    again = parse_line(format_line(incoming.stored))
    row = incoming.stored.row

    assert again.row == row
    assert sorted(again.links) == sorted(incoming.stored.links)
    assert incoming == adjust(foreign, "default", NOW).memory
    assert row.key == make_key(foreign.name)
    assert to_storable(foreign.content) in row.content
    assert make_key(foreign.name) == foreign.name or to_storable(foreign.name) in row.content


def test_a_foreign_content_may_be_long_and_has_a_bound() -> None:
    incoming, notes = adjust(ForeignMemory("a", "x" * 200_000), "default", NOW)
    assert incoming.stored.row.content == "x" * 200_000 and not notes

    item = adjust_item("line 1", 1, ForeignMemory("a", "x" * 200_001), "default", NOW)
    words = "Its content has 200,001 characters; a memory has 200,000 at most."
    assert (item.memories, item.unusable) == ([], words)


def test_metadata_that_is_too_large_is_kept_in_the_content() -> None:
    foreign = ForeignMemory("a", "content", metadata={"long": "m" * 5_000})

    incoming, notes = adjust(foreign, "default", NOW)

    row = incoming.stored.row
    content, _, kept = row.content.partition("\n\n")
    assert (content, json.loads(kept), row.metadata) == ("content", foreign.metadata, "{}")
    assert notes == ["Its metadata is too large; the end of its content has it."]


def test_foreign_metadata_of_too_many_levels_becomes_a_text() -> None:
    metadata = nest(17)
    foreign = ForeignMemory("a", "x", metadata=metadata)

    memory = adjust(foreign, "default", NOW).memory

    kept = json.loads(memory.stored.row.metadata)
    assert json.loads(kept["metadata"]) == metadata


def test_metadata_that_has_the_name_of_an_original_is_not_lost() -> None:
    foreign = ForeignMemory(
        "a",
        "content",
        category="c" * 60,
        links=[ForeignLink("b", "t" * 60, 2.0, "u" * 201)],
        metadata={
            "category": "mine",
            "link_types": "mine",
            "link_weights": "mine",
            "memory_score": "mine",
        },
    )

    incoming, notes = adjust(foreign, "default", NOW)

    metadata = json.loads(incoming.stored.row.metadata)
    (link,) = incoming.stored.links

    assert metadata == {
        "category": "mine",
        "link_types": "mine",
        "link_weights": "mine",
        "original_category": "c" * 60,
        "original_link_types": {link.type: "t" * 60},
        "original_link_weights": {"b": "2.0"},
        "original_memory_score": "mine",
        "link_terms": {link.term: "u" * 201},
    }
    assert len(link.term) == 200
    assert notes[0] == "Its category is over 50 characters; metadata.original_category has it."


def test_a_killed_import_is_finished_by_doing_it_again(tmp_path: Path) -> None:
    source, target, file = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "m.jsonl"
    fill(source, KILLED_IMPORTS * 500, now=utc_now())
    run(source, "export", file)
    kills = 0
    for attempt in range(KILLED_IMPORTS):
        process = start(target, "import", str(file))
        while count_memories(target) < attempt * 500 and process.poll() is None:
            time.sleep(0.01)

        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        if target.exists():
            check_whole(target)

    assert kills > 0

    done = run(target, "import", file)

    assert done.exit_code == 0
    assert export(target) == export(source)
    histories = [list_actions(run(store, "export").stdout) for store in (source, target)]
    assert histories[1] == {name: [*told, "imported"] for name, told in histories[0].items()}


def list_actions(exported: str) -> dict[str, list[str]]:
    """Return what became of each memory by an export, by the memories' ids."""
    actions: dict[str, list[str]] = {}
    for line in map(json.loads, exported.splitlines()):
        if "history" in line:
            entry = line["history"]
            actions.setdefault(entry["id"], []).append(entry["action"])

    return actions


def count_memories(store: Path) -> int:
    """Return how many memories a store has by now; -1 before it exists."""
    if not store.exists():
        return -1

    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        (count,) = connection.execute("SELECT count(*) FROM memories").fetchone()
    except sqlite3.OperationalError:
        return -1
    finally:
        connection.close()

    return int(count)


def start(store: Path, *arguments: str) -> Forked:
    variables = {**os.environ, "ABILITIES_STORE_URL": f"sqlite:///{store}"}
    silent = Path(os.devnull)
    return Forked(COMMAND_LINE, *arguments, variables=variables, folder=store.parent, errors=silent)


@pytest.mark.thorough
def test_a_killed_export_leaves_no_file_and_is_resumed(tmp_path: Path) -> None:
    store, file = tmp_path / "a.db", tmp_path / "m.jsonl"
    fill(store, 5_000)
    whole, part = run(store, "export").stdout_bytes, tmp_path / "m.jsonl.part"
    kills = 0
    for attempt in range(40):
        process = start(store, "export", str(file), "--resume")
        while process.poll() is None:
            if part.exists() and part.stat().st_size > attempt * 20_000:
                break
            time.sleep(0.002)

        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            break

        kills += 1

        assert not file.exists()

    if not file.exists():
        with part.open("ab") as torn:
            torn.write(b'{"namespace":"defa')
        assert run(store, "export", file, "--resume").exit_code == 0

    assert kills > 0
    assert file.read_bytes() == whole and not part.exists()
    assert file.stat().st_mode & 0o077 == 0, "memories are their owner's"


WRITER = """
import asyncio, sys
from pathlib import Path
from tests.stores.behaviours import put
from abilities.helpers.store.sqlite.store import SqliteStore
async def main():
    store, n = SqliteStore(Path(sys.argv[1])), 0
    while True:
        content, links = "x" * (n % 2000 + 1), [(f"w{n - 1}", 0.5)]
        await put(store, f"w{n}", content=content, links=links, tags=["t"])
        print(n, flush=True)
        n += 1
asyncio.run(main())
"""


def test_backups_of_a_store_in_use_are_whole_and_hold_what_was_acknowledged(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    fill(store, 50)

    writer = Forked(WRITER, store)
    try:
        for n in range(BACKUPS):
            acknowledged = int(writer.stdout.readline())
            copy = tmp_path / f"copy{n}.db"
            done = run(store, "backup", copy)

            assert done.exit_code == 0, done.output

            check_whole(copy)
            with sqlite3.connect(copy) as connection:
                (count,) = connection.execute(
                    "SELECT count(*) FROM memories WHERE key GLOB 'w*'"
                ).fetchone()
                assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)

            connection.close()

            assert count > acknowledged
        reached(
            7, f"{BACKUPS} of {BACKUPS} live backups whole, with all that was acknowledged before"
        )
    finally:
        writer.kill()
        writer.communicate()

    assert sorted(p.name for p in tmp_path.iterdir() if "new" in p.name) == []


def test_a_backup_is_restored_and_what_was_there_is_kept(tmp_path: Path) -> None:
    store, copy = tmp_path / "m.db", tmp_path / "copy.db"
    fill(store, 20)

    before = export(store)

    assert run(store, "backup", copy).exit_code == 0

    again = run(store, "backup", copy)

    assert again.exit_code == 1 and "already exists; nothing was changed" in again.stderr

    fill(store, 30, content="later")
    later = export(store)

    assert "already exists" in run(store, "restore", copy).stderr

    done = run(store, "restore", copy, "--replace")

    assert done.exit_code == 0, done.output
    assert export(store) == before

    (aside,) = tmp_path.glob("m.db-before-*")
    fill(store, 25)
    shutil.copy(aside, tmp_path / "moved.db")

    assert export(tmp_path / "moved.db") == later

    store.unlink()

    assert run(store, "export").exit_code == 1, "the store is gone"
    assert run(store, "restore", copy).exit_code == 0, "a lost store may come back under its name"
    assert export(store) == before
    assert {p.name for p in tmp_path.iterdir()} <= {
        "m.db",
        "m.db-lock",
        "copy.db",
        aside.name,
        "moved.db",
        "moved.db-lock",
    }


async def test_a_store_in_use_is_not_replaced(tmp_path: Path) -> None:
    path, copy = tmp_path / "m.db", tmp_path / "copy.db"
    async with open_store(path) as store:
        await put(store, "k")

        assert (await asyncio.to_thread(run, path, "backup", copy)).exit_code == 0

        await store.read("conformance", ["k"])
        refused = await asyncio.to_thread(run, path, "restore", copy, "--replace")

        assert refused.exit_code == 1 and "busy" in refused.stderr

        await put(store, "k2")

    assert b'"k2"' in await asyncio.to_thread(export, path)


def may_mount() -> bool:
    """Return whether this user may mount a disk, in a namespace of its own."""
    command = "unshare --mount --map-root-user mount -t tmpfs none /mnt"
    try:
        return subprocess.run(command.split(), capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def backup_to_small_disk(store: Path, folder: Path) -> str:
    """Back up to a disk that is too small and goes with the process; return what is said."""
    script = f"""
        mount -t tmpfs -o size=200k none {folder} || exit 77
        {sys.executable} -m abilities backup {folder}/copy.db
        echo "exit code $?, left: $(ls {folder})"
    """
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", script],
        env={**os.environ, "ABILITIES_STORE_URL": f"sqlite:///{store}"},
        capture_output=True,
        text=True,
    )
    return done.stderr + done.stdout


def backup_within_pages(store: Path, folder: Path) -> str:
    """Back up while SQLite has room for few pages of a copy, as on a full disk."""
    connect = sqlite3.connect

    def connect_with_little_room(
        database: str | Path, *rest: Any, **more: Any
    ) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(database, *rest, **more)
        if "-new-" in str(database):
            connection.execute("PRAGMA max_page_count = 50")

        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_with_little_room)
        done = run(store, "backup", folder / "copy.db")

    left = " ".join(path.name for path in folder.iterdir())
    return f"{done.stderr}exit code {done.exit_code}, left: {left}\n"


FULL_DISKS = [backup_within_pages]
if may_mount():
    FULL_DISKS.append(backup_to_small_disk)


@pytest.mark.parametrize("backup", FULL_DISKS)
def test_a_backup_to_a_full_disk_says_so_and_leaves_nothing(
    backup: Callable[[Path, Path], str], tmp_path: Path
) -> None:
    store, folder = tmp_path / "m.db", tmp_path / "small"
    fill(store, 500)
    folder.mkdir()

    output = backup(store, folder)

    assert "Storage is full; nothing was changed." in output
    assert output.endswith("exit code 1, left: \n")


def test_the_next_backup_removes_what_a_killed_one_left_but_not_what_is_in_use(
    tmp_path: Path,
) -> None:
    store, folder = tmp_path / "m.db", tmp_path / "backups"
    fill(store, 2_000)
    folder.mkdir()

    killed = start(store, "backup", str(folder / "killed.db"))
    left = wait_for_file(folder, killed)
    killed.send_signal(signal.SIGSTOP)  # in use as long as the process is not gone

    assert run(store, "backup", folder / "1.db").exit_code == 0
    assert left.exists()

    killed.send_signal(signal.SIGKILL)
    killed.wait()

    assert run(store, "backup", folder / "2.db").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["1.db", "2.db"]


def test_a_folder_keeps_the_newest_backups_and_all_foreign_files(tmp_path: Path) -> None:
    store, folder = tmp_path / "m.db", tmp_path / "backups"
    fill(store, 20)
    (folder / "memories-2020-01-04T000000Z.db").mkdir(parents=True)
    old = [f"memories-2020-01-0{day}T000000Z.db" for day in (1, 2, 3)]
    foreign = ["notes.md", "memories-2020-01-01.db", "memories-2020-01-01T000000Z.db.gz", "m.db"]
    for name in (*old, *foreign):
        (folder / name).write_bytes(b"x")
    (folder / "memories-2019-01-01T000000Z.db").symlink_to(old[0])

    done = run(store, "backup", folder, "--keep", "2")

    assert done.exit_code == 0 and "Removed 2 older backups." in done.stderr
    left = {path.name for path in folder.iterdir()}
    new = left - {
        *foreign,
        *old,
        "memories-2019-01-01T000000Z.db",
        "memories-2020-01-04T000000Z.db",
    }
    assert left & set(old) == {old[2]} and left >= set(foreign) and len(left) == 8
    assert run(folder / new.pop(), "check").exit_code == 0


def test_a_backup_is_not_removed_because_the_clock_went_back(tmp_path: Path) -> None:
    store, later = tmp_path / "m.db", tmp_path / "memories-2999-01-01T000000Z.db"
    fill(store, 2)
    later.write_bytes(b"x")

    assert run(store, "backup", tmp_path, "--keep", "1").exit_code == 0
    assert not later.exists()
    assert len(list(tmp_path.glob("memories-*"))) == 1


def test_a_damaged_copy_removes_no_older_backup(tmp_path: Path) -> None:
    store, old = tmp_path / "m.db", tmp_path / "memories-2020-01-01T000000Z.db"
    fill(store, 20)
    old.write_bytes(b"x")
    tamper(store, "UPDATE memories SET score = 80.0 WHERE key = 'k0003'")

    done = run(store, "backup", tmp_path, "--keep", "1")

    assert done.exit_code == 1 and "Older backups are kept" in done.stderr
    assert old.exists() and len(list(tmp_path.glob("memories-*"))) == 2


def test_a_folder_is_named_with_the_number_of_backups_to_keep(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    fill(store, 2)

    assert "--keep 7" in run(store, "backup", tmp_path).stderr
    assert "mkdir -p" in run(store, "backup", tmp_path / "none", "--keep", "7").stderr
    assert run(store, "backup", tmp_path, "--keep", "0").exit_code == 2
    assert list(tmp_path.glob("memories-*")) == []


def wait_for_file(folder: Path, process: Forked) -> Path:
    """Return the copy that a process writes, once something is in it."""
    while True:
        assert process.poll() is None, "it ended before it was seen"

        for path in folder.glob("*-new-*[0-9a-f]"):
            if path.stat().st_size > 0:
                return path


def test_s16_a_backup_carries_damaged_memories_and_says_so(tmp_path: Path) -> None:
    store, copy = tmp_path / "m.db", tmp_path / "copy.db"
    fill(store, 20)
    tamper(store, "UPDATE memories SET score = 80.0 WHERE key = 'k0003'")

    done = run(store, "backup", copy)

    assert done.exit_code == 1
    assert "Memories that are not as they were written: 1." in done.stderr
    assert count_memories(copy) == 20 and not list(tmp_path.glob("*-new-*"))

    exported = run(store, "export", "--no-history")

    assert exported.exit_code == 1 and "k0003" in exported.stderr
    assert exported.stdout.count("\n") == 20


def test_s16_a_backup_with_damaged_memories_is_restored_and_says_so(tmp_path: Path) -> None:
    store, copy = tmp_path / "m.db", tmp_path / "copy.db"
    fill(store, 20)
    run(store, "backup", copy)
    tamper(copy, "UPDATE memories SET content = 'other' WHERE key = 'k0003'")
    fill(store, 30)

    done = run(store, "restore", copy, "--replace")

    assert done.exit_code == 1 and "Memories that are not as they were written: 1." in done.stderr
    assert "abilities repair" in done.stderr and "The previous store is kept" in done.stderr
    assert count_memories(store) == 20 and not list(tmp_path.glob("*-new-*"))
    assert run(store, "repair").exit_code == 0
    assert run(store, "check").exit_code == 0


def test_a_backup_whose_pages_are_damaged_is_not_restored(tmp_path: Path) -> None:
    store, copy = tmp_path / "m.db", tmp_path / "copy.db"
    fill(store, 100)
    run(store, "backup", copy)
    raw = copy.read_bytes()
    copy.write_bytes(raw[:-20_000] + b"\xee" * 20_000)

    done = run(store, "restore", copy, "--replace")

    assert done.exit_code == 1 and "The copy is damaged" in done.stderr
    assert run(store, "check").exit_code == 0 and not list(tmp_path.glob("*-new-*"))


def test_what_is_no_backup_is_not_restored_and_says_so(tmp_path: Path) -> None:
    store, other = tmp_path / "m.db", tmp_path / "other"
    fill(store, 3)
    before = store.read_bytes()
    with sqlite3.connect(tmp_path / "database.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    foreign = (tmp_path / "database.db").read_bytes()

    for content in (b"", b"hello", os.urandom(5000), b"SQLite format 3\0", foreign, export(store)):
        other.write_bytes(content)
        done = run(store, "restore", other, "--replace")

        assert done.exit_code == 1 and "is not a backup of a store" in done.stderr
        assert "damaged" not in done.stderr

    assert store.read_bytes() == before


def tamper(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount != 0

    connection.close()


def test_a_check_names_unfinished_copies_and_a_file_that_is_no_store(tmp_path: Path) -> None:
    store = tmp_path / "m.db"

    assert f"there is no store at {store}" in run(store, "check").stderr

    fill(store, 2)
    (tmp_path / "m.db-new-1-abc").write_text("")
    done = run(store, "check")

    assert done.exit_code == 0 and "Unfinished copies beside the store: 1." in done.stdout

    store.write_bytes(b"x" * 5_000)

    assert run(store, "check").exit_code == 1


def measure_peak(*command: str) -> int:
    """Return the bytes of memory that a command needed at most, as its own parent measures them."""
    code = (
        "import resource, subprocess as s, sys;"
        "s.run(sys.argv[1:], check=True, stdout=s.DEVNULL, stderr=2);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, check=True)
    return int(done.stdout) * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.thorough
def test_memory_stays_bounded_however_many_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: dict[int, list[int]] = {}
    for count in (1_000, MEMORIES):
        folder = tmp_path / str(count)
        folder.mkdir()
        generate(folder / "a.db", count)
        abilities = [sys.executable, "-m", "abilities"]
        monkeypatch.setenv("ABILITIES_STORE_URL", f"sqlite:///{folder}/a.db")
        figures[count] = [
            measure_peak(*abilities, "export", str(folder / "m.jsonl")),
            measure_peak(*abilities, "check"),
        ]
        monkeypatch.setenv("ABILITIES_STORE_URL", f"sqlite:///{folder}/b.db")
        figures[count].append(measure_peak(*abilities, "import", str(folder / "m.jsonl")))

    grown = [many - few for few, many in zip(figures[1_000], figures[MEMORIES], strict=True)]

    assert max(grown) < 64 << 20, figures

    most = max(figures[MEMORIES]) >> 20
    reached(
        11,
        f"{MEMORIES:,} memories: at most {most} MiB, {max(grown) >> 20} MiB more than with 1,000",
    )
