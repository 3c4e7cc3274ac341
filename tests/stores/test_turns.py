"""Turns: nobody waits behind all the work of another namespace or caller."""

import asyncio
import threading
from collections import Counter
from contextvars import copy_context
from queue import Empty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.threads import turns
from abilities.helpers.threads.turns import TurnQueue, TurnSlots, take_turn, turn_owner

Entry = tuple[str, str, int]


def put(queue: TurnQueue[Entry], namespace: str, caller: str, number: int) -> None:
    def put_as_caller() -> None:
        turn_owner.set(caller)
        queue.put(namespace, (namespace, caller, number))

    copy_context().run(put_as_caller)


def drain(queue: TurnQueue[Entry]) -> list[Entry]:
    queue.put_end()
    taken: list[Entry] = []
    while (entry := queue.get()) is not None:
        taken.append(entry)

    return taken


ARRIVALS = st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("xy")), max_size=40)


@given(ARRIVALS)
def test_everything_is_taken_once_and_in_order_for_each_caller(
    arrivals: list[tuple[str, str]],
) -> None:
    queue: TurnQueue[Entry] = TurnQueue()
    entries = [(namespace, caller, n) for n, (namespace, caller) in enumerate(arrivals)]
    for entry in entries:
        put(queue, *entry)

    taken = drain(queue)

    assert sorted(taken) == sorted(entries)
    for namespace, caller in arrivals:
        numbers = [n for *name, n in taken if name == [namespace, caller]]
        assert numbers == sorted(numbers)


@given(ARRIVALS)
def test_a_namespace_waits_for_one_item_of_each_other_one(arrivals: list[tuple[str, str]]) -> None:
    queue: TurnQueue[Entry] = TurnQueue()
    for n, (namespace, caller) in enumerate(arrivals):
        put(queue, namespace, caller, n)

    left = Counter(namespace for namespace, _ in arrivals)
    taken = [namespace for namespace, *_ in drain(queue)]
    for position, namespace in enumerate(taken):
        left[namespace] -= 1
        if not left[namespace]:
            continue

        others = taken[position + 1 : taken.index(namespace, position + 1)]
        assert len(set(others)) == len(others)


@given(st.lists(st.sampled_from("xyz"), max_size=40))
def test_callers_of_one_namespace_take_turns_too(callers: list[str]) -> None:
    queue: TurnQueue[Entry] = TurnQueue()
    for n, caller in enumerate(callers):
        put(queue, "A", caller, n)

    taken = [caller for _, caller, _ in drain(queue)]
    rounds = max(Counter(callers).values(), default=0)
    expected: list[str] = []
    order = list(dict.fromkeys(callers))
    for number in range(rounds):
        expected += [caller for caller in order if callers.count(caller) > number]

    assert taken == expected


def test_a_late_item_comes_before_those_that_a_full_line_has_left() -> None:
    queue: TurnQueue[Entry] = TurnQueue()
    for n in range(100):
        put(queue, "A", "x", n)

    assert queue.get() == ("A", "x", 0)

    put(queue, "B", "y", 100)

    assert queue.get() == ("A", "x", 1)
    assert queue.get() == ("B", "y", 100)
    assert queue.get() == ("A", "x", 2)
    assert len(queue) == 97


def test_an_empty_queue_says_so() -> None:
    queue: TurnQueue[Entry] = TurnQueue()

    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(timeout=0.01)

    queue.put_end()

    assert queue.get_nowait() is None


def test_threads_that_wait_now_and_then_take_everything_once() -> None:
    queue: TurnQueue[Entry] = TurnQueue()
    taken: list[Entry] = []

    def take_all(timeout: float | None) -> None:
        while True:
            try:
                entry = queue.get(timeout)
            except Empty:
                continue
            if entry is None:
                return
            taken.append(entry)

    timeouts = (None, None, 0.0, 0.000_1)
    takers = [threading.Thread(target=take_all, args=(timeout,)) for timeout in timeouts]
    for taker in takers:
        taker.start()

    entries = [("A", "x", n) for n in range(2_000)]
    for entry in entries:
        put(queue, *entry)
    for _ in takers:
        queue.put_end()
    for taker in takers:
        taker.join(timeout=20)

    assert not any(taker.is_alive() for taker in takers)
    assert sorted(taken) == entries
    assert len(queue) == 0


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


class Holder:
    """Tasks that hold a slot until they are let go."""

    def __init__(self, slots: TurnSlots) -> None:
        self.slots = slots
        self.holding: list[str] = []
        self.go: dict[str, asyncio.Event] = {}

    def start(self, name: str) -> "asyncio.Task[None]":
        self.go[name] = asyncio.Event()
        return asyncio.create_task(self._hold(name))

    async def _hold(self, name: str) -> None:
        async with self.slots.take(name[0]):
            self.holding.append(name)
            try:
                await self.go[name].wait()
            finally:
                self.holding.remove(name)


