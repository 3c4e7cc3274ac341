"""On a terminal messages wrap at its width, and answers are for people; a pipe gets neither."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from abilities import Abilities, Settings
from abilities.cli.terminal import wrap_text
from tests.support.surfaces import environment
from tests.support.terminals import Terminal, run_on_terminal

LONG = "The plan names 'abilities import FILE --replace' and ends in/a/folder/of/a/very/long/name."


@pytest.fixture
async def stored(roots: Settings) -> dict[str, str]:
    """The environment of commands whose store has memories with links."""
    links = [{"key": "plan", "link_weight": 0.9}, {"key": "tea", "link_weight": 0.2}]
    memories: list[dict[str, object]] = [
        {"key": "goals", "content": "Ship Aurora in May.", "links": links},
        {"key": "plan", "content": "Ada leads."},
        {"key": "tea", "content": "Green tea."},
    ]
    operations = [{"op": "store", "type": "core", **memory} for memory in memories]

    async with Abilities.open(roots) as abilities:
        await abilities.call("remember", {"operations": operations})

    return environment(roots)


def run_piped(*arguments: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "abilities", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "command",
    [
        ["doctor"],
        ["list"],
        ["describe", "recall"],
        ["recall", "Aurora"],
        ["graph", "goals"],
        ["serv"],
        ["recall"],
        ["setup", "nano"],
        ["import", "README.md"],
        ["token", "list"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_no_line_is_wider_than_the_terminal(
    command: list[str], columns: int, stored: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])

    lines = run_on_terminal(*command, columns=columns, variables=stored).splitlines()

    assert lines
    for line in lines:
        # What has no spaces stays in one piece, such as a path, and so does a command to copy.
        is_one_piece = len(line.split()) == 1 or line.strip().startswith("abilities ")
        assert len(line) <= columns or is_one_piece, line


def test_a_message_wraps_between_words_and_the_further_lines_are_indented() -> None:
    with Terminal(60) as terminal:
        wrapped = wrap_text(LONG, terminal.stream)
        lines = wrap_text("  FORGED: " + "word " * 40, terminal.stream, hang=4).split("\n")
        unwrapped = wrap_text("short\nlines", terminal.stream)

    assert wrapped.split("\n") == [
        "The plan names 'abilities import FILE --replace' and ends",
        "  in/a/folder/of/a/very/long/name.",
    ]
    assert unwrapped == "short\nlines"
    assert lines[0].startswith("  FORGED") and len(lines) > 2
    assert all(line.startswith(" " * 6 + "word") for line in lines[1:])


def test_a_quoted_command_stays_in_one_piece() -> None:
    with Terminal(40) as terminal:
        lines = wrap_text(LONG, terminal.stream).split("\n")

    assert any("'abilities import FILE --replace'" in line for line in lines)


def test_a_pipe_gets_messages_in_one_line(stored: dict[str, str]) -> None:
    assert wrap_text(LONG * 9, sys.stdout) == LONG * 9
    assert max(map(len, run_piped("doctor", variables=stored).splitlines())) > 80


def test_recall_prints_a_table_on_a_terminal_and_json_into_a_pipe(stored: dict[str, str]) -> None:
    shown = run_on_terminal("recall", "Aurora", columns=80, variables=stored)
    asked = run_on_terminal("recall", "Aurora", "--json", columns=80, variables=stored)
    piped = run_piped("recall", "Aurora", variables=stored)
    pretty = run_piped("recall", "Aurora", "--pretty", variables=stored)

    assert "score" in shown and "matches shown" in shown and "{" not in shown
    assert "matches shown" in pretty
    for printed in (asked, piped):
        assert json.loads(printed)["results"][0]["memories"][0]["key"] == "goals"


def test_graph_draws_a_tree_on_a_terminal_and_a_picture_into_a_pipe(
    stored: dict[str, str], tmp_path: Path
) -> None:
    shown = run_on_terminal("graph", "goals", "--breadth", "1", columns=80, variables=stored)
    piped = run_piped("graph", "goals", variables=stored)
    run_on_terminal(
        "graph", "goals", "-o", str(tmp_path / "walk.svg"), columns=80, variables=stored
    )
    as_tree = run_piped("graph", "goals", "--format", "tree", variables=stored)

    assert [line.rstrip() for line in shown.splitlines()] == [
        "1. goals",
        "├── 2. plan  0.9",
        "└── tea  0.2  cut by breadth",
    ]
    assert piped.startswith("<svg") and (tmp_path / "walk.svg").read_text() == piped
    assert as_tree.splitlines() == ["1. goals", "├── 2. plan  0.9", "└── 3. tea  0.2"]


def test_a_remark_of_an_import_begins_a_line_beside_the_bar(
    stored: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "mine.jsonl").write_text('{"key": "a", "content": "b"}\n')

    shown = run_on_terminal("import", str(tmp_path / "mine.jsonl"), columns=80, variables=stored)

    assert "\r1 memory: No id; it was made of the namespace and the key.\n" in shown
