"""Folders that are kept open: each is opened once, and few are open at a time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from abilities.helpers.files.confinement import MOST_FOLDERS, OpenFolders


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_folders_on_the_way_are_opened_once(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / "src" / "core" / name).mkdir(parents=True)
    opened: list[str] = []
    open_one = os.open

    def note(name: str, flags: int, *, dir_fd: int) -> int:
        opened.append(name)
        return open_one(name, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", note)
    with OpenFolders() as folders:
        for name in "abcab":
            descriptor = folders.open(root, ("src", "core", name))
            assert os.path.samestat(os.fstat(descriptor), (tmp_path / "src" / "core" / name).stat())
        with pytest.raises(FileNotFoundError):
            folders.open(root, ("src", "core", "none", "deeper"))

    assert opened == ["src", "core", "a", "b", "c", "none"]


def test_few_are_open_at_a_time_and_none_afterwards(root: int, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    with OpenFolders() as folders:
        for number in range(3 * MOST_FOLDERS):
            names = ("a", str(number % 5), str(number))
            (tmp_path / Path(*names)).mkdir(parents=True)
            descriptor = folders.open(root, names)

            assert os.path.samestat(os.fstat(descriptor), (tmp_path / Path(*names)).stat())
            assert len(os.listdir("/proc/self/fd")) <= before + MOST_FOLDERS

        deepest = ("d",) * (MOST_FOLDERS + 5)
        (tmp_path / Path(*deepest)).mkdir(parents=True)
        folders.open(root, deepest)

        assert len(folders) == len(deepest)

        folders.open(root, ("a",))

        assert len(folders) == 1

    assert len(os.listdir("/proc/self/fd")) == before
