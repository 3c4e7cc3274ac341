"""Whatever is changed, restored, forgotten and moved, a store knows the past as its model does."""

import asyncio
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from abilities.declarations.refusals import Refused
from abilities.helpers.store import store as store_module
from abilities.helpers.store.opening import open_store
from abilities.helpers.store.protocol import ServableStore
from tests.support import postgres
from tests.support.past_offenses import OFFENSES, Offense
from tests.support.past_steps import Step, make_steps
from tests.support.past_trial import PastTrial
from tests.support.places import ENGINES
from tests.support.tier import size

TRIALS = {
    "sqlite": size("ABILITIES_HISTORY_LAW", quick=5, full=50),
    "postgres": size("ABILITIES_HISTORY_LAW", quick=2, full=25),
}
SEED = size("ABILITIES_LAW_SEED", quick=1, full=1)
"""What the first trial is made from; 0 chooses a new one, as every block of make torture does."""

STEPS = 60


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_knows_the_past_as_its_model_does(
    engine: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("server") if engine == "postgres" else None
    seed = SEED or secrets.randbits(32)
    for number in range(TRIALS[engine]):
        try_seed(seed + number, server)


def try_seed(seed: int, server: str | None) -> None:
    """Try the steps that a seed makes; show the few that break the law."""
    taken = make_steps(seed, STEPS)
    try:
        asyncio.run(try_steps(taken, server))
    except Exception as error:
        words = "\n".join(map(str, shorten(taken, server)))
        raise AssertionError(f"seed {seed}:\n{words}") from error


def shorten(taken: Sequence[Step], server: str | None) -> list[Step]:
    """Return a few of the steps that break the law too."""
    shortest = list(taken)
    for number in reversed(range(len(taken))):
        shorter = shortest[:number] + shortest[number + 1 :]
        try:
            asyncio.run(try_steps(shorter, server))
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


async def try_steps(taken: Sequence[Step], server: str | None = None) -> None:
    """Take steps with a new store, and compare all that it and a copy of it know then."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stores: list[ServableStore] = []
        for name in ("one", "two"):
            url = f"sqlite:///{folder}/{name}.db"
            if server is not None:
                url = stack.enter_context(postgres.database(server))
            store = open_store(url)
            stack.push_async_callback(store.close)
            stores.append(store)

        store, other = stores
        trial = PastTrial(store)
        with patch.object(store_module, "utc_now", lambda: trial.now):
            for step in taken:
                await trial.perform(step)
            await trial.check()
            await trial.check_moved(other, folder / "export.jsonl")
