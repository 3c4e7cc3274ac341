"""Laws: what was acknowledged is there, and the past is known as a model knows it."""

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import cast
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import run_state_machine_as_test

from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.store import store as store_module
from abilities.helpers.store.opening import open_store
from abilities.helpers.store.protocol import ServableStore
from tests.support import law_offenses, past_offenses, postgres
from tests.support.law import LONG, Trial
from tests.support.law_operations import LawMachine, Tally
from tests.support.law_places import Place, Stores
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
from tests.support.past_steps import Step, make_steps
from tests.support.past_trial import PastTrial
from tests.support.places import ENGINES
from tests.support.tier import size

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

OPERATIONS = size("ABILITIES_LAW", quick=30, full=150)
STEPS = size("ABILITIES_LAW_STEPS", quick=30, full=60)
BLOCK = 10
"""Machines of one run of hypothesis, which remembers all that it tried."""

RUN = size("ABILITIES_LAW_RUN", quick=100, full=300)
LOCKSTEP = size("ABILITIES_LAW_LOCKSTEP", quick=20, full=100)
PROCESSES = size("ABILITIES_LAW_PROCESSES", quick=1, full=1)
SEED = size("ABILITIES_LAW_SEED", quick=1, full=1)
"""What a run is made from; 0 chooses a new one, as every block of make torture does."""

PAST_TRIALS = {
    "sqlite": size("ABILITIES_HISTORY_LAW", quick=5, full=50),
    "postgres": size("ABILITIES_HISTORY_LAW", quick=2, full=25),
}
PAST_STEPS = 60

_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there is one: what a disk keeps is tried elsewhere."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return

    with tempfile.TemporaryDirectory(prefix="abilities-law-", dir=_MEMORY) as name:
        yield Path(name)


@contextmanager
def open_stores(
    folder: Path, *kinds: str, server: str | None = None
) -> Iterator[Callable[[JsonObject], Sequence[Place]]]:
    stores = Stores(folder, list(kinds), server)
    try:
        yield stores.open
    finally:
        stores.end()


