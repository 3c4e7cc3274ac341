"""Namespaces: which names there are, that they never meet, and where a wrong one is told."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies

from abilities import Abilities, Settings
from abilities.cli.main import main
from abilities.helpers.files.roots import name_folder
from tests.support.surfaces import SURFACES, environment

USERS = ("user@example.com", "User@example.com", "42", "a:b", "a+b=c", ".", "..", "-x", "x" * 128)
RULE = "a namespace is 1 to 128"

NAMES = strategies.text("abcABCzZ019_-.@:+=", min_size=1, max_size=128)


@given(NAMES, NAMES)
def test_two_namespaces_never_share_a_folder(one: str, other: str) -> None:
    first, second = name_folder(one), name_folder(other)

    assert (first.lower() == second.lower()) == (one == other), "file systems may ignore case"
    assert len(first) <= 200 and not {".", "/"} & set(first)


def test_folders_are_named_as_documented() -> None:
    assert name_folder("default-1_a") == "default-1_a"
    assert name_folder("user@example.com") == "user%40example%2Ecom"
    assert name_folder("A.B") == "%41%2E%42"
    assert name_folder("." * 66 + "ab") == "%2E" * 66 + "ab"
    assert name_folder("." * 67).startswith("~") and len(name_folder("." * 67)) == 65


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_user_is_a_namespace_on_every_surface(surface: str, apart: Settings) -> None:
    for user in USERS:
        settings = apart.for_namespace(user)
        place = settings.roots[1].path
        place.mkdir()
        (place / "who.txt").write_text(user)

        async def call(name: str, settings: Settings = settings, **arguments: Any) -> Any:
            return await SURFACES[surface](settings, name, arguments)

        await call("store_memory", type="core", key="who", content=user)
        assert (await call("memory_get", key="who"))["data"]["content"] == user
        assert (await call("get_memory_stats"))["total_memories"] == 1
        (record,) = (await call("file_read_bulk", paths=["who.txt"]))["results"]
        assert record["data"]["content"] == user

    assert len(os.listdir(apart.workspace_dir.parent)) == len({*USERS, "ada", "bob"})


def test_export_and_import_keep_a_users_namespace(apart: Settings, tmp_path: Path) -> None:
    def run(settings: Settings, *arguments: str, **more: Any) -> str:
        result = CliRunner().invoke(main, arguments, env=environment(settings), **more)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    for user in ("user@example.com", "USER", "42"):
        memory = {"type": "core", "key": "who", "content": user}
        run(apart.for_namespace(user), "call", "store_memory", json.dumps(memory))

    exported = run(apart, "export", "--no-history")
    copy = apart.model_copy(update={"store_url": f"sqlite:///{tmp_path}/copy.db"})
    run(copy, "import", "-", input=exported)

    assert run(copy, "export", "--no-history") == exported
    assert run(apart, "export", "--namespace", "USER").count("user@example.com") == 0


async def test_a_wrong_namespace_is_told_where_it_was_set(apart: Settings) -> None:
    for wrong in ("", "a b", "../x", "ä", "a/b", "a\n", "x" * 129):
        with pytest.raises(ValueError, match=RULE):
            Settings(namespace=wrong)
        with pytest.raises(ValueError, match=RULE):
            apart.for_namespace(wrong)

        async with Abilities.open(apart) as abilities:
            with pytest.raises(ValueError, match=RULE):
                abilities.for_namespace(wrong)

    def run(*command: str, **variables: str) -> Any:
        return CliRunner().invoke(main, command, env={**environment(apart), **variables})

    for result in (
        run("export", "--namespace", "a b"),
        run("import", "-", "--namespace", "a b"),
        run("token", "add", "--scope", "read", "--namespace", "a b"),
        run("list", ABILITIES_NAMESPACE="a b"),
    ):
        assert result.exit_code == 2 and RULE in result.stderr


def test_a_number_in_the_settings_file_is_a_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("namespace = 42")
    monkeypatch.setenv("ABILITIES_CONFIG", str(tmp_path / "config.toml"))

    assert Settings().namespace == "42"
