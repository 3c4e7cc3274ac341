"""The options of all commands count before a command's name and after it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from abilities.cli.main import main
from abilities.cli.options import SHARED
from tests.support.catalog import list_commands

COMMANDS = dict(list_commands())


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments, prog_name="abilities", input="")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def place(command: list[str], option: str, value: str, *, before: bool) -> list[str]:
    return [option, value, *command] if before else [*command, option, value]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_every_shared_option_once(name: str) -> None:
    names = [parameter.name for parameter in COMMANDS[name].params]

    for option in SHARED:
        assert names.count(option.name) == 1, option.name


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_command_uses_the_option_wherever_it_stands(before: bool, tmp_path: Path) -> None:
    for name in ("workspace", "agent"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(f"of the {name}")

    def show(option: str, value: str, *command: str) -> str:
        done = run(*place([*command], option, value, before=before))
        assert done.exit_code == 0, done.output
        return done.output

    def read(option: str, folder: str) -> str:
        arguments = json.dumps({"paths": [f"{folder}.txt"]})
        return show(option, str(tmp_path / folder), "call", "file_read_bulk", arguments)

    store = f"sqlite:///{tmp_path}/other.db"
    memory = '{"type": "core", "key": "tea", "content": "Green tea."}'

    assert "of the workspace" in read("--workspace-dir", "workspace")
    assert "of the agent" in read("--agent-dir", "agent")
    show("--store-url", store, "call", "store_memory", memory)
    assert "Green tea" in show("--store-url", store, "recall", "tea")
    assert (
        f"{tmp_path}/other.db"
        in run(*place(["doctor"], "--store-url", store, before=before)).output
    )
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        assert other.execute("SELECT count(*) FROM memories").fetchone() == (1,)


def test_the_option_after_the_command_wins(tmp_path: Path) -> None:
    done = run("--workspace-dir", "/", "call", "file_list", "--workspace-dir", str(tmp_path))

    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("form", ["//ada:s3cret@localhost/x", "//localhost/x?password=s3cret"])
def test_a_password_is_no_option(form: str, before: bool) -> None:
    done = run(*place(["check"], "--store-url", f"postgresql:{form}", before=before))

    words = " ".join(done.stderr.split())
    assert done.exit_code == 2
    assert "put store_url into the settings file" in words
    assert "s3cret" not in done.output
