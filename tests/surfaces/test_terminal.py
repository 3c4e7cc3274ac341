"""On a terminal answers are for people, lines wrap at its width, and nothing of data is obeyed."""

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from abilities import Abilities, Settings
from abilities.cli.terminal import wrap_text
from abilities.declarations.values import escape_unseen
from abilities.helpers.tokens import TokenFile
from tests.support.plugins import write_distribution
from tests.support.serving import serving
from tests.support.surfaces import environment, run
from tests.support.terminals import Terminal, run_on_terminal

LONG = "The plan names 'abilities import FILE --replace' and ends in/a/folder/of/a/very/long/name."


@pytest.fixture
async def stored(roots: Settings) -> dict[str, str]:
    links = [{"key": "plan", "link_weight": 0.9}, {"key": "tea", "link_weight": 0.2}]
    goals = {"key": "goals", "content": "Ship Aurora in May.", "links": links}
    async with Abilities.open(roots) as abilities:
        for memory in (goals, {"key": "plan", "content": "x"}, {"key": "tea", "content": "x"}):
            await abilities.call("store_memory", {"type": "core", **memory})

    return environment(roots)


def run_piped(*arguments: str, variables: dict[str, str]) -> str:
    done = run(None, *arguments, **variables)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "command",
    ["doctor", "describe recall", "recall Aurora", "graph goals", "serv", "setup nano", "--help"],
)
def test_no_line_is_wider_than_the_terminal(command: str, stored: dict[str, str]) -> None:
    printed = run_on_terminal(*command.split(), columns=60, variables=stored)

    assert printed
    for line in printed.splitlines():
        # What has no spaces stays in one piece, such as a path, and so does a command to copy.
        is_one_piece = len(line.split()) == 1 or line.strip().startswith("abilities ")
        assert len(line) <= 60 or is_one_piece, line


def test_a_message_wraps_between_words_and_the_further_lines_are_indented() -> None:
    with Terminal(60) as terminal:
        wrapped = wrap_text(LONG, terminal.stream)
        lines = wrap_text("  FORGED: " + "word " * 40, terminal.stream, hang=4).split("\n")
        assert wrap_text("short\nlines", terminal.stream) == "short\nlines"
    with Terminal(40) as terminal:
        assert "'abilities import FILE --replace'" in wrap_text(LONG, terminal.stream)

    assert wrapped.endswith("ends\n  in/a/folder/of/a/very/long/name.")
    assert lines[0].startswith("  FORGED") and len(lines) > 2
    assert all(line.startswith(" " * 6 + "word") for line in lines[1:])
    assert wrap_text(LONG * 9, sys.stdout) == LONG * 9, "a pipe gets one line"


def test_recall_prints_a_table_on_a_terminal_and_json_into_a_pipe(stored: dict[str, str]) -> None:
    shown = run_on_terminal("recall", "Aurora", columns=80, variables=stored)
    asked = run_on_terminal("recall", "Aurora", "--json", columns=80, variables=stored)
    piped = run_piped("recall", "Aurora", variables=stored)

    assert "score" in shown and "matches shown" in shown and "{" not in shown
    for printed in (asked, piped):
        assert json.loads(printed)["results"][0]["memories"][0]["key"] == "goals"


def test_graph_draws_a_tree_on_a_terminal_and_a_picture_into_a_pipe(
    stored: dict[str, str], tmp_path: Path
) -> None:
    graph, picture = ["graph", "goals"], tmp_path / "walk.svg"
    shown = run_on_terminal(*graph, "--breadth", "1", columns=80, variables=stored)
    run_on_terminal(*graph, "-o", str(picture), columns=80, variables=stored)
    piped = run_piped(*graph, variables=stored)
    as_tree = run_piped(*graph, "--format", "tree", variables=stored)

    assert [line.rstrip() for line in shown.splitlines()] == [
        "1. goals",
        "├── 2. plan  0.9",
        "└── tea  0.2  cut by breadth",
    ]
    assert piped.startswith("<svg") and picture.read_text() == piped
    assert as_tree.splitlines() == ["1. goals", "├── 2. plan  0.9", "└── 3. tea  0.2"]


HOSTILE = "a\x1b]0;pwned\x07\x9b31m\u202egpj\u2066\u200b\u2028\x7f\U000e0041\r\nFORGED: line\n"
UNSEEN = [char for char in HOSTILE if not char.isascii()] + ["\x07", "\x7f", "\x1b]", "\nFORGED"]

HOSTILE_POINT = "a\u202egpj\u200b"

PLUGIN = """
from abilities import Arguments, Context, Model, ability
from pydantic import Field

class Words(Arguments):
    words: str = Field(description={text!r})

class Spoken(Model):
    words: str

@ability(description="Speaks.")
async def speak(context: Context, arguments: Words) -> Spoken:
    return Spoken(words=arguments.words)
"""


def check_printed(name: str, printed: str) -> None:
    found = [text for text in UNSEEN if text in printed]
    assert not found, (name, found, printed)


