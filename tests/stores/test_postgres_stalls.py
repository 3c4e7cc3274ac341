"""PostgreSQL that is slow, stalls or works for long: reads end in time, writes are finished."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from abilities.declarations.refusals import Fault
from abilities.helpers.store import engine, model
from abilities.helpers.store import store as store_module
from abilities.helpers.store.model import IncomingMemory, LinkRow, Query, StoredMemory
from abilities.helpers.store.postgres import pool
from abilities.helpers.store.postgres import transaction as postgres_transaction
from abilities.helpers.store.postgres.server import OWN_READS
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.walk import WalkLimits
from tests.stores.behaviours import NAMESPACE, put
from tests.support.places import find_reason
from tests.support.stalls import forwarding
from tests.support.waiting import GIVE_UP_SECONDS, wait_until

LOCK_ALL = "LOCK TABLE abilities_data.memories, abilities_data.shelf, abilities_data.links"
BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'agent-abilities'
"""
WAITING = f"{BACKENDS} AND wait_event_type = 'Lock'"

Read = Callable[[PostgresStore], Coroutine[object, object, object]]
READS: dict[str, Read] = {
    "read": lambda store: store.read(NAMESPACE, ["k"]),
    "read_linked": lambda store: store.read_linked(NAMESPACE, "k", 0, 1),
    "read_backlinks": lambda store: store.read_backlinks(NAMESPACE, "k", 0, 1),
    "walk": lambda store: store.walk(NAMESPACE, "k", WalkLimits(3, 5, 20)),
    "query": lambda store: store.query(NAMESPACE, Query(search=("x",))),
    "read_stats": lambda store: store.read_stats(NAMESPACE),
}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server itself end nothing, so that only the deadline of a whole read does."""
    settings = pool._SESSION_SETTINGS.replace("'3s'", "'0'").replace("'5s'", "'0'")
    settings = settings.replace("'20s'", "'0'")
    monkeypatch.setattr(pool, "_SESSION_SETTINGS", settings)
    monkeypatch.setattr(pool, "CALL_SECONDS", 600)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reads end soon."""
    monkeypatch.setattr(store_module, "READ_SECONDS", 0.2)


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[PostgresStore]:
    """Open a store that holds one memory; nothing in the block may hang."""
    store = PostgresStore(url)
    try:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            await put(store, "k", links=[("x", 0.5)])
            yield store
    finally:
        await store.close()


