"""The rules by which callers share: places, room for what waits, and lines of the log."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities import Settings
from abilities.helpers.threads.turns import TurnQueue, turn_owner
from abilities.helpers.tokens import TokenFile
from abilities.server.connections import Connections, Crowd
from abilities.server.guard import MEMORY_SECONDS, Shares
from abilities.server.telemetry import MAX_REPEATS, LineLimit
from tests.support.serving import serving_app

TURNS: dict[str, dict[str, Any]] = {
    "store_memory": {"key": "k", "type": "core", "content": "x"},
    "memory_get": {"key": "k"},
    "file_read_bulk": {"paths": ["a.txt"]},
}
"""Calls that wait for a turn: of the store's writer, of its reader, and of the file threads."""

CALLERS = st.sampled_from("abcde")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "give back", "wait"]), CALLERS, st.sampled_from([0.1, 0.5, 1.0])
    ),
    max_size=120,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def take_all(shares: Shares, caller: str) -> int:
    """Take places until one is refused, and return how many there were."""
    count = 0
    while shares.take(caller, is_known=False):
        count += 1

    return count


def give_back(shares: Shares, caller: str, count: int) -> None:
    for _ in range(count):
        shares.give_back(caller)


def crowd(clock: Clock) -> Shares:
    """Return 64 places, all of which a caller holds; another one was refused."""
    shares = Shares(64, clock)
    assert take_all(shares, "a") == 64, "a lone caller may hold every place"
    assert not shares.take("b", is_known=False)
    return shares


def test_a_busy_caller_keeps_to_its_share_as_long_as_another_calls() -> None:
    """Otherwise the other would be refused anew each second."""
    clock = Clock()
    shares = crowd(clock)
    give_back(shares, "a", 64)
    take_all(shares, "a")

    for _ in range(50):
        clock.now += MEMORY_SECONDS / 2
        assert not shares.take("a", is_known=False)
        assert shares.take("b", is_known=False)
        shares.give_back("b")


def test_a_known_caller_has_its_share_even_while_another_holds_every_place() -> None:
    shares = crowd(Clock())
    assert sum(shares.take("b", is_known=True) for _ in range(40)) == 32
    assert not shares.take("a", is_known=True)

    give_back(shares, "a", 64)
    assert take_all(shares, "a") == 32

    shares = crowd(Clock())
    assert sum(shares.take(n, is_known=True) for n in range(100)) == 64, "twice the places at most"


