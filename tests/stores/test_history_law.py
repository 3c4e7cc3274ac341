"""Whatever is changed, restored, forgotten and moved, a store knows the past as its model does."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abilities.helpers.stores.sqlite import access
from abilities.helpers.stores.sqlite.store import SqliteStore
from tests.support.past_steps import Step, steps
from tests.support.past_trial import PastTrial
from tests.support.tier import size

EXAMPLES = size("ABILITIES_HISTORY_LAW", quick=15, full=300)


@given(st.lists(steps, min_size=1, max_size=25))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_sqlite_knows_the_past_as_its_model_does(taken: Sequence[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(try_steps(Path(folder), taken))


async def try_steps(folder: Path, taken: Sequence[Step]) -> None:
    store, other = SqliteStore(folder / "one.db"), SqliteStore(folder / "two.db")
    trial = PastTrial(store)
    try:
        with patch.object(access, "utc_now", lambda: trial.now):
            for step in taken:
                await trial.perform(step)
            await trial.check()
            await trial.check_moved(other, folder / "export.jsonl")
    finally:
        await store.close()
        await other.close()
