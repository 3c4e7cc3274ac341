"""Figure 5: power cuts. What reached the disk is what was synced; of the rest any part may have, in any sectors.

A writer's system calls are recorded (`power.c`), and cuts are played at random moments of the record: each begun
write that no sync covered is dropped, kept, or kept in some of its sectors of 512 bytes. The control is the same writer
with `synchronous = NORMAL`, which must lose acknowledged changes, else the game is not one. Needs a C compiler.
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

from abilities.helpers.stores.conformance import NAMESPACE
from abilities.helpers.stores.model import StoredMemory
from abilities.helpers.stores.protocol import IntegrityFinding
from tests.stores.test_stores import filled, opened
from tests.support.measurements import reached

CUTS = int(os.environ.get("ABILITIES_CUTS", "10"))
SECONDS = 6
SECTOR = 512
WRITER = """
import asyncio, sys
from pathlib import Path
from abilities.helpers.stores.conformance import put
from abilities.helpers.stores.sqlite.store import SqliteStore
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    if sys.argv[2] == "NORMAL":
        connect = SqliteStore.connect
        def weaker(self, **given):
            connection = connect(self, **given)
            connection.execute("PRAGMA synchronous = NORMAL")
            return connection
        SqliteStore.connect = weaker
    async def write(n):
        await put(store, f"k{n}", content="x" * (n % 3000), links=[(f"k{n - 1}", 0.5)], tags=["t"])
        print(n, flush=True)
    for n in range(0, 10**6, 4):
        await asyncio.gather(*(write(n + m) for m in range(4)))
asyncio.run(main())
"""


class Record(NamedTuple):
    """One recorded system call."""

    kind: str
    file: str
    offset: int
    data: bytes


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled recorder."""
    library = tmp_path_factory.mktemp("power") / "power.so"
    source = Path(__file__).with_name("power.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_power_cuts(synchronous: str, recorder: Path, tmp_path: Path) -> None:
    """No acknowledged change is lost and no store damaged; with NORMAL, which is not what we use, changes are lost."""
    folder, chance = tmp_path / "store", random.Random(5)
    folder.mkdir()
    await filled(folder / "m.db", 1)
    before = {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")
    }
    records = list(_recorded(recorder, folder, synchronous))
    assert sum(record.kind == "A" for record in records) > 100
    lost, cuts = 0, max(CUTS, 10)
    for number in range(cuts):
        image = tmp_path / f"cut{number}"
        image.mkdir()
        acknowledged = _play(
            records[: chance.randrange(len(records) // 10, len(records))], before, image, chance
        )
        missing, damaged = await _looked_at(image / "m.db", acknowledged)
        assert not damaged, damaged
        lost += len(missing)
        shutil.rmtree(image)
    if synchronous == "FULL":
        assert lost == 0
        reached(5, f"{cuts} simulated power cuts, {lost} acknowledged changes lost")
    else:
        assert lost > 0, "even the weaker setting lost nothing: this is no power cut"
        reached(5, f"control with synchronous=NORMAL: {lost} lost in {cuts}")


def _recorded(recorder: Path, folder: Path, synchronous: str) -> Iterator[Record]:
    log = folder.parent / "log"
    given = {
        **os.environ,
        "LD_PRELOAD": str(recorder),
        "POWER_DIR": str(folder),
        "POWER_LOG": str(log),
    }
    command = [sys.executable, "-c", WRITER, str(folder / "m.db"), synchronous]
    with subprocess.Popen(command, env=given, stdout=subprocess.DEVNULL) as process:
        try:
            process.wait(timeout=SECONDS)
            raise AssertionError("the writer ended by itself")
        except subprocess.TimeoutExpired:
            process.kill()
    raw, place, names = log.read_bytes(), 0, dict[int, str]()
    while place + 17 <= len(raw):
        kind, file, offset, length = struct.unpack_from("=cIQI", raw, place)
        data = raw[place + 17 : place + 17 + length]
        place += 17 + length
        if kind == b"O":
            names[file] = Path(data.decode()).name
        name = Path(data.decode()).name if kind in b"OU" else names.get(file, "")
        yield Record(kind.decode(), name, offset, data)


def _play(
    records: list[Record], before: dict[str, bytes], image: Path, chance: random.Random
) -> set[int]:
    """Make the files as they may be after a cut, and return what was acknowledged before it."""
    files = {name: bytearray(data) for name, data in before.items()}
    pending: dict[str, list[Record]] = {}
    acknowledged: set[int] = set()
    for record in records:
        if record.kind == "A":
            acknowledged |= set(map(int, record.data.split()))
        elif record.kind == "S":
            for done in pending.pop(record.file, []):
                _apply(files, done, None)
        elif record.kind in "WT":
            pending.setdefault(record.file, []).append(record)
        elif record.kind == "U":
            files.pop(record.file, None)
            pending.pop(record.file, None)
    for unsynced in pending.values():
        for record in unsynced:
            if chance.random() < 0.67:
                _apply(files, record, chance if chance.random() < 0.5 else None)
    for name, data in files.items():
        if not name.endswith("-shm"):
            (image / name).write_bytes(data)
    return acknowledged


def _apply(files: dict[str, bytearray], record: Record, torn: random.Random | None) -> None:
    """Do what a record says; ``torn`` decides sector by sector."""
    file = files.setdefault(record.file, bytearray())
    if record.kind == "T":
        del file[record.offset :]
        file.extend(bytes(max(record.offset - len(file), 0)))
        return
    file.extend(bytes(max(record.offset + len(record.data) - len(file), 0)))
    for start in range(0, len(record.data), SECTOR):
        if torn is None or torn.random() < 0.5:
            piece = record.data[start : start + SECTOR]
            file[record.offset + start : record.offset + start + len(piece)] = piece


async def _looked_at(
    path: Path, acknowledged: set[int]
) -> tuple[list[str], list[IntegrityFinding]]:
    """The acknowledged changes that are not there, and what a check finds damaged."""
    keys = [f"k{n}" for n in sorted(acknowledged)]
    async with opened(path) as store:
        found = await store.read(NAMESPACE, keys) if keys else []
        missing = [
            key
            for key, memory in zip(keys, found, strict=True)
            if not isinstance(memory, StoredMemory)
        ]
        findings = await store.check(lambda _: None, full=True)
    return missing, [finding for finding in findings if finding.state == "damaged"]
