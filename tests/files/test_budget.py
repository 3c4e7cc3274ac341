"""Whole files first: one item of a reply is cut at most, and what is left out is never read."""

import asyncio
import os
import random
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, render
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.batch import sharing
from abilities.helpers.batch.items import foresee_file
from abilities.helpers.reply.budget import MIN_SHARE, Bound, ItemSize, find_level, rank, share_room
from abilities.helpers.reply.envelope import (
    FoundItem,
    RecordDraft,
    build_failed,
    build_left_out,
)
from abilities.helpers.text.pieces import Piece
from tests.support.cutting_all import cut_all, follow
from tests.support.tier import size
from tests.support.waiting import GIVE_UP_SECONDS

EXAMPLES = size("ABILITIES_EXAMPLES", quick=10, full=60)
many = hypothesis_settings(max_examples=EXAMPLES * 5, deadline=None)
some = hypothesis_settings(max_examples=EXAMPLES, deadline=None)

costs = st.builds(
    lambda fixed, more, out, content: ItemSize(fixed, fixed + more, out, content),
    *(st.integers(100, 400), st.integers(0, 300), st.integers(150, 500), st.integers(0, 30_000)),
)
small = st.builds(
    lambda fixed, more, out, content: ItemSize(fixed, fixed + more, out, content),
    *(st.integers(1, 40), st.integers(0, 90), st.integers(1, 60), st.integers(0, 300)),
)


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
def test_a_share_is_the_one_that_going_through_the_items_finds(
    items: list[ItemSize], room: int
) -> None:
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
@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(0, 1500))
def test_the_fair_level_is_the_highest_that_fits(sizes: list[int], room: int) -> None:
    level = find_level(sizes, room)

    assert sum(min(need, level) for need in sizes) <= room
    assert level == max(sizes) or sum(min(need, level + 1) for need in sizes) > room


def test_small_items_come_first_and_large_ones_as_they_stand() -> None:
    assert rank([900, 30, 800, 10, 30, 0], 700) == [5, 3, 1, 4, 0, 2]
    assert rank([5, 4, 3], 12) == [2, 1, 0]
    assert rank([5, 4, 3], -1) == [0, 1, 2]


def test_whole_files_first_takes_no_more_replies_or_fragments_than_cutting_all() -> None:
    numbers = random.Random(1816)
    fewer_fragments = 0

    for _ in range(1_000):
        sizes = [numbers.randint(0, 20_000) for _ in range(numbers.randint(1, 25))]
        replies, fragments = follow(share_room, sizes)
        naive_replies, naive_fragments = follow(cut_all, sizes)

        assert replies <= naive_replies, sizes
        assert fragments <= naive_fragments, sizes
        assert fragments <= len(sizes) + replies - 1, "one more for each reply but the last"

        fewer_fragments += fragments < naive_fragments

    assert fewer_fragments > 500
    assert follow(cut_all, [16_384] * 25) == (8, 200)
    assert follow(share_room, [16_384] * 25) == (7, 31)


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
        RecordDraft(item, Bound(64_000), {"input": "a.txt"}).measure().cut_overhead
        for item in (found, foresee_file("a.txt"))
    )

    assert taken <= foreseen + sharing._UNFORESEEN_BYTES


@contextmanager
def count_reads(folder: Path) -> Iterator[Counter[str]]:
    """Count the bytes that are read of each file in a folder, by its name."""
    counts: Counter[str] = Counter()
    read, pread = os.read, os.pread

    def count(fd: int, raw: bytes) -> bytes:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.parent == folder:
            counts[path.name] += len(raw)
        return raw

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "read", lambda fd, *rest: count(fd, read(fd, *rest)))
        patch.setattr(os, "pread", lambda fd, *rest: count(fd, pread(fd, *rest)))
        yield counts


repeated = st.tuples(
    st.sampled_from(["a line of text\n", '"\t\\"\n', "世界\r\n", "\u0001", "🙂", "x"]),
    st.one_of(st.integers(0, 60), st.integers(400, 4_000)),
)