@asynccontextmanager
async def locked_tables(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(LOCK_ALL.encode())
        yield connection


def list_processes(url: str, statement: str = BACKENDS) -> list[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        return [process for (process,) in connection.execute(statement.encode())]


def count_free(store: PostgresStore) -> tuple[int, int]:
    """Return how many connections the pool has, and how many of them are lent."""
    stats = store.engine.server.leader._pool.get_stats()
    return stats["pool_size"], stats["pool_size"] - stats["pool_available"]


async def wait_for_answer(store: PostgresStore, name: str) -> None:
    """Read until it is answered in time, and check that no connection is lost."""
    while await find_reason(READS[name](store)) != "done":
        await asyncio.sleep(0.1)

    await wait_until(lambda: count_free(store)[1] == 0)


async def test_a_read_that_waits_for_a_lock_ends_in_time(
    url: str, patient: None, short: None
) -> None:
    async with open_store(url) as store:
        for name, read in READS.items():
            async with locked_tables(url):
                assert await find_reason(read(store)) == "timeout", name
                await wait_until(lambda: not list_processes(url, WAITING))

            await wait_for_answer(store, name)

    assert Fault.from_reason("timeout").retryable


async def test_reads_that_wait_for_a_connection_end_in_time(
    url: str, patient: None, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.2)
    async with open_store(url) as store:
        async with locked_tables(url):
            reads = [find_reason(READS["read"](store)) for _ in range(3 * pool.MAX_CONNECTIONS)]
            assert set(await asyncio.gather(*reads)) == {"timeout"}

        await wait_for_answer(store, "read")
        assert count_free(store)[0] <= pool.MAX_CONNECTIONS


async def test_a_statement_that_the_server_ends_is_a_timeout(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = pool._SESSION_SETTINGS.replace("'3s'", "'0'").replace("'5s'", "'100ms'")
    monkeypatch.setattr(pool, "_SESSION_SETTINGS", settings)

    async with open_store(url) as store, locked_tables(url):
        assert await find_reason(READS["read"](store)) == "timeout"


@asynccontextmanager
async def stopped(url: str) -> AsyncIterator[None]:
    """Stop the processes of the server that serve the store."""
    processes = list_processes(url)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


async def test_reads_of_a_stopped_server_end_in_time_and_are_answered_after_it(
    url: str, short: None
) -> None:
    async with open_store(url) as store:
        async with stopped(url):
            assert await find_reason(READS["read"](store)) == "timeout"

        await wait_for_answer(store, "read")


async def test_reads_through_a_stalled_network_end_in_time_and_are_answered_after_it(
    url: str, short: None
) -> None:
    """A store can be closed while reads are stuck."""
    async with forwarding(url) as (proxy, proxied):
        # Closing waits for connections that are being made.
        async with open_store(f"{proxied}?connect_timeout=2") as store:
            proxy.stall()
            reads = [find_reason(READS["walk"](store)) for _ in range(3 * pool.MAX_CONNECTIONS)]
            assert set(await asyncio.gather(*reads)) == {"timeout"}
            assert await find_reason(store.ping()) == "unavailable"

            proxy.resume()
            await wait_for_answer(store, "walk")
            assert await find_reason(store.ping()) == "done"

            proxy.stall()
            stuck = [asyncio.create_task(find_reason(READS["walk"](store))) for _ in range(9)]
            await wait_until(lambda: store.queue_size > 0)
            for read in stuck:
                read.cancel()

        await asyncio.gather(*stuck, return_exceptions=True)


async def test_a_ping_does_not_wait_for_slow_reads(url: str, patient: None) -> None:
    async with open_store(url) as store:
        async with locked_tables(url):
            reads = [
                asyncio.create_task(find_reason(READS["read"](store)))
                for _ in range(2 * pool.MAX_CONNECTIONS)
            ]
            await wait_until(lambda: len(list_processes(url, WAITING)) == OWN_READS)

            assert await find_reason(store.ping()) == "done"
            assert not any(read.done() for read in reads)

        assert set(await asyncio.gather(*reads)) == {"done"}


async def test_a_change_whose_turn_does_not_come_is_busy_and_never_made(
    url: str, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(url) as store:
        async with locked_tables(url):
            begun = asyncio.create_task(find_reason(put(store, "begun")))
            await wait_until(lambda: bool(list_processes(url, WAITING)))
            with monkeypatch.context() as patch:  # the others may take as long as they need
                patch.setattr("abilities.helpers.store.postgres.store.TURN_SECONDS", 0.5)
                assert await find_reason(put(store, "late")) == "busy"
            assert not begun.done(), "a change that has begun is finished, however long it takes"

        assert await begun == "done"
        assert await find_reason(put(store, "next")) == "done"
        found = await store.read(NAMESPACE, ["begun", "late", "next"])

    assert [isinstance(memory, Exception) for memory in found] == [False, True, False]


async def test_a_change_is_finished_when_its_caller_goes_away(url: str, patient: None) -> None:
    async with open_store(url) as store:
        async with locked_tables(url):
            writing = asyncio.create_task(put(store, "new"))
            await wait_until(lambda: bool(list_processes(url, WAITING)))
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing

        assert await find_reason(put(store, "next")) == "done"
        (memory,) = await store.read(NAMESPACE, ["new"])

    assert not isinstance(memory, Exception)


PORTION = 12
LINKS = 20 * PORTION
TARGETS = [(f"t{number}", 0.5) for number in range(LINKS)]


async def rank_again(store: PostgresStore, hub: StoredMemory) -> None:
    await put(store, "hub", kind="update", id=hub.row.id, importance="high")


async def rename(store: PostgresStore, hub: StoredMemory) -> None:
    await put(store, "centre", kind="update", id=hub.row.id)


async def export(store: PostgresStore, hub: StoredMemory) -> None:
    (memory,) = await store.read_page(("", ""), 10)
    assert isinstance(memory, StoredMemory) and len(memory.links) == LINKS


async def import_again(store: PostgresStore, hub: StoredMemory) -> None:
    links = tuple(LinkRow("hub", key, "", weight, "") for key, weight in TARGETS)
    await store.import_batch([IncomingMemory(hub._replace(links=links))], replace=True)


@pytest.mark.parametrize("work", [rank_again, rename, export, import_again])
async def test_very_many_links_are_dealt_with_in_portions(
    work: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two turns of the store's event loop, few rows are hashed."""
    for module in (postgres_transaction, engine):
        monkeypatch.setattr(module, "PORTION", PORTION)
    hash_values = model.hash_values
    hashed, most = 0, 0

    def count(values: Sequence[object]) -> int:
        nonlocal hashed, most
        hashed += 1
        most = max(most, hashed)
        return hash_values(values)

    async def take_turns() -> None:
        nonlocal hashed
        while True:
            hashed = 0
            await asyncio.sleep(0)

    monkeypatch.setattr(model, "hash_values", count)
    async with open_store(url) as store:
        await put(store, "k", kind="delete")
        hub = (await put(store, "hub", links=TARGETS)).stored
        assert hub is not None
        beating = asyncio.create_task(store.engine.loop.run(take_turns))
        most = 0

        await work(store, hub)

        beating.cancel()

    assert LINKS > 2 * PORTION >= most > 0


async def test_a_check_is_made_on_a_thread_of_its_own(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    async def find_thread(*_: object) -> list[IntegrityFinding]:
        threads.append(threading.get_ident())
        return []

    monkeypatch.setattr("abilities.helpers.store.postgres.store.check_rows", find_thread)

    async with open_store(url) as store:
        await store.engine.loop.run(find_thread)
        await store.check(lambda _: None, full=True)

    store_thread, check_thread = threads
    assert check_thread not in (store_thread, threading.get_ident())
