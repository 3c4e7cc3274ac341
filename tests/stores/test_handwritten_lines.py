"""Import of lines that people wrote, without ids, and what an import says of many equal lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from abilities.helpers.store.names import make_id
from tests.stores.test_memory_jsonl import write_lines
from tests.stores.test_transfer import read_memories, run

REMARK = "memories: No id; it was made of the namespace and the key.\n"
TEA: dict[str, Any] = {"key": "tea", "content": "Green tea."}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.jsonl"


def test_lines_without_an_id_get_one_and_the_import_says_so_once(
    file: Path, tmp_path: Path
) -> None:
    store = tmp_path / "m.db"
    file.write_bytes(write_lines(*({**TEA, "key": f"k{n}"} for n in range(50))))

    tried = run(store, "import", file, "--dry-run")
    first = run(store, "import", file)
    again = run(store, "import", file)

    assert tried.stderr == f"50 {REMARK}Would import: 50 added.\n"
    assert first.stderr == f"50 {REMARK}Imported: 50 added.\n"
    assert again.stderr == f"50 {REMARK}Imported: 50 unchanged.\n"
    assert read_memories(store)["k7"]["id"] == make_id("default", "k7")


def test_the_other_fields_of_a_line_without_an_id_are_kept(file: Path, tmp_path: Path) -> None:
    store, given = tmp_path / "m.db", {**TEA, "type": "task", "tags": ["drink"], "archived": False}
    link = {"key": "cup", "link_weight": 0.5}
    created_at = "2026-01-31T09:30:00.000Z"
    file.write_bytes(write_lines({**given, "created_at": created_at, "links": [link]}))

    assert run(store, "import", file).exit_code == 0

    memory = read_memories(store)["tea"]
    assert (memory["type"], memory["tags"], memory["importance"]) == ("task", ["drink"], "medium")
    assert (memory["created_at"], memory["updated_at"]) == (created_at, created_at)
    assert memory["links"][0]["key"] == "cup"


@pytest.mark.parametrize("named", [{}, {"namespace": "mine"}])
def test_a_namespace_for_all_takes_lines_without_an_id_too(
    named: dict[str, str], file: Path, tmp_path: Path
) -> None:
    store, found = tmp_path / "m.db", ("call", "memory_get", '{"key": "tea"}', "--namespace")
    file.write_bytes(write_lines({**TEA, **named}))

    run(store, "import", file, "--namespace", "team")

    assert json.loads(run(store, *found, "team").stdout)["data"]["id"] == make_id("team", "tea")
    run(store, "import", file)
    assert run(store, *found, named.get("namespace", "default")).exit_code == 0


def test_an_export_replaces_no_file_of_such_lines(file: Path, tmp_path: Path) -> None:
    file.write_bytes(write_lines(TEA))
    run(tmp_path / "m.db", "import", file)

    refused = run(tmp_path / "m.db", "export", file)

    assert refused.exit_code == 1 and "is no export" in refused.stderr
    assert file.read_bytes() == write_lines(TEA)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"key": "tea"}, "The field content is missing."),
        ({**TEA, "key": " tea"}, "The field key is wrong: key must be 1 to 200 printable"),
        ({**TEA, "type": "fact"}, "The field type must be 'core', 'learning' or 'task'."),
        ({**TEA, "tags": "drink"}, "The field tags must be a list."),
        ({**TEA, "weight": 1}, "The field weight is unknown."),
        ({**TEA, "content": 1}, "The field content must be text."),
        ({**TEA, "created_at": "today"}, "The field created_at must match ^"),
        ([TEA], "The line is not a memory: it must be a JSON object."),
    ],
    ids=str,
)
def test_a_line_that_is_no_memory_is_refused_with_the_rule(
    line: object, words: str, file: Path, tmp_path: Path
) -> None:
    file.write_bytes(write_lines({**TEA, "key": "first"}, line))

    done = run(tmp_path / "m.db", "import", file)

    assert done.exit_code == 1
    assert f"line 2: {words}" in done.stderr
    assert "Imported: 1 added, 1 refused." in done.stderr


def test_of_equal_remarks_twenty_are_printed_and_of_others_the_first(
    file: Path, tmp_path: Path
) -> None:
    without_content = [{"key": f"k{n}"} for n in range(60)]
    file.write_bytes(write_lines(TEA, *without_content, {**TEA, "tags": 1}, {**TEA, "tags": 1}))
    report = tmp_path / "report.jsonl"

    done = run(tmp_path / "m.db", "import", file, "--report", report)

    lines = done.stderr.splitlines()
    assert sum("The field content is missing." in line for line in lines) == 21
    assert "line 62: The field tags must be a list." in lines
    assert "... and 40 more of: The field content is missing." in lines
    assert "... and 1 more of: The field tags must be a list." in lines
    assert f"All of them are in {report}." in lines
    assert len(report.read_text().splitlines()) == 63
