"""The options of all commands, `--namespace` among them, count before a command and after it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from abilities import Settings
from abilities.cli.main import main
from abilities.cli.options import SHARED
from abilities.helpers.tokens import TokenFile
from tests.support.catalog import list_commands
from tests.support.surfaces import environment

COMMANDS = dict(list_commands())
OF_STORES = {"backup", "check", "compact", "repair", "restore"}
before_and_after = pytest.mark.parametrize("before", [True, False], ids=["before", "after"])


def run(settings: Settings | None, *arguments: str) -> Result:
    variables = environment(settings) if settings else {}
    result = CliRunner().invoke(main, arguments, env=variables, prog_name="abilities", input="")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def place(command: list[str], option: str, value: str, *, before: bool) -> list[str]:
    return [option, value, *command] if before else [*command, option, value]


def test_every_command_has_every_shared_option_once_and_some_refuse_the_namespace() -> None:
    hidden: set[str] = set()
    for name, command in COMMANDS.items():
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
    other = filled.model_copy(update={"namespace": "other"})

    assert run(filled, "--namespace", "other", *GET, "--namespace", "team").exit_code == 0
    assert run(filled, "--namespace", "team", *GET, "--namespace", "other").exit_code == 1
    assert run(other, "--namespace", "team", *GET).exit_code == 0
    listing = ["call", "file_list", "--workspace-dir", str(tmp_path)]
    assert run(None, "--workspace-dir", "/", *listing).exit_code == 0


@before_and_after
def test_a_wrong_namespace_is_refused_with_the_rule(before: bool, roots: Settings) -> None:
    commands = [["call", "get_memory_stats"], ["purge", "x", "--yes"], ["export"], ["check"]]
    commands += [["mcp"], ["serve"], ["init"], ["demo"]]
    calls = [(command, "a b") for command in commands]
    calls += [(["export"], wrong) for wrong in ("", "a/b", "x" * 129, "{namespace}")]

    for command, wrong in calls:
        done = run(roots, *place(command, "--namespace", wrong, before=before))
        assert done.exit_code == 2 and done.stdout == "", (command, wrong, done.output)
        assert "a namespace is 1 to 128 letters" in done.stderr


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
    settings = roots.model_copy(update={"tokens_file": tmp_path / "t.json", "shared_files": True})
    add = ["token", "add", "--scope", "read"]
    team, others = (["--namespace", name] for name in ("team", "others"))

    for command in ([*add, *team], [*others, *add], [*others, *add, *team]):
        assert run(settings, *command).exit_code == 0

    tokens = TokenFile(settings.tokens_file).tokens()
    assert [token.namespace for token in tokens] == ["team", "others", "team"]