@pytest.fixture
async def hostile(roots: Settings) -> dict[str, str]:
    (roots.workspace_dir / "a.txt").write_text(HOSTILE)
    async with Abilities.open(roots) as abilities:
        memory = {"type": "core", "key": "tea", "content": HOSTILE, "tags": ["t\u200b"]}
        await abilities.call("store_memory", memory)

    return environment(roots)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / f"dir{HOSTILE}"
    folder.mkdir()
    return folder


def test_no_command_lets_data_steer_a_terminal(hostile: dict[str, str], folder: Path) -> None:
    records = folder / "memory.jsonl"
    records.write_text(json.dumps({"type": "entity", "name": HOSTILE, "observations": [HOSTILE]}))
    read = json.dumps({"paths": ["a.txt", HOSTILE]})

    commands = {
        "json": ["call", "file_read_bulk", read],
        "table": ["call", "file_read_bulk", read, "--pretty"],
        "import": ["import", str(records)],
        "unknown": ["call", HOSTILE],
    }
    printed: dict[str, str] = {}
    for name, command in commands.items():
        printed[name] = run_on_terminal(*command, variables=hostile)
        check_printed(name, printed[name])
        assert name == "import" or "u202e" in printed[name], printed

    assert json.loads(printed["json"])["results"][0]["data"]["content"] == HOSTILE


@pytest.mark.thorough
def test_no_command_for_stores_tokens_and_plugins_lets_data_steer_a_terminal(
    hostile: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    points = {"hostile": "hostile:speak", "broken": "broken:none", HOSTILE_POINT: "x"}
    modules = {
        "hostile": PLUGIN.format(text=HOSTILE),
        "broken": f"raise ValueError({HOSTILE!r})",
    }
    write_distribution(plugins, modules, points)
    tokens, moved, copy = folder / "tokens.json", folder / "memory.db", str(folder / "copy.db")
    write_hostile_label(tokens)
    shutil.copy(hostile["ABILITIES_STORE_URL"].removeprefix("sqlite:///"), moved)
    variables = {
        **hostile,
        "PYTHONPATH": str(plugins),
        "ABILITIES_TOKENS_FILE": str(tokens),
        "ABILITIES_STORE_URL": f"sqlite:///{moved}",
    }

    commands = {
        "memory": ["call", "memory_get", '{"key": "tea"}'],
        "pretty": ["call", "memory_get", '{"key": "tea"}', "--pretty"],
        "export on screen": ["export"],
        "doctor": ["--workspace-dir", str(folder), "doctor"],
        "missing": ["--workspace-dir", f"{folder}/none", "call", "file_list"],
        "option": [f"--{HOSTILE}"],
        "list": ["list"],
        "describe": ["describe", "speak"],
        "declaration": ["describe", "speak", "--json"],
        "tokens": ["token", "list"],
        "graph": ["graph", "tea"],
        "drawing": ["graph", "tea", "-o", str(folder / "drawing.txt")],
        "backup": ["backup", copy],
        "backup again": ["backup", copy],
        "restore": ["restore", copy, "--replace"],
        "check": ["check"],
        "export": ["export", str(folder / "export.jsonl")],
        "dry repair": ["repair", "--dry-run"],
        "repair": ["repair"],
    }
    silent: list[str] = []
    for name, command in commands.items():
        if name == "check":
            with closing(sqlite3.connect(moved, isolation_level=None)) as connection:
                connection.execute("UPDATE memories SET key = ?", (HOSTILE,))

        printed = run_on_terminal(*command, variables=variables)
        check_printed(name, printed)
        if "u202e" not in printed:
            silent.append(name)

    assert silent == ["tokens"]


@pytest.mark.thorough
def test_the_log_of_a_server_is_lines_of_its_own(roots: Settings, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    secret = write_hostile_label(tokens)
    settings = roots.model_copy(update={"tokens_file": tokens})

    with serving(settings, tmp_path) as server:
        for path in (f"abilities/{quote(HOSTILE)}", "abilities/file_list"):
            headers = {"Authorization": f"Bearer {secret}"}
            httpx.post(f"{server.address}/api/{path}", json={HOSTILE: HOSTILE}, headers=headers)
        log = server.stop()

    check_printed("log", log)
    assert [json.loads(line) for line in log.splitlines()]
    assert "gpj" in log


def write_hostile_label(tokens: Path) -> str:
    """Make a token whose label somebody has written into the file; return its secret."""
    _, secret = TokenFile(tokens).add("default", "read", "label")
    entries = json.loads(tokens.read_text())
    entries[0]["label"] = HOSTILE
    tokens.write_text(json.dumps(entries))
    return secret


def test_escaped_json_means_the_same_and_other_text_stays() -> None:
    value = {HOSTILE: [HOSTILE, "Grüße 世界 ñ\n"]}
    document = json.dumps(value, ensure_ascii=False)

    assert json.loads(escape_unseen(document)) == value
    assert escape_unseen("Grüße 世界 a\\u202e 🙂") == "Grüße 世界 a\\u202e 🙂"
    assert escape_unseen("\ud800\n\t", keep="\n\t") == "\\ud800\n\t"
