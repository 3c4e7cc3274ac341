"""A long run of the law, at whatever length; and that it notices who breaks it."""

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.law import LONG
from tests.support.law_offenses import (
    LATENT_OFFENSES,
    Offense,
    acknowledge_what_was_not_done,
)
from tests.support.law_places import Stores
from tests.support.law_run import (
    Broken,
    Life,
    Task,
    live,
    make_lives,
    run_in_processes,
    shorten,
)
from tests.support.measurements import reached
from tests.support.tier import size

OPERATIONS = size("ABILITIES_LAW_RUN", quick=100, full=300)
LOCKSTEP = size("ABILITIES_LAW_LOCKSTEP", quick=20, full=100)
PROCESSES = size("ABILITIES_LAW_PROCESSES", quick=1, full=1)
SEED = size("ABILITIES_LAW_SEED", quick=1, full=1)
"""What a run is made from; 0 chooses a new one, as every block of make torture does."""

_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one: what a disk keeps is tried elsewhere."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return

    with tempfile.TemporaryDirectory(prefix="abilities-law-", dir=_MEMORY) as name:
        yield Path(name)


def test_no_operation_of_a_long_run_breaks_the_law(folder: Path) -> None:
    task = Task(folder, ["sqlite"], None, OPERATIONS, SEED or secrets.randbits(32))

    run_in_processes(task, PROCESSES)

    reached(12, f"{OPERATIONS:,} random operations on sqlite: no violation")


@pytest.mark.thorough
def test_two_kinds_of_store_keep_the_law_in_lockstep(folder: Path, server: str) -> None:
    kinds = ["sqlite", "postgres"]
    task = Task(folder, kinds, server, LOCKSTEP, SEED or secrets.randbits(32))

    run_in_processes(task, PROCESSES)

    reached(12, f"{LOCKSTEP:,} random operations on sqlite and postgres: no violation")


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    """Two lives, always the same."""
    return list(make_lives(1, 4_000))


@pytest.mark.thorough
@pytest.mark.parametrize("offend", LATENT_OFFENSES)
def test_a_run_notices_who_breaks_the_law_out_of_sight(
    offend: Offense, monkeypatch: pytest.MonkeyPatch, folder: Path, lives: list[Life]
) -> None:
    offend(monkeypatch)
    stores = Stores(folder, ["sqlite"], None)

    try:
        with pytest.raises(Broken):
            for life in lives:
                live(stores.open, life, LONG)
    finally:
        stores.end()


@pytest.mark.thorough
def test_a_life_that_breaks_the_law_is_shortened_to_a_few_operations(
    monkeypatch: pytest.MonkeyPatch, folder: Path, lives: list[Life]
) -> None:
    acknowledge_what_was_not_done(monkeypatch)
    stores = Stores(folder, ["sqlite"], None)

    try:
        with pytest.raises(Broken) as broken:
            live(stores.open, lives[0], LONG)
        shortest = shorten(stores.open, lives[0].cut(broken.value.done))
    finally:
        stores.end()

    # How few they are depends on the life, which hypothesis draws from our sources too.
    assert len(shortest.operations) * 4 <= broken.value.done
