"""What a store in PostgreSQL knows of the past, and what it forgets."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abilities.helpers.stores.postgres import calls
from abilities.helpers.stores.postgres.store import PostgresStore
from tests.support import postgres
from tests.support.past_steps import Step, steps
from tests.support.past_trial import PastTrial
from tests.support.tier import size

EXAMPLES = size("ABILITIES_HISTORY_LAW", quick=5, full=100)


@given(taken=st.lists(steps, min_size=1, max_size=25))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
def test_postgres_knows_the_past_as_its_model_does(server: str, taken: Sequence[Step]) -> None:
    with (
        postgres.database(server) as one,
        postgres.database(server) as two,
        tempfile.TemporaryDirectory() as folder,
    ):
        asyncio.run(try_steps(one, two, Path(folder), taken))


async def try_steps(one: str, two: str, folder: Path, taken: Sequence[Step]) -> None:
    store, other = PostgresStore(one), PostgresStore(two)
    trial = PastTrial(store)
    try:
        with patch.object(calls, "utc_now", lambda: trial.now):
            for step in taken:
                await trial.perform(step)
            await trial.check()
            await trial.check_moved(other, folder / "export.jsonl")
    finally:
        await store.close()
        await other.close()