@pytest.mark.requirement("R5.4.2", "R5.6.4")
@some
@given(
    repeats=st.lists(repeated, min_size=1, max_size=25),
    limit=st.sampled_from([40_000, 64_000]),
    chars=st.sampled_from([3_000, 20_000, 100_000]),
)
def test_no_file_is_read_that_is_left_out(
    tmp_path_factory: pytest.TempPathFactory,
    repeats: list[tuple[str, int]],
    limit: int,
    chars: int,
) -> None:
    texts = [line * times for line, times in repeats]
    asyncio.run(follow_and_count(tmp_path_factory.mktemp("files"), texts, limit, chars))


async def follow_and_count(folder: Path, texts: list[str], limit: int, chars: int) -> None:
    for n, text in enumerate(texts):
        (folder / f"{n}.txt").write_text(text, newline="")

    received = dict.fromkeys((f"{n}.txt" for n in range(len(texts))), "")
    request: dict[str, Any] = {"paths": list(received), "max_chars_per_file": chars}
    settings = Settings(workspace_dir=folder, agent_dir=folder, max_response_bytes=limit)

    async with Abilities.open(settings) as abilities:
        while request:
            with count_reads(folder) as counts:
                payload = await abilities.call("file_read_bulk", request)

            assert len(render(payload).encode()) <= limit
            assert await abilities.call("file_read_bulk", request) == payload

            cut = 0
            for record in payload["results"]:
                name = record["input"].partition("#")[0]
                if record["success"]:
                    received[name] += record["data"]["content"]
                    cut += record.get("truncation", {}).get("reason") == "budget"
                else:
                    assert record["error"]["reason"] == "response_budget"
                    assert record["error"]["size_bytes"] == (folder / name).stat().st_size
                    # Only escapes can take the room from a file that is small enough for it.
                    read_before = len(received[name].encode())
                    wanted = min(record["error"]["size_bytes"] - read_before, chars)
                    is_small = wanted <= limit // len(request["paths"])
                    assert counts[name] == 0 or is_small, "it was read in vain"

            assert cut <= 1
            assert payload["summary"]["succeeded"]

            request = payload.get("next_request", {})

    assert list(received.values()) == texts


@pytest.mark.requirement("R5.4.2")
async def test_small_files_are_whole_and_large_ones_follow_as_asked(roots: Settings) -> None:
    for n in range(20):
        (roots.workspace_dir / f"small{n}.txt").write_text("small " * 20)

    for n in range(5):
        (roots.workspace_dir / f"large{n}.txt").write_text("large " * 20_000)

    large, small = [f"large{n}.txt" for n in range(5)], [f"small{n}.txt" for n in range(20)]
    request = {"paths": [*large, *small], "max_chars_per_file": 30_000}

    async with Abilities.open(roots) as abilities:
        with count_reads(roots.workspace_dir) as counts:
            payload = await abilities.call("file_read_bulk", request)

    first, second, *others = payload["results"][:5]

    assert [len(record["data"]["content"]) for record in payload["results"][5:]] == [120] * 20
    assert first["truncation"]["reason"] == "max_chars"
    assert second["truncation"]["reason"] == "budget"
    assert [record["error"]["size_bytes"] for record in others] == [120_000] * 3
    assert payload["next_request"]["paths"] == [
        first["truncation"]["next"],
        second["truncation"]["next"],
        *large[2:],
    ]
    assert set(counts) == {*large[:2], *small}
    assert len(render(payload).encode()) > 0.98 * roots.max_response_bytes, (
        "the room there is gets used"
    )


@pytest.mark.requirement("R5.4.2")
async def test_twenty_five_files_of_16_kib_come_in_seven_replies(roots: Settings) -> None:
    text = f"{'a line of source code of ordinary length':<63}\n" * 256
    paths = [f"{n:02}.txt" for n in range(25)]
    for path in paths:
        (roots.workspace_dir / path).write_text(text)

    request: dict[str, Any] = {"paths": paths}
    received = dict.fromkeys(paths, "")
    replies = fragments = 0

    async with Abilities.open(roots) as abilities:
        while request:
            payload = await abilities.call("file_read_bulk", request)
            replies += 1
            fragments += payload["summary"]["succeeded"]
            for record in payload["results"]:
                if record["success"]:
                    received[record["data"]["path"]] += record["data"]["content"]
            request = payload.get("next_request", {})

    assert (replies, fragments) == (7, 31)
    assert set(received.values()) == {text}


