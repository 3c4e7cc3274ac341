"""Whole files first: one item of a reply is cut at most, and what is left out is never read."""

import asyncio
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, render
from abilities.declarations.values import JsonObject
from abilities.helpers.batch import sharing
from abilities.helpers.batch.items import BatchSources, foresee_file
from abilities.helpers.reply.budget import MIN_SHARE, Bound, ItemSize, find_level, rank, share_room
from abilities.helpers.reply.envelope import (
    FoundItem,
    RecordDraft,
    RecordForm,
)
from abilities.helpers.text import Piece
from tests.support.reading import follow, list_outcomes, noting_reads, write_files
from tests.support.tier import size

EXAMPLES = size("ABILITIES_EXAMPLES", quick=10, full=60)
many = hypothesis_settings(max_examples=EXAMPLES * 5)

Items = list[tuple[int, int]]
weights = st.integers(1, 9)
few = st.lists(st.tuples(st.integers(0, 60), weights), min_size=1, max_size=6)
batches = st.lists(st.tuples(st.integers(0, 100_000), weights), min_size=1, max_size=25)
rooms = st.integers(-100, 200_000)


def build_costs(
    fixed: st.SearchStrategy[int], more: int, out: st.SearchStrategy[int], content: int
) -> st.SearchStrategy[ItemSize]:
    parts = (fixed, st.integers(0, more), out, st.integers(0, content))
    return st.tuples(*parts).map(lambda n: ItemSize(n[0], n[0] + n[1], n[2], n[3]))


costs = build_costs(st.integers(100, 400), 300, st.integers(150, 500), 30_000)
small = build_costs(st.integers(1, 40), 90, st.integers(1, 60), 300)


def measure_taken(item: ItemSize, grant: int | None) -> int:
    if grant is None:
        return item.left_out

    return item.overhead + item.content if grant >= item.content else item.cut_overhead + grant


@many
@given(st.lists(costs, min_size=1, max_size=25), st.integers(14_000, 80_000))
def test_the_budget_is_kept_and_one_item_is_cut_at_most(items: list[ItemSize], room: int) -> None:
    grants = share_room(items, room)
    taken = sum(measure_taken(item, grant) for item, grant in zip(items, grants, strict=True))

    assert len(grants) == len(items)
    assert taken <= room

    pairs = zip(items, grants, strict=True)
    granted = [(item, grant) for item, grant in pairs if grant is not None]
    cut = [(item, grant) for item, grant in granted if grant < item.content]

    assert granted, "every reply has some content"
    assert len(cut) <= 1
    assert all(grant >= MIN_SHARE for _, grant in cut)

    if cut:
        assert taken == room, "room is not wasted"


@many
@given(st.lists(small, min_size=1, max_size=6), st.integers(0, 1200))
def test_a_share_is_what_going_through_the_items_finds(items: list[ItemSize], room: int) -> None:
    assert share_room(items, room) == share_by_hand(items, room)


def share_by_hand(items: list[ItemSize], room: int) -> list[int | None]:
    """Grant one item after another, and add up the whole reply each time."""
    spare = room - sum(item.left_out for item in items)
    levels = [
        level for level in range(301) if sum(min(item.content, level) for item in items) <= spare
    ]
    level = max(levels, default=-1)

    first = sorted((item.content, n) for n, item in enumerate(items) if item.content <= level)
    order = [n for _, n in first]
    order += [n for n in range(len(items)) if n not in order]

    grants: list[int | None] = [None] * len(items)
    for n in order:
        others = sum(
            measure_taken(item, grant)
            for m, (item, grant) in enumerate(zip(items, grants, strict=True))
            if m != n
        )
        if others + items[n].overhead + items[n].content <= room:
            grants[n] = items[n].content
            continue

        granted = room - others - items[n].cut_overhead
        if granted >= MIN_SHARE or grants == [None] * len(items):
            grants[n] = max(granted, MIN_SHARE)
        break

    return grants


@many
@given(few, st.integers(0, 600))
def test_the_level_is_the_highest_at_which_all_fit(items: Items, room: int) -> None:
    """An independent oracle: try one level after another."""
    tallest = max(-(-need // weight) for need, weight in items)
    fitting = [
        level
        for level in range(tallest + 1)
        if sum(min(need, level * weight) for need, weight in items) <= room
    ]

    assert find_level(*divide(items, room)) == fitting[-1]


def divide(items: Items, room: int) -> tuple[list[int], int, list[int]]:
    return [need for need, _ in items], room, [weight for _, weight in items]


@many
@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=25), rooms, weights)
def test_equal_weights_are_no_weights(sizes: list[int], room: int, weight: int) -> None:
    ones = [1] * len(sizes)

    assert rank(sizes, room, ones) == rank(sizes, room)
    assert find_level(sizes, room, ones) == find_level(sizes, room)
    assert sorted(rank(sizes, room, [weight] * len(sizes))) == sorted(rank(sizes, room))


@many
@given(batches, rooms)
def test_small_items_come_first_by_height_and_large_ones_by_weight(items: Items, room: int) -> None:
    level = find_level(*divide(items, room))

    order = rank(*divide(items, room))

    assert sorted(order) == list(range(len(items)))
    ranked = [(*items[index], index) for index in order]
    small = [item for item in ranked if item[0] <= level * item[1]]
    assert ranked[: len(small)] == sorted(small, key=lambda i: (Fraction(i[0], i[1]), i[2]))
    large = [item for item in ranked if item not in small]
    assert ranked[len(small) :] == sorted(large, key=lambda item: (-item[1], item[2]))


