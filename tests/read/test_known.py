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
from tests.support.reading import noting_reads

Payload = dict[str, Any]
Change = Callable[[Abilities, Path], Awaitable[None]]


def edit(path: str) -> Change:
    """Return a change that appends to a file, or makes one."""

    async def edit_file(app: Abilities, folder: Path) -> None:
        with (folder / path).open("a") as file:
            file.write("more")

    return edit_file


async def replace_file(app: Abilities, folder: Path) -> None:
    """Replace a file by one of the same size and time."""
    old, new = folder / "workspace/small/20.txt", folder / "workspace/new"
    status = old.stat()
    new.write_bytes(old.read_bytes()[::-1])
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    new.rename(old)


async def remove_file(app: Abilities, folder: Path) -> None:
    (folder / "workspace/small/21.txt").unlink()


async def change_memory(app: Abilities, key: str, **fields: Any) -> None:
    memory = await app.call("memory_get", {"key": key})
    await app.call("update_memory", {"id": memory["data"]["id"], **fields})


async def update_memory(app: Abilities, folder: Path) -> None:
    await change_memory(app, "k1", content="tea is new")


async def update_a_linked_memory(app: Abilities, folder: Path) -> None:
    linked = (await app.call("memory_get", {"key": "k1"}))["data"]["links"][0]["key"]
    await change_memory(app, linked, content="tea is new")


async def link_memory(app: Abilities, folder: Path) -> None:
    new = {"type": "core", "key": "new", "content": "new", "memory_score": 1}
    await app.call("store_memory", new)
    await change_memory(app, "k1", links=[{"key": "new", "link_weight": 1}])


async def store_an_answer(app: Abilities, folder: Path) -> None:
    await app.call("store_memory", {"type": "core", "key": "new", "content": "tea tea tea"})


FILE, GLOB = {"file": "small/20.txt"}, {"glob": "small/2*.txt"}
WALK, MEMORY = {"memory": "k1", "depth": 2}, {"memory": "k1"}
DAY, WEEK = {"note": str(TODAY - timedelta(days=3))}, {"note": "last 7 days"}
RECALL = {"recall": "who drinks tea"}
edit_file, edit_lasting_notes = edit("workspace/small/20.txt"), edit("agent/MEMORY.md")
edit_day = edit(f"agent/memory/{TODAY - timedelta(days=3)}.md")

CASES: dict[str, tuple[Payload, Change]] = {
    "a file that grew": (FILE, edit_file),
    "a file that was replaced": (FILE, replace_file),
    "lines of a file": ({"file": "small/20.txt#L2-L3"}, edit_file),
    "a glob of a file that grew": (GLOB, edit_file),
    "a glob of a file that was replaced": (GLOB, replace_file),
    "a glob that matches one more": (GLOB, edit("workspace/small/200.txt")),
    "a glob that matches one less": (GLOB, remove_file),
    "lasting notes": ({"note": "long_term"}, edit_lasting_notes),
    "notes of a day": (DAY, edit_day),
    "days of which one changed": (WEEK, edit_day),
    "days with one more": (WEEK, edit(f"agent/memory/{TODAY - timedelta(days=5)}.md")),
    "a memory": (MEMORY, update_memory),
    "a list of keys with one more": ({"memory": "*"}, store_an_answer),
    "a list of keys of which one changed": ({"memory": "k1*"}, update_memory),
    "a walk from a memory": (WALK, update_memory),
    "a walk to a memory": (WALK, update_a_linked_memory),
    "a walk over one more link": (WALK, link_memory),
    "a question with one more answer": (RECALL, store_an_answer),
    "a question that notes answer": (RECALL, edit_lasting_notes),
}


@pytest.mark.parametrize("detail", ["full", "concise"])
@pytest.mark.parametrize("name", CASES)
async def test_what_is_known_is_sent_again_only_once_it_has_changed(
    name: str, detail: str, app: Abilities, tmp_path: Path
) -> None:
    item, change = CASES[name]
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


async def test_unchanged_files_are_not_read(app: Abilities) -> None:
    first = await app.call("read", {"items": [FILE, GLOB]})
    items = [
        {**item, "known": record["data"]["version"]}
        for item, record in zip((FILE, GLOB), first["results"], strict=True)
    ]

    with noting_reads() as reads:
        answer = await app.call("read", {"items": items})

    assert [record.get("unchanged") for record in answer["results"]] == [True, True]
    assert not [read for read in reads if "workspace" in str(read.path)]
