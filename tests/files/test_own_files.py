"""The package's own files in a root are refused and not listed, whatever name leads to them."""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from abilities import Abilities, Settings, render
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.files.own_files import OwnFiles, OwnPlace
from abilities.helpers.store.sqlite.backup import backup
from abilities.helpers.tokens import TokenFile

MEMORY = {"type": "core", "key": "tea", "content": "Ada drinks tea. " * 200}


@pytest.fixture
def own(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings whose files all lie in the workspace, and a deny list that covers none of them."""
    folder = roots.workspace_dir / "state"
    folder.mkdir()
    (folder / "settings.toml").write_text("deny = []\n")
    (roots.workspace_dir / "a.txt").write_text("a")
    monkeypatch.setenv("ABILITIES_CONFIG", str(folder / "settings.toml"))

    return Settings(
        agent_dir=roots.agent_dir,
        workspace_dir=roots.workspace_dir,
        store_url=f"sqlite:///{folder}/memory.db",
        tokens_file=folder / "tokens.json",
    )


async def read_reasons(abilities: Abilities, paths: Sequence[str]) -> list[str]:
    reasons: list[str] = []

    for start in range(0, len(paths), 25):
        answer = await abilities.call("file_read_bulk", {"paths": paths[start : start + 25]})
        for record in answer["results"]:
            reasons.append(record.get("error", {}).get("reason", "read"))

    return reasons


async def list_names(abilities: Abilities) -> list[str]:
    answer = await abilities.call("file_list")
    return [file["path"] for file in answer["files"]]


def plant_names(workspace: Path, file: Path) -> list[str]:
    """Give a file a hard link and two links, and return their paths."""
    names = [f"hard {file.name}.txt", f"link {file.name}", f"chain {file.name}"]
    os.link(file, workspace / names[0])
    (workspace / names[1]).symlink_to(file.relative_to(workspace))
    (workspace / names[2]).symlink_to(names[1])
    return names


async def test_own_files_are_denied_by_every_name(own: Settings) -> None:
    workspace = own.workspace_dir

    async with Abilities.open(own) as abilities:
        await abilities.call("store_memory", MEMORY)
        TokenFile(own.tokens_file).add("default", "read")
        await abilities.call("store_memory", {**MEMORY, "key": "more"})

        files = sorted((workspace / "state").iterdir())
        assert {"memory.db", "memory.db-lock", "memory.db-shm", "memory.db-wal"} <= {
            file.name for file in files
        }

        paths: list[str] = []
        for file in files:
            paths += [f"state/{file.name}", *plant_names(workspace, file)]
        paths += [f"{path}#byte=1-" for path in paths] + [f"{path}#L1-L2" for path in paths]
        paths = [path.replace("#byte=1-", "#byte=1") for path in paths]

        reasons = await read_reasons(abilities, paths)
        assert dict(zip(paths, reasons, strict=True)) == dict.fromkeys(paths, "denied")
        assert await list_names(abilities) == ["a.txt"]
        assert await read_reasons(abilities, ["a.txt", "state/other"]) == ["read", "not_found"]


async def test_own_files_that_are_made_or_replaced_later_are_denied_at_once(
    own: Settings,
) -> None:
    state = own.workspace_dir / "state"

    async with Abilities.open(own) as abilities:
        assert await list_names(abilities) == ["a.txt"]
        assert await read_reasons(abilities, ["state/memory.db"]) == ["not_found"]

        # The store is made by the first write, the tokens file is replaced by each change.
        await abilities.call("store_memory", MEMORY)
        assert await read_reasons(abilities, ["state/memory.db-wal#byte=0"]) == ["denied"]

        for number in range(3):
            TokenFile(own.tokens_file).add("default", "read")
            os.link(own.tokens_file, state / f"copy {number}.json")
            paths = ["state/tokens.json", f"state/copy {number}.json"]
            assert await read_reasons(abilities, paths) == ["denied", "denied"]

        for name in ("memory.db.before-2", "memory.db-damaged-20260101T000000-ab12.jsonl"):
            (state / name).write_text("one memory per line")
            assert await read_reasons(abilities, [f"state/{name}"]) == ["denied"]

        (state / "settings.toml").unlink()
        (state / "settings.toml").write_text("store_url = 'postgresql://ada:secret@host/db'")
        assert await read_reasons(abilities, ["state/settings.toml"]) == ["denied"]

    # Without a process, the log is gone; what is left stays refused.
    async with Abilities.open(own) as abilities:
        assert await read_reasons(abilities, ["state/memory.db", "state/tokens.json"]) == [
            "denied",
            "denied",
        ]
        listed = await list_names(abilities)
        assert [name for name in listed if "copy" not in name] == ["a.txt"]


@pytest.mark.parametrize("before", [0, 1, 12])
async def test_a_long_file_that_was_just_made_is_denied_before_it_is_read(
    own: Settings, before: int
) -> None:
    state = own.workspace_dir / "state"
    long = "# a long line of some other file\n" * 1_000
    names = [f"long {number}.txt" for number in range(before)]
    for name in names:
        (own.workspace_dir / name).write_text(long)

    async with Abilities.open(own) as abilities:
        assert await list_names(abilities) == ["a.txt", *sorted(names)]

        (state / "new").write_text("# secret\n" * 9_000)
        (state / "new").replace(state / "settings.toml")
        os.link(state / "settings.toml", own.workspace_dir / "copy.toml")
        request: JsonObject | None = {"paths": [*names, "copy.toml", "state/settings.toml"]}
        reasons: dict[str, str] = {}
        while request:
            answer = await abilities.call("file_read_bulk", request)
            assert "secret" not in render(answer)
            for record in answer["results"]:
                reasons[record["input"]] = record.get("error", {}).get("reason", "read")
            request = answer.get("next_request")

    assert reasons["copy.toml"] == reasons["state/settings.toml"] == "denied"


async def test_a_backup_is_denied_wherever_it_lies(own: Settings) -> None:
    workspace = own.workspace_dir

    async with Abilities.open(own) as abilities:
        await abilities.call("store_memory", MEMORY)
        assert own.store_path is not None
        backup(own.store_path, workspace / "monday.bak", lambda _: None)
        shutil.copy(workspace / "monday.bak", own.agent_dir / "copy of a copy.txt")
        with sqlite3.connect(workspace / "other.db") as other:
            other.execute("CREATE TABLE words (word)")
        other.close()
        (workspace / "round.txt").write_text("x" * 4096)

        paths = [
            "monday.bak",
            "monday.bak#byte=5000",
            "copy of a copy.txt",
            "copy of a copy.txt#L2",
        ]
        assert await read_reasons(abilities, paths) == ["denied"] * 4
        assert await read_reasons(abilities, ["other.db", "round.txt"]) == ["binary_file", "read"]


async def test_files_behind_a_link_that_is_changed_are_denied(
    own: Settings, tmp_path: Path
) -> None:
    """A mounted secret is replaced by one link to a folder."""
    for version in ("1", "2"):
        folder = own.workspace_dir / "mounted" / version
        folder.mkdir(parents=True)
        (folder / "tokens.json").write_text(f'[{{"version": {version}}}]')
        os.utime(folder / "tokens.json", (0, 0))
    data = tmp_path / "data"
    data.symlink_to(own.workspace_dir / "mounted" / "1")
    settings = own.model_copy(update={"tokens_file": data / "tokens.json"})

    async with Abilities.open(settings) as abilities:
        assert await read_reasons(abilities, ["mounted/1/tokens.json"]) == ["denied"]

        (tmp_path / "next").symlink_to(own.workspace_dir / "mounted" / "2")
        (tmp_path / "next").rename(data)
        assert await read_reasons(abilities, ["mounted/2/tokens.json"]) == ["denied"]


async def test_a_store_on_a_server_has_no_files_to_deny(own: Settings) -> None:
    policy = own.model_copy(update={"store_url": "postgresql://ada@host/db"}).policy

    assert [os.path.basename(place.path) for place in policy.own.places] == [
        "settings.toml",
        "tokens.json",
    ]


def test_a_settled_folder_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokens.json").touch()
    os.utime(tmp_path, (1_000_000, 1_000_000))
    own = OwnFiles([OwnPlace(str(tmp_path / "tokens.json"), ("-lock",))])
    first = own.refresh(lambda _: None)
    scandir = os.scandir
    listed: list[str] = []

    def scan(folder: str) -> object:
        listed.append(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scan)

    assert own.refresh(lambda _: None).identities == first.identities and not listed

    (tmp_path / "tokens.json-lock").touch()
    assert len(own.refresh(lambda _: None).identities) == 2 and listed


def test_a_disk_that_does_not_answer_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").touch()
    own = OwnFiles([OwnPlace(str(tmp_path / "tokens.json"))])
    before = own.refresh(lambda _: None)
    (tmp_path / "tokens.json").unlink()

    def refuse(_: object) -> None:
        raise Refused("timeout")

    assert own.refresh(refuse) == before