@many
@given(batches, st.integers(0, 200_000), st.integers(2, 9))
def test_only_the_proportion_of_weights_counts(items: Items, room: int, factor: int) -> None:
    few_weights = [(need, 1 + weight % 2) for need, weight in items]
    larger = [(need * factor, weight) for need, weight in few_weights]
    heavier = [(need, weight * 4) for need, weight in few_weights]

    level = find_level(*divide(few_weights, room))

    # Levels are whole numbers, so that either differs by what was rounded.
    assert abs(find_level(*divide(larger, room * factor)) - level * factor) <= factor
    assert abs(find_level(*divide(heavier, room)) * 4 - level) <= 4


def test_no_record_of_a_cut_file_takes_more_than_was_foreseen() -> None:
    widest = 10**12
    data: JsonObject = {
        **{"path": "a.txt", "source": "workspace", "content": "", "size_bytes": widest},
        **{"modified_at": "2026-11-22T09:42:30.000Z", "version": "0" * 12, "lines": widest},
        **{"encoding": "utf-16-le", "replaced": 100_000, "redacted": 100_000},
    }
    piece = Piece("x" * 100_000, start=widest, rest=True, total_chars=100_000, end=widest * 9)
    found = FoundItem(data, piece, "a.txt", lambda point: f"a.txt#{point}", widest)

    taken, foreseen = (
        RecordDraft(item, Bound(64_000), RecordForm({"input": "a.txt"})).measure().cut_overhead
        for item in (found, foresee_file("a.txt"))
    )

    assert taken <= foreseen + sharing._UNFORESEEN_BYTES


@pytest.mark.requirement("R5.4.2")
async def test_small_files_are_whole_and_large_ones_follow_as_asked(roots: Settings) -> None:
    large, small = [f"large{n}.txt" for n in range(5)], [f"small{n}.txt" for n in range(20)]
    write_files(roots.workspace_dir, dict.fromkeys(small, "small " * 20))
    write_files(roots.workspace_dir, dict.fromkeys(large, "large " * 20_000))
    request = {"paths": [*large, *small], "max_chars_per_file": 30_000}

    async with Abilities.open(roots) as abilities:
        with noting_reads() as reads:
            payload = await abilities.call("file_read_bulk", request)

    first, second, *others = payload["results"][:5]
    following = [record["truncation"]["next"] for record in (first, second)]

    assert [len(record["data"]["content"]) for record in payload["results"][5:]] == [120] * 20
    assert first["truncation"]["reason"] == "max_chars"
    assert second["truncation"]["reason"] == "budget"
    assert [record["error"]["size_bytes"] for record in others] == [120_000] * 3
    assert payload["next_request"]["paths"] == [*following, *large[2:]]
    names = {read.path.name for read in reads if read.path.parent == roots.workspace_dir}
    assert names == {*large[:2], *small}
    assert len(render(payload).encode()) > 0.98 * roots.max_response_bytes, "the room gets used"


@pytest.mark.requirement("R5.4.2")
async def test_twenty_five_files_of_16_kib_come_in_seven_replies(roots: Settings) -> None:
    text = f"{'a line of source code of ordinary length':<63}\n" * 256
    texts = {f"{n:02}.txt": text for n in range(25)}
    write_files(roots.workspace_dir, texts)
    received = dict.fromkeys(texts, "")

    async with Abilities.open(roots) as abilities:
        payloads = [p async for p in follow(abilities, "file_read_bulk", {"paths": list(texts)})]

    for payload in payloads:
        for data in (record["data"] for record in payload["results"] if record["success"]):
            received[data["path"]] += data["content"]

    assert (len(payloads), sum(p["summary"]["succeeded"] for p in payloads)) == (7, 31)
    assert received == texts


TEXT = "first\n" * 2_000


def replace(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "shrinks": (lambda file: os.truncate(file, 10), "first\nfirs"),
    "grows": (lambda file: file.write_text(TEXT * 15), TEXT),
    "is removed": (Path.unlink, "not_found"),
    "is replaced": (lambda file: replace(file, "other\n" * 2_000), "other\n"),
}
"""What happens to a file, and how what is read of it begins."""


@pytest.mark.requirement("R5.6.3")
@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_that_changes_before_it_is_read_fails_alone_or_is_read(
    change: str, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    act, beginning = CHANGES[change]
    paths = [f"{n}.txt" for n in range(6)]
    write_files(roots.workspace_dir, dict.fromkeys(paths, TEXT))

    def change_and_remember(*_: object) -> Any:
        act(roots.workspace_dir / "1.txt")
        return asyncio.sleep(0, {})

    # All files have been opened by then, and the large ones are read afterwards.
    monkeypatch.setattr(BatchSources, "remember", change_and_remember)

    async with Abilities.open(roots) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": paths})

    before, changed, after = list_outcomes(payload)[:3]

    assert len(render(payload).encode()) <= roots.max_response_bytes
    assert before == after == TEXT
    assert changed.startswith(beginning)
