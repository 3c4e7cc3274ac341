"""Completion in a shell: through the script in bash, and as click asks for the other shells."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete, get_completion_class
from click.testing import CliRunner

from abilities import Abilities, Settings
from abilities.cli.main import main
from abilities.helpers.store import migration
from tests.support.catalog import BUILT_IN
from tests.support.plugins import write_distribution
from tests.support.surfaces import environment

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
