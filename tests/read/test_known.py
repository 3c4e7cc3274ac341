"""`known`: what has not changed is not sent again, and what has is."""

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, render
from tests.support.read_collecting import measure_input
from tests.support.read_samples import TODAY

Payload = dict[str, Any]
Change = Callable[[Abilities, Path], Awaitable[None]]


async def edit_file(app: Abilities, folder: Path) -> None:
    with (folder / "workspace/small/20.txt").open("a") as file:
        file.write("more")


async def replace_file(app: Abilities, folder: Path) -> None:
    """Replace a file by one of the same size and time."""
    old = folder / "workspace/small/20.txt"
    status = old.stat()
    new = folder / "workspace/new"
    new.write_bytes(old.read_bytes()[::-1])
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    new.rename(old)


async def add_file(app: Abilities, folder: Path) -> None:
    (folder / "workspace/small/200.txt").write_text("new")


async def remove_file(app: Abilities, folder: Path) -> None:
    (folder / "workspace/small/21.txt").unlink()


async def edit_lasting_notes(app: Abilities, folder: Path) -> None:
    with (folder / "agent/MEMORY.md").open("a") as file:
        file.write("more")


async def edit_day(app: Abilities, folder: Path) -> None:
    with (folder / f"agent/memory/{TODAY - timedelta(days=3)}.md").open("a") as file:
        file.write("more")


async def add_day(app: Abilities, folder: Path) -> None:
    (folder / f"agent/memory/{TODAY - timedelta(days=5)}.md").write_text("new")


async def update_memory(app: Abilities, folder: Path) -> None:
    memory = await app.call("memory_get", {"key": "k1"})
    await app.call("update_memory", {"id": memory["data"]["id"], "content": "tea is new"})


async def update_a_linked_memory(app: Abilities, folder: Path) -> None:
    linked = (await app.call("memory_get", {"key": "k1"}))["data"]["links"][0]["key"]
    memory = await app.call("memory_get", {"key": linked})
    await app.call("update_memory", {"id": memory["data"]["id"], "content": "tea is new"})


async def link_memory(app: Abilities, folder: Path) -> None:
    new = {"type": "core", "key": "new", "content": "new", "memory_score": 1}
    await app.call("store_memory", new)
    memory = await app.call("memory_get", {"key": "k1"})
    links = [{"key": "new", "link_weight": 1}]
    await app.call("update_memory", {"id": memory["data"]["id"], "links": links})


async def store_an_answer(app: Abilities, folder: Path) -> None:
    await app.call("store_memory", {"type": "core", "key": "new", "content": "tea tea tea"})


FILE, GLOB = {"file": "small/20.txt"}, {"glob": "small/2*.txt"}
WALK, MEMORY = {"memory": "k1", "depth": 2}, {"memory": "k1"}
CASES: list[tuple[Payload, Change]] = [
    (FILE, edit_file),
    (FILE, replace_file),
    ({"file": "small/20.txt#L2-L3"}, edit_file),
    (GLOB, edit_file),
    (GLOB, replace_file),
    (GLOB, add_file),
    (GLOB, remove_file),
    ({"note": "long_term"}, edit_lasting_notes),
    ({"note": str(TODAY - timedelta(days=3))}, edit_day),
    ({"note": "last 7 days"}, edit_day),
    ({"note": "last 7 days"}, add_day),
    (MEMORY, update_memory),
    (WALK, update_memory),
    (WALK, update_a_linked_memory),
    (WALK, link_memory),
    ({"recall": "who drinks tea"}, store_an_answer),
    ({"recall": "who drinks tea"}, edit_lasting_notes),
]


def name_case(value: object) -> str:
    return str(getattr(value, "__name__", value))


@pytest.mark.parametrize("detail", ["full", "concise"])
@pytest.mark.parametrize(("item", "change"), CASES, ids=name_case)
async def test_what_is_known_is_sent_again_only_once_it_has_changed(
    item: Payload, change: Change, detail: str, app: Abilities, tmp_path: Path
) -> None:
    (first,) = (await app.call("read", {"items": [item], "detail": detail}))["results"]
    version = first.get("data", first)["version"]
    request = {"items": [{**item, "known": version}], "detail": detail}

    (unchanged,) = (await app.call("read", request))["results"]
    await change(app, tmp_path)
    (changed,) = (await app.call("read", request))["results"]

    assert unchanged == {"input": unchanged["input"], "success": True, "unchanged": True}
    assert len(render(unchanged).encode()) - measure_input(unchanged) <= 90
    data = changed.get("data", changed)
    assert data["version"] != version
    assert data.get("items") or data["content"]
    assert "unchanged" not in changed


async def test_a_version_is_known_from_any_ability_that_tells_it(app: Abilities) -> None:
    listed = await app.call("file_read_bulk", {"paths": ["small/20.txt"]})
    memory = await app.call("memory_get", {"key": "k1"})
    items: list[Payload] = [
        {**FILE, "known": listed["results"][0]["data"]["version"]},
        {**MEMORY, "known": memory["data"]["version"]},  # a number
        {**MEMORY, "known": str(memory["data"]["version"])},
    ]

    answer = await app.call("read", {"items": items})

    assert [record.get("unchanged") for record in answer["results"]] == [True, True, True]


async def test_what_goes_on_does_not_say_what_was_known(app: Abilities) -> None:
    """Else the rest of a content that has changed once could be taken for unchanged."""
    items = [{**GLOB, "known": "x"}, {"file": "large.log", "known": "x"}]
    items += [{"memory": "k3", "known": "x"}, {"note": "last 31 days", "known": "x"}]

    answer = await app.call("read", {"items": items, "max_tokens": 2_000})

    left = answer["next_request"]["items"]
    cut = [item for item in left if "after" in item or "#" in item.get("file", "")]
    assert len(cut) == 1
    assert "known" not in cut[0]


async def test_unchanged_files_are_not_read(
    app: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await app.call("read", {"items": [FILE, GLOB]})
    items = [
        {**item, "known": record["data"]["version"]}
        for item, record in zip((FILE, GLOB), first["results"], strict=True)
    ]
    read: list[str] = []
    pread, plain = os.pread, os.read

    def note(fd: int) -> int:
        read.append(os.readlink(f"/proc/self/fd/{fd}"))
        return fd

    monkeypatch.setattr(os, "pread", lambda fd, *rest: pread(note(fd), *rest))
    monkeypatch.setattr(os, "read", lambda fd, *rest: plain(note(fd), *rest))

    answer = await app.call("read", {"items": items})

    assert [record.get("unchanged") for record in answer["results"]] == [True, True]
    assert not [path for path in read if "workspace" in path]
