"""What changes between the replies of one `read` fails alone, or stays what it was."""

from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import pytest

from abilities import Abilities, Settings
from tests.support.read_collecting import collect
from tests.support.read_samples import TODAY, today_is
from tests.support.reading import write_files

Payload = dict[str, Any]

WALK = {"memory": "hub", "depth": 1, "breadth": 20, "total": 20}
CHANGED = ("INVALID_INPUT", "changed")
LOG = "a line of a log\n" * 4_000


@pytest.fixture
async def linked(roots: Settings) -> AsyncIterator[Abilities]:
    """A hub that links to eight long memories, a log, and notes of the last seven days."""
    write_files(roots.workspace_dir, {"log.txt": LOG})
    days = [TODAY - timedelta(days=days) for days in range(9)]
    write_notes(roots, days, lines=100)

    async with Abilities.open(roots) as abilities:
        links = [{"key": f"m{number}"} for number in range(8)]
        memories = {"hub": "the hub of tea", **{f"m{n}": f"{n} tea " * 600 for n in range(8)}}
        for key, content in memories.items():
            memory = {"type": "core", "key": key, "content": content}
            linked = links if key == "hub" else []
            await abilities.call("store_memory", {**memory, "links": linked})

        yield abilities


def write_notes(roots: Settings, days: list[date], *, lines: int) -> None:
    notes = {f"{day}.md": f"notes of {day}\n" * lines for day in days}
    write_files(roots.agent_dir / "memory", notes)


async def read_first(app: Abilities, *items: Any) -> Payload:
    """Return what is left after a first reply of 4,000 bytes."""
    answer = await app.call("read", {"items": list(items), "max_tokens": 1_000})
    return {**answer["next_request"], "max_tokens": 30_000}


async def read_rest(app: Abilities, rest: Payload, *more: Any) -> list[Payload]:
    """Return the records of what was left, and those of more items."""
    payload = await app.call("read", {**rest, "items": [*rest["items"], *more]})
    records: list[Payload] = payload["results"]
    return records


async def find_id(app: Abilities, key: str) -> str:
    memory = await app.call("memory_get", {"key": key})
    return str(memory["data"]["id"])


@pytest.mark.parametrize("change", ["update", "archive", "delete", "link", "unlink"])
@pytest.mark.parametrize("item", [WALK, {"recall": "hub of tea"}], ids=["walk", "recall"])
async def test_a_changed_item_fails_alone(item: Payload, change: str, linked: Abilities) -> None:
    rest = await read_first(linked, item)
    name = await find_id(linked, "m7")
    hub = await find_id(linked, "hub")
    if change == "update":
        await linked.call("update_memory", {"id": name, "content": "hub of tea tea"})
    elif change == "link":
        await linked.call("store_memory", {"type": "core", "key": "n", "content": "hub of tea"})
        links = [{"key": "n", "link_weight": 1}]
        await linked.call("update_memory", {"id": hub, "links": links})
    elif change == "unlink":
        await linked.call("update_memory", {"id": hub, "remove_links": [{"key": "m7"}]})
    else:
        await linked.call("delete_memory", {"id": name, "permanent": change == "delete"})

    changed, *others = await read_rest(linked, rest, "log.txt#L1-L2", {"memory": "m0"})

    if "recall" in item and change == "unlink":
        return  # whether what an item found has changed is the ranking's business
    assert (changed["error"]["code"], changed["error"]["reason"]) == CHANGED
    assert [record["success"] for record in others] == [True, True]


async def test_a_file_that_changed_fails_alone(linked: Abilities, roots: Settings) -> None:
    rest = await read_first(linked, "log.txt")
    write_files(roots.workspace_dir, {"log.txt": "other " + LOG})

    changed, other = await read_rest(linked, rest, WALK)

    assert changed["error"]["reason"] == "changed"
    assert other["success"]


@pytest.mark.parametrize("detail", ["full", "concise"])
async def test_a_file_that_changed_fails_alone_within_a_glob(
    detail: str, linked: Abilities, roots: Settings
) -> None:
    write_files(roots.workspace_dir, {"z.txt": "behind it"})
    rest = await read_first(linked, {"glob": "*.txt"})
    write_files(roots.workspace_dir, {"log.txt": "other " + LOG})

    (record,) = await read_rest(linked, {**rest, "detail": detail})

    changed, behind = record.get("data", record)["items"]
    assert changed.get("error", changed)["reason"] == "changed"
    assert behind.get("data", behind)["content"] == "behind it"


async def test_a_memory_that_is_gone_fails_alone(linked: Abilities) -> None:
    rest = await read_first(linked, {"memory": "m1"}, {"memory": "m2"})
    del rest["items"][0]
    await linked.call("delete_memory", {"id": await find_id(linked, "m2"), "permanent": True})

    gone, other = await read_rest(linked, rest, {"memory": "m1"})

    assert gone["error"]["reason"] == "not_found"
    assert other["success"]


@pytest.mark.parametrize("note", ["last 7 days", "last 2 days", "today", "yesterday"])
async def test_days_stay_past_midnight(note: str, linked: Abilities, roots: Settings) -> None:
    request: Payload = {"items": [{"note": note}]}
    tomorrow = TODAY + timedelta(days=1)
    write_notes(roots, [tomorrow], lines=1)
    if note in ("today", "yesterday"):
        write_notes(roots, [tomorrow, TODAY, TODAY - timedelta(days=1)], lines=400)
    with today_is(TODAY):
        (whole,) = await collect(lambda asked: linked.call("read", asked), request)

    replies = 0

    async def read_a_day_later(asked: Payload) -> Payload:
        nonlocal replies
        replies += 1
        with today_is(TODAY if replies == 1 else tomorrow):
            return await linked.call("read", {**asked, "max_tokens": 1_000})

    (parts,) = await collect(read_a_day_later, request)

    assert replies > 1
    assert [leaf.content for leaf in parts.leaves] == [leaf.content for leaf in whole.leaves]
