"""Several line ranges of one file cost one search, and are what each would be on its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities import Abilities, Settings
from abilities.helpers.files import lines
from abilities.helpers.files.lines import KnownLines
from abilities.helpers.files.window import read_piece
from abilities.helpers.text.ranges import Range

RANGES = st.lists(
    st.tuples(st.integers(1, 40), st.one_of(st.none(), st.integers(0, 10))), max_size=12
)


@contextmanager
def open_text(text: str, encoding: str) -> Iterator[tuple[int, int]]:
    raw = text.encode(encoding)
    descriptor = os.memfd_create("text")
    try:
        os.write(descriptor, raw)
        yield descriptor, len(raw)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@given(
    text=st.text(st.sampled_from("\n\nab\u0a0aé"), max_size=120),
    chunk=st.sampled_from([2, 6, 16, 4_096]),
    ranges=RANGES,
)
def test_lines_are_the_same_whatever_is_known_of_others(
    encoding: str, text: str, chunk: int, ranges: list[tuple[int, int | None]]
) -> None:
    expected = text.split("\n")
    expected = [line + "\n" for line in expected[:-1]] + expected[-1:]
    known = KnownLines()

    with pytest.MonkeyPatch.context() as patch, open_text(text, encoding) as (descriptor, size):
        patch.setattr(lines, "_CHUNK", chunk)
        patch.setattr(lines, "_FEW_BYTES", 2)

        for first, more in ranges:
            last = None if more is None else first + more
            wanted = Range(first_line=first, last_line=last)
            piece = read_piece(descriptor, size, wanted, 1_000, lambda: None, known_lines=known)

            assert piece.text == "".join(expected[first - 1 : last])


async def test_ranges_of_one_file_cost_one_search(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = roots.workspace_dir / "long.log"
    path.write_text("".join(f"line {n}\n" for n in range(1, 400_001)))
    searched = 0
    pread = os.pread

    def count(descriptor: int, length: int, position: int) -> bytes:
        nonlocal searched
        raw = pread(descriptor, length, position)
        searched += len(raw) if length > 100_000 else 0  # others read what stands around a part
        return raw

    monkeypatch.setattr(os, "pread", count)
    numbers = [n * 15_000 + 7 for n in range(25)]
    paths = [f"long.log#L{n}-L{n + 1}" for n in (*numbers[::2], *numbers[1::2])]
    async with Abilities.open(roots) as abilities:
        answer = await abilities.call("file_read_bulk", {"paths": paths})

    for path_and_range, record in zip(paths, answer["results"], strict=True):
        first = int(path_and_range.split("#L")[1].split("-")[0])
        assert record["data"]["content"] == f"line {first}\nline {first + 1}\n"
    assert searched < path.stat().st_size * 1.5 + 50 * 256 * 1024
