"""The command line as a user types it; a few tests start a process of their own for it."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from abilities import Settings, parse_text, plugins
from abilities.cli.main import main
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.support.catalog import BUILT_IN
from tests.support.surfaces import environment


def run(settings: Settings | None, *arguments: str, **more: str) -> Result:
    """Run a command in this process."""
    variables = {**(environment(settings) if settings else {}), **more}
    result = CliRunner().invoke(main, arguments, env=variables, prog_name="abilities")

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def run_process(
    settings: Settings | None, *arguments: str, stdin: bytes = b"", **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    variables = {**os.environ, **(environment(settings) if settings else {}), **more}
    command = [sys.executable, "-m", "abilities", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, env=variables, timeout=120)


def test_a_call_with_failed_items_was_answered(settings: Settings) -> None:
    done = run_process(settings, "call", "file_read_bulk", '{"paths": ["ok.txt", "none"]}')

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [record["success"] for record in answer["results"]] == [True, False]
    assert done.stderr == b""


def test_a_reply_as_text_is_printed_as_it_is(settings: Settings) -> None:
    arguments = '{"paths": ["ok.txt", "none"], "output_format": "text"}'

    done = run_process(settings, "call", "file_read_bulk", arguments)

    assert done.stdout.endswith(b"\nfine\n\n"), "the content, then one line end"
    (found, missing) = parse_text(done.stdout.decode())["results"]
    assert (found["data"]["content"], missing["success"]) == ("fine\n", False)


def test_a_database_that_cannot_be_reached_is_said_once_and_without_the_pools_warnings(
    tmp_path: Path,
) -> None:
    script = (
        "from abilities.cli.main import main\n"
        "from abilities.helpers.store.postgres import pool\n"
        "pool.WAIT_SECONDS = 1\n"
        "main()"
    )
    variables = {**os.environ, "ABILITIES_STORE_URL": "postgresql://u@127.0.0.1:1/none"}

    done = subprocess.run(
        [sys.executable, "-c", script, "call", "get_memory_stats"],
        capture_output=True,
        text=True,
        env=variables,
        cwd=tmp_path,
        timeout=60,
    )

    assert (done.returncode, json.loads(done.stdout)["error"]["reason"]) == (1, "unavailable")
    assert "pool" not in done.stderr
    assert len(set(done.stderr.splitlines())) == 2, "the cause, and what to do"


def test_arguments_come_from_stdin(settings: Settings) -> None:
    done = run_process(
        settings, "call", "file_read_bulk", "-", stdin='{"paths": ["🙂.txt"]}'.encode()
    )

    assert json.loads(done.stdout)["results"][0]["data"]["content"] == "odd name"


def test_a_call_that_failed_as_a_whole_says_why_on_stdout(settings: Settings) -> None:
    done = run_process(settings, "call", "file_read_bulk", "{}")

    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["field"] == "paths"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["call", "none", "{}"],
            "there is no ability named 'none'; choose one of: file_read_bulk, memory_read_bulk",
        ),
        (["call", "file_read_bulk", "{"], "not valid JSON"),
        (["call", "file_read_bulk", '{"paths": NaN}'], "not valid JSON"),
        (["call"], "Missing argument"),
        (["describe", "none"], "there is no ability"),
        (["no-such-command"], "No such command"),
        (["--workspace-dir", "/", "call", "file_read_bulk", "{}"], "workspace_dir must not be"),
        (["--workspace-dir", "/", "mcp"], "workspace_dir must not be"),
    ],
)
def test_wrong_usage_exits_with_2_and_plain_words(
    arguments: list[str], words: str, settings: Settings
) -> None:
    done = run(settings, *arguments)

    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "wrong", [{"ABILITIES_TIMEZONE": "Mars"}, {"ABILITIES_CONFIG": "/proc/self/environ"}]
)
@pytest.mark.sampled(1)
def test_unusable_settings_are_usage(wrong: dict[str, Any]) -> None:
    done = run_process(None, "list", **wrong)

    assert done.returncode == 2
    assert b"settings" in done.stderr
    assert b"Traceback" not in done.stderr


def test_list_and_describe_tell_people_and_programs(settings: Settings) -> None:
    assert "file_read_bulk" in run(settings, "list").stdout
    names = [entry["name"] for entry in json.loads(run(settings, "list", "--json").stdout)]
    assert names[:2] == ["file_read_bulk", "memory_read_bulk"]
    description = run(settings, "describe", "file_read_bulk").stdout
    assert "paths (array, required)" in description

    declared = json.loads(run(settings, "describe", "file_read_bulk", "--json").stdout)
    assert declared == json.loads(run(settings, "declarations").stdout)[0]


def test_a_table_for_people(settings: Settings) -> None:
    paths = ["ok.txt", "none", "big.txt", "[bold]evil", "\x1b[31m"]
    done = run(
        settings, "call", "file_read_bulk", json.dumps({"paths": paths}), "--pretty", COLUMNS="200"
    )
    table = done.stdout

    assert "2 of 5 read, 3 failed, 1 cut" in table
    assert "No such file" in table
    assert "[bold]evil" in table, "markup in a name is shown, not obeyed"
    assert "\x1b" not in table, "no control sequence reaches the terminal"
    failed = run(settings, "call", "file_read_bulk", "{}", "--pretty")
    assert failed.exit_code == 1 and "INVALID_INPUT" in failed.stdout


def test_a_table_tells_what_did_not_fit_from_what_failed(roots: Settings) -> None:
    paths = [f"{n}.txt" for n in range(6)]
    for path in paths:
        (roots.workspace_dir / path).write_text("word " * 4_000)

    arguments = json.dumps({"paths": ["none", *paths]})
    table = run(roots, "call", "file_read_bulk", arguments, "--pretty", COLUMNS="200").stdout

    assert "4 of 7 read, 1 failed, 1 cut, 2 left for later" in table
    assert table.count("no room left; next_request fetches it") == 2


def test_tables_of_mixed_batches_and_of_their_plans(roots: Settings) -> None:
    for name in ("a.md", "b.md", "ok.txt"):
        (roots.workspace_dir / name).write_text("word " * 100)

    version = json.loads(run(roots, "call", "read", '{"items": ["a.md"]}').stdout)
    known = {"file": "a.md", "known": version["results"][0]["data"]["version"]}
    items = [known, {"glob": "?.md"}, "ok.txt", "none"]

    def show(**arguments: Any) -> str:
        sent = json.dumps({"items": items, **arguments})
        done = run(roots, "call", "read", sent, "--pretty", COLUMNS="200")
        assert done.exit_code == 0, done.stderr
        return done.stdout

    for detail in ("full", "concise"):
        table = show(detail=detail)
        assert "unchanged, not sent again" in table
        assert re.search(r"1,000 +2 contents", table)
        assert "3 of 4 read, 1 failed" in table

    plan = show(plan=True, max_tokens=1_000)
    assert "unchanged, not sent again" in plan and "not_found" in plan
    assert re.search(r"1,000 +1,000 +2 of 2 contents", plan)
    assert "the reply would take" in plan


def test_init_makes_an_agent_directory_and_keeps_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    done = run(None, "init", str(folder))

    assert done.exit_code == 0, done.stderr
    assert (folder / "MEMORY.md").read_text().startswith("# Memory")
    assert (folder / "memory").is_dir()
    (folder / "MEMORY.md").write_text("mine")
    assert f'put agent_dir = "{folder}" into' in done.stdout
    assert "nothing was changed" in run(None, "init", str(folder)).stdout
    configured = run(None, "init", str(folder), ABILITIES_AGENT_DIR=str(folder))
    assert "put agent_dir" not in configured.stdout + run(None, "init").stdout
    assert (folder / "MEMORY.md").read_text() == "mine"
    arguments = '{"targets": [{"type": "long_term"}]}'
    answer = json.loads(
        run(None, "--agent-dir", str(folder), "call", "memory_read_bulk", arguments).stdout
    )
    assert answer["results"][0]["data"]["content"] == "mine"


def test_init_does_not_hide_the_notes_of_the_workspace(tmp_path: Path) -> None:
    agent, workspace = tmp_path / "agent", tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text("ours")

    done = run(None, "--workspace-dir", str(workspace), "init", str(agent))

    assert done.exit_code == 0, done.stderr
    assert f"{workspace / 'MEMORY.md'} is read as the notes" in done.stdout
    assert "Daily notes go into one file per day" in done.stdout
    assert (agent / "memory").is_dir() and not (agent / "MEMORY.md").exists()


def test_recall_asks_questions_without_json(roots: Settings) -> None:
    memory = {"type": "core", "key": "aurora", "content": "Aurora ships on 4 May."}
    assert run(roots, "call", "store_memory", json.dumps(memory)).exit_code == 0
    questions = ["When does Aurora ship?", "tea"]

    done = run(roots, "recall", *questions)
    pretty = run(roots, "recall", questions[0], "--pretty")
    nothing = run(roots, "recall")

    assert done.stdout == run(roots, "call", "recall", json.dumps({"queries": questions})).stdout
    assert json.loads(done.stdout)["results"][0]["memories"][0]["key"] == "aurora"
    assert "1 of 1 match shown" in pretty.stdout
    assert nothing.exit_code == 2 and "QUESTION" in nothing.stderr


def test_another_name_of_an_argument_is_printed_alike(roots: Settings) -> None:
    memory = json.dumps({"type": "core", "key": "tea", "content": "Ada prefers tea."})
    assert run(roots, "call", "store_memory", memory).exit_code == 0

    tables = [
        run(roots, "call", "recall", json.dumps({name: "tea"}), "--pretty").stdout
        for name in ("queries", "query")
    ]

    assert tables[0] == tables[1] and "Ada prefers tea." in tables[0]
    assert '"results"' not in tables[0]


def test_init_makes_the_folder_of_todays_notes_not_of_the_pattern(tmp_path: Path) -> None:
    done = run(None, "init", str(tmp_path), ABILITIES_SHORT_TERM_FILE="notes/%Y/%m-%d.md")

    assert done.exit_code == 0, done.stderr
    (folder,) = (tmp_path / "notes").iterdir()
    assert folder.name.isdigit()
    assert f"today's is {folder}/" in done.stdout


def test_init_says_where_nothing_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    done = run(None, "init", str(tmp_path / "file" / "agent"))

    assert done.exit_code == 1
    assert "Not a directory" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def construction_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of settings, stores and registries created; each registry discovers plugins once."""
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str, counted: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counts[counted] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, counting)

    count(Settings, "__init__", "settings")
    count(SqliteStore, "__init__", "stores")
    count(plugins, "entry_points", "registries")
    return counts


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["list"], {"settings": 1, "registries": 1}),
        (["describe", "file_list"], {"settings": 1, "registries": 1}),
        (["declarations"], {"settings": 1, "registries": 1}),
        (["check"], {"settings": 1, "stores": 1}),
        (["export"], {"settings": 1, "stores": 1}),
        (["doctor"], {"settings": 1, "stores": 1, "registries": 1}),
        (["token", "list"], {"settings": 1, "stores": 1}),
        (["graph", "note"], {"settings": 1, "stores": 1, "registries": 1}),
        (["call", "get_memory_stats"], {"settings": 1, "stores": 1, "registries": 1}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_makes_what_it_needs_once(
    command: list[str], expected: dict[str, int], roots: Settings, construction_counts: Counter[str]
) -> None:
    note = '{"type": "core", "key": "note", "content": "x"}'
    stored = CliRunner().invoke(main, ["call", "store_memory", note], env=environment(roots))
    assert stored.exit_code == 0, stored.output
    construction_counts.clear()

    done = CliRunner().invoke(main, command, env=environment(roots))

    assert done.exit_code in (0, 1) and not done.stderr.startswith("Error"), done.output
    assert dict(construction_counts) == expected


def test_a_store_that_is_not_installed_is_needed_only_by_what_opens_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "abilities.helpers.store.postgres.store", None)
    variables = {**environment(settings), "ABILITIES_STORE_URL": "postgresql://localhost/none"}

    listed = CliRunner().invoke(main, ["list"], env=variables)
    called = CliRunner().invoke(main, ["call", "get_memory_stats"], env=variables)
    checked = CliRunner().invoke(main, ["check"], env=variables)
    examined = CliRunner().invoke(main, ["doctor"], env=variables)

    assert listed.exit_code == 0
    assert called.exit_code == 2 and "agent-abilities[postgres]" in called.stderr
    assert checked.exit_code == 2 and "agent-abilities[postgres]" in checked.stderr
    assert examined.exit_code == 1 and "agent-abilities[postgres]" in examined.stdout