async def test_line_ranges_of_a_large_file_come_together(roots: Settings) -> None:
    line = "a line of a log that is fairly long\n"
    (roots.workspace_dir / "log.txt").write_text(line * 20_000)
    paths = [f"log.txt#L{n}-L{n + 9}" for n in range(1, 2_500, 100)]

    async with Abilities.open(roots) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": paths})

    assert [record["data"]["content"] for record in payload["results"]] == [line * 10] * 25


@pytest.mark.requirement("R5.6.3")
@pytest.mark.parametrize("change", ["shrink", "grow", "remove", "replace"])
async def test_a_file_that_changes_before_it_is_read_fails_alone_or_is_read(
    change: str, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [f"{n}.txt" for n in range(6)]
    for path in paths:
        (roots.workspace_dir / path).write_text("first\n" * 2_000)
    changing = roots.workspace_dir / "1.txt"

    def change_and_suggest(*_: object) -> Any:
        if change == "shrink":
            os.truncate(changing, 10)
        elif change == "grow":
            changing.write_text("first\n" * 30_000)
        else:
            changing.unlink()
            if change == "replace":
                changing.write_text("other\n" * 2_000)
        return asyncio.sleep(0, {})

    # All files have been opened by then, and the large ones are read afterwards.
    monkeypatch.setattr("abilities.helpers.batch.files.suggest_paths", change_and_suggest)

    async with Abilities.open(roots) as abilities:
        payload = await abilities.call("file_read_bulk", {"paths": paths})

    before, changed, after = payload["results"][:3]

    assert len(render(payload).encode()) <= roots.max_response_bytes
    assert before["data"]["content"] == after["data"]["content"] == "first\n" * 2_000

    if change == "remove":
        assert changed["error"]["reason"] == "not_found"
    else:
        expected = {"shrink": "first\nfirs", "grow": "first\n" * 2_000, "replace": "other\n"}
        assert changed["data"]["content"].startswith(expected[change])


FEW_DESCRIPTORS = """
    import asyncio, os, resource, sys
    from abilities import Abilities, Settings
    async def main():
        settings = Settings(agent_dir=sys.argv[1], workspace_dir=sys.argv[2])
        arguments = {"paths": [f"{n:02}.txt" for n in range(25)]}
        async with Abilities.open(settings) as abilities:
            plenty = await abilities.call("file_read_bulk", arguments)
            held = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (held + int(sys.argv[3]),) * 2)
            calls = [abilities.call("file_read_bulk", arguments) for _ in range(int(sys.argv[4]))]
            answers = await asyncio.gather(*calls)
            print(all(answer == plenty for answer in answers), plenty["summary"]["succeeded"])
            for _ in range(100):
                if len(os.listdir("/proc/self/fd")) <= held:
                    break
                await asyncio.sleep(0.05)  # threads close what they hold after they have answered
            print(len(os.listdir("/proc/self/fd")) <= held)
    asyncio.run(main())
"""


@pytest.mark.parametrize(("free", "calls"), [(8, 1), (32, 4), (64, 64)])
def test_files_that_wait_take_no_descriptors_that_others_need(
    free: int, calls: int, roots: Settings
) -> None:
    for n in range(25):
        (roots.workspace_dir / f"{n:02}.txt").write_text("line\n" * 3_200)

    done = subprocess.run(
        [
            *(sys.executable, "-c", textwrap.dedent(FEW_DESCRIPTORS)),
            *(str(roots.agent_dir), str(roots.workspace_dir), str(free), str(calls)),
        ],
        capture_output=True,
        text=True,
        timeout=GIVE_UP_SECONDS,
        check=True,
    )

    assert done.stdout.splitlines() == ["True 4", "True"], done.stderr


def test_an_item_left_out_has_the_record_of_any_other_failure() -> None:
    fault = Fault.from_reason("response_budget", size_bytes=5)

    record = build_left_out(5, {"input": "a"}, {"depth": 1})

    assert render(record) == render(build_failed(fault.to_payload(), {"input": "a"}, {"depth": 1}))
