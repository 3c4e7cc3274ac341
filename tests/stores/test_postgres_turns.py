"""Long work on PostgreSQL gives other calls their turn: it is done in portions, or elsewhere."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from abilities.helpers.store import model, transaction
from abilities.helpers.store.model import IncomingMemory, LinkRow, StoredMemory
from abilities.helpers.store.postgres import transaction as postgres_transaction
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.protocol import IntegrityFinding
from tests.stores.behaviours import put
from tests.stores.test_postgres_stalls import open_store

PORTION = 10
LINKS = 20 * PORTION
TARGETS = [(f"t{number}", 0.5) for number in range(LINKS)]


class Turns:
    """Counts the rows that are hashed from one turn of the store's event loop to the next."""

    def __init__(self) -> None:
        self.hashed = 0
        self.most = 0

    def note(self) -> None:
        self.hashed += 1
        self.most = max(self.most, self.hashed)

    async def take(self) -> None:
        while True:
            self.hashed = 0
            await asyncio.sleep(0)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.setattr(postgres_transaction, "PORTION", PORTION)
    monkeypatch.setattr(transaction, "PORTION", PORTION)
    turns = Turns()
    hash_values = model.hash_values

    def count(values: Sequence[object]) -> int:
        turns.note()
        return hash_values(values)

    monkeypatch.setattr(model, "hash_values", count)
    return turns


async def rank_again(store: PostgresStore, hub: StoredMemory) -> None:
    await put(store, "hub", kind="update", id=hub.row.id, importance="high")


async def rename(store: PostgresStore, hub: StoredMemory) -> None:
    await put(store, "centre", kind="update", id=hub.row.id)


async def export(store: PostgresStore, hub: StoredMemory) -> None:
    (memory,) = await store.read_page(("", ""), 10)
    assert isinstance(memory, StoredMemory) and len(memory.links) == LINKS


async def import_again(store: PostgresStore, hub: StoredMemory) -> None:
    links = tuple(LinkRow("hub", key, "", weight, "") for key, weight in TARGETS)
    incoming = IncomingMemory(hub._replace(links=links))
    await store.import_batch([incoming], replace=True)


@pytest.mark.parametrize("work", [rank_again, rename, export, import_again])
async def test_very_many_links_are_dealt_with_in_portions(
    work: Any, url: str, turns: Turns
) -> None:
    async with open_store(url) as store:
        await put(store, "k", kind="delete")
        hub = (await put(store, "hub", links=TARGETS)).stored
        assert hub is not None
        beating = asyncio.create_task(store.engine.loop.run(turns.take))
        turns.most = 0

        await work(store, hub)

        beating.cancel()

    assert LINKS > 2 * PORTION >= turns.most > 0


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
