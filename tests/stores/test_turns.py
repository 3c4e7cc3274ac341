"""Turns: nobody waits behind all the work of another namespace or caller."""

import asyncio
import threading
from contextvars import copy_context
from itertools import pairwise
from queue import Empty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.helpers.threads import turns
from abilities.helpers.threads.turns import TurnQueue, TurnSlots, take_turn, turn_owner

Entry = tuple[str, str, int]
Queue = TurnQueue[Entry]


def put(queue: Queue, namespace: str, caller: str, number: int) -> None:
    def put_as_caller() -> None:
        turn_owner.set(caller)
        queue.put(namespace, (namespace, caller, number))

    copy_context().run(put_as_caller)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("xyz")), max_size=40))
def test_namespaces_take_turns_and_so_do_the_callers_of_each(
    arrivals: list[tuple[str, str]],
) -> None:
    queue: Queue = TurnQueue()
    entries = [(namespace, caller, n) for n, (namespace, caller) in enumerate(arrivals)]
    for entry in entries:
        put(queue, *entry)
    queue.put_end()

    taken: list[Entry] = []
    while (next_entry := queue.get()) is not None:
        taken.append(next_entry)

    assert sorted(taken) == sorted(entries), "everything is taken once"
    for namespace in "ABC":
        places = [place for place, entry in enumerate(taken) if entry[0] == namespace]
        for place, next_place in pairwise(places):
            between = [entry[0] for entry in taken[place + 1 : next_place]]
            assert len(set(between)) == len(between), "it waits for one of each other one"

        ours = [entry for entry in entries if entry[0] == namespace]
        callers = list(dict.fromkeys(caller for _, caller, _ in ours))
        lines = [[entry for entry in ours if entry[1] == caller] for caller in callers]
        rounds = max(map(len, lines), default=0)
        expected = [line[n] for n in range(rounds) for line in lines if len(line) > n]
        assert [entry for entry in taken if entry[0] == namespace] == expected


def test_a_late_item_comes_before_those_that_a_full_line_has_left() -> None:
    queue: Queue = TurnQueue()
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    for n in range(100):
        put(queue, "A", "x", n)

    first = queue.get()
    put(queue, "B", "y", 100)

    assert [first, *(queue.get() for _ in range(3))] == [
        ("A", "x", 0),
        ("A", "x", 1),
        ("B", "y", 100),
        ("A", "x", 2),
    ]
    assert len(queue) == 97


def test_threads_that_wait_now_and_then_take_everything_once() -> None:
    queue: Queue = TurnQueue()
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

    def start(self, *names: str) -> "list[asyncio.Task[None]]":
        self.go |= {name: asyncio.Event() for name in names}
        return [asyncio.create_task(self._hold(name)) for name in names]

    async def _hold(self, name: str) -> None:
        async with self.slots.take(name[0]):
            self.holding.append(name)
            try:
                await self.go[name].wait()
            finally:
                self.holding.remove(name)

    async def finish(self, tasks: "list[asyncio.Task[None]]") -> None:
        for event in self.go.values():
            event.set()
        await asyncio.gather(*tasks)


async def test_a_namespace_leaves_slots_for_others_and_those_who_wait_take_turns() -> None:
    holder = Holder(TurnSlots(3, 2))
    tasks = holder.start("A0", "A1", "A2", "A3", "A4")
    await settle()
    assert holder.holding == ["A0", "A1"]

    tasks += holder.start("B0", "B1", "C0")
    await settle()
    assert holder.holding == ["A0", "A1", "B0"]

    for name in ("A0", "A1"):
        holder.go[name].set()
        await settle()
    assert sorted(holder.holding) == ["B0", "B1", "C0"]

    await holder.finish(tasks)
    assert holder.holding == [] and len(holder.slots) == 0


async def test_long_work_of_a_namespace_goes_one_by_one_while_others_are_present(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "LONG_SECONDS", 0.0)  # all work is long
    monkeypatch.setattr(turns, "PRESENT_SECONDS", 3_600.0)
    holder = Holder(TurnSlots(6, 4))

    await holder.finish(holder.start("A0"))
    alone = holder.start(*(f"A{n}" for n in range(1, 7)))
    await settle()
    assert holder.holding == ["A1", "A2", "A3", "A4"]
    await holder.finish(alone)

    monkeypatch.setattr(turns, "LONG_SECONDS", 3_600.0)  # a short piece between changes nothing
    await holder.finish(holder.start("A-short", "B0"))
    beside = holder.start(*(f"A{n}" for n in range(7, 13)))
    await settle()
    assert holder.holding == ["A7"]

    monkeypatch.setattr(turns, "PRESENT_SECONDS", 0.0)  # B has gone
    holder.go["A7"].set()
    await settle()
    assert len(holder.holding) == 4
    await holder.finish(beside)


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.booleans()), max_size=30))
def test_no_slot_is_lost_however_waits_are_cancelled(steps: list[tuple[str, bool]]) -> None:
    async def run() -> None:
        holder = Holder(TurnSlots(3, 2))
        names = [f"{name}{n}" for n, (name, _) in enumerate(steps)]
        tasks = holder.start(*names)
        await settle()

        for number, (_, is_cancelled) in enumerate(steps):
            # Both at once: a slot may be given to somebody who is being cancelled.
            holder.go[names[number]].set()
            if is_cancelled:
                tasks[(number * 7) % len(tasks)].cancel()
            await asyncio.sleep(0)
            assert len(holder.holding) <= 3

        await asyncio.gather(*tasks, return_exceptions=True)
        last = holder.start("A-last", "B-last", "C-last")
        await settle()
        assert len(holder.holding) == 3
        await holder.finish(last)

    asyncio.run(run())


async def test_one_call_goes_on_per_round_of_a_loop_and_callers_take_turns() -> None:
    """A call that is cancelled gives its turn to the next; without a server nobody waits."""
    log: list[str] = []

    async def continue_in_turn(caller: str) -> None:
        turn_owner.set(caller)
        await take_turn()
        log.append(caller)

    noisy = [asyncio.create_task(continue_in_turn("noisy")) for _ in range(20)]
    await asyncio.sleep(0)
    quiet = asyncio.create_task(continue_in_turn("quiet"))
    noisy[7].cancel()

    while not quiet.done():
        before = len(log)
        await asyncio.sleep(0)
        assert len(log) <= before + 1

    await asyncio.gather(*noisy, return_exceptions=True)
    assert log.index("quiet") <= 3
    assert log.count("noisy") == 19

    unowned = [asyncio.create_task(continue_in_turn("")) for _ in range(9)]
    await asyncio.sleep(0)
    assert all(call.done() for call in unowned) and log.count("") == 9
