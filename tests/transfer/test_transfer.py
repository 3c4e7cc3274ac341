"""Export, import, backup, restore and check: nothing is lost; what is killed can be finished."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies

from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.store.mending import make_key, to_storable
from abilities.helpers.transfer.adjustment import adjust
from abilities.helpers.transfer.export_lines import UnusableLine, format_line, parse_fields
from abilities.helpers.transfer.sources import ForeignLink, ForeignMemory
from benchmarks.generate import generate
from tests.stores.behaviours import NAMESPACE, put
from tests.support import writers
from tests.support.forked import COMMAND_LINE, Forked
from tests.support.importing import import_file
from tests.support.kv_memory import KvLink, KvMemory, write_database
from tests.support.measurements import reached
from tests.support.memory_cases import nest
from tests.support.places import FilePlace, find_damage
from tests.support.tier import size
from tests.transfer.test_imports import entity, relation, write_lines

KILLED_IMPORTS = size("ABILITIES_KILLED_IMPORTS", quick=2, full=6)
BACKUPS = size("ABILITIES_BACKUPS", quick=1, full=5)
MEMORIES = size("ABILITIES_MEMORIES", quick=500, full=5000)
IMPORTED = size("ABILITIES_IMPORTED", quick=2_000, full=10_000)
NOW = "2026-01-01T00:00:00.000Z"

shares = strategies.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1.0])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test exports to."""
    return tmp_path / "m.jsonl"


def test_what_differs_is_kept_unless_asked(file_place: FilePlace, file: Path) -> None:
    file_place.fill(3)
    file_place.run("export", "--no-history", file)
    assert file.stat().st_mode & 0o077 == 0, "memories are their owner's"
    changed = file.read_text().replace("content of k0001", "changed")
    file.write_text(changed)

    kept = file_place.run("import", file)
    dry = file_place.run("import", file, "--replace", "--dry-run")
    assert kept.exit_code == 0 and "line 3 (k0001): It differs" in kept.stderr
    assert kept.stderr.endswith("Imported: 2 unchanged, 1 kept.\n")
    assert dry.stderr == "Would import: 1 replaced, 2 unchanged.\n"
    assert b"changed" not in file_place.export()
    replaced = file_place.run("import", file, "--replace")
    assert replaced.stderr == "Imported: 1 replaced, 2 unchanged.\n"
    assert file_place.export() == changed.encode()

    heading, line, *_ = changed.splitlines()
    other_key = json.dumps({**json.loads(line), "key": "x"})
    refused = file_place.run("import", "-", stdin=f"{heading}\n{other_key}".encode())
    assert refused.exit_code == 1
    assert "line 2 (x): The key is that of another memory." in refused.stderr

    other = file_place.beside("other.db")
    assert other.run("import", file, "--namespace", "team").exit_code == 0
    assert other.export() == changed.replace('"conformance"', '"team"').encode()
    assert other.export("--namespace", "none").count(b"\n") == 1
    for name in ("n o", ""):
        assert file_place.run("export", "--namespace", name).exit_code == 2


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
@settings(max_examples=size("ABILITIES_EXAMPLES", quick=10, full=100))
def test_foreign_memories_are_adjusted_to_our_bounds_without_loss(foreign: ForeignMemory) -> None:
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

    with pytest.raises(UnusableLine, match="200,001 characters"):
        adjust(ForeignMemory("a", "x" * 200_001), "default", NOW)


def test_metadata_that_fits_nowhere_else_is_kept_elsewhere() -> None:
    """That which is too large in the content, and that of too many levels as a text."""
    large = ForeignMemory("a", "content", metadata={"long": "m" * 5_000})
    row = adjust(large, "default", NOW).memory.stored.row
    content, _, kept = row.content.partition("\n\n")
    assert (content, json.loads(kept), row.metadata) == ("content", large.metadata, "{}")

    deep = ForeignMemory("a", "x", metadata=nest(17))
    kept = json.loads(adjust(deep, "default", NOW).memory.stored.row.metadata)["metadata"]
    assert json.loads(kept) == nest(17)


def test_metadata_that_has_the_name_of_an_original_is_not_lost() -> None:
    names = ["category", "link_types", "link_weights", "memory_score"]
    mine: JsonObject = dict.fromkeys(names, "mine")
    link = ForeignLink("b", "t" * 60, 2.0, "u" * 201)

    incoming, _ = adjust(
        ForeignMemory("a", "content", category="c" * 60, links=[link], metadata=mine),
        "default",
        NOW,
    )

    (link_row,) = incoming.stored.links
    assert len(link_row.term) == 200
    assert json.loads(incoming.stored.row.metadata) == {
        "category": "mine",
        "link_types": "mine",
        "link_weights": "mine",
        "original_category": "c" * 60,
        "original_link_types": {link_row.type: "t" * 60},
        "original_link_weights": {"b": "2.0"},
        "original_memory_score": "mine",
        "link_terms": {link_row.term: "u" * 201},
    }


