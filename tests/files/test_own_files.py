"""The package's own files in a root are refused and not listed, whatever name leads to them."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from abilities import Abilities, Settings, render
from abilities.declarations.refusals import Refused
from abilities.helpers.files import deny
from abilities.helpers.files.deny import OwnFiles, OwnPlace
from abilities.helpers.store.sqlite.backup import backup
from abilities.helpers.tokens import TokenFile
from tests.support.reading import follow, list_outcomes, read, write_files

MEMORY = {"type": "core", "key": "tea", "content": "Ada drinks tea. " * 200}
PARTS = ("", "#byte=1", "#byte=5000", "#L1-L2")


@pytest.fixture
def own(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings whose files all lie in the workspace, and a deny list that covers none of them."""
    state = roots.workspace_dir / "state"
    write_files(roots.workspace_dir, {"state/settings.toml": "deny = []\n", "a.txt": "a"})
    monkeypatch.setenv("ABILITIES_CONFIG", str(state / "settings.toml"))

    return Settings(
        agent_dir=roots.agent_dir,
        workspace_dir=roots.workspace_dir,
        store_url=f"sqlite:///{state}/memory.db",
        tokens_file=state / "tokens.json",
    )


async def check_denied(abilities: Abilities, *paths: str) -> None:
    for start in range(0, len(paths), 25):
        part = paths[start : start + 25]
        assert await read(abilities, *part) == ["denied"] * len(part), part


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
    state = own.workspace_dir / "state"

    async with Abilities.open(own) as abilities:
        await abilities.call("store_memory", MEMORY)
        TokenFile(own.tokens_file).add("default", "read")
        await abilities.call("store_memory", {**MEMORY, "key": "more"})

        files = sorted(state.iterdir())
        store = {f"memory.db{end}" for end in ("", "-lock", "-shm", "-wal")}
        assert store <= {file.name for file in files}

        paths = [f"state/{file.name}" for file in files]
        paths += [name for file in files for name in plant_names(own.workspace_dir, file)]
        await check_denied(abilities, *(f"{p}{part}" for p in paths for part in PARTS))
        assert await list_names(abilities) == ["a.txt"]
        assert await read(abilities, "a.txt", "state/other") == ["a", "not_found"]


async def test_own_files_are_never_found(own: Settings) -> None:
    TokenFile(own.tokens_file).add("default", "read")
    os.link(own.tokens_file, own.workspace_dir / "copy.txt")
    write_files(own.workspace_dir, {"a.txt": "token default deny"})
    items = [{"search": text} for text in ("deny", "default", "token")]

    async with Abilities.open(own) as abilities:
        for record in (await abilities.call("read", {"items": items}))["results"]:
            assert [hit["path"] for hit in record["data"]["items"]] == ["a.txt#L1-L1"]


async def test_own_files_that_are_made_or_replaced_later_are_denied_at_once(own: Settings) -> None:
    state = own.workspace_dir / "state"

    async with Abilities.open(own) as abilities:
        assert await list_names(abilities) == ["a.txt"]
        assert await read(abilities, "state/memory.db") == ["not_found"]

        # The store is made by the first write, the tokens file is replaced by each change.
        await abilities.call("store_memory", MEMORY)
        await check_denied(abilities, "state/memory.db-wal#byte=0")

        for number in range(3):
            TokenFile(own.tokens_file).add("default", "read")
            os.link(own.tokens_file, state / f"copy {number}.json")
            await check_denied(abilities, "state/tokens.json", f"state/copy {number}.json")

        for name in ("memory.db.before-2", "memory.db-damaged-20260101T000000-ab12.jsonl"):
            write_files(state, [name])
            await check_denied(abilities, f"state/{name}")

        (state / "settings.toml").unlink()
        write_files(state, {"settings.toml": "store_url = 'postgresql://ada:secret@host/db'"})
        await check_denied(abilities, "state/settings.toml")

    # Without a process, the log is gone; what is left stays refused.
    async with Abilities.open(own) as abilities:
        await check_denied(abilities, "state/memory.db", "state/tokens.json")
        listed = await list_names(abilities)
        assert [name for name in listed if "copy" not in name] == ["a.txt"]


@pytest.mark.parametrize("before", [0, 1, 12])
async def test_a_file_just_made_is_denied_before_it_is_read(own: Settings, before: int) -> None:
    state = own.workspace_dir / "state"
    long = {f"long {n}.txt": "# a long line of some other file\n" * 1_000 for n in range(before)}
    write_files(own.workspace_dir, long)
    outcomes: dict[str, str] = {}

    async with Abilities.open(own) as abilities:
        assert await list_names(abilities) == ["a.txt", *sorted(long)]

        write_files(state, {"new": "# secret\n" * 9_000})
        (state / "new").replace(state / "settings.toml")
        os.link(state / "settings.toml", own.workspace_dir / "copy.toml")
        request = {"paths": [*long, "copy.toml", "state/settings.toml"]}
        async for answer in follow(abilities, "file_read_bulk", request):
            assert "secret" not in render(answer)
            inputs = (record["input"] for record in answer["results"])
            outcomes.update(zip(inputs, list_outcomes(answer), strict=True))

    assert outcomes["copy.toml"] == outcomes["state/settings.toml"] == "denied"


async def test_a_backup_is_denied_wherever_it_lies(own: Settings) -> None:
    workspace = own.workspace_dir
    copies = ["monday.bak", "copy of a copy.txt"]

    async with Abilities.open(own) as abilities:
        await abilities.call("store_memory", MEMORY)
        assert own.store_path is not None
        backup(own.store_path, workspace / "monday.bak", lambda _: None)
        shutil.copy(workspace / "monday.bak", own.agent_dir / "copy of a copy.txt")
        with sqlite3.connect(workspace / "other.db") as other:
            other.execute("CREATE TABLE words (word)")
        other.close()
        write_files(workspace, {"round.txt": "x" * 4096})

        await check_denied(abilities, *(f"{path}{part}" for path in copies for part in PARTS))
        assert await read(abilities, "other.db", "round.txt") == ["binary_file", "x" * 4096]


async def test_files_behind_a_link_that_changes_are_denied(
    own: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mounted secret is replaced by one link to a folder."""
    monkeypatch.setattr(deny, "FRESH_SECONDS", 0.0)  # what was seen a second ago may be used
    mounted = own.workspace_dir / "mounted"
    for version in ("1", "2"):
        write_files(mounted, {f"{version}/tokens.json": f'[{{"version": {version}}}]'})
        os.utime(mounted / version / "tokens.json", (0, 0))
    data = tmp_path / "data"
    data.symlink_to(mounted / "1")
    settings = own.model_copy(update={"tokens_file": data / "tokens.json"})

    async with Abilities.open(settings) as abilities:
        await check_denied(abilities, "mounted/1/tokens.json")

        (tmp_path / "next").symlink_to(mounted / "2")
        (tmp_path / "next").rename(data)
        await check_denied(abilities, "mounted/2/tokens.json")


async def test_a_store_on_a_server_has_no_files_to_deny(own: Settings) -> None:
    policy = own.model_copy(update={"store_url": "postgresql://ada@host/db"}).policy

    names = [os.path.basename(place.path) for place in policy.own.places]
    assert names == ["settings.toml", "tokens.json"]


def test_a_settled_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
