"""The command line as a user types it, its options before and after a command, its completion."""

import asyncio
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete, get_completion_class
from click.testing import CliRunner

from abilities import Abilities, Settings, parse_text
from abilities.application import open_store
from abilities.cli.main import main
from abilities.cli.options import SHARED
from abilities.helpers.store import migration
from abilities.helpers.tokens import TokenFile
from tests.stores.behaviours import NAMESPACE, put
from tests.support.catalog import BUILT_IN, list_commands
from tests.support.forked import Forked
from tests.support.plugins import write_distribution
from tests.support.surfaces import environment, run, with_changes


def run_process(
    settings: Settings, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    variables = {**os.environ, **environment(settings)}
    command = [sys.executable, "-m", "abilities", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, env=variables, timeout=120)


def test_an_unreachable_database_is_said_once_without_the_pools_warnings(tmp_path: Path) -> None:
    script = (
        "from abilities.cli.main import main\n"
        "from abilities.helpers.store.postgres import pool\n"
        "pool.WAIT_SECONDS = 1\n"
        "main()"
    )
    variables = {**os.environ, "ABILITIES_STORE_URL": "postgresql://u@127.0.0.1:1/none"}
    command, said = ("call", "get_memory_stats"), tmp_path / "said"

    process = Forked(script, *command, variables=variables, folder=tmp_path, errors=said)
    printed, _ = process.communicate()

    assert (process.returncode, json.loads(printed)["error"]["reason"]) == (1, "unavailable")
    assert "pool" not in said.read_text()
    assert len(set(said.read_text().splitlines())) == 2, "the cause, and what to do"


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


def test_tables_of_mixed_batches_and_of_their_plans(roots: Settings) -> None:
    paths = [f"{n}.txt" for n in range(6)]
    for name in ("a.md", "b.md", "ok.txt", *paths):
        words = 4_000 if name in paths else 100
        (roots.workspace_dir / name).write_text("word " * words)

    def show(ability: str, **arguments: Any) -> str:
        done = run(roots, "call", ability, json.dumps(arguments), "--pretty", COLUMNS="200")
        assert done.exit_code == 0, done.stderr
        return done.stdout

    version = json.loads(run(roots, "call", "read", '{"items": ["a.md"]}').stdout)
    known = {"file": "a.md", "known": version["results"][0]["data"]["version"]}
    items = [known, {"glob": "?.md"}, "ok.txt", "none"]

    for detail in ("full", "concise"):
        table = show("read", items=items, detail=detail)
        assert "unchanged, not sent again" in table and "3 of 4 read, 1 failed" in table
        assert re.search(r"1,000 +2 contents", table)

    plan = show("read", items=items, plan=True, max_tokens=1_000)
    assert "unchanged, not sent again" in plan and "not_found" in plan
    assert re.search(r"1,000 +1,000 +2 of 2 contents", plan) and "the reply would take" in plan

    table = show("file_read_bulk", paths=["none", *paths])
    assert "4 of 7 read, 1 failed, 1 cut, 2 left for later" in table
    assert table.count("no room left; next_request fetches it") == 2


def test_init_makes_an_agent_directory_and_keeps_what_is_there(tmp_path: Path) -> None:
    folder, workspace = tmp_path / "agent", tmp_path / "workspace"
    done = run(None, "init", str(folder))

    assert f'put agent_dir = "{folder}" into' in done.stdout
    assert (folder / "MEMORY.md").read_text().startswith("# Memory")
    assert (folder / "memory").is_dir()
    (folder / "MEMORY.md").write_text("mine")
    assert "nothing was changed" in run(None, "init", str(folder)).stdout
    configured = run(None, "init", str(folder), ABILITIES_AGENT_DIR=str(folder))
    assert "put agent_dir" not in configured.stdout + run(None, "init").stdout
    assert (folder / "MEMORY.md").read_text() == "mine"

    workspace.mkdir()
    (workspace / "MEMORY.md").write_text("ours")
    done = run(None, "--workspace-dir", str(workspace), "init", str(tmp_path / "second"))
    assert f"{workspace / 'MEMORY.md'} is read as the notes" in done.stdout
    assert os.listdir(tmp_path / "second") == ["memory"], "it does not hide those of the workspace"

    run(None, "init", str(tmp_path), ABILITIES_SHORT_TERM_FILE="notes/%Y/%m-%d.md")
    (of_today,) = os.listdir(tmp_path / "notes")
    assert of_today.isdigit(), "the folder of today's notes, not of the pattern"


def test_recall_asks_questions_without_json(roots: Settings) -> None:
    memory = {"type": "core", "key": "aurora", "content": "Aurora ships on 4 May."}
    assert run(roots, "call", "store_memory", json.dumps(memory)).exit_code == 0
    questions = ["When does Aurora ship?", "tea"]

    done = run(roots, "recall", *questions)
    table = run(roots, "call", "recall", '{"query": "Aurora"}', "--pretty").stdout

    assert done.stdout == run(roots, "call", "recall", json.dumps({"queries": questions})).stdout
    assert json.loads(done.stdout)["results"][0]["memories"][0]["key"] == "aurora"
    assert table == run(roots, "recall", "Aurora", "--pretty").stdout
    assert "1 of 1 match shown" in table and '"results"' not in table


@pytest.fixture
def compilers(roots: Settings) -> Settings:
    """Settings of a store in which words lead to Ada, links to the parser, and nothing to tea."""
    memories: dict[str, tuple[str, dict[str, str]]] = {
        "ada": ("Ada: I write compilers.", {"parser": "wrote"}),
        "parser": ("A PEG parser.", {"grammar": "needs"}),
        "grammar": ("It is in one file.", {}),
        "tea": ("A drink.", {}),
        "old": ("Compilers of old.", {}),
        "gone": ("Compilers and more.", {}),
    }
    operations: list[dict[str, Any]] = []
    for key, (content, linked) in memories.items():
        links = [{"key": other, "type": kind} for other, kind in linked.items()]
        tags = ["drink"] if key == "tea" else []
        store = {"op": "store", "type": "core", "key": key, "content": content}
        operations.append({**store, "links": links, "tags": tags})
    operations.append({"op": "archive", "key": "old"})
    operations.append({"op": "delete", "key": "gone", "permanent": True})

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
        assert (told["place"], told["of"], told["score"]) == (place, 3, memory["score"])

        score = sum(word["points"] for word in told["words"]) * told.get("factor", 1)
        for part in ("phrases", "links"):
            score += told.get(part, {"points": 0})["points"]
        assert score * told.get("named", 1) == pytest.approx(told["score"], abs=0.006)

    told = json.loads(run(compilers, "why", "grammar", question).stdout)
    links = told["links"]
    assert (links["from"], links["words"]) == ("ada", ["Ada", "write"])
    ways = [(step["key"], step["type"]) for step in links["way"]]
    assert ways == [("parser", "wrote"), ("grammar", "needs")]
    printed = run(compilers, "why", "grammar", question, "--pretty", COLUMNS="120").stdout
    assert "grammar is number 3 of 3, with the score" in printed
    assert "ada -> parser (wrote 0.50) -> grammar (needs 0.50)" in printed
    printed = run(compilers, "why", "ada", question, "--pretty").stdout
    assert "2 of 2 in it: times 1.50" in printed and "begins with a name" in printed
    assert "together as in the question add 1.46: Ada write." in printed


LEFT_OUT = {
    "tea Ada": ("no_match", "no word of the question"),
    "grammar Ada --hops 1": ("no_match", "no link leads to it"),
    "parser Ada --tags drink --type core": ("filters", "not pass: tags."),
    "tea drink --type task": ("filters", "not pass: type."),
    "old compilers": ("archived", "--archived"),
    "gone compilers": ("deleted", "memory_restore"),
    "ada 'zebra lion compilers tiger'": ("confidence", "lacks zebra, lion, tiger"),
    "parser Ada --at-least 0.9": ("at_least", "at_least needs"),
}


def test_why_says_what_keeps_a_memory_out(compilers: Settings) -> None:
    for line, (reason, sentence) in LEFT_OUT.items():
        arguments = shlex.split(line)
        told = json.loads(run(compilers, "why", *arguments).stdout)
        printed = run(compilers, "why", *arguments, "--pretty", COLUMNS="120").stdout

        assert told["reason"] == reason and "place" not in told, line
        assert " is left out. " in printed and sentence in printed, line


REFUSED_WHY: list[tuple[list[str], int, str]] = [
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
]


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


def test_why_refuses_hostile_input_in_a_sentence(compilers: Settings) -> None:
    for arguments, code, words in REFUSED_WHY:
        done = run(compilers, "why", *arguments)

        assert (done.exit_code, done.stdout) == (code, ""), arguments
        assert words in done.stderr and "\x1b" not in done.stderr, arguments


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


def test_a_store_that_is_not_installed_is_needed_only_by_what_opens_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "abilities.helpers.store.postgres.store", None)
    url = "postgresql://localhost/none"

    for command, code in (("list", 0), ("check", 2), ("doctor", 1)):
        done = run(settings, command, ABILITIES_STORE_URL=url)
        assert done.exit_code == code, done.output
        assert ("pip install 'agent-abilities[postgres]'" in done.output) == (code != 0)


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


