"""`--namespace`: before a command and after it, on every command that it concerns."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from abilities import Settings
from abilities.cli.main import main
from abilities.helpers.tokens import TokenFile
from tests.support.catalog import list_commands
from tests.support.surfaces import environment

OF_STORES = {"backup", "check", "compact", "repair", "restore"}
WRONG = ["a b", "", "a/b", "x" * 129, "{namespace}"]


def run(settings: Settings, *arguments: str) -> Result:
    result = CliRunner().invoke(
        main, arguments, env=environment(settings), prog_name="abilities", input=""
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def place(command: list[str], namespace: str, *, before: bool) -> list[str]:
    """Return a command with the option before its name or at its end."""
    option = ["--namespace", namespace]
    return [*option, *command] if before else [*command, *option]


def test_each_command_has_the_option_or_refuses_it() -> None:
    hidden: dict[str, bool] = {}

    for name, command in list_commands():
        for option in command.params:
            if "--namespace" in option.opts:
                assert isinstance(option, click.Option)
                hidden[name] = option.hidden

    assert {name for name in hidden if hidden[name]} == OF_STORES
    assert {name for name, _ in list_commands()} == hidden.keys()


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


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_command_works_in_the_namespace_wherever_the_option_stands(
    before: bool, filled: Settings, tmp_path: Path
) -> None:
    def show(*command: str, namespace: str = "team") -> str:
        done = run(filled, *place([*command], namespace, before=before))
        assert done.exit_code == 0, done.output
        return done.stdout + done.stderr

    read = ("call", "file_read_bulk", '{"paths": ["whose.txt"]}')
    assert json.loads(show(*read))["results"][0]["data"]["content"] == "team"
    assert "Of the team." in show("call", "memory_get", '{"key": "ours"}')
    assert "ours" in show("graph", "ours", "--format", "mermaid")
    assert "Of the team." in show("catch-up")
    assert "agents/team" in show("init")
    assert "agents/default" in show("init", namespace="default")
    assert "namespace team" in run(filled, *place(["doctor"], "team", before=before)).stdout

    exported = tmp_path / "team.jsonl"
    assert "Exported 1 memory" in show("export", str(exported), "--no-history")
    assert "Exported 0 memories" in show("export", str(tmp_path / "x"), namespace="other")
    assert "1 added" in show("import", str(exported), namespace="copied")
    assert "Of the team." in show("call", "memory_get", '{"key": "ours"}', namespace="copied")

    assert "Purged" in show("purge", "ours", "--yes", namespace="copied")
    assert "Of the team." in show("call", "memory_get", '{"key": "ours"}')


def test_the_option_after_the_command_wins(filled: Settings) -> None:
    command = ["call", "memory_get", '{"key": "ours"}']

    found = run(filled, "--namespace", "other", *command, "--namespace", "team")
    missing = run(filled, "--namespace", "team", *command, "--namespace", "other")

    assert (found.exit_code, missing.exit_code) == (0, 1)


def test_the_option_wins_over_the_setting(filled: Settings) -> None:
    settings = filled.model_copy(update={"namespace": "other"})

    done = run(settings, "--namespace", "team", "call", "memory_get", '{"key": "ours"}')

    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_wrong_namespace_is_refused_with_the_rule(before: bool, roots: Settings) -> None:
    commands = [["call", "get_memory_stats"], ["purge", "x", "--yes"], ["export"], ["check"]]
    commands += [["mcp"], ["serve"], ["init"], ["demo"]]

    for command in commands:
        for wrong in WRONG:
            done = run(roots, *place(command, wrong, before=before))
            assert done.exit_code == 2 and done.stdout == "", (command, wrong, done.output)
            assert "a namespace is 1 to 128 letters" in done.stderr
            assert "'_-.@:+='." in done.stderr


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_command_for_the_whole_store_refuses_the_option(
    before: bool, filled: Settings, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    backed_up = run(filled, "backup", str(copy))
    assert backed_up.exit_code == 0, backed_up.output

    for name in sorted(OF_STORES):
        command = [name, str(copy)] if name in ("backup", "restore") else [name]
        done = run(filled, *place(command, "team", before=before))
        assert done.exit_code == 2, done.output
        words = f"{name} works on the whole store, with all its namespaces; leave out --namespace"
        assert words in " ".join(done.stderr.split())


def test_a_token_is_for_the_namespace_that_its_own_option_or_the_commands_names(
    roots: Settings, tmp_path: Path
) -> None:
    settings = roots.model_copy(update={"tokens_file": tmp_path / "t.json", "shared_files": True})
    commands = [
        ["token", "add", "--scope", "read", "--namespace", "team"],
        ["--namespace", "others", "token", "add", "--scope", "read"],
        ["--namespace", "others", "token", "add", "--scope", "read", "--namespace", "team"],
    ]

    for command in commands:
        done = run(settings, *command)
        assert done.exit_code == 0, done.output

    tokens = TokenFile(settings.tokens_file).tokens()
    assert [token.namespace for token in tokens] == ["team", "others", "team"]