def test_a_killed_import_is_finished_by_doing_it_again(file_place: FilePlace, file: Path) -> None:
    target = file_place.beside("b.db")
    file_place.fill(KILLED_IMPORTS * 500, now=utc_now())
    file_place.run("export", file)
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
    assert target.export() == file_place.export()
    before, after = [
        list_actions(place.run("export").stdout_bytes) for place in (file_place, target)
    ]
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


def test_backups_of_a_store_in_use_are_whole_and_hold_what_was_acknowledged(
    file_place: FilePlace,
) -> None:
    file_place.fill(50)
    writer = writers.start(writers.write_for_ever, file_place.url, "w")
    try:
        for n in range(BACKUPS):
            acknowledged = int(writer.stdout.readline())
            copy = file_place.beside(f"copy{n}.db")
            done = file_place.run("backup", copy.path)

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

    assert list_unfinished(file_place) == []


def list_unfinished(place: FilePlace) -> list[Path]:
    """Return the unfinished copies beside a store."""
    return list(place.folder.glob("*-new-*"))


def test_a_backup_is_restored_and_what_was_there_is_kept(file_place: FilePlace) -> None:
    copy, moved = file_place.beside("copy.db"), file_place.beside("moved.db")
    file_place.fill(20)
    before = file_place.export()
    assert file_place.run("backup", copy.path).exit_code == 0
    again = file_place.run("backup", copy.path)
    assert again.exit_code == 1 and "already exists; nothing was changed" in again.stderr
    file_place.fill(30, content="later")
    later = file_place.export()

    assert "already exists" in file_place.run("restore", copy.path).stderr
    done = file_place.run("restore", copy.path, "--replace")

    assert done.exit_code == 0, done.output
    assert file_place.export() == before
    (aside,) = file_place.folder.glob("m.db-before-*")
    file_place.fill(25)
    shutil.copy(aside, moved.path)
    assert moved.export() == later

    file_place.path.unlink()
    assert file_place.run("export").exit_code == 1, "the store is gone"
    assert file_place.run("restore", copy.path).exit_code == 0, "it may come back under its name"
    assert file_place.export() == before
    known = {"m.db", "m.db-lock", "copy.db", aside.name, "moved.db", "moved.db-lock"}
    assert {path.name for path in file_place.folder.iterdir()} <= known


async def test_a_store_in_use_is_not_replaced(file_place: FilePlace) -> None:
    copy = file_place.beside("copy.db")
    async with file_place.open() as opened:
        await put(opened, "k")
        assert (await asyncio.to_thread(file_place.run, "backup", copy.path)).exit_code == 0
        await opened.read(NAMESPACE, ["k"])

        refused = await asyncio.to_thread(file_place.run, "restore", copy.path, "--replace")

        assert refused.exit_code == 1 and "busy" in refused.stderr
        await put(opened, "k2")

    assert b'"k2"' in await asyncio.to_thread(file_place.export)


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


@pytest.mark.parametrize("backup", FULL_DISKS)
def test_a_backup_to_a_full_disk_says_so_and_leaves_nothing(
    backup: Callable[[FilePlace, Path], str], file_place: FilePlace, folder: Path
) -> None:
    file_place.fill(500)

    output = backup(file_place, folder)

    assert "Storage is full; nothing was changed." in output
    assert output.endswith("exit code 1, left: \n")


def test_the_next_backup_removes_what_a_killed_one_left_but_not_what_is_in_use(
    file_place: FilePlace, folder: Path
) -> None:
    file_place.fill(2_000)
    killed = start(file_place, "backup", folder / "killed.db")
    left = wait_for_file(folder, killed)
    killed.send_signal(signal.SIGSTOP)  # in use as long as the process is not gone

    assert file_place.run("backup", folder / "1.db").exit_code == 0
    assert left.exists()

    killed.send_signal(signal.SIGKILL)
    killed.wait()

    assert file_place.run("backup", folder / "2.db").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["1.db", "2.db"]


def wait_for_file(folder: Path, process: Forked) -> Path:
    """Return the copy that a process writes, once something is in it."""
    while True:
        assert process.poll() is None, "it ended before it was seen"

        for path in folder.glob("*-new-*[0-9a-f]"):
            if path.stat().st_size > 0:
                return path


