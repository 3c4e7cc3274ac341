"""Export, import, backup, restore and check: nothing is lost; what is killed can be finished."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings, strategies

from abilities.declarations.values import utc_now
from abilities.helpers.store.model import IncomingMemory
from abilities.helpers.store.names import make_key, to_storable
from abilities.helpers.transfer.adjustment import adjust, adjust_item
from abilities.helpers.transfer.export_lines import format_line, parse_fields
from abilities.helpers.transfer.sources import ForeignLink, ForeignMemory
from benchmarks.generate import generate
from tests.stores.behaviours import NAMESPACE, put
from tests.stores.test_imports import entity, relation, write_lines
from tests.support import writers
from tests.support.forked import COMMAND_LINE, Forked
from tests.support.kv_memory import KvLink, KvMemory, write_database
from tests.support.measurements import reached
from tests.support.memory_cases import nest
from tests.support.places import FilePlace
from tests.support.tier import size

KILLED_IMPORTS = size("ABILITIES_KILLED_IMPORTS", quick=2, full=6)
BACKUPS = size("ABILITIES_BACKUPS", quick=1, full=5)
MEMORIES = size("ABILITIES_MEMORIES", quick=500, full=5000)
NOW = "2026-01-01T00:00:00.000Z"

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
    """With the heading of an export or without it."""
    with tempfile.TemporaryDirectory() as folder:
        first, *others = [FilePlace(Path(folder) / f"{n}.db") for n in range(3)]
        stored = [IncomingMemory(parse_fields(memory)) for memory in memories]
        asyncio.run(add(first, stored))
        lines = first.export()

        assert lines.count(b"\n") == len(memories) + 1
        for other, source in zip(others, (lines, lines.split(b"\n", 1)[1]), strict=True):
            imported = other.run("import", "-", stdin=source)
            assert imported.exit_code == 0, imported.output
            assert other.export() == lines

            again = other.run("import", "-", stdin=source)
            assert again.stderr == f"Imported: {len(memories):,} unchanged.\n"
            assert other.export() == lines

        for line in lines.splitlines()[1:]:
            assert format_line(parse_fields(json.loads(line))) == line + b"\n"


async def add(place: FilePlace, memories: list[IncomingMemory]) -> None:
    async with place.open() as store:
        await store.import_batch(memories)


def run(path: Path, *arguments: str | Path, stdin: bytes | None = None) -> Result:
    """Run a command on the store that is a file."""
    return FilePlace(path).run(*arguments, stdin=stdin)


def export(path: Path) -> bytes:
    return FilePlace(path).export()


def fill(path: Path, count: int, **fields: Any) -> None:
    FilePlace(path).fill(count, **fields)


def tamper(path: Path, *statements: str) -> None:
    FilePlace(path).tamper(*statements)


@pytest.fixture
def store(file_place: FilePlace) -> FilePlace:
    return file_place


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test exports to."""
    return tmp_path / "m.jsonl"


def test_what_differs_is_kept_unless_asked(store: FilePlace, file: Path) -> None:
    store.fill(3)
    store.run("export", "--no-history", file)
    changed = file.read_text().replace("content of k0001", "changed")
    file.write_text(changed)

    kept = store.run("import", file)
    assert kept.exit_code == 0
    assert kept.stderr == (
        "line 3 (k0001): It differs from the stored memory, which was kept.\n"
        "Imported: 2 unchanged, 1 kept.\n"
    )
    dry = store.run("import", file, "--replace", "--dry-run")
    assert dry.stderr == "Would import: 1 replaced, 2 unchanged.\n"
    assert b"changed" not in store.export()
    assert store.run("import", file, "--replace").stderr == "Imported: 1 replaced, 2 unchanged.\n"
    assert store.export() == changed.encode()

    heading, line, *_ = changed.splitlines()
    other_key = json.dumps({**json.loads(line), "key": "x"})
    refused = store.run("import", "-", stdin=f"{heading}\n{other_key}".encode())
    assert refused.exit_code == 1
    assert "line 2 (x): The id and the key name different memories." in refused.stderr

    other = store.beside("other.db")
    assert other.run("import", file, "--namespace", "team").exit_code == 0
    for name in ("default", "conformance"):
        changed = changed.replace(f'"{name}"', '"team"')
    assert other.export() == changed.encode()
    assert other.export("--namespace", "none").count(b"\n") == 1
    for name in ("n o", ""):
        assert store.run("export", "--namespace", name).exit_code == 2


