"""`--pretty`: every answer fits the terminal, and what is left can be had by a command."""

import asyncio
import json
import re
import shlex
import unicodedata
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st
from rich.console import Console

from abilities import Settings
from abilities.cli.main import main
from abilities.cli.printing import PRINTERS, print_answer
from abilities.cli.records import AnsweredCall
from abilities.declarations.values import escape_unseen
from tests.support.catalog import BUILT_IN
from tests.support.pretty_answers import record_answers
from tests.support.sample_files import make_roots
from tests.support.surfaces import environment
from tests.support.tier import size

COMMAND = ("abilities", "call")

WIDTHS = st.integers(40, 200)

# Letters, wide ones, some that combine, and what could steer a terminal or pass for markup.
TEXTS = st.text(
    st.sampled_from("ab .,é世界한🙂e\u0301[bold]/\\'\"{}:\x1b\x07\x9b\r\n\t\u202e\u200b")
)


class Answers(list[AnsweredCall]):
    """Answers of all built-in abilities; their text would fill many screens."""

    def __repr__(self) -> str:
        return f"<{len(self)} answers>"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Answers of all built-in abilities."""
    roots = make_roots(tmp_path_factory.mktemp("pretty"))
    return Answers(asyncio.run(record_answers(roots)))


def print_plainly(answer: AnsweredCall, width: int = 80) -> list[str]:
    """Return the lines that a terminal without colors would show."""
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
    """Return a payload in which each string begins with another text."""
    if isinstance(value, str):
        return text + value
    if isinstance(value, list):
        return [replace_texts(item, text) for item in value]
    if isinstance(value, dict):
        return {name: replace_texts(item, text) for name, item in value.items()}

    return value


def test_every_built_in_ability_has_a_printer_and_an_answer_here(
    answers: Answers,
) -> None:
    names = {ability.name for ability in BUILT_IN}

    assert PRINTERS.keys() == names
    assert {answer.name for answer in answers if "error" not in answer.payload} == names
    # Without these, what follows would show little.
    rests = ("next_request", "next_requests", "truncation")
    assert {rest for rest in rests for answer in answers if rest in answer.payload} >= {
        "next_request"
    }
    assert sum("error" in answer.payload for answer in answers) >= 3


def print_pretty(settings: Settings, name: str, arguments: dict[str, Any]) -> str:
    command = ["call", name, json.dumps(arguments), "--pretty"]
    result = CliRunner().invoke(main, command, env=environment(settings))
    assert result.exit_code in (0, 1), result.output
    return result.output


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("file_read_bulk", {"paths": ["a.md", "none.md", "b.md"]}),
        ("file_read_bulk", {"paths": ["a.md", "none.md", "b.md"], "detail": "concise"}),
        ("read", {"items": ["a.md", "none.md", "b.md"]}),
        ("read", {"items": ["none.md", {"glob": "[ab].md"}]}),
        ("read", {"items": ["none.md", {"glob": "[ab].md"}], "detail": "full"}),
    ],
)
def test_a_batch_shows_each_content_below_its_name(
    name: str, arguments: dict[str, Any], roots: Settings
) -> None:
    (roots.workspace_dir / "a.md").write_text("first\n[bold]second\x1b[31m\n")
    (roots.workspace_dir / "b.md").write_text("third\n")

    output = print_pretty(roots, name, arguments)

    assert "\na.md\n  first\n  [bold]second\\u001b[31m\n\nb.md\n  third\n\n" in output
    assert re.search(r"^failed\s+none\.md", output, re.MULTILINE)


def test_a_terminal_shows_the_beginning_of_a_long_content_and_a_pipe_all_of_it() -> None:
    content = "".join(f"line {number}\n" for number in range(1_000))
    record = {"input": "a.md", "success": True, "content": content}
    summary = {"requested": 1, "succeeded": 1, "failed": 0, "truncated": 0, "returned_chars": 9}
    answer = AnsweredCall("read", {}, {"results": [record], "summary": summary})
    terminal, pipe = StringIO(), StringIO()

    print_answer(answer, Console(file=terminal, width=80, force_terminal=True), COMMAND)
    print_answer(answer, Console(file=pipe, width=80), COMMAND)

    assert "line 19" in terminal.getvalue() and "line 20" not in terminal.getvalue()
    assert "8,740 further characters" in terminal.getvalue()
    assert "line 999" in pipe.getvalue() and "further" not in pipe.getvalue()


@given(width=WIDTHS)
@trying(max_examples=size("ABILITIES_EXAMPLES", quick=4, full=15), deadline=None)
def test_no_line_is_wider_than_the_terminal(answers: Answers, width: int) -> None:
    for answer in answers:
        check_lines(answer, width)


@given(width=WIDTHS, text=TEXTS, number=st.integers(0, 99))
@trying(max_examples=size("ABILITIES_EXAMPLES", quick=150, full=700), deadline=None)
def test_whatever_answers_hold_neither_steers_the_terminal_nor_breaks_its_lines(
    answers: Answers, width: int, text: str, number: int
) -> None:
    answer = answers[number % len(answers)]

    check_lines(answer._replace(payload=replace_texts(answer.payload, text)), width)


def find_command(printed: str) -> list[str] | None:
    """Return the words of the command on the last line; None if there is none."""
    words = shlex.split(printed.strip().rpartition("\n")[2]) if "abilities " in printed else []
    return words[1:] if words[:1] == ["abilities"] else None


PAGED = {
    "file_list": {"limit": 2, "pattern": "*.md"},
    "query_memories": {"limit": 2, "sort_by": "created_at", "search": "it's"},
    "memory_list": {"limit": 2, "prefix": "it's "},
    "memory_history": {"key": "it's 0", "limit": 2},
    "file_read_bulk": {"paths": ["it's 0.md", "it's 1.md"], "max_chars_per_file": 900},
}


@pytest.mark.parametrize("name", PAGED)
def test_the_commands_that_are_printed_lead_through_all_that_is_left(
    name: str, roots: Settings
) -> None:
    for n in range(5):
        (roots.workspace_dir / f"it's {n}.md").write_text("x" * 2_000)

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(
            main, arguments, env={**environment(roots), "COLUMNS": "200"}, prog_name="abilities"
        )
        assert done.exit_code == 0, done.output
        return done.stdout

    store = {"op": "store", "type": "core", "content": "it's\x1b"}
    names = [f"it's {n}" for n in range(5)]
    stored = [{**store, "key": key} for key in names]
    changed = [{"op": "append", "key": names[0], "content": str(n)} for n in range(4)]
    request = json.dumps({"operations": [*stored, *changed]})
    run("call", "remember", request, "--namespace", "team")

    first = ["call", name, json.dumps(PAGED[name]), "--pretty", "--namespace", "team"]
    asked: list[str] | None = first
    pages: list[str] = []
    while asked is not None and len(pages) < 10:
        pages.append(run(*asked))
        asked = find_command(pages[-1])

    printed = "".join(pages)
    assert 3 <= len(pages) < 10
    if name == "memory_history":
        assert printed.count(" changed ") == 4 and printed.count(" created ") == 1
    elif name == "file_read_bulk":
        counts = [
            int(count.replace(",", ""))
            for count in re.findall(r"([0-9,]+) characters$", printed, re.M)
        ]
        assert sum(counts) == 4_000
    else:
        assert all(printed.count(key) >= 1 for key in names)


def test_a_command_that_fills_the_screen_is_not_printed() -> None:
    request = {"paths": ["a" * 50] * 9}
    summary = {"requested": 0, "succeeded": 0, "failed": 0, "truncated": 0, "returned_chars": 0}
    payload = {"results": [], "summary": summary, "next_request": request}

    lines = print_plainly(AnsweredCall("file_read_bulk", {}, payload))

    assert not [line for line in lines if line.startswith("abilities ")]
    assert "send the request in the JSON answer (leave out --pretty)" in " ".join(lines)


def test_a_walk_is_a_tree_with_scores_and_what_was_left_out(answers: Answers) -> None:
    walks = [answer for answer in answers if answer.name == "bulk_read_memory"]

    for walk in (walks[0], walks[2]):
        lines = [line.rstrip() for line in print_plainly(walk)]
        assert lines[0].startswith("goals") and lines[1] == "  Ship it. All of it."
        assert lines[2].startswith("  plan  0.54")
        assert lines[3].startswith("    Test, then ship. 世界 ")
        assert any(line.startswith("Left out by depth: deep") for line in lines)
        target = '{"targets":[{"type":"stored","key":"deep"}]}'
        assert lines[-3:-1] == [
            "To read the memories left out:",
            f"abilities call memory_read_bulk '{target}' --pretty",
        ]


def test_one_memory_has_a_heading_its_content_and_a_table_of_links() -> None:
    link = {"key": "plan", "link_weight": 0.9, "type": "association"}
    memory = {"type": "core", "importance": "high", "content": "One\n\n  Two", "version": 3}
    memory |= {"updated_at": "2026-01-02T03:04:05.678Z", "links": [link], "links_total": 30}
    payload = {"key": "goals", "success": True, "data": memory}

    lines = print_plainly(AnsweredCall("memory_get", {"key": "goals"}, payload))

    assert [line.rstrip() for line in lines] == [
        "goals",
        "core, high importance, version 3, changed 2026-01-02 03:04 UTC",
        "",
        "  One",
        "",
        "    Two",
        "",
        "Links to 30 memories",
        "weight  memory  kind",
        "0.90    plan    association",
        "For more links:",
        """abilities call memory_get '{"key":"goals","links_offset":1}' --pretty""",
        "",
    ]


def test_wrong_arguments_are_a_sentence_and_a_table_of_rules(answers: Answers) -> None:
    faults = [answer for answer in answers if "error" in answer.payload]
    ranges, missing, unknown = ("\n".join(print_plainly(fault)) for fault in faults[-3:])

    assert "INVALID_INPUT (out_of_range): limit must be 1 to 100." in ranges
    assert re.search(r"^limit +1 to 100$", ranges.replace("  \n", "\n"), re.M) or (
        "limit    1 to 100" in ranges
    )
    assert "sort_by" in ranges and "one of: created_at, updated_at" in ranges
    assert "abilities describe query_memories" in ranges
    assert missing.strip() == "NOT_FOUND (not_found): No memory with this key."
    assert re.search(r"^path .*paths *$", unknown, re.M), unknown


def test_a_narrow_terminal_shows_lists_of_the_same_cells(answers: Answers) -> None:
    (listing, *_) = [answer for answer in answers if answer.name == "memory_history"]

    wide = " ".join(" ".join(print_plainly(listing, 120)).split())
    narrow = " ".join(" ".join(print_plainly(listing, 40)).split())

    for entry in listing.payload["entries"]:
        row = f"{entry['version']} {entry['at'][:10]} {entry['at'][11:16]} {entry['action']}"
        assert row in wide
        assert f"what: {entry['action']}" in narrow


def test_the_answer_of_a_plugin_is_json() -> None:
    payload = {"words": "x" * 300, "more": ["[bold]\n", 1]}

    lines = print_plainly(AnsweredCall("speak", {}, payload), 40)

    assert json.loads("\n".join(lines)) == payload


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_colors_are_for_terminals_that_want_them(variable: str, tmp_path: Path) -> None:
    payload = {"error": {"code": "NOT_FOUND", "reason": "not_found", "message": "None."}}
    answer = AnsweredCall("memory_get", {}, payload)

    def show(**variables: str) -> str:
        file = StringIO()
        console = Console(file=file, force_terminal=True, width=80, _environ=variables)
        print_answer(answer, console)
        return file.getvalue()

    assert "\x1b[31m" in show(TERM="xterm-256color")
    wanted = {"TERM": "xterm-256color", variable: {"NO_COLOR": "1", "TERM": "dumb"}[variable]}
    assert "\x1b[31m" not in show(**wanted)


def test_no_line_ends_in_blanks_if_nothing_is_a_terminal() -> None:
    memory = {"type": "core", "importance": "high", "content": "One\n\n  Two", "version": 3}
    memory |= {"updated_at": "2026-01-02T03:04:05.678Z"}
    found = {"key": "a", "type": "core", "updated_at": "2026-01-02", "content": "short"}
    rest = {"total": 2, "offset": 0, "limit": 2, "has_more": False}
    answers = [
        AnsweredCall("memory_get", {"key": "a"}, {"key": "a", "success": True, "data": memory}),
        AnsweredCall(
            "query_memories",
            {},
            {"memories": [found, found | {"key": "b", "content": "longer " * 3}], **rest},
        ),
    ]

    lines = [line for answer in answers for line in print_plainly(answer)]

    assert len(lines) > 8
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("total", "offset", "count", "expected"),
    [
        (0, 0, 0, "no memories"),
        (1, 0, 1, "1 memory"),
        (3, 0, 3, "3 memories"),
        (3, 1, 1, "2 to 2 of 3 memories"),
        (3, 9, 0, "none of 3 memories"),
    ],
)
def test_a_page_says_which_memories_it_shows(
    total: int, offset: int, count: int, expected: str
) -> None:
    found = {"key": "a", "type": "core", "updated_at": "2026-01-02", "content": "x"}
    payload = {"memories": [found] * count, "total": total, "offset": offset, "limit": 9}
    payload["has_more"] = False

    lines = print_plainly(AnsweredCall("query_memories", {}, payload))

    assert lines[-2:] == [expected, ""]
