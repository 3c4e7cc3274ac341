"""Whatever is changed, restored, forgotten and moved, a store knows the past as its model does."""

import asyncio
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from abilities.declarations.faults import Refused
from abilities.helpers.stores.sqlite import access
from abilities.helpers.stores.sqlite.store import SqliteStore
from tests.support.past_offenses import OFFENSES, Offense
from tests.support.past_steps import Step, make_steps
from tests.support.past_trial import PastTrial
from tests.support.tier import size

TRIALS = size("ABILITIES_HISTORY_LAW", quick=5, full=50)
SEED = size("ABILITIES_LAW_SEED", quick=1, full=1)
"""What the first trial is made from; 0 chooses a new one, as every block of make torture does."""

STEPS = 60


def test_sqlite_knows_the_past_as_its_model_does() -> None:
    seed = SEED or secrets.randbits(32)
    for number in range(TRIALS):
        try_seed(seed + number)


def try_seed(seed: int) -> None:
    """Try the steps that a seed makes; show the few that break the law."""
    taken = make_steps(seed, STEPS)
    try:
        asyncio.run(try_steps(taken))
    except Exception as error:
        words = "\n".join(map(str, shorten(taken)))
        raise AssertionError(f"seed {seed}:\n{words}") from error


def shorten(taken: Sequence[Step]) -> list[Step]:
    """Return a few of the steps that break the law too."""
    shortest = list(taken)
    for number in reversed(range(len(taken))):
        shorter = shortest[:number] + shortest[number + 1 :]
        try:
            asyncio.run(try_steps(shorter))
        except Exception:
            shortest = shorter

    return shortest


@pytest.mark.thorough
@pytest.mark.parametrize("offend", OFFENSES)
def test_a_trial_notices_who_breaks_the_past(
    offend: Offense, monkeypatch: pytest.MonkeyPatch
) -> None:
    offend(monkeypatch)

    with pytest.raises((AssertionError, Refused)):
        for seed in range(10):
            asyncio.run(try_steps(make_steps(seed, STEPS)))


async def try_steps(taken: Sequence[Step]) -> None:
    """Take steps with a new store, and compare all that it and a copy of it know then."""
    with tempfile.TemporaryDirectory() as folder:
        store, other = SqliteStore(Path(folder, "one.db")), SqliteStore(Path(folder, "two.db"))
        trial = PastTrial(store)
        try:
            with patch.object(access, "utc_now", lambda: trial.now):
                for step in taken:
                    await trial.perform(step)
                await trial.check()
                await trial.check_moved(other, Path(folder, "export.jsonl"))
        finally:
            await store.close()
            await other.close()