async def test_a_namespace_leaves_slots_for_others_and_those_who_wait_take_turns() -> None:
    holder = Holder(TurnSlots(3, 2))
    tasks = [holder.start(f"A{n}") for n in range(5)]
    await settle()

    assert holder.holding == ["A0", "A1"]

    tasks += [holder.start(name) for name in ("B0", "B1", "C0")]
    await settle()

    assert holder.holding == ["A0", "A1", "B0"]

    holder.go["A0"].set()
    await settle()
    holder.go["A1"].set()
    await settle()

    assert sorted(holder.holding) == ["B0", "B1", "C0"]

    for event in holder.go.values():
        event.set()
    await asyncio.gather(*tasks)

    assert holder.holding == [] and len(holder.slots) == 0


async def test_long_work_of_a_namespace_goes_one_by_one_while_others_are_present(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "LONG_SECONDS", 0.0)  # all work is long
    monkeypatch.setattr(turns, "PRESENT_SECONDS", 3_600.0)
    holder = Holder(TurnSlots(6, 4))

    async def finish(*tasks: "asyncio.Task[None]") -> None:
        for name in list(holder.go):
            holder.go[name].set()
        await asyncio.gather(*tasks)

    await finish(holder.start("A0"))
    alone = [holder.start(f"A{n}") for n in range(1, 7)]
    await settle()
    assert holder.holding == ["A1", "A2", "A3", "A4"]
    await finish(*alone)

    monkeypatch.setattr(turns, "LONG_SECONDS", 3_600.0)  # a short piece between changes nothing
    await finish(holder.start("A-short"))
    await finish(holder.start("B0"))
    beside = [holder.start(f"A{n}") for n in range(7, 13)]
    await settle()
    assert holder.holding == ["A7"]

    monkeypatch.setattr(turns, "PRESENT_SECONDS", 0.0)  # B has gone
    holder.go["A7"].set()
    await settle()
    assert len(holder.holding) == 4
    await finish(*beside)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.booleans()), max_size=30))
def test_no_slot_is_lost_however_waits_are_cancelled(steps: list[tuple[str, bool]]) -> None:
    async def run() -> None:
        slots = TurnSlots(3, 2)
        holder = Holder(slots)
        tasks = [holder.start(f"{name}{n}") for n, (name, _) in enumerate(steps)]
        await settle()

        for number, (name, is_cancelled) in enumerate(steps):
            # Both at once: a slot may be given to somebody who is being cancelled.
            holder.go[f"{name}{number}"].set()
            if is_cancelled:
                tasks[(number * 7) % len(tasks)].cancel()
            await asyncio.sleep(0)
            assert len(holder.holding) <= 3

        await asyncio.gather(*tasks, return_exceptions=True)
        last = [holder.start(f"{name}-last") for name in "ABC"]
        await settle()
        assert len(set(holder.holding) & {"A-last", "B-last", "C-last"}) == 3

        for name in "ABC":
            holder.go[f"{name}-last"].set()
        await asyncio.gather(*last)

    asyncio.run(run())


async def continue_in_turn(caller: str, log: list[str]) -> None:
    turn_owner.set(caller)
    await take_turn()
    log.append(caller)


async def test_one_call_goes_on_per_round_of_a_loop_and_callers_take_turns() -> None:
    log: list[str] = []
    noisy = [asyncio.create_task(continue_in_turn("noisy", log)) for _ in range(20)]
    await asyncio.sleep(0)
    quiet = asyncio.create_task(continue_in_turn("quiet", log))

    while not quiet.done():
        before = len(log)
        await asyncio.sleep(0)
        assert len(log) <= before + 1

    await asyncio.gather(*noisy)
    assert log.index("quiet") <= 3
    assert log.count("noisy") == 20


async def test_a_call_that_is_cancelled_gives_its_turn_to_the_next() -> None:
    log: list[str] = []
    calls = [asyncio.create_task(continue_in_turn("x", log)) for _ in range(4)]
    await asyncio.sleep(0)
    calls[1].cancel()

    await asyncio.gather(*calls, return_exceptions=True)

    assert len(log) == 3


async def test_without_a_server_nobody_waits_for_a_turn() -> None:
    log: list[str] = []
    calls = [asyncio.create_task(continue_in_turn("", log)) for _ in range(9)]

    await asyncio.sleep(0)

    assert all(call.done() for call in calls) and len(log) == 9
