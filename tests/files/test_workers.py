"""The pool of threads: a stuck item stops no other, and no thread is lost for the pool."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from abilities.declarations.refusals import Refused
from abilities.helpers.threads.circuit_breaker import (
    PAUSE_SECONDS,
    STUCK_CALLS,
    CircuitBreaker,
    WorkPlace,
)
from abilities.helpers.threads.workers import (
    ITEM_SECONDS,
    THREADS,
    Batch,
    Worker,
    WorkerPool,
)
from tests.support.measurements import reached
from tests.support.waiting import GIVE_UP_SECONDS, POLL_SECONDS

AGENT = WorkPlace("/agents/ada", ("a.txt",))
OTHER_AGENT = WorkPlace("/agents/bob", ("a.txt",))
WORKSPACE = WorkPlace("/workspace", ("a.txt",))


@contextmanager
def open_nothing(_: Worker) -> Iterator[None]:
    yield


async def test_results_keep_the_order_of_the_items_and_errors_stay_with_theirs() -> None:
    workers = WorkerPool()

    def halve(_: None, item: int) -> int:
        if item % 2:
            raise Refused("not_found")

        return item // 2

    results = await workers.map(open_nothing, halve, range(100))

    assert results[::2] == list(range(50))
    assert all(isinstance(error, Refused) for error in results[1::2])

    workers.close()


async def test_no_items_are_no_work() -> None:
    assert await WorkerPool().map(open_nothing, lambda *_: None, []) == []


@contextmanager
def yield_worker(worker: Worker) -> Iterator[Worker]:
    yield worker


async def test_a_thread_that_comes_back_frees_the_place_where_it_got_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("abilities.helpers.threads.workers.ITEM_SECONDS", 0.1)
    pool, released = WorkerPool(), threading.Event()

    def hang(worker: Worker, _: int) -> None:
        worker.enter(AGENT)
        released.wait(10)
        worker.enter(WORKSPACE)  # as a reader does if the agent's directory has no such file

    def try_again(worker: Worker, _: int) -> str:
        worker.enter(AGENT)
        return "answered"

    stuck = [pool.map(yield_worker, hang, [1]) for _ in range(STUCK_CALLS)]
    outcomes = await asyncio.gather(*stuck)
    (while_stuck,) = await pool.map(yield_worker, try_again, [1])
    released.set()

    assert [str(outcome) for (outcome,) in outcomes] == ["timeout"] * STUCK_CALLS
    assert str(while_stuck) == "timeout"

    async with asyncio.timeout(GIVE_UP_SECONDS):
        while await pool.map(yield_worker, try_again, [1]) != ["answered"]:
            await asyncio.sleep(POLL_SECONDS)

    pool.close()


async def test_a_place_that_works_again_is_open_while_its_lost_threads_are_still_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("abilities.helpers.threads.workers.ITEM_SECONDS", 0.1)
    pool, released = WorkerPool(), threading.Event()

    def hang(worker: Worker, _: int) -> None:
        worker.enter(AGENT)
        released.wait(GIVE_UP_SECONDS)

    def try_again(worker: Worker, _: int) -> str:
        worker.enter(AGENT)
        return "answered"

    def go_elsewhere(worker: Worker, _: int) -> str:
        worker.enter(OTHER_AGENT)
        return "answered"

    await asyncio.gather(*(pool.map(yield_worker, hang, [1]) for _ in range(STUCK_CALLS)))
    monkeypatch.undo()  # only what hangs is given up soon: a busy machine may answer late
    (while_paused,) = await pool.map(yield_worker, try_again, [1])
    elsewhere = await pool.map(yield_worker, go_elsewhere, [1])
    began = time.monotonic()
    async with asyncio.timeout(GIVE_UP_SECONDS):
        while await pool.map(yield_worker, try_again, [1]) != ["answered"]:
            await asyncio.sleep(POLL_SECONDS)

    taken = time.monotonic() - began
    again = await asyncio.gather(*(pool.map(yield_worker, try_again, [1]) for _ in range(8)))
    still_away = not released.is_set()
    released.set()
    pool.close()

    assert str(while_paused) == "timeout"
    assert elsewhere == ["answered"]
    assert again == [["answered"]] * 8
    assert still_away

    assert PAUSE_SECONDS + ITEM_SECONDS <= 5
    reached(16, f"a place that works again answers {taken:.1f} s after its threads got stuck")


async def test_a_thread_that_hangs_while_it_closes_its_session_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("abilities.helpers.threads.workers.ITEM_SECONDS", 0.1)
    pool, released = WorkerPool(), threading.Event()

    @contextmanager
    def hang_at_the_end(_: Worker) -> Iterator[None]:
        yield
        released.wait(GIVE_UP_SECONDS)

    for _ in range(THREADS):
        await pool.map(hang_at_the_end, lambda *_: "answered", [1])

    results = await pool.map(open_nothing, lambda *_: "answered", [1])
    still_away = not released.is_set()
    released.set()
    pool.close()

    assert results == ["answered"]
    assert still_away


async def test_threads_that_could_not_start_cost_the_pool_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, start = WorkerPool(), threading.Thread.start
    refusals = iter([True] * THREADS)

    def refuse_at_first(thread: threading.Thread) -> None:
        if next(refusals, False):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse_at_first)
        results = await pool.map(open_nothing, lambda *_: "answered", [1])

    pool.close()

    assert results == ["answered"]


async def test_a_session_that_fails_costs_the_pool_no_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = WorkerPool()

    @contextmanager
    def fail_at_the_end(_: Worker) -> Iterator[None]:
        yield
        raise OSError("cannot close")

    for _ in range(THREADS + 1):
        results = await pool.map(fail_at_the_end, lambda *_: "answered", [1, 2])

        assert results == ["answered"] * 2

    assert "cannot close" in caplog.text

    pool.close()


def test_an_item_that_has_just_begun_is_not_given_up() -> None:
    begun, released = threading.Event(), threading.Event()

    def work(_: None, item: int) -> int:
        begun.set()
        released.wait(10)
        return item

    batch = Batch(open_nothing, work, [7], CircuitBreaker(), lambda: None)
    worker = Worker(batch)
    thread = threading.Thread(target=batch.run, args=(worker,))
    thread.start()
    begun.wait(10)

    given_up = batch.give_up(worker)
    released.set()
    thread.join()

    assert not given_up
    assert batch.results == [7]


def test_a_place_is_known_to_work_before_the_caller_is_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the caller's next call could be refused there."""
    order: list[str] = []
    breaker = CircuitBreaker()
    monkeypatch.setattr(breaker, "confirm", lambda _: order.append("confirmed"))

    def work(worker: Worker, _: int) -> None:
        worker.enter(AGENT)

    batch = Batch(yield_worker, work, [7], breaker, lambda: order.append("woken"))
    batch.run(Worker(batch))

    assert order == ["confirmed", "woken"]
