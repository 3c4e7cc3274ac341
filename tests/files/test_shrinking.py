"""A file that shrinks while it is read is answered with `changed`, whatever part is read."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.files import window
from abilities.helpers.files.window import read_piece
from abilities.helpers.text.pieces import WHOLE, Piece, Range, parse_range
from tests.support.tier import size

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


async def test_a_log_truncated_and_written_anew_is_read_or_has_changed(roots: Settings) -> None:
    log = roots.workspace_dir / "app.log"
    content = LOG * 10
    log.write_bytes(content)
    reasons: Counter[str] = Counter()
    is_over = threading.Event()

    def rewrite() -> None:
        while not is_over.is_set():
            os.truncate(log, 0)
            with log.open("r+b") as file:
                file.write(content)

    paths = [f"app.log#{part}".rstrip("#") for part in PARTS]
    writer = threading.Thread(target=rewrite)

    async with Abilities.open(roots) as abilities:
        writer.start()
        try:
            for attempt in range(MOST_TRIES):
                if attempt >= TRIES and reasons["changed"]:
                    break

                answer = await abilities.call("file_read_bulk", {"paths": paths})
                for record in answer["results"]:
                    reasons[record.get("error", {}).get("reason", "read")] += 1
        finally:
            is_over.set()
            writer.join()

    assert set(reasons) <= {"read", "changed", "invalid_range", "response_budget"}, reasons
    assert reasons["changed"]