def test_every_help_has_an_example_of_the_command_and_explains_each_option() -> None:
    assert "Commands:" in run(None).output
    for name, command in list_commands():
        printed = run(None, *name.split(), "--help", COLUMNS="80").stdout
        head, _, examples = printed.partition("\n  Example")

        assert re.search(rf"abilities (--\S+ \S+ )?{name}\b", examples) or name == "mcp", printed
        assert "Usage: abilities" in head and "..." not in head.partition("Options:")[2]
        # Examples stand as they are typed, and those of JSON take more room.
        assert all(len(line) <= 90 for line in printed.splitlines())
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert re.fullmatch(r"[A-Z].*[.)]", parameter.help or "", re.DOTALL), parameter


OF_STORES = {"backup", "check", "compact", "repair", "restore"}
before_and_after = pytest.mark.parametrize("before", [True, False], ids=["before", "after"])


def place(command: list[str], option: str, value: str, *, before: bool) -> list[str]:
    return [option, value, *command] if before else [*command, option, value]


def test_every_command_has_every_shared_option_once_and_some_refuse_the_namespace() -> None:
    hidden: set[str] = set()
    for name, command in list_commands():
        names = [parameter.name for parameter in command.params]
        assert [names.count(option.name) for option in SHARED] == [1] * len(SHARED), name

        (option,) = [each for each in command.params if "--namespace" in each.opts]
        assert isinstance(option, click.Option)
        if option.hidden:
            hidden.add(name)

    assert hidden == OF_STORES