@pytest.mark.parametrize(
    "kinds",
    [pytest.param(["sqlite"], marks=pytest.mark.thorough), ["sqlite", "postgres"]],
    ids="-".join,
)
def test_whatever_was_acknowledged_is_there(
    kinds: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("server") if "postgres" in kinds else None
    tally = Tally()
    with open_stores(tmp_path, *kinds, server=server) as opener:
        make_machine = cast(type[LawMachine], partial(LawMachine, opener, tally))
        while tally.operations < OPERATIONS:
            missing = OPERATIONS - tally.operations
            chosen = hypothesis_settings(
                max_examples=min(BLOCK, missing // STEPS + 1),
                stateful_step_count=STEPS,
                deadline=None,
                report_multiple_bugs=False,
                phases=[Phase.generate],  # shrinking sixty calls takes longer than reading them
                suppress_health_check=[
                    HealthCheck.too_slow,
                    HealthCheck.data_too_large,
                    HealthCheck.filter_too_much,
                    HealthCheck.large_base_example,
                ],
            )
            run_state_machine_as_test(make_machine, settings=chosen)
            print(f"{tally.operations:,} operations", flush=True)


def try_the_law(trial: Trial) -> None:
    """Try a few calls that show each of the offenses, through either application."""
    for other in ("b", "c", "d"):
        linked = {"type": "core", "content": "x", "tags": ["t", "u"], "links": [{"key": other}]}
        for key in ("a", other):
            trial.begin_step(1)
            trial.change("team", "store_memory", {**linked, "key": key})

        first, second = trial.choose("team", 0).id, trial.choose("team", 1).id
        for name, arguments in (
            ("update_memory", {"id": first, "key": other}),
            ("delete_memory", {"id": first, "permanent": False}),
            ("delete_memory", {"id": second, "permanent": True}),
        ):
            trial.begin_step(1)
            trial.change("team", name, arguments)

        trial.begin_step(1)  # an odd number of steps: next time through the other application
        trial.restart()
        trial.begin_step(1)
        trial.refuse("team", "update_memory", {"id": first, "memory_score": 80}, "a")

    trial.check_everything()


@pytest.mark.thorough
@pytest.mark.parametrize("offend", [None, *law_offenses.OFFENSES])
def test_a_trial_notices_who_breaks_the_law_and_nobody_else(
    offend: law_offenses.Offense | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with open_stores(tmp_path, "sqlite") as opener:
        if offend is None:
            try_the_law(Trial(opener({}), None))
            return

        offend(monkeypatch)
        with pytest.raises(AssertionError):
            try_the_law(Trial(opener({}), None))


def test_no_operation_of_a_long_run_breaks_the_law(folder: Path) -> None:
    task = Task(folder, ["sqlite"], None, RUN, SEED or secrets.randbits(32))

    run_in_processes(task, PROCESSES)

    reached(12, f"{RUN:,} random operations on sqlite: no violation")


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
@pytest.mark.parametrize("offend", law_offenses.LATENT_OFFENSES)
def test_a_run_notices_who_breaks_the_law_out_of_sight(
    offend: law_offenses.Offense,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    lives: list[Life],
) -> None:
    offend(monkeypatch)

    with open_stores(folder, "sqlite") as opener, pytest.raises(Broken):
        for life in lives:
            live(opener, life, LONG)


@pytest.mark.thorough
def test_a_life_that_breaks_the_law_is_shortened_to_a_few_operations(
    monkeypatch: pytest.MonkeyPatch, folder: Path, lives: list[Life]
) -> None:
    law_offenses.acknowledge_what_was_not_done(monkeypatch)

    with open_stores(folder, "sqlite") as opener:
        with pytest.raises(Broken) as broken:
            live(opener, lives[0], LONG)
        shortest = shorten(opener, lives[0].cut(broken.value.done))

    # How few they are depends on the life, which hypothesis draws from our sources too.
    assert len(shortest.operations) * 4 <= broken.value.done


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_knows_the_past_as_its_model_does(
    engine: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("server") if engine == "postgres" else None
    first = SEED or secrets.randbits(32)
    for seed in range(first, first + PAST_TRIALS[engine]):
        steps = make_steps(seed, PAST_STEPS)
        try:
            asyncio.run(try_steps(steps, server))
        except Exception as error:
            words = "\n".join(map(str, shorten_steps(steps, server)))
            raise AssertionError(f"seed {seed}:\n{words}") from error


def shorten_steps(steps: Sequence[Step], server: str | None) -> list[Step]:
    """Return a few of the steps that break the law too."""
    shortest = list(steps)
    for number in reversed(range(len(steps))):
        shorter = shortest[:number] + shortest[number + 1 :]
        try:
            asyncio.run(try_steps(shorter, server))
        except Exception:
            shortest = shorter

    return shortest


@pytest.mark.thorough
@pytest.mark.parametrize("offend", past_offenses.OFFENSES)
def test_a_trial_notices_who_breaks_the_past(
    offend: past_offenses.Offense, monkeypatch: pytest.MonkeyPatch
) -> None:
    offend(monkeypatch)

    with pytest.raises((AssertionError, Refused)):
        for seed in range(10):
            asyncio.run(try_steps(make_steps(seed, PAST_STEPS)))


async def try_steps(steps: Sequence[Step], server: str | None = None) -> None:
    """Take steps with a new store, and compare all that it and its copies know then.

    What a database holds is copied into another one and into a file.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = [f"sqlite:///{folder}/{name}.db" for name in ("one", "two")]
        if server is not None:
            urls[:1] = [stack.enter_context(postgres.database(server)) for _ in range(2)]

        stores: list[ServableStore] = []
        for url in urls:
            stores.append(open_store(url))
            stack.push_async_callback(stores[-1].close)

        store, *others = stores
        trial = PastTrial(store)
        with patch.object(store_module, "utc_now", lambda: trial.now):
            for step in steps:
                await trial.perform(step)
            await trial.check()
            for number, other in enumerate(others):
                await trial.check_moved(other, folder / f"{number}.jsonl")
