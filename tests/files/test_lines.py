"""Several line ranges of one file cost one search, and are what each would be on its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject
from abilities.helpers.files import window
from abilities.helpers.files.window import KnownLines, read_piece
from abilities.helpers.text.codec import replace_markers
from abilities.helpers.text.pieces import WHOLE, Range
from tests.support.secret_samples import WORD, draw
from tests.support.surfaces import python

TOKEN = f"ghp_{draw(Random(7), WORD, 36)}"

RANGES = st.lists(
    st.tuples(st.integers(1, 40), st.one_of(st.none(), st.integers(0, 10))), max_size=12
)


@contextmanager
def open_bytes(raw: bytes) -> Iterator[tuple[int, int]]:
    descriptor = os.memfd_create("text")
    try:
        os.write(descriptor, raw)
        yield descriptor, len(raw)
    finally:
        os.close(descriptor)


def count_searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the sizes of all reads that look for lines."""
    searched: list[int] = []
    pread = os.pread

    def count(descriptor: int, length: int, position: int) -> bytes:
        raw = pread(descriptor, length, position)
        if length > 100_000:  # others read what stands around a part
            searched.append(len(raw))
        return raw

    monkeypatch.setattr(os, "pread", count)
    return searched


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

    with (
        pytest.MonkeyPatch.context() as patch,
        open_bytes(text.encode(encoding)) as (descriptor, size),
    ):
        patch.setattr(window, "_CHUNK", chunk)
        patch.setattr(window, "_FEW_BYTES", 2)

        for first, more in ranges:
            last = None if more is None else first + more
            wanted = Range(first_line=first, last_line=last)
            piece = read_piece(descriptor, size, wanted, 1_000, lambda: None, known_lines=known)

            assert piece.text == "".join(expected[first - 1 : last])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@given(
    text=st.text(st.sampled_from("\n\n\rab\u0a0aé"), max_size=120),
    chunk=st.sampled_from([2, 6, 16, 4_096]),
    counts=st.lists(st.integers(1, 40), max_size=12),
    odd=st.sampled_from([b"", b"\xc3"]),
)
def test_the_last_lines_are_the_same_whatever_is_known_of_others(
    encoding: str, text: str, chunk: int, counts: list[int], odd: bytes
) -> None:
    raw = text.encode(encoding) + odd
    shown = raw.decode(encoding, "replace")
    expected = [f"{line}\n" for line in shown.split("\n")]
    expected[-1] = expected[-1][:-1]
    if not expected[-1]:
        expected.pop()  # the file ends with a line end
    known = KnownLines()

    with pytest.MonkeyPatch.context() as patch, open_bytes(raw) as (descriptor, size):
        patch.setattr(window, "_CHUNK", chunk)
        patch.setattr(window, "_FEW_BYTES", 2)

        for count in counts:
            wanted = Range(trailing_lines=count)
            piece = read_piece(descriptor, size, wanted, 1_000, lambda: None, known_lines=known)

            assert replace_markers(piece.text) == "".join(expected[-count:])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@given(
    text=st.text(st.sampled_from("\n\rab\u0a0aé"), max_size=120),
    max_chars=st.integers(1, 150),
    redacts=st.booleans(),
)
def test_a_file_that_was_read_says_how_many_lines_it_has(
    encoding: str, text: str, max_chars: int, redacts: bool
) -> None:
    raw = f"{text}{TOKEN}".encode(encoding)

    with open_bytes(raw) as (descriptor, size):
        os.lseek(descriptor, 0, os.SEEK_SET)
        piece = read_piece(descriptor, size, WHOLE, max_chars, lambda: None, redacts=redacts)
        last = read_piece(
            descriptor, size, Range(first_line=text.count("\n") + 1), 99, lambda: None
        )

    known = None if piece.total_chars is None else text.count("\n") + 1
    assert piece.lines == known
    assert last.text == text.rpartition("\n")[2] + TOKEN
    assert last.lines == (1 if "\n" not in text else None)


async def test_the_last_lines_of_a_large_file_are_read_from_its_end(roots: Settings) -> None:
    path: Path = roots.workspace_dir / "huge.log"
    tail = "".join(f"line {n}\r\n" for n in range(1_000))
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + tail.encode())

    async with Abilities.open(roots) as abilities:
        request: JsonObject | None = {"paths": ["huge.log#L-999"], "max_chars_per_file": 1_234}
        pieces: list[str] = []
        while request is not None:
            answer = await abilities.call("file_read_bulk", request)
            pieces.append(answer["results"][0]["data"]["content"])
            request = answer.get("next_request")
            with path.open("ab") as file:
                file.write(b"more\n")

    read = "".join(pieces)
    grown = read[len(tail) - len("line 0\r\n") :]
    assert read.removesuffix(grown) == tail.removeprefix("line 0\r\n")
    assert grown == "more\n" * (len(pieces) - 1)


async def test_the_last_lines_of_one_file_cost_one_search(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = roots.workspace_dir / "long.log"
    path.write_text("".join(f"line {n}\n" for n in range(400_000)))
    searched = count_searched(monkeypatch)
    counts = [300_000 - n * 11_000 for n in range(25)]
    paths = [f"long.log#L-{count}" for count in (*counts[::2], *counts[1::2])]

    async with Abilities.open(roots) as abilities:
        call = {"paths": paths, "max_chars_per_file": 11}
        answer = await abilities.call("file_read_bulk", call)

    for path_and_range, record in zip(paths, answer["results"], strict=True):
        first = 400_000 - int(path_and_range.split("#L-")[1])
        assert record["data"]["content"] == f"line {first}\n"[:11]
    assert sum(searched) < path.stat().st_size * 1.5 + 50 * 256 * 1024


async def test_ranges_of_one_file_cost_one_search(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = roots.workspace_dir / "long.log"
    path.write_text("".join(f"line {n}\n" for n in range(1, 400_001)))
    searched = count_searched(monkeypatch)
    numbers = [n * 15_000 + 7 for n in range(25)]
    paths = [f"long.log#L{n}-L{n + 1}" for n in (*numbers[::2], *numbers[1::2])]
    async with Abilities.open(roots) as abilities:
        answer = await abilities.call("file_read_bulk", {"paths": paths})

    for path_and_range, record in zip(paths, answer["results"], strict=True):
        first = int(path_and_range.split("#L")[1].split("-")[0])
        assert record["data"]["content"] == f"line {first}\nline {first + 1}\n"
    assert sum(searched) < path.stat().st_size * 1.5 + 50 * 256 * 1024


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"1\n2\n3\n", 3),
        (b"1\n2\n3", 3),
        (b"\xef\xbb\xbf1\r\n2", 2),
        ("1\n2\n".encode("utf-16"), 2),
    ],
)
@pytest.mark.parametrize("suffix", ["#L100-", "#L5-L9"])
async def test_lines_behind_the_end_say_how_many_there_are(
    suffix: str, raw: bytes, lines: int, roots: Settings
) -> None:
    (roots.workspace_dir / "short.txt").write_bytes(raw)

    for name, field in (("file_read_bulk", "paths"), ("read", "items")):
        payload = await python(roots, name, {field: [f"short.txt{suffix}"]})
        (record,) = payload["results"]
        assert (record["data"]["content"], record["data"]["lines"]) == ("", lines)
