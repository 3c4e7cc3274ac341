"""A store of one's own: the one in `examples/store/` keeps the contract and serves abilities."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from abilities import Abilities, Settings, application
from abilities.declarations.refusals import Refused
from abilities.helpers.store.engine import OPERATOR, Transaction
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.store import SqlStore
from examples.store import volatile_store
from examples.store.volatile_store import VolatileEngine, VolatileStore
from tests.stores.behaviours import BEHAVIOURS, NAMESPACE, check, put
from tests.support.places import find_reason
from tests.support.waiting import GIVE_UP_SECONDS


@asynccontextmanager
async def open_store() -> AsyncGenerator[VolatileStore]:
    store = VolatileStore()
    try:
        yield store
    finally:
        await store.close()


async def test_it_behaves() -> None:
    assert len(await check(open_store)) == len(BEHAVIOURS)


async def test_it_serves_abilities(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "open_store", lambda _: VolatileStore())
    aurora = {"type": "core", "key": "aurora", "content": "Aurora ships in May."}

    async with Abilities.open(roots) as abilities:
        await abilities.call("store_memory", aurora)
        answer = await abilities.call("recall", {"queries": ["When does Aurora ship?"]})

    (memory,) = answer["results"][0]["memories"]
    assert memory["content"] == aurora["content"]


async def fail(transaction: Transaction) -> None:
    await transaction.run("INSERT INTO marks (name) VALUES ('undone')")
    await transaction.run("INSERT INTO marks (name) VALUES (NULL)")


async def test_a_change_that_the_database_refuses_leaves_no_trace() -> None:
    async def work(transaction: Transaction) -> object:
        return await transaction.attempt(fail)

    async def count(transaction: Transaction) -> int:
        ((number,),) = await transaction.fetch("SELECT count(*) FROM marks")
        return int(number)

    engine = VolatileEngine("english")
    assert await find_reason(engine.write(NAMESPACE, fail)) == "storage_error"
    outcome = await engine.write(NAMESPACE, work)
    assert isinstance(outcome, Refused) and outcome.reason == "storage_error"
    assert await engine.read(OPERATOR, count, GIVE_UP_SECONDS) == 0
    await engine.close()


async def test_calls_give_up_behind_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volatile_store, "TURN_SECONDS", 0.1)
    is_over = asyncio.Event()

    async def wait(loop: asyncio.AbstractEventLoop, _: Transaction) -> None:
        asyncio.run_coroutine_threadsafe(is_over.wait(), loop).result(GIVE_UP_SECONDS)

    engine = VolatileEngine("english")
    store = SqlStore(engine, StoreRules())
    slow = asyncio.create_task(
        engine.write(NAMESPACE, partial(wait, asyncio.get_running_loop()), is_patient=True)
    )
    await asyncio.sleep(0)

    assert await find_reason(put(store, "k")) == "busy"
    assert await find_reason(engine.read(NAMESPACE, fail, 0.1)) == "timeout"
    assert store.queue_size == 1

    left = asyncio.create_task(put(store, "left"))
    await asyncio.sleep(0)
    left.cancel()
    is_over.set()
    await slow
    assert await find_reason(store.read_linked(NAMESPACE, "left", 0, 1)) == "done"
    assert await find_reason(store.read_linked(NAMESPACE, "k", 0, 1)) == "memory_not_found"

    await store.close()
    await store.close()
    assert await find_reason(put(store, "k")) == "unavailable"
