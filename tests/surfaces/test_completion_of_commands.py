"""Completion in a shell: through the script in bash, and as click asks for the other shells."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete, get_completion_class
from click.testing import CliRunner

from abilities import Abilities, Settings
from abilities.cli.main import main
from abilities.helpers.store import migration
from tests.support.plugins import write_distribution
from tests.support.surfaces import environment

SHELLS = ("bash", "zsh", "fish")

NAMES = ["read", "recall", "remember"]


def get_shell(name: str) -> ShellComplete:
    kind = get_completion_class(name)
    assert kind is not None
    return kind(main, {}, "abilities", "_ABILITIES_COMPLETE")


def complete(*words: str, shell: str = "zsh") -> list[str]:
    """Return what click suggests for the last word, in this process."""
    items = get_shell(shell).get_completions([*words[:-1]], words[-1])
    return [str(item.value) for item in items]


@pytest.fixture
async def stored(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of this process, whose store has some memories."""
    keys = ["goals", "goals/a b", "it's", "世界", "old"]
    store = {"op": "store", "type": "core", "content": "x"}
    async with Abilities.open(roots) as abilities:
        operations = [{**store, "key": key} for key in keys]
        await abilities.call("remember", {"operations": operations})
        await abilities.call("remember", {"operations": [{"op": "archive", "key": "old"}]})

    for name, value in environment(roots).items():
        monkeypatch.setenv(name, value)

    return roots


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with the program `abilities`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "abilities"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m abilities "$@"\n')
    path.chmod(0o755)
    return folder


def test_bash_completes_by_the_script(stored: Settings, program: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    # What `abilities completion bash` prints.
    script = (
        get_shell("bash").source()
        + r"""
    ask() {
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _abilities_completion abilities
        printf '%s|' "${COMPREPLY[@]}"; echo
    }
    ask abilities call mem
    ask abilities graph goa
    """
    )
    variables = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}"}

    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, env=variables, timeout=120
    )

    assert done.stderr == ""
    assert [line.split("|")[:-1] for line in done.stdout.splitlines()] == [
        [
            "memory_read_bulk",
            "memory_get",
            "memory_list",
            "memory_history",
            "memory_restore",
            "memory_changes",
        ],
        ["goals", r"goals/a\ b"],
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_calls_the_program(shell: str) -> None:
    script = CliRunner().invoke(main, ["completion", shell]).stdout

    assert script == get_shell(shell).source() + "\n"
    assert f"_ABILITIES_COMPLETE={shell}_complete" in script
    assert "_abilities_completion" in script and "abilities" in script


def test_abilities_are_completed_where_they_are_named(stored: Settings) -> None:
    for command in ("call", "describe"):
        assert complete(command, "re") == NAMES
        assert complete(command, "nothing") == []

    # The second argument of `call` is JSON.
    assert complete("call", "recall", "") == []


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


def test_keys_are_completed_where_they_are_arguments(stored: Settings) -> None:
    assert complete("graph", "") == ["goals", "goals/a b", "it's", "世界"]
    assert complete("graph", "goals/") == ["goals/a b"]
    assert complete("purge", "ol") == ["old"]
    assert complete("graph", "ol") == []
    assert complete("graph", "goals", "") == []


def test_keys_are_those_of_the_options_of_the_command(stored: Settings) -> None:
    for namespace, keys in (("other", []), ("default", ["goals", "goals/a b"])):
        assert complete("--namespace", namespace, "graph", "go") == keys
        assert complete("graph", "--namespace", namespace, "go") == keys


async def test_at_most_100_keys_are_suggested(stored: Settings) -> None:
    store = {"op": "store", "type": "core", "content": "x"}
    async with Abilities.open(stored) as abilities:
        for n in range(3):
            keys = [f"many/{n}/{number:02}" for number in range(50)]
            operations = [{**store, "key": key} for key in keys]
            await abilities.call("remember", {"operations": operations})

    assert len(await asyncio.to_thread(complete, "graph", "many/")) == 100


def test_values_of_options_are_completed(stored: Settings) -> None:
    assert complete("token", "add", "--scope", "") == ["read", "write", "purge", "metrics"]
    assert complete("graph", "goals", "--format", "") == ["tree", "svg", "mermaid"]
    assert complete("completion", "") == [*SHELLS]
    for command in (["mcp"], ["serve"], ["token", "add"]):
        assert complete(*command, "--tools", "le") == ["lean"]
        assert complete(*command, "--tools", "lean,re") == [f"lean,{name}" for name in NAMES]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ABILITIES_STORE_URL", "sqlite:///{folder}/none/memory.db"),
        ("ABILITIES_STORE_URL", "sqlite:///{folder}/text.db"),
        ("ABILITIES_STORE_URL", "nonsense"),
        ("ABILITIES_STORE_URL", "postgresql://u@127.0.0.1:1/none"),
        ("ABILITIES_TIMEZONE", "Mars"),
        ("ABILITIES_CONFIG", "{folder}/text.db"),
    ],
)
def test_whatever_is_wrong_nothing_is_printed_and_nothing_is_made(
    variable: str,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.db").write_text("no store\n")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv(variable, value.format(folder=tmp_path))

    assert complete("graph", "") == []
    assert sorted(tmp_path.rglob("*")) == before
    assert capfd.readouterr() == ("", "")


def test_a_store_of_an_older_version_is_not_migrated(
    stored: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored.store_path
    assert path is not None and complete("graph", "goa")
    before = path.read_bytes()
    monkeypatch.setattr(migration, "VERSION", migration.VERSION + 1)

    assert complete("graph", "goa") == []
    assert path.read_bytes() == before