repeated = strategies.text("ab \n", min_size=4, max_size=9)
# All of them together, each newline as two characters, are no more than a content may have.
anything = strategies.text(max_size=30) | repeated.map(lambda text: text * 350)
foreigners = strategies.builds(
    ForeignMemory,
    name=anything,
    content=anything | repeated.map(lambda text: text * 1_400),
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
    again = parse_fields(json.loads(format_line(incoming.stored)))
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


def test_a_killed_import_is_finished_by_doing_it_again(store: FilePlace, file: Path) -> None:
    target = store.beside("b.db")
    store.fill(KILLED_IMPORTS * 500, now=utc_now())
    store.run("export", file)
    kills = 0
    for attempt in range(KILLED_IMPORTS):
        process = start(target, "import", file)
        while count_memories(target) < attempt * 500 and process.poll() is None:
            time.sleep(0.01)

        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        if target.path.exists():
            target.check_whole()

    assert kills > 0
    assert target.run("import", file).exit_code == 0
    assert target.export() == store.export()
    before, after = [list_actions(place.run("export").stdout_bytes) for place in (store, target)]
    assert after == {name: [*told, "imported"] for name, told in before.items()}


def list_actions(exported: bytes) -> dict[str, list[str]]:
    """Return what became of each memory by an export, by the memories' ids."""
    actions: dict[str, list[str]] = {}
    for line in map(json.loads, exported.splitlines()):
        if "history" in line:
            entry = line["history"]
            actions.setdefault(entry["id"], []).append(entry["action"])

    return actions


def count_memories(place: FilePlace) -> int:
    """Return how many memories a store has by now; -1 before it exists."""
    if not place.path.exists():
        return -1

    with closing(sqlite3.connect(f"file:{place.path}?mode=ro", uri=True)) as connection:
        try:
            (count,) = connection.execute("SELECT count(*) FROM memories").fetchone()
        except sqlite3.OperationalError:
            return -1

    return int(count)


def start(place: FilePlace, *arguments: str | Path) -> Forked:
    """Run a command in a process of its own."""
    variables = {**os.environ, "ABILITIES_STORE_URL": place.url}
    silent = Path(os.devnull)
    return Forked(COMMAND_LINE, *arguments, variables=variables, folder=place.folder, errors=silent)


@pytest.mark.thorough
def test_a_killed_export_leaves_no_file_and_is_resumed(store: FilePlace, file: Path) -> None:
    store.fill(5_000)
    whole, part = store.run("export").stdout_bytes, Path(f"{file}.part")
    kills = 0
    for attempt in range(40):
        process = start(store, "export", file, "--resume")
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
        assert store.run("export", file, "--resume").exit_code == 0

    assert kills > 0
    assert file.read_bytes() == whole and not part.exists()
    assert file.stat().st_mode & 0o077 == 0, "memories are their owner's"


def test_backups_of_a_store_in_use_are_whole_and_hold_what_was_acknowledged(
    store: FilePlace,
) -> None:
    store.fill(50)
    writer = writers.start(writers.write_for_ever, store.url, "w")
    try:
        for n in range(BACKUPS):
            acknowledged = int(writer.stdout.readline())
            copy = store.beside(f"copy{n}.db")
            done = store.run("backup", copy.path)

            assert done.exit_code == 0, done.output
            copy.check_whole()
            ((count,),) = copy.fetch("SELECT count(*) FROM memories WHERE key GLOB 'w*'")
            assert count > acknowledged
            assert copy.fetch("PRAGMA journal_mode") == [("delete",)]
        reached(
            7, f"{BACKUPS} of {BACKUPS} live backups whole, with all that was acknowledged before"
        )
    finally:
        writer.kill()
        writer.communicate()

    assert list_unfinished(store) == []


def list_unfinished(place: FilePlace) -> list[Path]:
    """Return the unfinished copies beside a store."""
    return list(place.folder.glob("*-new-*"))


def test_a_backup_is_restored_and_what_was_there_is_kept(store: FilePlace) -> None:
    copy, moved = store.beside("copy.db"), store.beside("moved.db")
    store.fill(20)
    before = store.export()
    assert store.run("backup", copy.path).exit_code == 0
    again = store.run("backup", copy.path)
    assert again.exit_code == 1 and "already exists; nothing was changed" in again.stderr
    store.fill(30, content="later")
    later = store.export()

    assert "already exists" in store.run("restore", copy.path).stderr
    done = store.run("restore", copy.path, "--replace")

    assert done.exit_code == 0, done.output
    assert store.export() == before
    (aside,) = store.folder.glob("m.db-before-*")
    store.fill(25)
    shutil.copy(aside, moved.path)
    assert moved.export() == later

    store.path.unlink()
    assert store.run("export").exit_code == 1, "the store is gone"
    assert store.run("restore", copy.path).exit_code == 0, "it may come back under its name"
    assert store.export() == before
    known = {"m.db", "m.db-lock", "copy.db", aside.name, "moved.db", "moved.db-lock"}
    assert {path.name for path in store.folder.iterdir()} <= known


async def test_a_store_in_use_is_not_replaced(store: FilePlace) -> None:
    copy = store.beside("copy.db")
    async with store.open() as opened:
        await put(opened, "k")
        assert (await asyncio.to_thread(store.run, "backup", copy.path)).exit_code == 0
        await opened.read(NAMESPACE, ["k"])

        refused = await asyncio.to_thread(store.run, "restore", copy.path, "--replace")

        assert refused.exit_code == 1 and "busy" in refused.stderr
        await put(opened, "k2")

    assert b'"k2"' in await asyncio.to_thread(store.export)


def may_mount() -> bool:
    """Return whether this user may mount a disk, in a namespace of its own."""
    command = "unshare --mount --map-root-user mount -t tmpfs none /mnt"
    try:
        return subprocess.run(command.split(), capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def backup_to_small_disk(place: FilePlace, folder: Path) -> str:
    """Back up to a disk that is too small and goes with the process; return what is said."""
    script = f"""
        mount -t tmpfs -o size=200k none {folder} || exit 77
        {sys.executable} -m abilities backup {folder}/copy.db
        echo "exit code $?, left: $(ls {folder})"
    """
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", script],
        env={**os.environ, "ABILITIES_STORE_URL": place.url},
        capture_output=True,
        text=True,
    )
    return done.stderr + done.stdout


def backup_within_pages(place: FilePlace, folder: Path) -> str:
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
        done = place.run("backup", folder / "copy.db")

    left = " ".join(path.name for path in folder.iterdir())
    return f"{done.stderr}exit code {done.exit_code}, left: {left}\n"


FULL_DISKS = [backup_within_pages]
if may_mount():
    FULL_DISKS.append(backup_to_small_disk)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for backups."""
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("backup", FULL_DISKS)
def test_a_backup_to_a_full_disk_says_so_and_leaves_nothing(
    backup: Callable[[FilePlace, Path], str], store: FilePlace, folder: Path
) -> None:
    store.fill(500)

    output = backup(store, folder)

    assert "Storage is full; nothing was changed." in output
    assert output.endswith("exit code 1, left: \n")


def test_the_next_backup_removes_what_a_killed_one_left_but_not_what_is_in_use(
    store: FilePlace, folder: Path
) -> None:
    store.fill(2_000)
    killed = start(store, "backup", folder / "killed.db")
    left = wait_for_file(folder, killed)
    killed.send_signal(signal.SIGSTOP)  # in use as long as the process is not gone

    assert store.run("backup", folder / "1.db").exit_code == 0
    assert left.exists()

    killed.send_signal(signal.SIGKILL)
    killed.wait()

    assert store.run("backup", folder / "2.db").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["1.db", "2.db"]


def wait_for_file(folder: Path, process: Forked) -> Path:
    """Return the copy that a process writes, once something is in it."""
    while True:
        assert process.poll() is None, "it ended before it was seen"

        for path in folder.glob("*-new-*[0-9a-f]"):
            if path.stat().st_size > 0:
                return path


OLD_BACKUPS = [f"memories-2020-01-0{day}T000000Z.db" for day in (1, 2, 3)]
DAMAGE = "UPDATE memories SET score = 80.0 WHERE key = 'k0003'"
DAMAGE_FOUND = "Memories with errors: 1."


def test_a_folder_keeps_the_newest_backups_and_all_foreign_files(
    store: FilePlace, folder: Path
) -> None:
    store.fill(20)
    foreign = ["notes.md", "memories-2020-01-01.db", "memories-2020-01-01T000000Z.db.gz", "m.db"]
    for name in (*OLD_BACKUPS, *foreign):
        (folder / name).write_bytes(b"x")
    (folder / "memories-2019-01-01T000000Z.db").symlink_to(OLD_BACKUPS[0])
    (folder / "memories-2020-01-04T000000Z.db").mkdir()
    before = {path.name for path in folder.iterdir()}

    done = store.run("backup", folder, "--keep", "2")

    assert done.exit_code == 0 and "Removed 2 older backups." in done.stderr
    left = {path.name for path in folder.iterdir()}
    assert before - left == set(OLD_BACKUPS[:2])
    (new,) = left - before
    assert FilePlace(folder / new).run("check").exit_code == 0


def test_a_backup_is_not_removed_because_the_clock_went_back(
    store: FilePlace, folder: Path
) -> None:
    store.fill(2)
    (folder / "memories-2999-01-01T000000Z.db").write_bytes(b"x")

    assert store.run("backup", folder, "--keep", "1").exit_code == 0
    (left,) = folder.iterdir()
    assert "2999" not in left.name


def test_a_damaged_copy_removes_no_older_backup(store: FilePlace, folder: Path) -> None:
    store.fill(20)
    (folder / OLD_BACKUPS[0]).write_bytes(b"x")
    store.tamper(DAMAGE)

    done = store.run("backup", folder, "--keep", "1")

    assert done.exit_code == 1 and "Older backups are kept" in done.stderr
    assert (folder / OLD_BACKUPS[0]).exists() and len(list(folder.iterdir())) == 2


def test_a_folder_is_named_with_the_number_of_backups_to_keep(
    store: FilePlace, folder: Path
) -> None:
    store.fill(2)

    assert "--keep 7" in store.run("backup", folder).stderr
    assert "mkdir -p" in store.run("backup", folder / "none", "--keep", "7").stderr
    assert store.run("backup", folder, "--keep", "0").exit_code == 2
    assert list(folder.iterdir()) == []


def test_s16_a_backup_carries_damaged_memories_and_says_so(store: FilePlace) -> None:
    copy = store.beside("copy.db")
    store.fill(20)
    store.tamper(DAMAGE)

    done = store.run("backup", copy.path)

    assert done.exit_code == 1 and DAMAGE_FOUND in done.stderr
    assert count_memories(copy) == 20 and not list_unfinished(store)
    exported = store.run("export", "--no-history")
    assert exported.exit_code == 1 and "k0003" in exported.stderr
    assert exported.stdout.count("\n") == 20


def test_s16_a_backup_with_damaged_memories_is_restored_and_says_so(store: FilePlace) -> None:
    copy = store.beside("copy.db")
    store.fill(20)
    store.run("backup", copy.path)
    copy.tamper(DAMAGE)
    store.fill(30)

    done = store.run("restore", copy.path, "--replace")

    assert done.exit_code == 1 and DAMAGE_FOUND in done.stderr
    assert "abilities repair" in done.stderr and "The previous store is kept" in done.stderr
    assert count_memories(store) == 20 and not list_unfinished(store)
    assert store.run("repair").exit_code == 0
    assert store.run("check").exit_code == 0


def test_a_backup_whose_pages_are_damaged_is_not_restored(store: FilePlace) -> None:
    copy = store.beside("copy.db")
    store.fill(100)
    store.run("backup", copy.path)
    copy.path.write_bytes(copy.path.read_bytes()[:-20_000] + b"\xee" * 20_000)

    done = store.run("restore", copy.path, "--replace")

    assert done.exit_code == 1 and "The copy is damaged" in done.stderr
    assert store.run("check").exit_code == 0 and not list_unfinished(store)


def test_what_is_no_backup_is_not_restored_and_says_so(store: FilePlace) -> None:
    foreign, other = store.beside("database.db"), store.folder / "other"
    with foreign.connect() as connection:
        connection.execute("CREATE TABLE t (a)")
    store.fill(3)
    contents = [b"", b"hello", os.urandom(5000), b"SQLite format 3\0", store.export()]
    before = store.path.read_bytes()

    for content in (*contents, foreign.path.read_bytes()):
        other.write_bytes(content)
        done = store.run("restore", other, "--replace")

        assert done.exit_code == 1 and "is not a backup of a store" in done.stderr
        assert "damaged" not in done.stderr

    assert store.path.read_bytes() == before


def test_a_check_names_unfinished_copies_and_a_file_that_is_no_store(store: FilePlace) -> None:
    assert f"there is no store at {store.path}" in store.run("check").stderr

    store.fill(2)
    store.beside("m.db-new-1-abc").path.write_text("")
    done = store.run("check")
    assert done.exit_code == 0 and "Unfinished copies beside the store: 1." in done.stdout

    store.path.write_bytes(b"x" * 5_000)
    assert store.run("check").exit_code == 1


def measure_peak(place: FilePlace, *command: str | Path) -> int:
    """Return the bytes of memory that a command needed at most, as its own parent measures them.

    A command of the shell runs as it is; any other one is of this package.
    """
    code = (
        "import resource, subprocess as s, sys;"
        "s.run(sys.argv[1:], check=True, stdout=s.DEVNULL, stderr=2);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    if command[0] != "sh":
        command = (sys.executable, "-m", "abilities", *command)
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        env={**os.environ, "ABILITIES_STORE_URL": place.url},
        capture_output=True,
        check=True,
    )
    return int(done.stdout) * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.thorough
def test_memory_stays_bounded_however_many_memories(store: FilePlace, file: Path) -> None:
    figures: dict[int, list[int]] = {}
    for count in (1_000, MEMORIES):
        source, target = store.beside(f"{count}.db"), store.beside(f"{count}-imported.db")
        lines = file.with_name(f"{count}.jsonl")
        generate(source.path, count)
        figures[count] = [
            measure_peak(source, "export", lines),
            measure_peak(source, "check"),
            measure_peak(target, "import", lines),
        ]

    grown = [many - few for few, many in zip(figures[1_000], figures[MEMORIES], strict=True)]
    assert max(grown) < 64 << 20, figures

    most = max(figures[MEMORIES]) >> 20
    reached(
        11,
        f"{MEMORIES:,} memories: at most {most} MiB, {max(grown) >> 20} MiB more than with 1,000",
    )


def import_graph_from_stream(place: FilePlace, file: Path, count: int) -> int:
    """Import a graph of the MCP memory server from a stream; return the most memory needed."""
    with file.open("wb") as lines:
        for number in range(count):
            lines.write(write_lines(entity(f"e{number}", "observed")))
            lines.write(write_lines(relation(f"e{number}", f"e{number // 2}")))

    command = shlex.join([sys.executable, "-m", "abilities", "import", "-"])
    return measure_peak(place, "sh", "-c", f"cat {shlex.quote(str(file))} | {command}")


def import_database(place: FilePlace, file: Path, count: int) -> int:
    """Import a database of kv-memory; return the most memory needed."""
    memories = (KvMemory(f"k{number}") for number in range(count))
    links = (KvLink(f"k{number}", f"k{number // 2}") for number in range(count))
    write_database(file, memories, links)
    return measure_peak(place, "import", file)


@pytest.mark.thorough
@pytest.mark.parametrize("measure", [import_graph_from_stream, import_database])
def test_memory_stays_bounded_however_many_rows(
    measure: Callable[[FilePlace, Path, int], int], store: FilePlace, file: Path
) -> None:
    few, many = [
        measure(store.beside(f"{count}.db"), file.with_name(f"{count}"), count)
        for count in (1_000, MEMORIES)
    ]

    assert many - few < 64 << 20, (few, many)
    assert many < 128 << 20, (few, many)
