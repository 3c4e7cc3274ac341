"""Rude clients at the HTTP door keep no good caller waiting; the rules by which callers share."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response

from abilities import Settings
from abilities.adapters import http as adapter
from abilities.helpers.threads.turns import TurnQueue, turn_owner
from abilities.helpers.tokens import TokenFile
from abilities.server import connections, guard
from abilities.server.connections import MAX_REQUEST_LINE, Connections, Crowd
from abilities.server.guard import MEMORY_SECONDS, Shares
from abilities.server.telemetry import MAX_REPEATS, LineLimit
from tests.support.measurements import reached
from tests.support.rude import build_request, count_answered, exchange, open_sockets
from tests.support.sample_files import make_roots
from tests.support.serving import LocalServer, Server, serving, serving_app
from tests.support.tier import size
from tests.support.waiting import wait_until

GOOD_CALLS = size("ABILITIES_GOOD_CALLS", quick=10, full=100)
IDLE_SOCKETS = size("ABILITIES_IDLE_SOCKETS", quick=600, full=2_000)
DESCRIPTORS = size("ABILITIES_DESCRIPTORS", quick=512, full=1_024)
MOST_LOGGED = 2**20
LARGE = "/openapi.json"
"""An answer that no small socket buffer holds."""


class Guarded(NamedTuple):
    """A server that needs tokens, and two of them; ``logged`` bytes are of what was before."""

    server: Server
    rude: str
    good: str
    logged: int = 0


@contextmanager
def serve_guarded(folder: Path) -> Iterator[Guarded]:
    tokens = TokenFile(folder / ".abilities" / "tokens.json")
    rude, good = (tokens.add("default", "write")[1] for _ in range(2))
    settings = make_roots(folder)

    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS},) * 2)"
    with serving(settings, folder, before=limit) as server:
        yield Guarded(server, rude, good)
        server.stop()


@pytest.fixture(scope="module")
def shared_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with serve_guarded(tmp_path_factory.mktemp("guarded")) as guarded:
        yield guarded


@pytest.fixture
def guarded(shared_guarded: Guarded) -> Guarded:
    """A server that all rude clients come to, one kind after the other."""
    return shared_guarded._replace(logged=shared_guarded.server.log.stat().st_size)


@pytest.fixture
def new_guarded(tmp_path: Path) -> Iterator[Guarded]:
    with serve_guarded(tmp_path) as guarded:
        yield guarded


async def check_good_calls(guarded: Guarded, attack: str) -> None:
    answered = await count_answered(guarded.server.address, GOOD_CALLS, guarded.good)
    logged = guarded.server.log.stat().st_size - guarded.logged

    assert answered >= 0.99 * GOOD_CALLS
    assert logged <= MOST_LOGGED
    reached(14, f"{attack}: {answered} of {GOOD_CALLS} good calls, {logged:,} bytes of log")


@pytest.mark.parametrize("needs_token", [True, False])
async def test_h7_answers_that_nobody_reads_keep_no_good_caller_waiting(
    needs_token: bool, guarded: Guarded
) -> None:
    path, token = (LARGE, guarded.rude) if needs_token else ("/explorer/app.js", None)
    requests = build_request("GET", path, token) * 100

    async with open_sockets(guarded.server.address, 64, requests):
        await check_good_calls(guarded, f"64 that never read {path}")


async def test_h7_without_tokens_connections_that_read_nothing_hold_no_call(served: str) -> None:
    async with open_sockets(served, 64, build_request("GET", LARGE) * 100):
        assert await count_answered(served, GOOD_CALLS) >= 0.99 * GOOD_CALLS


@pytest.mark.parametrize("path", ["/healthz", "/api/memories", "/mcp"])
async def test_h4_slow_bodies_keep_no_good_caller_waiting(path: str, guarded: Guarded) -> None:
    request = build_request("POST", path, guarded.rude, length=1_000) + b"{"

    async with open_sockets(guarded.server.address, 260, request):
        await check_good_calls(guarded, f"260 slow bodies for {path}")


async def test_h4_more_idle_sockets_than_descriptors_keep_nobody_out(new_guarded: Guarded) -> None:
    async with open_sockets(new_guarded.server.address, IDLE_SOCKETS):
        name = f"{IDLE_SOCKETS:,} idle sockets with {DESCRIPTORS:,} descriptors"
        await check_good_calls(new_guarded, name)

    assert "too many connections" in new_guarded.server.log.read_text()


async def test_h7_pipelined_requests_are_answered_one_by_one(local: LocalServer) -> None:
    body = b'{"key": "none"}'
    call = build_request("POST", "/api/abilities/memory_get", length=len(body)) + body
    last = build_request("GET", "/healthz").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    pipelined = (build_request("GET", "/api/stats") + call) * 30 + last
    answers = await exchange(local.address, pipelined)

    statuses = [answer[:3] for answer in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404"] * 30 + [b"200"]


async def test_h7_pipelined_requests_wait_in_the_kernel(guarded: Guarded) -> None:
    async with open_sockets(guarded.server.address, 20, build_request("GET", "/healthz") * 20_000):
        await check_good_calls(guarded, "20 that pipeline 20,000 requests")
        status = Path(f"/proc/{guarded.server.process.pid}/status").read_text()

    (most,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    assert int(most.split()[1]) < 256 * 1024  # kB; each parsed request takes four


async def test_h7_a_path_that_takes_no_body_refuses_one_at_once(guarded: Guarded) -> None:
    for path in ("/healthz", "/readyz", "/", "/docs"):
        for header in ("Content-Length: 9", "Transfer-Encoding: chunked"):
            head = build_request("POST", path)[:-2] + header.encode() + b"\r\n\r\n"
            answer = await exchange(guarded.server.address, head)

            assert answer.startswith(b"HTTP/1.1 405 "), path
            assert b"unknown_address" in answer


async def test_h2_a_wrong_token_is_refused_before_its_body_comes(guarded: Guarded) -> None:
    url = httpx.URL(guarded.server.address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(build_request("POST", "/api/memories", "abl_wrong", length=100))

    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_h4_a_long_request_line_is_refused_whole_or_not(guarded: Guarded) -> None:
    line = b"GET /" + b"x" * MAX_REQUEST_LINE
    for end in (b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b""):
        answer = await exchange(guarded.server.address, line + end)

        assert answer.startswith(b"HTTP/1.1 414 ") and b"malformed_request" in answer


async def test_refusals_are_logged_a_few_times_a_second(new_guarded: Guarded) -> None:
    began = time.monotonic()
    requests = (
        build_request("GET", "/api/stats", "wrong"),
        build_request("GET", "/api/stats").replace(b"localhost", b"elsewhere"),
        b"NONSENSE\r\n\r\n",
    )
    for data in requests * 40:
        async with open_sockets(new_guarded.server.address, 1, data):
            pass

    assert await count_answered(new_guarded.server.address, 1, new_guarded.good) == 1
    seconds = time.monotonic() - began + 2
    lines = new_guarded.server.log.read_text().splitlines()

    # Two kinds of lines, and one with a count for each.
    assert len(lines) <= 2 * (MAX_REPEATS + 1) * seconds + 2


async def test_h7_an_answer_that_nobody_reads_is_aborted(
    local: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)

    async with open_sockets(local.address, 1, build_request("GET", LARGE) * 100):
        state = local.server.server_state
        await wait_until(lambda: state.total_requests > 0)
        await wait_until(lambda: not state.connections)

    assert state.total_requests <= 5  # the kernel holds few answers


async def test_a_server_stops_in_time_whatever_its_calls_do(
    local: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, never = asyncio.Event(), asyncio.Event()

    async def hang(*_: Any) -> Any:
        began.set()
        await never.wait()

    monkeypatch.setattr(adapter, "call_ability", hang)
    monkeypatch.setattr(connections, "STOP_SECONDS", 0.5)
    call = asyncio.create_task(count_answered(local.address, 1))
    await began.wait()
    local.server.should_exit = True

    async with asyncio.timeout(60):
        await local.running

    never.set()
    await call


async def test_h6_callers_share_while_one_of_them_is_refused(
    private: Settings, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[asyncio.Event] = []

    async def wait(*_: Any) -> Any:
        gate = asyncio.Event()
        waiting.append(gate)
        await gate.wait()
        return Response(b"{}")

    monkeypatch.setattr(adapter, "call_ability", wait)
    noisy, quiet = (tokens.add("default", "read")[1] for _ in range(2))

    async with serving_app(private) as server:

        async def begin(token: str, count: int) -> list[asyncio.Task[httpx.Response]]:
            expected = len(waiting) + count
            calls = [asyncio.create_task(server.call("file_list", token)) for _ in range(count)]
            await wait_until(lambda: len(waiting) >= expected)
            return calls

        async def check_full() -> None:
            for token in (quiet, noisy):
                refused = await server.call("file_list", token)
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
                assert refused.json()["error"]["reason"] == "overloaded"

        calls = await begin(noisy, guard.MAX_CALLS)
        calls += await begin(quiet, 32)  # its share, while the other holds all places
        await check_full()
        healthy = await server.ask("GET", "/healthz")
        assert healthy.status_code == 200, "whoever looks after the process is answered"

        for gate in waiting[: guard.MAX_CALLS]:
            gate.set()
        await wait_until(lambda: sum(call.done() for call in calls) >= guard.MAX_CALLS)
        calls += await begin(noisy, 32)
        await check_full()

        for gate in waiting:
            gate.set()
        assert {(await call).status_code for call in calls} == {200}


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


def test_known_callers_have_twice_the_places_at_most() -> None:
    shares = crowd(Clock())

    assert sum(shares.take(str(n), is_known=True) for n in range(100)) == 64


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


async def test_calls_take_turns_by_token_wherever_they_wait(
    private: Settings, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = [tokens.add("default", "write") for _ in range(2)]
    owners: list[str] = []
    put = TurnQueue.put

    def note(queue: TurnQueue[object], namespace: str, item: object) -> None:
        owners.append(turn_owner.get())
        put(queue, namespace, item)

    async with serving_app(private) as server:
        for name, arguments in TURNS.items():
            for token, secret in added:
                with monkeypatch.context() as patch:
                    patch.setattr(TurnQueue, "put", note)
                    await server.call(name, secret, **arguments)

                assert token.id in owners, name
                owners.clear()


async def test_refusals_take_turns_too(
    private: Settings, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rude, rude_secret), (_, good_secret) = (tokens.add("default", "write") for _ in range(2))
    take = Shares.take
    answered: list[int] = []

    def refuse_rude(shares: Shares, caller: str, *, is_known: bool) -> bool:
        return caller != rude.id and take(shares, caller, is_known=is_known)

    async with serving_app(private) as server:

        async def call(secret: str) -> None:
            answered.append((await server.ask("GET", "/api/abilities", secret)).status_code)

        await call(good_secret)  # the tokens are read on a thread
        monkeypatch.setattr(Shares, "take", refuse_rude)
        await asyncio.gather(*(call(rude_secret) for _ in range(30)), call(good_secret))

    assert sorted(answered[1:]) == [200, *[429] * 30]
    assert answered[1:].index(200) <= 5, "it waited for some of them only"
