"""Row F38: started in a folder that must not be shared, everything works but the workspace."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from abilities import Abilities, Settings
from abilities.declarations.refusals import FAULTS
from tests.support.surfaces import SURFACES, run

MEMORY = {"type": "core", "key": "tea", "content": "Ada drinks tea."}
MISSING = {"code": "NOT_FOUND", "reason": "no_workspace", "message": FAULTS["no_workspace"].message}


@pytest.fixture(params=["/", "home", "above home", "/etc"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, in a home of its own with a sample agent."""
    home = tmp_path / "home" / "ada"
    agent = home / ".abilities" / "agent"
    agent.mkdir(parents=True)
    (agent / "MEMORY.md").write_text("likes tea")
    (home / "private.txt").write_text("SECRET")
    monkeypatch.setenv("HOME", str(home))

    places = {"home": home, "above home": home.parent}
    place = places.get(request.param, Path(request.param))
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("surface", SURFACES)
async def test_f38_notes_and_memories_work_without_a_workspace(place: Path, surface: str) -> None:
    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        return await SURFACES[surface](Settings(detail="full"), name, arguments)

    paths = ["MEMORY.md", "private.txt", "etc/passwd", "..", ".env", "."]
    found, *missing = (await call("file_read_bulk", paths=paths))["results"]

    assert found["data"]["content"] == "likes tea"
    assert missing[0]["error"] == MISSING
    reasons = [record["error"]["reason"] for record in missing[1:]]
    assert reasons == ["no_workspace", "parent_traversal", "denied", "is_directory"]

    listed = await call("file_list")
    assert [file["path"] for file in listed["files"]] == ["MEMORY.md"]
    assert await call("file_list", pattern="*.txt") == {"error": MISSING}

    await call("store_memory", **MEMORY)
    targets = [{"type": "long_term"}, {"type": "short_term"}, {"type": "stored", "key": "tea"}]
    answer = await call("memory_read_bulk", targets=targets)

    contents = [record.get("data", {}).get("content") for record in answer["results"]]
    assert contents == ["likes tea", None, "Ada drinks tea."]
    assert answer["results"][1]["error"]["message"] == "No memory file for this target."


def test_f38_the_command_line_works_from_anywhere(place: Path) -> None:
    assert run(None, "call", "store_memory", json.dumps(MEMORY)).exit_code == 0
    got = run(None, "call", "memory_get", '{"key": "tea"}')
    demo = run(None, "demo")

    assert json.loads(got.stdout)["data"]["content"] == "Ada drinks tea."
    found = {each["about"]: each for each in json.loads(run(None, "doctor", "--json").stdout)}
    workspace = found["workspace directory"]
    assert workspace["state"] == "note" and "workspace_dir" in workspace["mend"]
    assert demo.exit_code == 2 and "project folder" in demo.stderr

    for setting in ("workspace_dir", "agent_dir"):
        for directory in (str(place), "."):
            option = "--" + setting.replace("_", "-")
            refused = run(None, option, directory, "call", "file_list")

            assert refused.exit_code == 2
            assert f"{setting} must not be '{place}': this is " in refused.stderr
            assert "name a folder that you want to share" in refused.stderr


@pytest.mark.sampled(1)
async def test_f38_an_mcp_client_that_starts_servers_there_gets_its_memories(place: Path) -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "abilities", "mcp"], env=dict(os.environ), cwd=place
    )

    async with Client(stdio_client(parameters)) as client:
        await client.call_tool("store_memory", MEMORY)
        result = await client.call_tool("memory_get", {"key": "tea"})

    assert not result.is_error


async def test_f38_a_folder_below_is_a_workspace(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("a")
    monkeypatch.chdir(tmp_path / "project")

    async with Abilities.open() as abilities:
        answer = await abilities.call("file_read_bulk", {"paths": ["a.txt"]})

    assert answer["results"][0]["data"]["source"] == "workspace"


def test_f38_folders_of_the_system_are_told_by_where_they_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")  # in none of these folders
    root = Path(tmp_path, *[".."] * len(tmp_path.parents))
    for folder in ("/usr", "/var", "/proc", "/sys", "/dev", "/boot", "/proc/self", "/usr/bin"):
        if not os.path.isdir(folder):
            continue
        first, link = (tmp_path / folder.replace("/", end) for end in "12")
        first.symlink_to(folder)
        link.symlink_to(first.name)
        for directory in (Path(folder), link, root / folder.lstrip("/") / "."):
            for setting in ("agent_dir", "workspace_dir"):
                match = f"{setting} must not be .*a folder of the operating"
                with pytest.raises(ValueError, match=match):
                    Settings(**{setting: directory}).check_roots()  # type: ignore[arg-type]

            # Nobody has named it: that is no mistake, and there is no workspace.
            monkeypatch.chdir(directory)
            assert Settings().workspace_root is None
            Settings().check_roots()


def test_f38_the_folders_above_a_home_are_told_by_where_it_really_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("disk/homes/ada", "homes", "disk/project"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "homes" / "ada").symlink_to(tmp_path / "disk" / "homes" / "ada")
    monkeypatch.setenv("HOME", str(tmp_path / "homes" / "ada"))

    for folder in ("disk", "disk/homes", "homes", "."):
        with pytest.raises(ValueError, match="a folder that holds your home directory"):
            Settings(workspace_dir=tmp_path / folder).check_roots()
    Settings(workspace_dir=tmp_path / "disk" / "project").check_roots()

    # A user without a home has none that could be shared by mistake.
    monkeypatch.setenv("HOME", "nowhere")
    Settings(workspace_dir=tmp_path).check_roots()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/no such home")
    for folder in ("/usr/src", "/var/tmp", "/tmp", "/dev/shm", str(tmp_path), "/proc/self/cwd"):
        if os.path.isdir(folder):
            Settings(agent_dir=Path(folder), workspace_dir=Path(folder)).check_roots()


async def test_f38_what_becomes_such_a_folder_is_not_read(roots: Settings, tmp_path: Path) -> None:
    (roots.workspace_dir / "a.txt").write_text("a")

    async with Abilities.open(roots) as abilities:
        roots.workspace_dir.rename(tmp_path / "moved")
        roots.workspace_dir.symlink_to("/etc")
        answer = await abilities.call("file_read_bulk", {"paths": ["hostname", "passwd"]})

    reasons = {record["error"]["reason"] for record in answer["results"]}
    assert reasons == {"root_unavailable"}
