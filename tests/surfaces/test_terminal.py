"""On a terminal answers are for people, lines wrap at its width, and nothing of data is obeyed."""

import asyncio
import json
import re
import shlex
import shutil
import sqlite3
import sys
import unicodedata
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st
from rich.console import Console

from abilities import Abilities, Settings
from abilities.cli.printing import PRINTERS, print_answer
from abilities.cli.records import AnsweredCall
from abilities.cli.terminal import wrap_text
from abilities.declarations.values import escape_unseen
from abilities.helpers.tokens import TokenFile
from tests.support.catalog import BUILT_IN
from tests.support.plugins import write_distribution
from tests.support.pretty_answers import record_answers
from tests.support.sample_files import make_roots
from tests.support.serving import serving
from tests.support.surfaces import environment, run, with_changes
from tests.support.terminals import Terminal, run_on_terminal
from tests.support.tier import size

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
    modules = {"hostile": PLUGIN.format(text=HOSTILE), "broken": f"raise ValueError({HOSTILE!r})"}
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
    settings = with_changes(roots, tokens_file=tokens)

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


COMMAND = ("abilities", "call")

WIDTHS = st.integers(40, 200)

# Letters, wide ones, some that combine, and what could steer a terminal or pass for markup.
TEXTS = st.text(
    st.sampled_from("ab .,é世界한🙂e\u0301[bold]/\\'\"{}:\x1b\x07\x9b\r\n\t\u202e\u200b")
)


def print_plainly(answer: AnsweredCall, width: int = 80) -> list[str]:
    file = StringIO()
    print_answer(answer, Console(file=file, width=width), COMMAND)
    return file.getvalue().split("\n")


def measure_line(line: str) -> int:
    """Return the cells of a line on a terminal, by the widths that Unicode gives characters."""
    cells = 0

    for char in line:
        if not unicodedata.combining(char):
            cells += 2 if unicodedata.east_asian_width(char) in "WF" else 1

    return cells


def check_lines(answer: AnsweredCall, width: int) -> None:
    for line in print_plainly(answer, width):
        # Whoever pastes a command needs it unbroken.
        is_command = line.startswith("abilities ")
        assert is_command or measure_line(line) <= width, (width, line)
        assert escape_unseen(line) == line, (width, line)


def replace_texts(value: Any, text: str) -> Any:
    if isinstance(value, str):
        return text + value
    if isinstance(value, list):
        return [replace_texts(item, text) for item in value]
    if isinstance(value, dict):
        return {name: replace_texts(item, text) for name, item in value.items()}

    return value


class Answers(list[AnsweredCall]):
    """Answers of all built-in abilities; their text would fill many screens."""

    def __repr__(self) -> str:
        return f"<{len(self)} answers>"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    recorded = Answers(asyncio.run(record_answers(make_roots(tmp_path_factory.mktemp("pretty")))))

    names = {ability.name for ability in BUILT_IN}
    assert PRINTERS.keys() == names
    assert {answer.name for answer in recorded if "error" not in answer.payload} == names
    assert any("next_request" in answer.payload for answer in recorded)
    assert sum("error" in answer.payload for answer in recorded) >= 3
    return recorded


def test_no_line_of_an_answer_is_wider_than_the_terminal(answers: Answers) -> None:
    for number, answer in enumerate(answers):
        check_lines(answer, 40 + 7 * number % 160)


@given(width=WIDTHS, text=TEXTS, number=st.integers(0, 99))
@trying(max_examples=size("ABILITIES_EXAMPLES", quick=60, full=500))
def test_whatever_answers_hold_neither_steers_the_terminal_nor_breaks_its_lines(
    answers: Answers, width: int, text: str, number: int
) -> None:
    answer = answers[number % len(answers)]

    check_lines(answer._replace(payload=replace_texts(answer.payload, text)), width)


def test_a_batch_shows_each_content_below_its_name(roots: Settings) -> None:
    (roots.workspace_dir / "a.md").write_text("first\n[bold]second\x1b[31m\n")
    (roots.workspace_dir / "b.md").write_text("third\n")
    paths = {"paths": ["a.md", "none.md", "b.md"]}
    items = {"items": ["none.md", {"glob": "[ab].md"}]}

    for name, arguments in (
        ("file_read_bulk", paths),
        ("file_read_bulk", {**paths, "detail": "concise"}),
        ("read", items),
        ("read", {**items, "detail": "full"}),
    ):
        output = run(roots, "call", name, json.dumps(arguments), "--pretty", COLUMNS="200").stdout
        assert "\na.md\n  first\n  [bold]second\\u001b[31m\n\nb.md\n  third\n\n" in output
        assert re.search(r"^failed\s+none\.md", output, re.MULTILINE)


SUMMARY = {"requested": 1, "succeeded": 1, "failed": 0, "truncated": 0, "returned_chars": 9}


def test_a_terminal_shows_the_beginning_of_a_long_content_and_a_pipe_all_of_it() -> None:
    content = "".join(f"line {number}\n" for number in range(1_000))
    record = {"input": "a.md", "success": True, "content": content}
    answer = AnsweredCall("read", {}, {"results": [record], "summary": SUMMARY})
    terminal = StringIO()

    print_answer(answer, Console(file=terminal, width=80, force_terminal=True), COMMAND)
    piped = "\n".join(print_plainly(answer))

    assert "line 19" in terminal.getvalue() and "line 20" not in terminal.getvalue()
    assert "8,740 further characters" in terminal.getvalue()
    assert "line 999" in piped and "further" not in piped


