"""Replacing somebody else's file: nothing of it can be lost."""

import os
import stat
from pathlib import Path

import pytest

from abilities.clients import edits
from abilities.clients.edits import Changed, list_backups, read_file, replace_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_bytes(b"old")
    return path


def list_names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_the_backup_has_what_was_there(file: Path) -> None:
    backup = replace_file(read_file(file), b"new")

    assert backup is not None
    assert (file.read_bytes(), backup.read_bytes()) == (b"new", b"old")
    assert list_names(file.parent) == ["mcp.json"]
    assert backup.parent == Path.home() / ".abilities" / "backups"
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700


def test_a_new_file_is_private_and_has_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "mcp.json"

    assert replace_file(read_file(path), b"new") is None
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_of_one_name_have_backups_of_their_own_and_the_newest_comes_first(
    file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "[o]ther" / "mcp.json"
    other.parent.mkdir()
    other.write_bytes(b"other")

    for path, content in ((file, b"two"), (other, b"new"), (file, b"three")):
        replace_file(read_file(path), content)

    assert [backup.content for backup in list_backups(read_file(file))] == [b"two", b"old"]
    assert [backup.content for backup in list_backups(read_file(other))] == [b"other"]


def test_with_a_removed_file_go_its_empty_folders_in_the_home_or_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    alone, beside = project / "a" / "b" / "mcp.json", project / "c" / "d" / "mcp.json"
    paths = (alone, beside, project / "mcp.json", tmp_path / "elsewhere" / "mcp.json")
    for path in paths:
        replace_file(read_file(path), b"new")
    (project / "c" / "mine.txt").touch()

    for path in paths:
        replace_file(read_file(path), None)

    assert list_names(project) == ["c"] and list_names(project / "c") == ["mine.txt"]
    assert list_names(tmp_path) == ["elsewhere", "project"]


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o640])
def test_mode_and_owner_stay(file: Path, mode: int) -> None:
    if os.geteuid() == 0:
        os.chown(file, 65534, 65533)
    file.chmod(mode)
    before = file.stat()

    backup = replace_file(read_file(file), b"new")

    assert backup is not None
    for path in (file, backup):
        status = path.stat()
        assert status.st_mode == before.st_mode
        assert (status.st_uid, status.st_gid) == (before.st_uid, before.st_gid)


def test_a_link_stays_and_the_file_behind_it_changes_or_is_made(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "a.json").symlink_to("b.json")
    (folder / "b.json").symlink_to(file)
    (folder / "c.json").symlink_to("dotfiles/mcp.json")

    backup = replace_file(read_file(folder / "a.json"), b"new")
    assert backup is not None and replace_file(read_file(folder / "c.json"), b"made") is None

    assert (file.read_bytes(), list_names(tmp_path)) == (b"new", ["home", "mcp.json"])
    assert (folder / "dotfiles" / "mcp.json").read_bytes() == b"made"
    links = [name for name in list_names(folder) if (folder / name).is_symlink()]
    assert links == ["a.json", "b.json", "c.json"]


@pytest.mark.parametrize("content", [b"new", None])
@pytest.mark.parametrize("meanwhile", [b"other", None])
def test_a_file_that_changed_meanwhile_stays(
    file: Path, content: bytes | None, meanwhile: bytes | None
) -> None:
    snapshot = read_file(file)
    if meanwhile is None:
        file.unlink()
    else:
        file.write_bytes(meanwhile)

    with pytest.raises(Changed):
        replace_file(snapshot, content)

    assert read_file(file).content == meanwhile
    assert list_names(file.parent) == ([] if meanwhile is None else ["mcp.json"])


def test_the_last_look_is_just_before_the_replacement(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = edits._write_new

    def write_and_disturb(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        file.write_bytes(b"other")

    monkeypatch.setattr(edits, "_write_new", write_and_disturb)

    with pytest.raises(Changed):
        replace_file(read_file(file), b"new")

    assert (file.read_bytes(), list_names(file.parent)) == (b"other", ["mcp.json"])


def test_a_full_disk_leaves_everything_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(OSError, match="No space left"):
        replace_file(read_file(file), b"new")

    assert (file.read_bytes(), list_names(file.parent)) == (b"old", ["mcp.json"])