OLD_BACKUPS = [f"memories-2020-01-0{day}T000000Z.db" for day in (1, 2, 3)]


def test_a_folder_keeps_the_newest_backups_and_all_foreign_files(
    file_place: FilePlace, folder: Path
) -> None:
    file_place.fill(20)
    assert "mkdir -p" in file_place.run("backup", folder / "none", "--keep", "7").stderr
    assert file_place.run("backup", folder, "--keep", "0").exit_code == 2
    assert "--keep 7" in file_place.run("backup", folder).stderr
    assert list(folder.iterdir()) == []

    foreign = ["notes.md", "memories-2020-01-01.db", "memories-2020-01-01T000000Z.db.gz", "m.db"]
    for name in (*OLD_BACKUPS, *foreign):
        (folder / name).write_bytes(b"x")
    (folder / "memories-2019-01-01T000000Z.db").symlink_to(OLD_BACKUPS[0])
    (folder / "memories-2020-01-04T000000Z.db").mkdir()
    before = {path.name for path in folder.iterdir()}

    done = file_place.run("backup", folder, "--keep", "2")

    assert done.exit_code == 0 and "Removed 2 older backups." in done.stderr
    left = {path.name for path in folder.iterdir()}
    assert before - left == set(OLD_BACKUPS[:2])
    (new,) = left - before
    assert FilePlace(folder / new).run("check").exit_code == 0


def test_a_backup_is_not_removed_because_the_clock_went_back(
    file_place: FilePlace, folder: Path
) -> None:
    file_place.fill(2)
    (folder / "memories-2999-01-01T000000Z.db").write_bytes(b"x")

    assert file_place.run("backup", folder, "--keep", "1").exit_code == 0
    (left,) = folder.iterdir()
    assert "2999" not in left.name


def test_s16_damaged_memories_are_backed_up_exported_and_restored_and_are_told_of(
    file_place: FilePlace, folder: Path
) -> None:
    copy = file_place.beside("copy.db")
    file_place.fill(20)
    (folder / OLD_BACKUPS[0]).write_bytes(b"x")
    file_place.tamper("UPDATE memories SET score = 80.0 WHERE key = 'k0003'")

    for command in (("backup", copy.path), ("restore", copy.path, "--replace")):
        done = file_place.run(*command)
        assert done.exit_code == 1 and "Memories with errors: 1." in done.stderr
        assert count_memories(copy) == count_memories(file_place) == 20
        assert not list_unfinished(file_place)
    assert "abilities repair" in done.stderr and "The previous store is kept" in done.stderr

    exported = file_place.run("export", "--no-history")
    assert exported.exit_code == 1 and "k0003" in exported.stderr
    assert exported.stdout.count("\n") == 20
    kept = file_place.run("backup", folder, "--keep", "1")
    assert kept.exit_code == 1 and "Older backups are kept" in kept.stderr
    assert (folder / OLD_BACKUPS[0]).exists() and len(list(folder.iterdir())) == 2


def test_what_is_no_backup_is_not_restored_and_says_so(file_place: FilePlace) -> None:
    """Nor is one whose pages are damaged."""
    copy, foreign = file_place.beside("copy.db"), file_place.beside("database.db")
    with foreign.connect() as connection:
        connection.execute("CREATE TABLE t (a)")
    file_place.fill(100)
    file_place.run("backup", copy.path)
    before, damaged = file_place.path.read_bytes(), copy.path.read_bytes()[:-20_000]
    words = "is not a backup of a store"

    for content, said in (
        (damaged + b"\xee" * 20_000, "The copy is damaged"),
        (b"", words),
        (b"hello", words),
        (os.urandom(5000), words),
        (b"SQLite format 3\0", words),
        (file_place.export(), words),
        (foreign.path.read_bytes(), words),
    ):
        copy.path.write_bytes(content)
        done = file_place.run("restore", copy.path, "--replace")

        assert done.exit_code == 1 and said in done.stderr
        assert file_place.path.read_bytes() == before and not list_unfinished(file_place)


def test_a_check_names_unfinished_copies_and_a_file_that_is_no_store(file_place: FilePlace) -> None:
    assert f"there is no store at {file_place.path}" in file_place.run("check").stderr

    file_place.fill(2)
    file_place.beside("m.db-new-1-abc").path.write_text("")
    done = file_place.run("check")
    assert done.exit_code == 0 and "Unfinished copies beside the store: 1." in done.stdout

    file_place.path.write_bytes(b"x" * 5_000)
    assert file_place.run("check").exit_code == 1


