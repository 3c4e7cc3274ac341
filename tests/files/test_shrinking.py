"""A file that shrinks while it is read is answered with `changed`, whatever part is read."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.files.window import read_piece
from abilities.helpers.text.pieces import WHOLE, Range, parse_range
from tests.support.tier import size

TRIES = size("ABILITIES_SHRINK_TRIES", quick=40, full=250)
MOST_TRIES = 100_000
"""The race is run on until it was seen: the system may let the writer rest for a while."""

LONG = "".join(f"line {number}: Grüße 世界\n" for number in range(12_000)).encode()
HALF = LONG.index(b"line 6000")

SUFFIXES = [
    "",
    f"byte={HALF}",
    f"byte={HALF}-{HALF + 4000}",
    f"byte=0-{HALF}",
    "L1-",
    "L6000-L6010",
    "L11999-",
    "L6000-L20000",
]


def count_reads(path: Path, requested: Range, at: Callable[[int], None]) -> Any:
    """Read a part of a file; ``at`` is called with the number of each read before it is made."""
    number = 0
    real_pread, real_read = os.pread, os.read

    def pread(*arguments: Any) -> bytes:
        nonlocal number
        at(number)
        number += 1
        return real_pread(*arguments)

    def read(*arguments: Any) -> bytes:
        nonlocal number
        at(number)
        number += 1
        return real_read(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", pread)
        patch.setattr(os, "read", read)

        descriptor = os.open(path, os.O_RDONLY)
        try:
            file_size = os.fstat(descriptor).st_size
            return read_piece(descriptor, file_size, requested, 100_000, lambda: None), number
        finally:
            os.close(descriptor)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("left", [0, 1, 5, HALF - 1])
def test_a_file_cut_before_any_read_has_changed(
    suffix: str, encoding: str, left: int, tmp_path: Path
) -> None:
    content = LONG
    if encoding == "utf-16":
        content = LONG.decode().encode("utf-16")
        left = left * 2 // 3 // 2

    path = tmp_path / "log.txt"
    path.write_bytes(content)
    requested = parse_range(suffix) if suffix else WHOLE
    if encoding == "utf-16" and suffix.startswith("byte"):
        requested = Range(start=2 * 6000, end=None)

    whole, reads = count_reads(path, requested, lambda _: None)

    for cut in range(reads):
        path.write_bytes(content)

        def truncate(number: int, cut: int = cut) -> None:
            if number == cut:
                os.truncate(path, left)

        try:
            piece, _ = count_reads(path, requested, truncate)
        except Refused as error:
            assert error.reason == "changed", (cut, error.reason)
        else:
            # All that was asked for had been read before the cut, or was left standing.
            assert piece.text == whole.text, cut

    assert reads >= 1


def test_an_emptied_file_is_never_a_shorter_answer(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"

    for suffix in SUFFIXES:
        path.write_bytes(LONG)
        requested = parse_range(suffix) if suffix else WHOLE

        with pytest.raises(Refused, match="changed"):
            count_reads(path, requested, lambda _: os.truncate(path, 0))


async def test_a_log_that_is_truncated_and_written_anew_is_read_or_has_changed(
    roots: Settings,
) -> None:
    log = roots.workspace_dir / "app.log"
    log.write_bytes(LONG)
    reasons: Counter[str] = Counter()
    is_over = threading.Event()

    def rewrite() -> None:
        while not is_over.is_set():
            os.truncate(log, 0)
            with log.open("r+b") as file:
                file.write(LONG)

    paths = [f"app.log#{suffix}".rstrip("#") for suffix in SUFFIXES]
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
