"""Import from the official MCP memory server, from files and streams: every name can be found."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from abilities.helpers.store.names import make_key
from abilities.helpers.transfer.adjustment import adjust
from abilities.helpers.transfer.export_lines import HEADING, format_line
from abilities.helpers.transfer.foreign import ForeignMemory
from abilities.helpers.transfer.importing import ImportOptions, import_memories
from abilities.helpers.transfer.opening import open_source
from tests.stores.test_stores import open_store
from tests.stores.test_transfer import MEMORIES, export, measure_peak, read_memories, run
from tests.support.kv_memory import KvLink, KvMemory, write_database

NAMES = [
    "ada@example.org",
    "Ada Lovelace",
    "@home",
    "计划: 今天",
    "n" * 190 + " of 300 " + "n" * 102,
]
ODD_NAMES = [" at both ends ", "a\ttab", "two\nlines", "n" * 300, "", "\u202eright to left"]


def entity(name: str, *observations: str, kind: str = "person") -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": observations}


def relation(source: str, target: str, kind: str = "knows", **fields: Any) -> dict[str, Any]:
    return {"type": "relation", "from": source, "to": target, "relationType": kind, **fields}


def write_lines(*values: object) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def search(store: Path, text: str) -> list[str]:
    """Return the keys that a search finds."""
    arguments = json.dumps({"search": text, "limit": 100})
    done = run(store, "call", "query_memories", arguments)

    assert done.exit_code == 0, done.output

    return [memory["key"] for memory in json.loads(done.stdout)["memories"]]


@pytest.mark.parametrize("name", NAMES[:4])
def test_a_name_that_is_a_valid_key_is_the_key(name: str, tmp_path: Path) -> None:
    (tmp_path / "memory.jsonl").write_bytes(
        write_lines(entity(name, "observed"), relation(name, name))
    )

    done = run(tmp_path / "m.db", "import", tmp_path / "memory.jsonl")

    assert done.stderr == "Imported: 1 added.\n"

    answer = run(tmp_path / "m.db", "call", "memory_get", json.dumps({"key": name}))

    assert json.loads(answer.stdout)["data"]["links"] == [
        {"key": name, "link_weight": 0.5, "type": "knows"}
    ]


@pytest.mark.parametrize("name", [name for name in (NAMES[4], *ODD_NAMES) if name])
def test_a_name_that_is_no_key_is_found_by_a_search_for_it(name: str, tmp_path: Path) -> None:
    lines = write_lines(entity("Ada", "x"), relation("Ada", name), entity(name, "observed"))
    (tmp_path / "memory.jsonl").write_bytes(lines)

    done = run(tmp_path / "m.db", "import", tmp_path / "memory.jsonl")

    key = make_key(name)

    assert done.exit_code == 0
    assert f"line 3 ({key}): Its name is not a valid key: the key is {key}; " in done.stderr
    assert search(tmp_path / "m.db", name[:200]) == [key]

    memories = read_memories(tmp_path / "m.db")

    assert memories[key]["metadata"]["name"] == name
    assert memories[key]["content"] == f"{name}\nobserved"
    assert memories["Ada"]["links"][0]["key"] == key


def test_a_stream_is_recognized_like_a_file(tmp_path: Path) -> None:
    lines = write_lines(relation("Ada", "tea"), entity("Ada", "likes tea"), entity("tea"))
    (tmp_path / "memory.jsonl").write_bytes(lines)

    from_file = run(tmp_path / "a.db", "import", tmp_path / "memory.jsonl")
    from_stream = run(tmp_path / "b.db", "import", "-", stdin=lines)

    assert from_stream.stderr == from_file.stderr
    assert from_stream.exit_code == 0

    ours = export(tmp_path / "a.db")
    memories = read_memories(tmp_path / "b.db")

    assert memories["Ada"]["links"] == [{"key": "tea", "link_weight": 0.5, "type": "knows"}]
    assert run(tmp_path / "c.db", "import", "-", stdin=ours).stderr == "Imported: 2 added.\n"
    assert export(tmp_path / "c.db") == ours

    without_heading = ours.split(b"\n", 1)[1]

    assert run(tmp_path / "d.db", "import", "-", stdin=without_heading).exit_code == 0
    assert export(tmp_path / "d.db") == ours


def test_a_torn_first_line_is_refused_and_the_rest_is_imported(tmp_path: Path) -> None:
    lines = b'y","observations":[]}\n' + write_lines(entity("Ada", "x"))

    done = run(tmp_path / "m.db", "import", "-", stdin=lines)

    assert done.exit_code == 1
    assert done.stderr.startswith("line 1: The line is not valid JSON")
    assert done.stderr.endswith("Imported: 1 added, 1 refused.\n")


def test_what_no_stream_can_hold_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_database(tmp_path / "kv.db", [KvMemory("a")])

    database = run(tmp_path / "m.db", "import", "-", stdin=(tmp_path / "kv.db").read_bytes())
    empty = run(tmp_path / "m.db", "import", "-", stdin=b"\n\n")
    other = run(tmp_path / "m.db", "import", "-", stdin=b"hello\n" * 100)

    assert database.stderr == "Error: A database cannot be read from a stream; name its file.\n"
    assert (
        empty.stderr == "Error: There is nothing to import: the file is empty. Name another one.\n"
    )
    assert other.stderr.startswith("Error: The file is neither an export, nor an MCP memory server")
    assert not (tmp_path / "m.db").exists()


def test_the_copy_of_a_stream_is_private_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    seen: list[int] = []
    make_folder = tempfile.mkdtemp

    def note_folder(*arguments: Any, **options: Any) -> str:
        folder: str = make_folder(*arguments, **options)
        seen.append(os.stat(folder).st_mode & 0o777)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", note_folder)

    run(tmp_path / "m.db", "import", "-", stdin=write_lines(entity("Ada", "x")))

    assert seen == [0o700, 0o700]
    assert list(temporary.iterdir()) == []


def test_a_pipe_that_has_a_path_is_read_like_stdin(tmp_path: Path) -> None:
    (tmp_path / "memory.jsonl").write_bytes(write_lines(relation("Ada", "tea"), entity("Ada", "x")))
    command = f'"{sys.executable}" -m abilities import <(cat "{tmp_path}/memory.jsonl")'
    environment = {**os.environ, "ABILITIES_STORE_URL": f"sqlite:///{tmp_path}/m.db"}

    done = subprocess.run(
        ["bash", "-c", command], env=environment, cwd=tmp_path, capture_output=True, check=False
    )

    assert done.stderr == b"Imported: 1 added.\n"
    assert len(read_memories(tmp_path / "m.db")["Ada"]["links"]) == 1


def test_of_two_entities_with_one_name_the_first_is_imported(tmp_path: Path) -> None:
    file, store = tmp_path / "memory.jsonl", tmp_path / "m.db"
    ada = entity("Ada", "first")
    file.write_bytes(write_lines(ada, ada, entity("Ada", "second")))
    refused = "line 3: An earlier line has the same name; that one counts.\n"

    tried = run(store, "import", file, "--dry-run")

    assert tried.exit_code == 1
    assert tried.stderr == f"{refused}Would import: 1 added, 1 refused.\n"
    assert run(store, "import", file).stderr == f"{refused}Imported: 1 added, 1 refused.\n"
    assert run(store, "import", file, "--replace").stderr.endswith("1 unchanged, 1 refused.\n")
    assert read_memories(store)["Ada"]["content"] == "first"


def test_fields_of_relations_that_are_not_kept_are_counted(tmp_path: Path) -> None:
    lines = write_lines(
        entity("Ada", "x"), *(relation("Ada", f"t{n}", since=1843) for n in range(3))
    )

    done = run(tmp_path / "m.db", "import", "-", stdin=lines)

    assert done.stderr == (
        "3 relations: Fields other than from, to and relationType are not kept.\n"
        "Imported: 1 added.\n"
    )


@pytest.mark.parametrize("kind", ["memory.jsonl", "export", "kv-memory"])
async def test_progress_counts_every_line_and_reaches_its_end(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "source"
    if kind == "memory.jsonl":
        relations = [relation("Ada", f"t{n}") for n in range(2_000)]
        file.write_bytes(write_lines(entity("Ada", "x"), *relations) + b"\n\n")
    elif kind == "export":
        write_export(file, 1_600)
    else:
        write_database(file, [KvMemory(f"k{n}") for n in range(1_200)])

    positions: list[int] = []
    async with (
        open_source(file, "default", all_into_it=False) as opened,
        open_store(tmp_path / "m.db") as store,
    ):
        await import_memories(
            store, opened, ImportOptions(), lambda _: None, positions.append, Counter()
        )

    assert positions == sorted(positions)
    assert positions[-1] == opened.length
    assert len(positions) >= 4


def write_export(file: Path, count: int) -> None:
    """Write an export of many memories."""
    with file.open("wb") as lines:
        lines.write(HEADING)

        for number in range(count):
            foreign = ForeignMemory(f"e{number}", "x")
            memory, _ = adjust(foreign, "default", "2026-01-01T00:00:00.000Z")
            lines.write(format_line(memory.stored))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["memory.jsonl", "kv-memory"])
def test_memory_stays_bounded_however_many_rows(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks: list[int] = []
    command = [sys.executable, "-m", "abilities", "import"]

    for count in (1_000, MEMORIES):
        file = tmp_path / f"{count}"
        monkeypatch.setenv("ABILITIES_STORE_URL", f"sqlite:///{tmp_path}/{count}.db")

        if kind == "memory.jsonl":
            with file.open("wb") as lines:
                for number in range(count):
                    lines.write(write_lines(entity(f"e{number}", "observed")))
                    lines.write(write_lines(relation(f"e{number}", f"e{number // 2}")))
            script = shlex.join(["cat", str(file)]) + " | " + shlex.join([*command, "-"])
            peaks.append(measure_peak("sh", "-c", script))
        else:
            memories = (KvMemory(f"k{number}") for number in range(count))
            links = (KvLink(f"k{number}", f"k{number // 2}") for number in range(count))
            write_database(file, memories, links)
            peaks.append(measure_peak(*command, str(file)))

    few, many = peaks

    assert many - few < 64 << 20, peaks
    assert many < 128 << 20, peaks