def measure_peak(place: FilePlace, *command: str | Path, stdin: Path | None = None) -> int:
    """Return the bytes of memory that a command needed at most, as its own parent measures them."""
    code = (
        "import resource, subprocess as s, sys;"
        "s.run(sys.argv[1:], check=True, stdout=s.DEVNULL, stderr=2);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    with (stdin or Path(os.devnull)).open("rb") as source:
        done = subprocess.run(
            [sys.executable, "-c", code, sys.executable, "-m", "abilities", *command],
            env={**os.environ, "ABILITIES_STORE_URL": place.url},
            stdin=source,
            capture_output=True,
            check=True,
        )
    return int(done.stdout) * (1 if sys.platform == "darwin" else 1024)


def measure_own_lines(place: FilePlace, file: Path, count: int) -> list[int]:
    source = place.beside(f"{count}-exported.db")
    generate(source.path, count)
    return [
        measure_peak(source, "export", file),
        measure_peak(source, "check"),
        measure_peak(place, "import", file),
    ]


def measure_graph_from_stream(place: FilePlace, file: Path, count: int) -> list[int]:
    """Import a graph of the MCP memory server."""
    with file.open("wb") as lines:
        for number in range(count):
            lines.write(write_lines(entity(f"e{number}", "observed")))
            lines.write(write_lines(relation(f"e{number}", f"e{number // 2}")))

    return [measure_peak(place, "import", "-", stdin=file)]


def measure_database(place: FilePlace, file: Path, count: int) -> list[int]:
    """Import a database of kv-memory."""
    memories = (KvMemory(f"k{number}") for number in range(count))
    links = (KvLink(f"k{number}", f"k{number // 2}") for number in range(count))
    write_database(file, memories, links)
    return [measure_peak(place, "import", file)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "measure", [measure_own_lines, measure_graph_from_stream, measure_database]
)
def test_memory_stays_bounded_however_many_memories(
    measure: Callable[[FilePlace, Path, int], list[int]], file_place: FilePlace, file: Path
) -> None:
    few, many = [
        measure(file_place.beside(f"{count}.db"), file.with_name(f"{count}"), count)
        for count in (1_000, MEMORIES)
    ]

    grown = max(most - least for least, most in zip(few, many, strict=True))
    assert grown < 64 << 20 and max(many) < 160 << 20, (few, many)
    reached(
        11,
        f"{MEMORIES:,} memories: at most {max(many) >> 20} MiB, "
        f"{grown >> 20} MiB more than with 1,000",
    )


@pytest.mark.thorough
async def test_the_last_memories_of_an_import_take_as_long_as_the_first(
    file_place: FilePlace, file: Path
) -> None:
    seen = "It was seen {} times in the garden with a red hat."
    names = [entity(f"e{n}", seen.format(n), kind="cat") for n in range(IMPORTED)]
    file.write_bytes(write_lines(*names))
    length = file.stat().st_size
    done: list[tuple[float, float, float]] = [(0, time.process_time(), time.monotonic())]

    def note(position: int) -> None:
        count = IMPORTED * position / length
        done.append((count, time.process_time(), time.monotonic()))

    async with file_place.open() as store:
        assert await import_file(store, file, progress=note) == {"added": IMPORTED}
        assert await find_damage(store) == []

    def measure(begin: float, end: float) -> tuple[float, float]:
        """Return the seconds of processor and of wall time for a thousand of some memories."""
        first, *_, last = (mark for mark in done if begin <= mark[0] / IMPORTED <= end)
        thousands = (last[0] - first[0]) / 1_000
        return (last[1] - first[1]) / thousands, (last[2] - first[2]) / thousands

    first, last = measure(0, 0.2), measure(0.8, 1)
    reached(
        18,
        f"{IMPORTED:,} memories imported, a thousand in {first[1]:.1f} s at the beginning and "
        f"{last[1]:.1f} s at the end, in processor time {last[0] / first[0]:.2f} times as long",
    )
    assert last[0] <= 3 * first[0]


@pytest.mark.thorough
def test_a_killed_export_leaves_no_file_and_is_resumed(file_place: FilePlace, file: Path) -> None:
    file_place.fill(5_000)
    whole, part = file_place.run("export").stdout_bytes, Path(f"{file}.part")
    kills = 0
    for attempt in range(40):
        process = start(file_place, "export", file, "--resume")
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
        assert file_place.run("export", file, "--resume").exit_code == 0

    assert kills > 0
    assert file.read_bytes() == whole and not part.exists()
    assert file.stat().st_mode & 0o077 == 0, "memories are their owner's"
