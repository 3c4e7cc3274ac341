"""The pool of threads: a stuck item stops no other, and no thread is lost for the pool."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from abilities.helpers.threads.circuit_breaker import (
    CircuitBreaker,
    WorkPlace,
)
from abilities.helpers.threads.workers import THREADS, Batch, Worker, WorkerPool
from tests.support.stalls import SOON, item_seconds
from tests.support.waiting import GIVE_UP_SECONDS


@contextmanager
def open_nothing(_: Worker) -> Iterator[None]:
    yield


@contextmanager
def yield_worker(worker: Worker) -> Iterator[Worker]:
    yield worker


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool()
    yield pool
    pool.close()


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """What lets hanging threads go on; in the end it is set."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_thread_that_hangs_while_it_closes_its_session_is_replaced(
    pool: WorkerPool, released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def hang_at_the_end(_: Worker) -> Iterator[None]:
        yield
        released.wait(GIVE_UP_SECONDS)

    with item_seconds(monkeypatch, SOON):
        for _ in range(THREADS):
            await pool.map(hang_at_the_end, lambda *_: "answered", [1])

        results = await pool.map(open_nothing, lambda *_: "answered", [1])

    assert results == ["answered"]
    assert not released.is_set(), "the threads are still away"


async def test_threads_that_could_not_start_cost_the_pool_no_place(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refusals = threading.Thread.start, iter([True] * THREADS)

    def refuse_at_first(thread: threading.Thread) -> None:
        if next(refusals, False):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse_at_first)
        results = await pool.map(open_nothing, lambda *_: "answered", [1])

    assert results == ["answered"]


async def test_a_session_that_fails_costs_the_pool_no_thread(
    pool: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    @contextmanager
    def fail_at_the_end(_: Worker) -> Iterator[None]:
        yield
        raise OSError("cannot close")

    for _ in range(THREADS + 1):
        results = await pool.map(fail_at_the_end, lambda *_: "answered", [1, 2])
        assert results == ["answered"] * 2

    assert "cannot close" in caplog.text


def test_an_item_that_has_just_begun_is_not_given_up(released: threading.Event) -> None:
    begun = threading.Event()

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


def test_a_place_is_known_to_work_before_a_caller_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the caller's next call could be refused there."""
    order: list[str] = []
    breaker = CircuitBreaker()
    monkeypatch.setattr(breaker, "confirm", lambda _: order.append("confirmed"))

    def work(worker: Worker, place: WorkPlace) -> None:
        worker.enter(place)

    place = WorkPlace("/workspace", ("a.txt",))
    batch = Batch(yield_worker, work, [place], breaker, lambda: order.append("woken"))
    batch.run(Worker(batch))

    assert order == ["confirmed", "woken"]
