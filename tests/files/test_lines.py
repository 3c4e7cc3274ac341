"""Parts of a file: several cost one search, and are what each would be on its own.

A file that shrinks while it is read is answered with `changed`, whatever part is read.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities import Abilities, Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.files import window
from abilities.helpers.files.window import read_piece
from abilities.helpers.text import WHOLE, Piece, Range, parse_range, replace_markers
from tests.support.reading import OpenFile, follow, list_outcomes, noting_reads, write_files
from tests.support.secret_samples import WORD, draw
from tests.support.surfaces import python
from tests.support.tier import size

TOKEN = f"ghp_{draw(Random(7), WORD, 36)}"
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])
chunks = st.sampled_from([2, 6, 16, 4_096])
few = st.integers(1, 40)
ranges = st.lists(st.tuples(few, st.one_of(st.none(), st.integers(0, 10))), max_size=12)


def read_parts(raw: bytes, chunk: int, parts: list[Range]) -> list[str]:
    """Return parts of one file, of which so many bytes are read at once to find lines."""
    with pytest.MonkeyPatch.context() as patch, OpenFile(raw) as file:
        patch.setattr(window, "_CHUNK", chunk)
        patch.setattr(window, "_FEW_BYTES", 2)
        return [replace_markers(file.read(part, 1_000).text) for part in parts]


@given(encodings, st.text(st.sampled_from("\n\nab\u0a0aé"), max_size=120), chunks, ranges)
def test_lines_are_the_same_whatever_is_known_of_others(
    encoding: str, text: str, chunk: int, ranges: list[tuple[int, int | None]]
) -> None:
    lines = text.splitlines(keepends=True)
    places = [(first, None if more is None else first + more) for first, more in ranges]
    parts = [Range(first_line=first, last_line=last) for first, last in places]

    texts = read_parts(text.encode(encoding), chunk, parts)

    assert texts == ["".join(lines[first - 1 : last]) for first, last in places]


@given(
    encoding=encodings,
    text=st.text(st.sampled_from("\n\n\rab\u0a0aé"), max_size=120),
    chunk=chunks,
    counts=st.lists(few, max_size=12),
    odd=st.sampled_from([b"", b"\xc3"]),
)
def test_the_last_lines_are_the_same_whatever_is_known_of_others(
    encoding: str, text: str, chunk: int, counts: list[int], odd: bytes
) -> None:
    raw = text.encode(encoding) + odd
    lines = [f"{line}\n" for line in raw.decode(encoding, "replace").split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()  # the file ends with a line end

    texts = read_parts(raw, chunk, [Range(trailing_lines=count) for count in counts])

    assert texts == ["".join(lines[-count:]) for count in counts]


@given(
    encoding=encodings,
    text=st.text(st.sampled_from("\n\rab\u0a0aé"), max_size=120),
    max_chars=st.integers(1, 150),
    redacts=st.booleans(),
)
def test_a_file_that_was_read_says_how_many_lines_it_has(
    encoding: str, text: str, max_chars: int, redacts: bool
) -> None:
    raw = f"{text}{TOKEN}".encode(encoding)
    count = text.count("\n") + 1

    with OpenFile(raw, redacts=redacts) as file:
        piece = file.read(WHOLE, max_chars)
    with OpenFile(raw) as file:
        last = file.read(Range(first_line=count), 99)

    assert piece.lines == (None if piece.total_chars is None else count)
    assert last.text == text.rpartition("\n")[2] + TOKEN
    assert last.lines == (1 if "\n" not in text else None)


async def test_the_last_lines_of_a_large_file_are_read_from_its_end(roots: Settings) -> None:
    path = roots.workspace_dir / "huge.log"
    tail = "".join(f"line {n}\r\n" for n in range(1_000))
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + tail.encode())
    request = {"paths": ["huge.log#L-999"], "max_chars_per_file": 1_234}
    pieces: list[str] = []

    async with Abilities.open(roots) as abilities:
        async for answer in follow(abilities, "file_read_bulk", request):
            pieces += list_outcomes(answer)
            with path.open("ab") as file:
                file.write(b"more\n")

    assert "".join(pieces) == tail.removeprefix("line 0\r\n") + "more\n" * (len(pieces) - 1)


@pytest.mark.parametrize("place", ["from its start", "from its end"])
async def test_parts_of_one_file_cost_one_search(place: str, roots: Settings) -> None:
    lines = [f"line {n}\n" for n in range(1, 200_001)]
    write_files(roots.workspace_dir, {"long.log": "".join(lines)})
    numbers = [n * 7_500 + 7 for n in range(25)]
    numbers = [*numbers[::2], *numbers[1::2]]
    parts = [f"L{n}-L{n + 1}" for n in numbers]
    if place == "from its end":
        parts = [f"L-{200_001 - n}" for n in numbers]

    async with Abilities.open(roots) as abilities:
        request = {"paths": [f"long.log#{part}" for part in parts], "max_chars_per_file": 1_000}
        with noting_reads() as reads:
            answer = await abilities.call("file_read_bulk", request)

    for number, content in zip(numbers, list_outcomes(answer), strict=True):
        assert content.startswith("".join(lines[number - 1 : number + 1]))

    searched = [read.came for read in reads if read.asked > 100_000]  # others read parts
    size = sum(map(len, lines))
    assert sum(searched) < size * 1.5 + 50 * 256 * 1024


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


TRIES = size("ABILITIES_SHRINK_TRIES", quick=15, full=250)
MOST_TRIES = 100_000
"""The race is run on until it was seen: the system may let the writer rest for a while."""

LOG = "".join(f"line {number}: Grüße 世界\n" for number in range(1_200)).encode()
HALF = LOG.index(b"line 600")
PARTS = [
    *("", f"byte={HALF}", f"byte={HALF}-{HALF + 4000}", f"byte=0-{HALF}"),
    *("L1-", "L600-L610", "L1199-", "L600-L2000"),
]


def read_part(path: Path, requested: Range, at: Callable[[int], object]) -> tuple[Piece, int]:
    """Read a part of a file; ``at`` is called with the number of each read before it is made.

    Return the part, and the number of reads.
    """
    numbers = count()

    def read(function: Callable[..., bytes], *arguments: Any) -> bytes:
        at(next(numbers))
        return function(*arguments)

    descriptor = os.open(path, os.O_RDONLY)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("pread", "read"):
            patch.setattr(os, name, partial(read, getattr(os, name)))
        for name in ("CHUNK", "_CHUNK"):
            patch.setattr(window, name, 4_096)
        try:
            size = os.fstat(descriptor).st_size
            piece = read_piece(descriptor, size, requested, 10_000, lambda: None)
        finally:
            os.close(descriptor)

    return piece, next(numbers)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_file_cut_before_any_read_has_changed(part: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    content = LOG if encoding == "utf-8" else LOG.decode().encode("utf-16")
    path.write_bytes(content)
    requested = parse_range(part) if part else WHOLE
    if encoding == "utf-16" and part.startswith("byte"):
        requested = Range(start=2 * 6000)
    whole, reads = read_part(path, requested, lambda _: None)

    assert reads >= 1
    for cut, left in product(range(reads), (0, 1, 5, HALF - 1)):

        def truncate(number: int, cut: int = cut, left: int = left) -> None:
            if number == cut:
                os.truncate(path, left)

        path.write_bytes(content)
        try:
            piece, _ = read_part(path, requested, truncate)
        except Refused as error:
            assert error.reason == "changed", (cut, left)
        else:
            # All that was asked for had been read before the cut, or was left standing.
            assert piece.text == whole.text, (cut, left)


REWRITING = """
import os, sys
log = os.open(sys.argv[1], os.O_RDWR)
content = os.pread(log, 10_000_000, 0)
while True:
    os.ftruncate(log, 0)
    os.pwrite(log, content, 0)
"""


async def test_a_log_truncated_and_written_anew_is_read_or_has_changed(roots: Settings) -> None:
    log = roots.workspace_dir / "app.log"
    log.write_bytes(LOG * 10)
    paths = [f"app.log#{part}".rstrip("#") for part in PARTS]
    reasons: Counter[str] = Counter()
    writer = subprocess.Popen([sys.executable, "-c", REWRITING, log])

    try:
        async with Abilities.open(roots) as abilities:
            for attempt in range(MOST_TRIES):
                if attempt >= TRIES and reasons["changed"]:
                    break

                answer = await abilities.call("file_read_bulk", {"paths": paths})
                for record in answer["results"]:
                    reasons[record.get("error", {}).get("reason", "read")] += 1
        assert writer.poll() is None, "the file was rewritten until the end"
    finally:
        writer.kill()
        writer.wait()

    assert set(reasons) <= {"read", "changed", "invalid_range", "response_budget"}, reasons
    assert reasons["changed"]