@given(STEPS)
def test_places_are_never_exceeded_and_none_is_refused_without_need(
    steps: list[tuple[str, str, float]],
) -> None:
    size = 7
    clock = Clock()
    shares = Shares(size, clock)
    held = dict.fromkeys("abcde", 0)

    for step, caller, seconds in steps:
        if step == "wait":
            clock.now += seconds
        elif step == "give back" and held[caller]:
            shares.give_back(caller)
            held[caller] -= 1
        elif step == "take":
            total = sum(held.values())
            was_taken = shares.take(caller, is_known=False)
            held[caller] += was_taken

            assert total < size or not was_taken
            # However many callers there are, this much is each one's own.
            assert was_taken or total == size or held[caller] >= -(-size // len(held))

    for caller, count in held.items():
        give_back(shares, caller, count)
    clock.now += MEMORY_SECONDS

    assert take_all(shares, "z") == size


@given(st.lists(st.tuples(CALLERS, st.integers(0, 40)), max_size=80), st.integers(1, 12))
def test_less_than_a_share_never_gives_way(arrivals: list[tuple[str, int]], room: int) -> None:
    crowd = Crowd[str, int]()
    owners: dict[int, str] = {}

    for owner, item in arrivals:
        if len(crowd) >= room and item not in crowd:
            picked = crowd.pick()
            counts = [list(owners.values()).count(name) for name in set(owners.values())]
            assert list(owners.values()).count(owners[picked]) == max(counts)
            assert picked == next(one for one in owners if owners[one] == owners[picked])
            crowd.remove(picked)
            del owners[picked]

        crowd.add(owner, item)
        owners.pop(item, None)
        owners[item] = owner
        assert len(crowd) == len(owners) <= room

    for item in range(41):
        crowd.remove(item)
    assert len(crowd) == 0


class Socket:
    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


def let_wait(connections: Connections, owner: str = "", count: int = 1) -> list[Socket]:
    sockets = [Socket(owner) for _ in range(count)]
    for one in sockets:
        connections.add(one)
        connections.mark_waiting(one)
    return sockets


def test_those_who_never_called_give_way_before_callers_who_hold_less() -> None:
    connections = Connections(10)
    callers, strangers = let_wait(connections, "ada", 4), let_wait(connections, count=6)
    connections.add(Socket())

    assert [one.is_aborted for one in strangers] == [True] + [False] * 5
    assert not any(one.is_aborted for one in callers)

    connections = Connections(2)
    for connection in let_wait(connections, "ada", 2):
        connections.mark_busy(connection)
    assert not connections.can_accept(), "one on which the server works never gives way"


def test_answers_that_nobody_reads_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abilities.server.connections.MAX_UNREAD", 1_000)
    connections = Connections(10)
    rude = [Socket("rude") for _ in range(4)]
    slow = Socket("slow")
    for connection in [slow, *rude]:
        connections.add(connection)
        connections.mark_unread(connection, 300)

    assert [one.is_aborted for one in [*rude, slow]] == [True, True, False, False, False]


def test_crowding_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "abilities"):
        let_wait(Connections(1), count=100)

    assert [record.message for record in caplog.records] == ["too many connections"]


def test_lines_of_one_kind_are_limited_per_second_and_those_left_out_are_counted() -> None:
    clock = Clock()
    limit = LineLimit(clock)
    admitted = [limit.admit("refused (a)") for _ in range(1_000)]

    assert sum(admitted) == MAX_REPEATS and all(admitted[:MAX_REPEATS])
    assert limit.admit("refused (b)")
    assert limit.collect() == {}

    clock.now += 1
    assert limit.collect() == {"refused (a)": 1_000 - MAX_REPEATS}
    assert limit.admit("refused (a)")


@pytest.fixture
def guarded(roots: Settings, tmp_path: Path) -> Settings:
    return roots.model_copy(update={"tokens_file": tmp_path / "tokens.json"})


async def test_calls_take_turns_by_token_wherever_they_wait(
    guarded: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [TokenFile(guarded.tokens_file).add("default", "write") for _ in range(2)]
    owners: list[str] = []
    put = TurnQueue.put

    def note(queue: TurnQueue[object], namespace: str, item: object) -> None:
        owners.append(turn_owner.get())
        put(queue, namespace, item)

    async with serving_app(guarded) as server:
        for name, arguments in TURNS.items():
            for token, secret in tokens:
                with monkeypatch.context() as patch:
                    patch.setattr(TurnQueue, "put", note)
                    await server.call(name, secret, **arguments)

                assert token.id in owners, name
                owners.clear()


async def test_refusals_take_turns_too(guarded: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TokenFile(guarded.tokens_file)
    (rude, rude_secret), (_, good_secret) = (file.add("default", "write") for _ in range(2))
    take = Shares.take
    answered: list[int] = []

    def refuse_rude(shares: Shares, caller: str, *, is_known: bool) -> bool:
        return caller != rude.id and take(shares, caller, is_known=is_known)

    async with serving_app(guarded) as server:

        async def call(secret: str) -> None:
            answered.append((await server.ask("GET", "/api/abilities", secret)).status_code)

        await call(good_secret)  # the tokens are read on a thread
        monkeypatch.setattr(Shares, "take", refuse_rude)
        await asyncio.gather(*(call(rude_secret) for _ in range(30)), call(good_secret))

    assert sorted(answered[1:]) == [200, *[429] * 30]
    assert answered[1:].index(200) <= 5, "it waited for some of them only"
