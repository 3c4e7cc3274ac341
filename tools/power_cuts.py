"""Power cuts: what was synced is on the disk, and any part of the rest, in any sectors.

This is figure 5 of `make torture`. The system calls of a writer are recorded (`power.c`), and cuts
are played at random moments of the record: each write that had begun and that no sync covered is
dropped, kept, or kept in some of its sectors of 512 bytes. As a control, the same writer with
`synchronous = NORMAL` must lose acknowledged changes; otherwise the simulation proves nothing.
Needs a C compiler.
"""

import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import IntegrityFinding
from tests.stores.behaviours import NAMESPACE
from tests.stores.test_stores import fill_store
from tests.support.measurements import reached
from tests.support.places import FilePlace

CUTS = int(os.environ.get("ABILITIES_CUTS", "10"))
MIN_CUTS = 10
"""Fewer cuts might lose nothing even in the control."""

WRITING_SECONDS = 6
SECTOR = 512
WRITER = """
import asyncio, sys
from pathlib import Path

from tests.stores.behaviours import put
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.store import SqliteStore

open_file = StoreFile.open

def open_weakly(self, **options):
    connection = open_file(self, **options)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection

async def write(store, n):
    await put(store, f"k{n}", content="x" * (n % 3000), links=[(f"k{n - 1}", 0.5)], tags=["t"])
    print(n, flush=True)

async def main():
    if sys.argv[2] == "NORMAL":
        StoreFile.open = open_weakly
    store = SqliteStore(Path(sys.argv[1]))
    for n in range(0, 10**6, 4):
        await asyncio.gather(*(write(store, n + m) for m in range(4)))

asyncio.run(main())
"""


class Record(NamedTuple):
    """One recorded system call; ``kind`` is a letter that `power.c` explains."""

    kind: str
    file: str
    offset: int
    data: bytes


class Inspection(NamedTuple):
    """Acknowledged changes that are missing after a cut, and what a check finds damaged."""

    missing: list[str]
    damaged: list[IntegrityFinding]


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled recorder."""
    library = tmp_path_factory.mktemp("power") / "power.so"
    source = Path(__file__).with_name("power.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_power_cuts(synchronous: str, recorder: Path, tmp_path: Path) -> None:
    """With FULL, as in the product, no acknowledged change is lost; with NORMAL some are."""
    folder = tmp_path / "store"
    folder.mkdir()
    await fill_store(FilePlace(folder / "m.db"), 1)
    before = read_files(folder)

    records = list(record_writer(recorder, folder, synchronous))
    assert sum(record.kind == "A" for record in records) > 100

    chance = random.Random(5)
    cuts = max(CUTS, MIN_CUTS)
    lost = 0

    for number in range(cuts):
        image = tmp_path / f"cut{number}"
        image.mkdir()
        moment = chance.randrange(len(records) // 10, len(records))

        acknowledged = play_cut(records[:moment], before, image, chance)
        inspection = await inspect(image / "m.db", acknowledged)

        assert not inspection.damaged, inspection.damaged
        lost += len(inspection.missing)
        shutil.rmtree(image)

    if synchronous == "FULL":
        assert lost == 0
        reached(5, f"{cuts} simulated power cuts, {lost} acknowledged changes lost")
    else:
        assert lost > 0, "even the weaker setting lost nothing: the simulation proves nothing"
        reached(5, f"control with synchronous=NORMAL: {lost} lost in {cuts}")


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a store by name, without the shared memory, which no cut leaves."""
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")
    }


def record_writer(recorder: Path, folder: Path, synchronous: str) -> Iterator[Record]:
    """Let a writer work for a while, kill it, and yield what it did."""
    log = folder.parent / "log"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(recorder),
        "POWER_DIR": str(folder),
        "POWER_LOG": str(log),
    }
    command = [sys.executable, "-c", WRITER, str(folder / "m.db"), synchronous]

    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            process.wait(timeout=WRITING_SECONDS)
            raise AssertionError("the writer ended by itself")
        except subprocess.TimeoutExpired:
            process.kill()

    yield from parse_log(log.read_bytes())


def parse_log(log: bytes) -> Iterator[Record]:
    """Yield the records of a log; the last one may be incomplete, and is left out."""
    header = struct.Struct("=cIQI")
    names: dict[int, str] = {}
    position = 0

    while position + header.size <= len(log):
        kind, descriptor, offset, length = header.unpack_from(log, position)
        position += header.size
        data = log[position : position + length]
        position += length

        if kind == b"O":
            names[descriptor] = Path(data.decode()).name

        name = names.get(descriptor, "")
        if kind == b"U":
            name = Path(data.decode()).name

        yield Record(kind.decode(), name, offset, data)


def play_cut(
    records: list[Record], before: dict[str, bytes], image: Path, chance: random.Random
) -> set[int]:
    """Write the files as they may be after a cut; return what was acknowledged before it."""
    files = {name: bytearray(data) for name, data in before.items()}
    unsynced: dict[str, list[Record]] = {}
    acknowledged: set[int] = set()

    for record in records:
        if record.kind == "A":
            acknowledged |= set(map(int, record.data.split()))
        elif record.kind == "S":
            for synced in unsynced.pop(record.file, []):
                apply(files, synced, None)
        elif record.kind in "WT":
            unsynced.setdefault(record.file, []).append(record)
        elif record.kind == "U":
            files.pop(record.file, None)
            unsynced.pop(record.file, None)

    # Of what was not synced a third is lost, a third is whole, and a third is torn.
    for of_file in unsynced.values():
        for record in of_file:
            if chance.random() < 0.67:
                is_torn = chance.random() < 0.5
                apply(files, record, chance if is_torn else None)

    for name, data in files.items():
        if not name.endswith("-shm"):
            (image / name).write_bytes(data)

    return acknowledged


def apply(files: dict[str, bytearray], record: Record, torn: random.Random | None) -> None:
    """Do what a record says; ``torn`` decides for each sector of a write whether it is there."""
    file = files.setdefault(record.file, bytearray())

    if record.kind == "T":
        del file[record.offset :]
        file.extend(bytes(max(record.offset - len(file), 0)))
        return

    end = record.offset + len(record.data)
    file.extend(bytes(max(end - len(file), 0)))

    for start in range(0, len(record.data), SECTOR):
        if torn is None or torn.random() < 0.5:
            sector = record.data[start : start + SECTOR]
            file[record.offset + start : record.offset + start + len(sector)] = sector


async def inspect(path: Path, acknowledged: set[int]) -> Inspection:
    """Look for the acknowledged changes in a store, and check it."""
    keys = [f"k{n}" for n in sorted(acknowledged)]

    async with FilePlace(path).open() as store:
        memories = await store.read(NAMESPACE, keys) if keys else []
        findings = await store.check(lambda _: None, full=True)

    missing = [
        key
        for key, memory in zip(keys, memories, strict=True)
        if not isinstance(memory, StoredMemory)
    ]
    damaged = [finding for finding in findings if finding.state == "damaged"]
    return Inspection(missing, damaged)
