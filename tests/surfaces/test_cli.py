"""The command line as a user types it; a few tests start a process of their own for it."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from abilities import Settings, application, parse_text
from abilities.application import open_store
from abilities.cli.main import main
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.stores.behaviours import NAMESPACE, put
from tests.support.catalog import BUILT_IN, list_commands
from tests.support.surfaces import environment

COMMANDS = dict(list_commands())


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


def test_a_process_reads_stdin_and_prints_a_reply_as_it_is(settings: Settings) -> None:
    arguments = '{"paths": ["🙂.txt", "none", "ok.txt"], "output_format": "text"}'

    done = run_process(settings, "call", "file_read_bulk", "-", stdin=arguments.encode())

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"\nfine\n\n"), "the content, then one line end"
    odd, missing, fine = parse_text(done.stdout.decode())["results"]
    assert (odd["data"]["content"], fine["data"]["content"]) == ("odd name", "fine\n")
    assert missing["success"] is False


def test_list_and_describe_tell_people_and_programs(settings: Settings) -> None:
    lines = run(settings, "list").stdout.splitlines()
    listed = json.loads(run(settings, "list", "--json").stdout)
    declared = json.loads(run(settings, "describe", "file_read_bulk", "--json").stdout)

    names = [ability.name for ability in BUILT_IN]
    assert [line.split()[0] for line in lines] == [entry["name"] for entry in listed] == names
    for line in lines:
        assert len(line) <= 100 and re.search(r"[^.,\s]\.$", line), line
    assert "paths (array, required)" in run(settings, "describe", "file_read_bulk").stdout
    assert declared == json.loads(run(settings, "declarations").stdout)[0]
    assert run(None, "--version").stdout.startswith("abilities, version")


def test_an_unknown_word_is_sent_to_what_there_is(settings: Settings) -> None:
    for name in {ability.name for ability in BUILT_IN} - {"recall"}:  # which is a command, too
        assert f"Did you mean 'abilities call {name}'?" in run(None, name).output

    for words, said in (
        (["call", "none"], "there is no ability named 'none'; choose one of: file_read_bulk, "),
        (["no-such-command"], "'abilities --help' lists them."),
    ):
        done = run(settings, *words)
        assert done.exit_code == 2 and done.stdout == ""
        assert said in done.stderr


def test_tables_of_mixed_batches_and_of_their_plans(roots: Settings) -> None:
    for name in ("a.md", "b.md", "ok.txt"):
        (roots.workspace_dir / name).write_text("word " * 100)
    paths = [f"{n}.txt" for n in range(6)]
    for path in paths:
        (roots.workspace_dir / path).write_text("word " * 4_000)

    def show(ability: str, **arguments: Any) -> str:
        sent = json.dumps(arguments)
        done = run(roots, "call", ability, sent, "--pretty", COLUMNS="200")
        assert done.exit_code == 0, done.stderr
        return done.stdout

    version = json.loads(run(roots, "call", "read", '{"items": ["a.md"]}').stdout)
    known = {"file": "a.md", "known": version["results"][0]["data"]["version"]}
    items = [known, {"glob": "?.md"}, "ok.txt", "none"]

    for detail in ("full", "concise"):
        table = show("read", items=items, detail=detail)
        assert "unchanged, not sent again" in table
        assert re.search(r"1,000 +2 contents", table)
        assert "3 of 4 read, 1 failed" in table

    plan = show("read", items=items, plan=True, max_tokens=1_000)
    assert "unchanged, not sent again" in plan and "not_found" in plan
    assert re.search(r"1,000 +1,000 +2 of 2 contents", plan)
    assert "the reply would take" in plan

    table = show("file_read_bulk", paths=["none", *paths])
    assert "4 of 7 read, 1 failed, 1 cut, 2 left for later" in table
    assert table.count("no room left; next_request fetches it") == 2


def test_init_makes_an_agent_directory_and_keeps_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    done = run(None, "init", str(folder))

    assert done.exit_code == 0, done.stderr
    assert f'put agent_dir = "{folder}" into' in done.stdout
    assert (folder / "MEMORY.md").read_text().startswith("# Memory")
    assert (folder / "memory").is_dir()
    (folder / "MEMORY.md").write_text("mine")
    assert "nothing was changed" in run(None, "init", str(folder)).stdout
    configured = run(None, "init", str(folder), ABILITIES_AGENT_DIR=str(folder))
    assert "put agent_dir" not in configured.stdout + run(None, "init").stdout
    assert (folder / "MEMORY.md").read_text() == "mine"


def test_init_does_not_hide_the_notes_of_the_workspace(tmp_path: Path) -> None:
    agent, workspace = tmp_path / "agent", tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text("ours")

    done = run(None, "--workspace-dir", str(workspace), "init", str(agent))

    assert done.exit_code == 0, done.stderr
    assert f"{workspace / 'MEMORY.md'} is read as the notes" in done.stdout
    assert (agent / "memory").is_dir() and not (agent / "MEMORY.md").exists()


def test_init_makes_the_folder_of_todays_notes_not_of_the_pattern(tmp_path: Path) -> None:
    done = run(None, "init", str(tmp_path), ABILITIES_SHORT_TERM_FILE="notes/%Y/%m-%d.md")

    (folder,) = (tmp_path / "notes").iterdir()
    assert folder.name.isdigit()
    assert f"today's is {folder}/" in done.stdout


def test_recall_asks_questions_without_json(roots: Settings) -> None:
    memory = {"type": "core", "key": "aurora", "content": "Aurora ships on 4 May."}
    assert run(roots, "call", "store_memory", json.dumps(memory)).exit_code == 0
    questions = ["When does Aurora ship?", "tea"]

    done = run(roots, "recall", *questions)
    nothing = run(roots, "recall")
    tables = [
        run(roots, "call", "recall", json.dumps({name: "Aurora"}), "--pretty").stdout
        for name in ("queries", "query")
    ]

    assert done.stdout == run(roots, "call", "recall", json.dumps({"queries": questions})).stdout
    assert json.loads(done.stdout)["results"][0]["memories"][0]["key"] == "aurora"
    assert nothing.exit_code == 2 and "QUESTION" in nothing.stderr
    assert tables == [run(roots, "recall", "Aurora", "--pretty").stdout] * 2
    assert "1 of 1 match shown" in tables[0] and '"results"' not in tables[0]


@pytest.fixture
def compilers(roots: Settings) -> Settings:
    """Settings of a store in which words lead to Ada, links to the parser, and nothing to tea."""
    memories = (
        {"key": "ada", "content": "Ada: I write compilers.", "links": ["parser", "wrote"]},
        {"key": "parser", "content": "A PEG parser.", "links": ["grammar", "needs"]},
        {"key": "grammar", "content": "It is in one file."},
        {"key": "tea", "content": "A drink.", "tags": ["drink"]},
        {"key": "old", "content": "Compilers of old."},
        {"key": "gone", "content": "Compilers and more."},
    )
    operations: list[dict[str, Any]] = []
    for memory in memories:
        links = [dict(zip(("key", "type"), memory.pop("links", ()), strict=False))]
        operations.append(
            {"op": "store", "type": "core", **memory, "links": links if links[0] else []}
        )
    operations += [
        {"op": "archive", "key": "old"},
        {"op": "delete", "key": "gone", "permanent": True},
    ]
    done = run(roots, "call", "remember", json.dumps({"operations": operations}))
    assert json.loads(done.stdout)["summary"]["failed"] == 0, done.stdout
    return roots


def test_why_explains_the_place_of_a_memory(compilers: Settings) -> None:
    question = "What does Ada write?"
    recalled = run(compilers, "call", "recall", json.dumps({"queries": question, "detail": "full"}))
    found = json.loads(recalled.stdout)["results"][0]["data"]["memories"]

    assert [memory["key"] for memory in found] == ["ada", "parser", "grammar"]
    for place, memory in enumerate(found, 1):
        told = json.loads(run(compilers, "why", memory["key"], question).stdout)
        assert (told["place"], told["of"]) == (place, 3)
        assert told["score"] == memory["score"]

        score = sum(word["points"] for word in told["words"]) * told.get("factor", 1)
        if "links" in told:
            links = told["links"]
            assert sum(gift["points"] for gift in links["from"]) == pytest.approx(
                links["given"], 1e-3
            )
            score = max(score, min(score + links["given"], links["most"]))
        assert score * told.get("named", 1) == pytest.approx(told["score"], abs=0.006)

    told = json.loads(run(compilers, "why", "grammar", question).stdout)
    ways = [(step["key"], step["type"]) for step in told["links"]["from"][0]["way"]]
    assert ways == [("parser", "wrote"), ("grammar", "needs")]
    printed = run(compilers, "why", "grammar", question, "--pretty", COLUMNS="120").stdout
    assert "grammar is number 3 of 3, with the score" in printed
    assert "ada -> parser (wrote 0.50) -> grammar (needs 0.50)" in printed
    printed = run(compilers, "why", "ada", question, "--pretty").stdout
    assert "2 of 2 in it: times 1.50" in printed and "begins with a name" in printed


@pytest.mark.parametrize(
    ("arguments", "reason", "sentence"),
    [
        (["tea", "Ada"], "no_match", "no word of the question"),
        (["grammar", "Ada", "--hops", "1"], "no_match", "no link leads to it"),
        (["parser", "Ada", "--tags", "drink", "--type", "core"], "filters", "not pass: tags."),
        (["tea", "drink", "--type", "task"], "filters", "not pass: type."),
        (["old", "compilers"], "archived", "--archived"),
        (["gone", "compilers"], "deleted", "memory_restore"),
        (["ada", "zebra lion compilers tiger"], "confidence", "lacks zebra, lion, tiger"),
        (["parser", "Ada", "--at-least", "0.9"], "at_least", "at_least needs"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_why_says_what_keeps_a_memory_out(
    arguments: list[str], reason: str, sentence: str, compilers: Settings
) -> None:
    told = json.loads(run(compilers, "why", *arguments).stdout)
    printed = run(compilers, "why", *arguments, "--pretty", COLUMNS="120").stdout

    assert told["reason"] == reason and "place" not in told
    assert " is left out. " in printed and sentence in printed


def test_why_tells_archived_memories_from_expired_ones(compilers: Settings) -> None:
    async def put_expired() -> None:
        store = open_store(compilers)
        await put(store, "late", content="Ada", expires_at="2020-01-01T00:00:00.000Z")
        await store.close()

    asyncio.run(put_expired())
    late = run(compilers, "why", "late", "Ada", "--namespace", NAMESPACE)
    old = run(compilers, "why", "old", "compilers", "--archived")

    assert json.loads(late.stdout)["reason"] == "expired"
    assert json.loads(old.stdout)["place"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["Ada", "x"], 1, "Did you mean 'ada'?"),
        (["a\x01\x1b[31m", "x"], 1, "No memory with this key."),
        (["\udcff", "x"], 1, "Error: "),
        (["k" * 5_000, "x"], 1, "No memory with this key."),
        (["", "x"], 1, "No memory with this key."),
        (["ada", ""], 2, "QUESTION needs at least 1 character."),
        (["ada", "x" * 1_001], 2, "QUESTION takes at most 1000 characters."),
        (["ada", "a\0b"], 2, "QUESTION"),
        (["ada", "x", "--hops", "9"], 2, "hops must be 0 to 2."),
        (["ada", "x", "--tags", "t" * 1_000], 2, "tags[0]"),
        (["ada", "x", "--namespace", "a/b"], 2, "1 to 128 letters"),
        (["ada", "x", "--namespace", "other"], 1, "No memory with this key."),
    ],
    ids=range(12),
)
def test_why_refuses_hostile_input_in_a_sentence(
    arguments: list[str], code: int, words: str, compilers: Settings
) -> None:
    done = run(compilers, "why", *arguments)

    assert (done.exit_code, done.stdout) == (code, "")
    assert words in done.stderr and "\x1b" not in done.stderr


def test_why_shows_hostile_names_on_one_line_each(roots: Settings) -> None:
    links = [{"key": "b (c 0.50)", "type": "is\n\x1b[31m"}]
    operations = [
        {"op": "store", "type": "core", "key": "a -> b", "content": "zebra", "links": links},
        {"op": "store", "type": "core", "key": "b (c 0.50)", "content": "x"},
    ]
    run(roots, "call", "remember", json.dumps({"operations": operations}))

    printed = run(roots, "why", "b (c 0.50)", "zebra", "--pretty", COLUMNS="120").stdout

    assert "\x1b" not in printed
    assert "a -> b -> b (c 0.50) (is\\n\\u001b[31m 0.50)" in printed


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
        (["why", "note", "x"], {"settings": 1, "stores": 1, "registries": 1}),
        (["call", "get_memory_stats"], {"settings": 1, "stores": 1, "registries": 1}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_makes_what_it_needs_once(
    command: list[str],
    expected: dict[str, int],
    roots: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = '{"type": "core", "key": "note", "content": "x"}'
    assert run(roots, "call", "store_memory", note).exit_code == 0
    counts: Counter[str] = Counter()

    def count(owner: Any, name: str, counted: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counts[counted] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, counting)

    count(Settings, "__init__", "settings")
    count(SqliteStore, "__init__", "stores")
    count(application, "add_plugins", "registries")
    variables = environment(roots)

    done = CliRunner().invoke(main, command, env=variables)

    assert done.exit_code in (0, 1) and not done.stderr.startswith("Error"), done.output
    assert dict(counts) == expected


def test_a_store_that_is_not_installed_is_needed_only_by_what_opens_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "abilities.helpers.store.postgres.store", None)
    url = "postgresql://localhost/none"

    for command, code in (("list", 0), ("check", 2), ("doctor", 1)):
        done = run(settings, command, ABILITIES_STORE_URL=url)
        assert done.exit_code == code, done.output
        assert ("agent-abilities[postgres]" in done.output) == (code != 0)


def test_the_demonstration_shows_everything_in_thirty_lines(settings: Settings) -> None:
    (settings.workspace_dir / "\u001b[31mred \u202e.md").write_text("# Red\n")

    done = run_process(settings, "demo")

    assert done.returncode == 0, done.stderr
    output = done.stdout.decode()
    lines = output.splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 80
    assert "\u001b" not in output and "\u202e" not in output
    steps = [line.split()[1] for line in lines if re.match(r"\d\. ", line)]
    assert steps == ["Find", "Read", "The", "Recall", "Walk", "Anywhere", "Saved"]
    shown = {line.split()[1] for line in lines if re.match(r" {3} *\d+ ", line)}
    assert shown >= {"ok", "redacted", "cut", "missing", "invalid", "refused"}
    assert "[secret: GitHub" in output and "ghp_" not in output
    rounds, singly = re.findall(r"(\d+) rounds instead of (\d+)", output)[0]
    assert int(rounds) < int(singly) / 2
    assert [line.split()[1] for line in lines[-3:]] == ["setup", "explore", "doctor"]


def test_a_group_shows_its_commands_each_in_a_line() -> None:
    for words in ([], ["token"]):
        printed = run(None, *words, "--help", COLUMNS="80").stdout
        lines = re.findall(r"^  [a-z-]+ .*$", printed.partition("Commands:\n")[2], re.MULTILINE)

        assert len(lines) >= 3
        for line in lines:
            assert re.fullmatch(r"  [a-z-]+ +[A-Z].*[^.]\.", line) and len(line) <= 80, line
        assert run(None, *words, COLUMNS="80").output.rstrip("\n") == printed.rstrip("\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_of_the_command_and_explains_each_option(name: str) -> None:
    printed = run(None, *name.split(), "--help", COLUMNS="80").stdout
    head, _, examples = printed.partition("\n  Example")

    assert re.search(rf"abilities (--\S+ \S+ )?{name}\b", examples) or name == "mcp", printed
    assert "Usage: abilities" in head and "..." not in head.partition("Options:")[2]
    # Examples stand as they are typed, and those of JSON take more room.
    assert all(len(line) <= 90 for line in printed.splitlines())
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert re.fullmatch(r"[A-Z].*[.)]", parameter.help or "", re.DOTALL), parameter
