"""`--pretty`: every answer fits the terminal, and what is left can be had by a command."""

import asyncio
import json
import re
import shlex
import unicodedata
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st
from rich.console import Console

from abilities import Settings
from abilities.cli.printing import PRINTERS, print_answer
from abilities.cli.records import AnsweredCall
from abilities.declarations.values import escape_unseen
from tests.support.catalog import BUILT_IN
from tests.support.pretty_answers import record_answers
from tests.support.sample_files import make_roots
from tests.support.surfaces import run
from tests.support.tier import size

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


def test_no_line_is_wider_than_the_terminal(answers: Answers) -> None:
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