PAGED = {
    "file_list": {"limit": 2, "pattern": "*.md"},
    "query_memories": {"limit": 2, "sort_by": "created_at", "search": "it's"},
    "memory_list": {"limit": 2, "prefix": "it's "},
    "memory_history": {"key": "it's 0", "limit": 2},
    "file_read_bulk": {"paths": ["it's 0.md", "it's 1.md"], "max_chars_per_file": 900},
}


@pytest.mark.parametrize("name", PAGED)
def test_the_printed_commands_lead_through_all_that_is_left(name: str, roots: Settings) -> None:
    names = [f"it's {n}" for n in range(5)]
    for each in names:
        (roots.workspace_dir / f"{each}.md").write_text("x" * 2_000)
    store = {"op": "store", "type": "core", "content": "it's\x1b"}
    operations = [{**store, "key": key} for key in names]
    operations += [{"op": "append", "key": names[0], "content": str(n)} for n in range(4)]
    request = json.dumps({"operations": operations})
    run(roots, "call", "remember", request, "--namespace", "team")

    pages: list[str] = []
    asked = ["call", name, json.dumps(PAGED[name]), "--pretty", "--namespace", "team"]
    while asked and len(pages) < 10:
        pages.append(run(roots, *asked, COLUMNS="200").stdout)
        last = pages[-1].strip().rpartition("\n")[2]
        asked = shlex.split(last)[1:] if last.startswith("abilities ") else []

    printed = "".join(pages)
    assert 3 <= len(pages) < 10
    if name == "memory_history":
        assert printed.count(" changed ") == 4 and printed.count(" created ") == 1
    elif name == "file_read_bulk":
        counts = re.findall(r"([0-9,]+) characters$", printed, re.MULTILINE)
        assert sum(int(count.replace(",", "")) for count in counts) == 4_000
    else:
        assert all(key in printed for key in names)


def test_a_walk_is_a_tree_with_scores_and_what_was_left_out(answers: Answers) -> None:
    walks = [answer for answer in answers if answer.name == "bulk_read_memory"]

    for walk in (walks[0], walks[2]):
        lines = [line.rstrip() for line in print_plainly(walk)]
        assert lines[0].startswith("goals") and lines[1] == "  Ship it. All of it."
        assert lines[2].startswith("  plan  0.54")
        assert lines[3].startswith("    Test, then ship. 世界 ")
        assert any(line.startswith("Left out by depth: deep") for line in lines)
        target = '{"targets":[{"type":"stored","key":"deep"}]}'
        assert lines[-2] == f"abilities call memory_read_bulk '{target}' --pretty"


def test_one_memory_has_a_heading_its_content_and_a_table_of_links() -> None:
    memory = {
        **{"type": "core", "importance": "high", "content": "One\n\n  Two", "version": 3},
        "updated_at": "2026-01-02T03:04:05.678Z",
        "links": [{"key": "plan", "link_weight": 0.9, "type": "association"}],
        "links_total": 30,
    }
    payload = {"key": "goals", "success": True, "data": memory}

    assert "\n".join(print_plainly(AnsweredCall("memory_get", {"key": "goals"}, payload))) == (
        "goals\n"
        "core, high importance, version 3, changed 2026-01-02 03:04 UTC\n\n"
        "  One\n\n    Two\n\n"
        "Links to 30 memories\n"
        "weight  memory  kind\n"
        "0.90    plan    association\n"
        "For more links:\n"
        """abilities call memory_get '{"key":"goals","links_offset":1}' --pretty\n"""
    )


def test_the_answer_of_a_plugin_is_json_and_a_long_command_is_left_to_the_json() -> None:
    payload: dict[str, Any] = {"words": "x" * 300, "more": ["[bold]\n", 1]}
    assert json.loads("\n".join(print_plainly(AnsweredCall("speak", {}, payload), 40))) == payload

    request = {"paths": ["a" * 50] * 9}
    payload = {"results": [], "summary": SUMMARY, "next_request": request}
    lines = print_plainly(AnsweredCall("file_read_bulk", {}, payload))
    assert not [line for line in lines if line.startswith("abilities ")]
    assert "send the request in the JSON answer (leave out --pretty)" in " ".join(lines)
    file = StringIO()
    print_answer(AnsweredCall("file_read_bulk", {}, payload), Console(file=file))
    assert "send next_request for the rest" in file.getvalue(), "if there is no command"

    page = {"memories": [], "total": 3, "offset": 9, "limit": 9, "has_more": False}
    assert "none of 3 memories" in print_plainly(AnsweredCall("query_memories", {}, page))


def test_colors_are_for_terminals_that_want_them() -> None:
    payload = {"error": {"code": "NOT_FOUND", "reason": "not_found", "message": "None."}}
    xterm = {"TERM": "xterm-256color"}
    terminals = [(xterm, True), ({**xterm, "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]

    for variables, has_colors in terminals:
        file = StringIO()
        console = Console(file=file, force_terminal=True, width=80, _environ=variables)
        print_answer(AnsweredCall("memory_get", {}, payload), console)
        assert ("\x1b[31m" in file.getvalue()) is has_colors