@before_and_after
def test_a_command_uses_the_option_wherever_it_stands(before: bool, tmp_path: Path) -> None:
    for name in ("workspace", "agent"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(f"of the {name}")

    def show(option: str, value: str, *command: str) -> str:
        done = run(None, *place([*command], option, value, before=before))
        assert done.exit_code == 0 or command == ("doctor",), done.output
        return done.output

    for name in ("workspace", "agent"):
        read = ("call", "file_read_bulk", json.dumps({"paths": [f"{name}.txt"]}))
        assert f"of the {name}" in show(f"--{name}-dir", str(tmp_path / name), *read)

    store = f"sqlite:///{tmp_path}/other.db"
    memory = '{"type": "core", "key": "tea", "content": "Green tea."}'
    show("--store-url", store, "call", "store_memory", memory)
    assert "Green tea" in show("--store-url", store, "recall", "tea")
    assert f"{tmp_path}/other.db" in show("--store-url", store, "doctor")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        assert other.execute("SELECT count(*) FROM memories").fetchone() == (1,)


@before_and_after
@pytest.mark.parametrize("form", ["//ada:s3cret@localhost/x", "//localhost/x?password=s3cret"])
def test_a_password_is_no_option(form: str, before: bool) -> None:
    done = run(None, *place(["check"], "--store-url", f"postgresql:{form}", before=before))

    assert done.exit_code == 2
    assert "put store_url into the settings file" in " ".join(done.stderr.split())
    assert "s3cret" not in done.output


@pytest.fixture
def filled(roots: Settings, tmp_path: Path) -> Settings:
    """Settings with a folder of their own for each namespace, and a memory in team."""
    for name in ("default", "team"):
        (tmp_path / "files" / name).mkdir(parents=True)
        (tmp_path / "files" / name / "whose.txt").write_text(name)

    folders = {
        "workspace_dir": tmp_path / "files" / "{namespace}",
        "agent_dir": tmp_path / "agents" / "{namespace}",
    }
    (tmp_path / "agents").mkdir()
    settings = roots.model_copy(update=folders)
    memory = '{"type": "core", "key": "ours", "content": "Of the team."}'
    assert run(settings, "call", "store_memory", memory, "--namespace", "team").exit_code == 0
    return settings


GET = ["call", "memory_get", '{"key": "ours"}']


@before_and_after
def test_a_command_works_in_the_namespace_wherever_the_option_stands(
    before: bool, filled: Settings, tmp_path: Path
) -> None:
    def show(*command: str, namespace: str = "team") -> str:
        done = run(filled, *place([*command], "--namespace", namespace, before=before))
        assert done.exit_code == 0 or command == ("doctor",), done.output
        return done.stdout + done.stderr

    read = ("call", "file_read_bulk", '{"paths": ["whose.txt"]}')
    assert json.loads(show(*read))["results"][0]["data"]["content"] == "team"
    assert "Of the team." in show(*GET)
    assert "ours" in show("graph", "ours", "--format", "mermaid")
    assert "Of the team." in show("catch-up")
    assert "agents/team" in show("init")
    assert "agents/default" in show("init", namespace="default")
    assert "namespace team" in show("doctor")

    exported = tmp_path / "team.jsonl"
    assert "Exported 1 memory" in show("export", str(exported), "--no-history")
    assert "Exported 0 memories" in show("export", str(tmp_path / "x"), namespace="other")
    assert "1 added" in show("import", str(exported), namespace="copied")
    assert "Of the team." in show(*GET, namespace="copied")

    assert "Purged" in show("purge", "ours", "--yes", namespace="copied")
    assert "Of the team." in show(*GET)


def test_the_option_after_the_command_wins_over_the_one_before_and_that_over_the_setting(
    filled: Settings, tmp_path: Path
) -> None:
    other = with_changes(filled, namespace="other")

    assert run(filled, "--namespace", "other", *GET, "--namespace", "team").exit_code == 0
    assert run(filled, "--namespace", "team", *GET, "--namespace", "other").exit_code == 1
    assert run(other, "--namespace", "team", *GET).exit_code == 0
    listing = ["call", "file_list", "--workspace-dir", str(tmp_path)]
    assert run(None, "--workspace-dir", "/", *listing).exit_code == 0


@before_and_after
def test_a_command_for_the_whole_store_refuses_the_option(
    before: bool, filled: Settings, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    assert run(filled, "backup", str(copy)).exit_code == 0

    for name in sorted(OF_STORES):
        command = [name, str(copy)] if name in ("backup", "restore") else [name]
        done = run(filled, *place(command, "--namespace", "team", before=before))
        assert done.exit_code == 2, done.output
        words = f"{name} works on the whole store, with all its namespaces; leave out --namespace"
        assert words in " ".join(done.stderr.split())


def test_a_token_is_for_the_namespace_that_its_own_option_or_the_commands_names(
    roots: Settings, tmp_path: Path
) -> None:
    settings = with_changes(roots, tokens_file=tmp_path / "t.json", shared_files=True)
    add = ["token", "add", "--scope", "read"]
    team, others = (["--namespace", name] for name in ("team", "others"))

    for command in ([*add, *team], [*others, *add], [*others, *add, *team]):
        assert run(settings, *command).exit_code == 0

    tokens = TokenFile(settings.tokens_file).tokens()
    assert [token.namespace for token in tokens] == ["team", "others", "team"]


SHELLS = ("bash", "zsh", "fish")

NAMES = ["read", "recall", "remember"]


def get_shell(name: str) -> ShellComplete:
    kind = get_completion_class(name)
    assert kind is not None
    return kind(main, {}, "abilities", "_ABILITIES_COMPLETE")


def complete(*words: str, shell: str = "zsh") -> list[str]:
    items = get_shell(shell).get_completions([*words[:-1]], words[-1])
    return [str(item.value) for item in items]


@pytest.fixture
async def stored(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    keys = ["goals", "goals/a b", "it's", "世界", "old"]
    store = {"op": "store", "type": "core", "content": "x"}
    async with Abilities.open(roots) as abilities:
        operations = [{**store, "key": key} for key in keys]
        await abilities.call("remember", {"operations": operations})
        await abilities.call("remember", {"operations": [{"op": "archive", "key": "old"}]})

    for name, value in environment(roots).items():
        monkeypatch.setenv(name, value)

    return roots


def test_plugins_are_completed_in_silence(
    stored: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    source = (
        "from abilities import Arguments, Context, Model, ability\n"
        "import sys\n"
        "print('loading')\n"
        "print('loading', file=sys.stderr)\n"
        "@ability(description='Rest.')\n"
        "async def repose(context: Context, arguments: Arguments) -> Model:\n"
        "    return Model()\n"
    )
    write_distribution(tmp_path, {"resting": source}, {"a": "resting:repose", "b": "none:none"})
    monkeypatch.syspath_prepend(str(tmp_path))

    assert complete("call", "re") == [*NAMES, "repose"]
    assert capfd.readouterr() == ("", "")


def test_an_old_store_is_not_migrated(stored: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored.store_path
    assert path is not None and complete("graph", "goa")
    before = path.read_bytes()
    monkeypatch.setattr(migration, "VERSION", migration.VERSION + 1)

    assert complete("graph", "goa") == []
    assert path.read_bytes() == before


def test_bash_completes_by_the_script(stored: Settings, tmp_path: Path) -> None:
    program = tmp_path / "abilities"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m abilities "$@"\n')
    program.chmod(0o755)
    for shell in SHELLS:
        printed = CliRunner().invoke(main, ["completion", shell]).stdout
        assert printed == get_shell(shell).source() + "\n"
        assert f"_ABILITIES_COMPLETE={shell}_complete" in printed
    script = get_shell("bash").source() + ASK

    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=variables)

    assert done.stderr == ""
    names = [ability.name for ability in BUILT_IN if ability.name.startswith("mem")]
    assert done.stdout == "|".join([*names, "\n"]) + "|".join(["goals", r"goals/a\ b", "\n"])


ASK = r"""
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _abilities_completion abilities
    printf '%s|' "${COMPREPLY[@]}"; echo
}
ask abilities call mem
ask abilities graph goa
"""


KEYS = ["goals", "goals/a b", "it's", "世界"]


def test_names_keys_and_values_are_completed_where_they_belong(stored: Settings) -> None:
    for words, expected in (
        ("call re", NAMES),
        ("describe re", NAMES),
        ("call nothing", []),
        ("call recall ", []),  # its second argument is JSON
        ("graph ", KEYS),
        ("graph goals/", ["goals/a b"]),
        ("purge ol", ["old"]),
        ("graph ol", []),  # it is archived
        ("graph goals ", []),
        ("--namespace other graph go", []),
        ("graph --namespace other go", []),
        ("--namespace default graph go", KEYS[:2]),
        ("graph --namespace default go", KEYS[:2]),
        ("token add --scope ", ["read", "write", "purge", "metrics"]),
        ("graph goals --format ", ["tree", "svg", "mermaid"]),
        ("completion ", [*SHELLS]),
        ("mcp --tools le", ["lean"]),
        ("serve --tools lean,re", [f"lean,{name}" for name in NAMES]),
        ("token add --tools lean,re", [f"lean,{name}" for name in NAMES]),
    ):
        assert complete(*words.split(" ")) == expected, words


async def test_at_most_100_keys_are_suggested(stored: Settings) -> None:
    store = {"op": "store", "type": "core", "content": "x"}
    async with Abilities.open(stored) as abilities:
        for n in range(3):
            operations = [{**store, "key": f"many/{n}/{number:02}"} for number in range(50)]
            await abilities.call("remember", {"operations": operations})

    assert len(await asyncio.to_thread(complete, "graph", "many/")) == 100


def test_whatever_is_wrong_nothing_is_printed_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.db").write_text("no store\n")
    for variable, value in (
        ("STORE_URL", f"sqlite:///{tmp_path}/none/memory.db"),
        ("STORE_URL", f"sqlite:///{tmp_path}/text.db"),
        ("STORE_URL", "nonsense"),
        ("STORE_URL", "postgresql://u@127.0.0.1:1/none"),
        ("TIMEZONE", "Mars"),
        ("CONFIG", f"{tmp_path}/text.db"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"ABILITIES_{variable}", value)
            assert complete("graph", "") == [], value

    assert [path.name for path in tmp_path.rglob("*")] == ["text.db"]
    assert capfd.readouterr() == ("", "")
