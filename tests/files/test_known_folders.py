"""A listing that goes on in a large folder reads it once, until the folder changes."""

import os
from pathlib import Path

import pytest

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject
from abilities.helpers.files import file_walk
from abilities.helpers.files.file_walk import FolderMemory, Kind


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


async def test_pages_of_a_large_folder_read_it_once_until_it_changes(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [*(f"many/{n:03}" for n in range(60)), "many/040 in/file", "z.txt"]
    touch(roots.workspace_dir, *expected)
    many = roots.workspace_dir / "many"
    reads, read_kinds = 0, file_walk.read_kinds

    def count(descriptor: int) -> dict[str, Kind] | None:
        nonlocal reads
        reads += os.path.samestat(os.fstat(descriptor), many.stat())
        return read_kinds(descriptor)

    monkeypatch.setattr(file_walk, "read_kinds", count)
    monkeypatch.setattr(file_walk, "LARGE", 20)
    monkeypatch.setattr(file_walk, "SETTLED_SECONDS", 0.0)

    async with Abilities.open(roots) as abilities:
        paths: list[str] = []
        request: JsonObject | None = {"pattern": "**/*", "limit": 7}
        while request:
            answer = await abilities.call("file_list", request)
            paths += [file["path"] for file in answer["files"]]
            request = answer.get("next_request")

        assert paths == sorted(expected)
        assert reads == 1

        (many / "030").unlink()
        answer = await abilities.call("file_list", {"pattern": "many/03*", "limit": 2})

    assert [file["path"] for file in answer["files"]] == ["many/031", "many/032"]
    assert reads == 2


@pytest.mark.parametrize(("seconds", "reads"), [(0.0, 1), (60.0, 2)])
def test_a_folder_that_has_just_changed_is_not_remembered(
    seconds: float, reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_walk, "LARGE", 1)
    monkeypatch.setattr(file_walk, "SETTLED_SECONDS", seconds)
    touch(tmp_path, "a")
    memory = FolderMemory()
    read: list[int] = []

    def read_kinds(root: int, _: int) -> dict[str, Kind]:
        read.append(root)
        return {"a": "file"}

    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        names = [memory.read({0: descriptor}, read_kinds) for _ in range(2)]
    finally:
        os.close(descriptor)

    assert [list(found.keys) for found in names] == [["a"], ["a"]]
    assert len(read) == reads


def test_what_one_root_cannot_read_hides_later_roots_and_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_walk, "LARGE", 0)
    monkeypatch.setattr(file_walk, "SETTLED_SECONDS", 0.0)
    memory = FolderMemory()
    kinds: dict[int, dict[str, Kind] | None] = {0: {"a": "file"}, 1: None, 2: {"c": "file"}}

    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        opened = dict.fromkeys(kinds, descriptor)
        before = memory.read(opened, lambda root, _: kinds[root])
        kinds[1] = {"b": "folder"}
        after = memory.read(opened, lambda root, _: kinds[root])
    finally:
        os.close(descriptor)

    assert list(before.keys) == ["a"]
    assert list(after.keys) == ["a", "b/", "c"]
