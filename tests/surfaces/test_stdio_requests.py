"""Requests over stdio, whatever the client does with them: duplicates, cancels, no reading."""

import asyncio
import gc
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest

from abilities import Ability, Arguments, Context, Model, Settings, ability
from abilities.adapters import stdio as stdio_module
from abilities.adapters.stdio import MAX_REQUESTS
from tests.support.piped import Piped, build_call, build_line, open_piped
from tests.support.stores import store_file
from tests.support.tier import size
from tests.support.waiting import wait_until


class Done(Model):
    done: bool


class Gate:
    """An ability that waits until the test opens it, and counts who waits."""

    def __init__(self) -> None:
        self.opened = threading.Event()  # the ability runs on a loop of its own
        self.begun = 0
        self.waiting = 0
        self.most_waiting = 0

    def build_ability(self) -> Ability:
        @ability(description="Wait.", read_only=True)
        async def wait(context: Context, arguments: Arguments) -> Done:
            self.begun += 1
            self.waiting += 1
            self.most_waiting = max(self.waiting, self.most_waiting)

            try:
                await wait_until(self.opened.is_set)
            finally:
                self.waiting -= 1

            return Done(done=True)

        return wait


@asynccontextmanager
async def open_gated(settings: Settings) -> AsyncIterator[tuple[Piped, Gate]]:
    gate = Gate()

    async with open_piped(settings, gate.build_ability()) as client:
        yield client, gate
        gate.opened.set()


async def test_an_id_may_be_used_again_but_not_while_it_is_in_flight(settings: Settings) -> None:
    async with open_gated(settings) as (client, gate):
        await client.send(build_call(1, "wait"), build_call("1", "wait"))
        await wait_until(lambda: gate.waiting == 2)

        await client.request(1, "ping")
        refused = await client.read()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)

        gate.opened.set()
        answers = [await client.read(), await client.read()]
        assert {repr(answer["id"]) for answer in answers} == {"1", "'1'"}
        assert all("result" in answer for answer in answers)

        await client.request(1, "ping")
        assert (await client.read())["result"] == {}


async def test_nothing_is_kept_of_requests_that_were_cancelled(settings: Settings) -> None:
    async with open_gated(settings) as (client, gate):
        await client.request("before", "ping")
        await client.read()
        objects_before = count_protocol_objects()

        for number in range(size("ABILITIES_INPUTS", quick=150, full=2_000)):
            await client.send(build_call(number, "wait"))
            await client.cancel(number)

        await client.request("after", "ping")
        answer = await client.read()

        assert answer["id"] == "after", "cancelled requests are not answered"
        await wait_until(lambda: gate.waiting == 0)
        assert count_protocol_objects() - objects_before < 50


def count_protocol_objects() -> int:
    gc.collect()
    modules = ("mcp.", "mcp_types.", "abilities.adapters.")
    return sum(str(type(thing).__module__).startswith(modules) for thing in gc.get_objects())


async def test_a_cancelled_request_does_not_delay_the_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only a server that still waits for what was cancelled takes as long.
    monkeypatch.setattr(stdio_module, "DRAIN_SECONDS", 10_000.0)

    async with open_gated(settings) as (client, gate):
        await client.send(build_call(1, "wait"))
        await wait_until(lambda: gate.waiting == 1)
        await client.cancel(1)

        # One that is cancelled before it could begin is forgotten, too.
        cancel = build_line(method="notifications/cancelled", params={"requestId": 2})
        await client.send(build_call(2, "wait") + b"\n" + cancel)
        await client.request(3, "ping")
        assert (await client.read())["id"] == 3
        await wait_until(lambda: gate.waiting == 0)


async def test_cancelling_what_is_not_in_flight_does_nothing(settings: Settings) -> None:
    async with open_gated(settings) as (client, gate):
        await client.request(1, "ping")
        await client.read()
        await client.send(build_call(2, "wait"))
        await wait_until(lambda: gate.waiting == 1)

        others: list[Any] = [1, "2", 2.0, True, "unknown", None, 2**63, {}]
        for request_id in others:
            await client.cancel(request_id)
        gate.opened.set()

        assert (await client.read())["id"] == 2


async def test_a_write_that_has_begun_completes_though_cancelled(
    settings: Settings,
) -> None:
    async with open_piped(settings) as client:
        await client.send(build_write("first"))
        await client.read()

        # While another process writes, the first calls wait for it and the last one for its turn.
        keys: list[str] = []
        with closing(sqlite3.connect(store_file(settings), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            while client.abilities.queue_size == 0:
                keys.append(f"key {len(keys)}")
                await client.send(build_write(keys[-1]))
                await asyncio.sleep(0.05)

            for key in keys:
                await client.cancel(key)
            await client.request("after", "ping")
            assert (await client.read())["id"] == "after"
            other.execute("COMMIT")

        await client.send(build_write("last"))  # after all that began before it
        await client.read()
        for key in keys:
            await client.send(build_call(f"read {key}", "memory_get", key=key))
            answer = await client.read()
            assert answer["id"] == f"read {key}"
            assert answer["result"]["isError"] is False


def build_write(key: str) -> bytes:
    return build_call(key, "store_memory", type="core", content="kept", key=key)


async def test_thousands_of_requests_at_once_wait_for_their_turn(settings: Settings) -> None:
    count = size("ABILITIES_INPUTS", quick=300, full=1_500)

    async with open_gated(settings) as (client, gate):
        calls = [build_call(number, "wait") for number in range(count)]
        sending = asyncio.create_task(client.send(*calls))
        await wait_until(lambda: gate.waiting == MAX_REQUESTS)

        gate.opened.set()
        answers = [await client.read() for _ in range(count)]
        await sending

        assert sorted(answer["id"] for answer in answers) == list(range(count))
        assert all("result" in answer for answer in answers)
        assert gate.most_waiting == MAX_REQUESTS


async def test_the_event_loop_goes_on_while_answers_are_not_taken(settings: Settings) -> None:
    async with open_gated(settings) as (client, gate):
        large = [build_call(n, "file_read_bulk", paths=["big.txt"]) for n in range(200)]
        sending = asyncio.create_task(client.send(*large))
        for _ in range(100):  # would hang in a write that blocks the loop
            await asyncio.sleep(0.005)

        answers = [await client.read() for _ in large]
        await sending
        assert {answer["id"] for answer in answers} == set(range(200))
        assert gate.begun == 0
