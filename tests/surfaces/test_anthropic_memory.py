"""Anthropic's memory tool: its six commands over memories, as a model sends them."""

from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError

from abilities import Abilities, Settings
from abilities.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool
from abilities.adapters.memory_files import MemoryFolder
from abilities.errors import AbilityError
from tests.support.surfaces import with_changes

VIEW = {"command": "view", "path": "/memories"}


def create(path: str, text: str) -> dict[str, Any]:
    return {"command": "create", "path": path, "file_text": text}


def replace(path: str, old: str, new: str) -> dict[str, Any]:
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def insert(path: str, line: int, text: str) -> dict[str, Any]:
    return {"command": "insert", "path": path, "insert_line": line, "insert_text": text}


def rename(old: str, new: str) -> dict[str, Any]:
    return {"command": "rename", "old_path": old, "new_path": new}


STEPS: list[tuple[dict[str, Any], str]] = [
    (VIEW, "0\t/memories"),
    (create("/memories/people/ada.md", "Ada\nlikes tea\n"), "created successfully"),
    (create("/memories/plan.md", "Ship."), "created successfully"),
    (VIEW, "14\t/memories/people/ada.md"),
    ({**VIEW, "path": "/memories/people/ada.md"}, "     2\tlikes tea"),
    ({**VIEW, "path": "/memories/people/ada.md", "view_range": [2, 2]}, "     2\tlikes tea"),
    (replace("/memories/people/ada.md", "tea", "coffee"), "     2\tlikes coffee"),
    (insert("/memories/people/ada.md", 0, "# People\n"), "has been edited"),
    (insert("/memories/people/ada.md", 3, "works on the parser"), "has been edited"),
    ({**VIEW, "path": "/memories/people/ada.md"}, "     4\tworks on the parser"),
    (rename("/memories/people", "/memories/team"), "Successfully renamed"),
    (VIEW, "/memories/team/ada.md"),
    ({"command": "delete", "path": "/memories/team"}, "Successfully deleted"),
    (VIEW, "5\t/memories/plan.md"),
]

WRONG: list[tuple[dict[str, Any], str]] = [
    ({**VIEW, "path": "/memories/none"}, "does not exist"),
    ({**VIEW, "path": "/memories/known/"}, "does not exist"),
    ({**VIEW, "path": "/etc/passwd"}, "/memories/"),
    ({**VIEW, "path": "/memories/../etc"}, "'..'"),
    (create("/memories/known", "x"), "already exists"),
    (create("/memories", "x"), "/memories/"),
    (create("/memories/empty", ""), "at least one character"),
    (replace("/memories/known", "none", "x"), "did not appear verbatim"),
    (replace("/memories/known", "a", "x"), "in lines: 1, 2"),
    (replace("/memories/none", "a", "x"), "does not exist"),
    (replace("/memories/folder", "a", "x"), "not a file"),
    (insert("/memories/known", 3, "x"), "[0, 2]"),
    (insert("/memories/known", -1, "x"), "[0, 2]"),
    (rename("/memories/known", "/memories/folder/file"), "already exists"),
    (rename("/memories/none", "/memories/new"), "does not exist"),
    (rename("/memories", "/memories/new"), "cannot be deleted or renamed"),
    ({"command": "delete", "path": "/memories"}, "cannot be deleted or renamed"),
    ({"command": "delete", "path": "/memories/none"}, "does not exist"),
]


async def test_the_six_commands_answer_as_documented(roots: Settings, tmp_path: Path) -> None:
    tool = AsyncMemoryTool(roots)
    url = f"sqlite:///{tmp_path}/another.db"
    synchronous = MemoryTool(with_changes(roots, store_url=url))
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}

    for command, part in STEPS:
        answer = str(await tool.call(command))
        assert part in answer, command
        assert synchronous.call(command) == answer


async def test_wrong_commands_are_refused_in_words_and_change_nothing(roots: Settings) -> None:
    tool = AsyncMemoryTool(roots)
    await tool.call(create("/memories/known", "a\na"))
    await tool.call(create("/memories/folder/file", "x"))
    before = await tool.call(VIEW)

    for command, part in WRONG:
        with pytest.raises(ToolError) as refused:
            await tool.call(command)
        assert part in str(refused.value), command

    assert await tool.call(VIEW) == before


