"""The law: whatever was acknowledged can be read, found, exported, backed up, changed, deleted."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import run_state_machine_as_test

from abilities.declarations.values import JsonObject
from tests.support.law import Trial
from tests.support.law_offenses import OFFENSES, Offense
from tests.support.law_operations import LawMachine, Tally
from tests.support.law_places import Place, Stores
from tests.support.tier import size

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

OPERATIONS = size("ABILITIES_LAW", quick=30, full=150)
STEPS = size("ABILITIES_LAW_STEPS", quick=30, full=60)
BLOCK = 10
"""Machines of one run of hypothesis, which remembers all that it tried."""


def run(open_stores: Callable[[JsonObject], Sequence[Place]], operations: int) -> None:
    """Run machines until so many operations were made."""
    tally = Tally()
    while tally.operations < operations:
        missing = operations - tally.operations
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
        make_machine = cast(type[LawMachine], partial(LawMachine, open_stores, tally))
        run_state_machine_as_test(make_machine, settings=chosen)
        print(f"{tally.operations:,} operations", flush=True)


@pytest.mark.parametrize(
    "kinds",
    [pytest.param(["sqlite"], marks=pytest.mark.thorough), ["sqlite", "postgres"]],
    ids="-".join,
)
def test_whatever_was_acknowledged_is_there(
    kinds: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = None
    if "postgres" in kinds:
        server = request.getfixturevalue("server")

    stores = Stores(tmp_path, kinds, server)
    try:
        run(stores.open, OPERATIONS)
    finally:
        stores.end()


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
def test_a_trial_of_an_honest_store_passes(tmp_path: Path) -> None:
    stores = Stores(tmp_path, ["sqlite"], None)

    try:
        try_the_law(Trial(stores.open({}), None))
    finally:
        stores.end()


@pytest.mark.thorough
@pytest.mark.parametrize("offend", OFFENSES)
def test_a_trial_notices_who_breaks_the_law(
    offend: Offense, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offend(monkeypatch)
    stores = Stores(tmp_path, ["sqlite"], None)

    try:
        with pytest.raises(AssertionError):
            try_the_law(Trial(stores.open({}), None))
    finally:
        stores.end()