def test_help_shows_examples() -> None:
    done = run(None, "call", "--help")

    assert 'abilities call file_read_bulk \'{"paths": ["README.md"' in done.stdout
    assert run(None, "--version").stdout.startswith("abilities, version")


OUTCOMES = ("ok", "redacted", "cut", "missing", "invalid", "refused")


def test_the_demonstration_shows_everything_in_thirty_lines(settings: Settings) -> None:
    hostile = settings.workspace_dir / "\u001b[31mred \u202e.md"
    hostile.write_text("# Red\n")

    done = run_process(settings, "demo")

    assert done.returncode == 0, done.stderr
    output = done.stdout.decode()
    lines = output.splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 80
    assert "\u001b" not in output and "\u202e" not in output
    steps = [line.split()[1] for line in lines if re.match(r"\d\. ", line)]
    assert steps == ["Find", "Read", "The", "Recall", "Walk", "Anywhere", "Saved"]
    shown = [line.split()[1] for line in lines if re.match(r" {3} *\d+ ", line)]
    assert [kind for kind in OUTCOMES if kind not in shown] == []
    assert "[secret: GitHub" in output and "ghp_" not in output
    assert "Python, LangChain and MCP give a model the same" in output
    rounds, singly = re.findall(r"(\d+) rounds instead of (\d+)", output)[0]
    assert int(rounds) < int(singly) / 2
    assert [line.split()[1] for line in lines[-3:]] == ["setup", "explore", "doctor"]


def test_an_ability_for_a_command_is_sent_to_call() -> None:
    names = {ability.name for ability in BUILT_IN} - {"recall"}  # which is a command, too

    for name in names:
        refused = CliRunner().invoke(main, [name])
        assert f"Did you mean 'abilities call {name}'?" in refused.output