async def test_a_file_is_a_memory_that_is_found_and_restored(abilities: Abilities) -> None:
    tool = AsyncMemoryTool(abilities)
    await tool.call(create("/memories/ada.md", "Ada likes tea."))
    answer = await abilities.call("recall", {"queries": ["What does Ada like?"]})
    assert answer["results"][0]["memories"][0]["key"] == "ada.md"

    await tool.call({"command": "delete", "path": "/memories/ada.md"})
    await abilities.call("memory_restore", {"key": "ada.md", "version": 1})
    assert "likes tea" in str(await tool.call({**VIEW, "path": "/memories/ada.md"}))

    await abilities.call("store_memory", {"type": "core", "key": "own", "content": "Stored."})
    assert "Stored." in str(await tool.call({**VIEW, "path": "/memories/own"}))


async def test_namespaces_are_folders_of_their_own(abilities: Abilities, roots: Settings) -> None:
    ada, bob = (AsyncMemoryTool(abilities, namespace=name) for name in ("ada", "bob"))
    await ada.call(create("/memories/secret.md", "of Ada"))
    assert "secret" not in str(await bob.call(VIEW))
    assert "secret" in str(await ada.call(VIEW))

    with pytest.raises(ValueError, match="namespace"):
        AsyncMemoryTool(roots, namespace="")


async def test_changes_of_others_are_kept(
    abilities: Abilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = AsyncMemoryTool(abilities)
    await tool.call(create("/memories/a", "one"))
    read = type(tool.files).read

    async def read_and_be_late(files: Any, path: str) -> Any:
        found = await read(files, path)
        await abilities.call("store_memory", {"type": "core", "key": "a", "content": "two"})
        return found

    monkeypatch.setattr(type(tool.files), "read", read_and_be_late)
    with pytest.raises(ToolError, match="changed by others"):
        await tool.call(replace("/memories/a", "one", "three"))

    memory = await abilities.call("memory_get", {"key": "a"})
    assert memory["data"]["content"] == "two"


async def test_a_large_folder_is_deleted_whole_and_renamed_whole_or_not_at_all(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = MemoryFolder(roots, "test")
    names = [f"/memories/p/{number:02}" for number in range(7)]
    beside = [*(f"/memories/p-{number}" for number in range(6)), "/memories/t", "/memories/t/0"]
    for name in [*names, *beside, "/memories/q/06"]:
        await folder.write(name, "x")
    monkeypatch.setattr("abilities.adapters.memory_files.MAX_LISTED_MEMORIES", 2)

    with pytest.raises(AbilityError):
        await folder.rename("/memories/p", "/memories/q")
    monkeypatch.setattr("abilities.adapters.memory_files.MAX_FILES", 8)
    listing = await folder.list_files("/memories/p")
    assert listing.is_complete, "the names beside a folder do not count"
    assert [file.path for file in listing.files] == names
    assert (await folder.list_files(f"/memories/{'x' * 200}")).is_complete
    assert [file.path for file in (await folder.list_files("/memories/t")).files] == beside[-2:]
    assert await folder.rename("/memories/p/", "/memories/r/") == 7
    monkeypatch.setattr("abilities.adapters.memory_files.MAX_FILES", 4)
    with pytest.raises(ValueError, match="more than 4"):
        await folder.rename("/memories/r", "/memories/s")

    with pytest.raises(ValueError, match="cannot be deleted"):
        await folder.delete("/memories/")
    assert await folder.delete("/memories/r") == 7
    monkeypatch.setattr("abilities.adapters.memory_files.MAX_FILES", 9)
    rest = await folder.list_files("/memories")
    assert {file.path for file in rest.files} == {*beside, "/memories/q/06"}


async def test_an_archived_memory_is_no_file_and_can_be_created_again(abilities: Abilities) -> None:
    await abilities.call("store_memory", {"type": "task", "key": "a", "content": "Old."})
    await abilities.call("remember", {"operations": [{"op": "archive", "key": "a"}]})
    tool = AsyncMemoryTool(abilities)
    with pytest.raises(AbilityError) as missing:
        await tool.files.read("/memories/a")
    assert missing.value.fault.reason == "not_found"

    await tool.call(create("/memories/a", "New."))
    assert "New." in str(await tool.call({**VIEW, "path": "/memories/a"}))
    with pytest.raises(ToolError, match="already exists"):
        await tool.call(create("/memories/a", "Newer."))
