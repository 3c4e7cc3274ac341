"""MCP over stdio: the process, requests of clients of any manners, any sequence of lines."""

import asyncio
import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as trying
from hypothesis import strategies as st
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from abilities import Abilities, Ability, Arguments, Context, Model, Settings, ability
from abilities.adapters import stdio as stdio_module
from abilities.adapters.stdio import MAX_LINE, MAX_REQUESTS, TOO_LONG, LineSplitter, serve_pipes
from tests.support import surfaces
from tests.support.catalog import BUILT_IN
from tests.support.file_cases import ROWS
from tests.support.jsonrpc import INVALID_REQUEST, MESSAGES, check_answer, judge
from tests.support.piped import (
    ENVELOPE,
    HELLO,
    Piped,
    build_call,
    build_line,
    build_request,
    open_piped,
)
from tests.support.serving import serving_stdio
from tests.support.stores import store_file
from tests.support.tier import QUICK, size
from tests.support.waiting import wait_until

COMMAND = [sys.executable, "-m", "abilities", "mcp"]
Process = subprocess.Popen[bytes]


def build_environment(settings: Settings, **more: str) -> dict[str, str]:
    return {**os.environ, **surfaces.environment(settings), **more}


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
async def test_every_row_crosses_a_real_pipe_unchanged(mode: str, settings: Settings) -> None:
    program, *arguments = COMMAND
    server = StdioServerParameters(command=program, args=arguments, env=build_environment(settings))
    rows = [row for row in ROWS if not row.settings][:: 3 if QUICK else 1]

    crossed = 0
    async with Client(stdio_client(server), mode=mode) as client:
        for row in rows:
            with suppress(surfaces.CannotCarry):
                surfaces.refuse_uncarried(row.arguments)
                result = await client.call_tool(row.name, row.arguments)
                expected = await surfaces.python(settings, row.name, row.arguments)
                assert surfaces.read_tool_result(result) == expected, row.id
                crossed += 1
    assert crossed > 20


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Client]:
    with serving_stdio(settings) as server:
        async with Client(stdio_client(server)) as client:
            yield client


@pytest.mark.requirement(
    "R1.1.1", "R1.1.2", "R3.0.1", "R3.8.1", "R5.4.3", "R1.7.3", "R2.4.2", "R4.4.6", "R4.6.3"
)
@pytest.mark.parametrize("structured", [False, True])
async def test_the_tools_are_listed_with_their_marks_and_structured_only_when_asked_for(
    structured: bool, settings: Settings
) -> None:
    async with connect(surfaces.with_changes(settings, structured=structured)) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool("file_read_bulk", {"paths": ["ok.txt", "none"]})
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})

    assert [tool.name for tool in tools] == [ability.name for ability in BUILT_IN]
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (None if tool.name in surfaces.WRITES else True)
        assert (tool.output_schema is not None) is structured

    surfaces.read_tool_result(result, structured=structured)
    assert caught.value.code == -32602


def start(settings: Settings) -> Process:
    variables = build_environment(settings)
    return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)


def send(process: Process, line: bytes) -> None:
    assert process.stdin
    process.stdin.write(line + b"\n")
    process.stdin.flush()


def ask(process: Process, line: bytes) -> dict[str, Any]:
    assert process.stdout
    send(process, line)
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


HUGE = b'"' + b"x" * 50_000_000


def test_h5_a_huge_or_malformed_line_is_refused_and_the_next_one_answered(
    settings: Settings,
) -> None:
    with start(settings) as process:
        ask(process, build_request(1, "initialize", HELLO))
        peak_before = read_peak_kib(process.pid)

        for line in (b"garbage", HUGE):
            assert ask(process, line)["error"]["code"] == -32700, line[:50]
            assert ask(process, build_request(2, "ping", {}))["id"] == 2, line[:50]

        assert read_peak_kib(process.pid) - peak_before < 8 * 1024, "fifty megabytes are not kept"
        assert process.stdin and process.stdout
        process.stdin.close()
        assert process.stdout.read() == b"", "no line has two answers"
        assert process.wait(60) == 0


def read_peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def test_a_client_that_goes_away_ends_the_server_quietly(
    settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    with start(settings) as process:
        ask(process, build_request(1, "initialize", HELLO))
        assert process.stdin and process.stdout

        process.stdout.close()
        send(process, build_request(2, "ping", {}))

        assert process.wait(60) == 0
        assert capfd.readouterr().err == ""
        process.stdin.close()


UNUSED = {"deepagents", "fastapi", "httpx", "httpx2", "jwt", "langchain", "langchain_core"}


def test_requests_may_come_from_a_file_and_load_no_package_in_vain(
    settings: Settings, tmp_path: Path
) -> None:
    requests = [
        build_request(1, "initialize", HELLO),
        build_request(2, "tools/list", {}),
        build_request(3, "prompts/get", {"name": "remember"}),
        build_call(4, "file_list"),
    ]
    file = tmp_path / "requests.jsonl"
    file.write_bytes(b"\n".join(requests))
    program, *arguments = COMMAND

    with file.open("rb") as stdin:
        done = subprocess.run(
            [program, "-X", "importtime", *arguments],
            stdin=stdin,
            capture_output=True,
            timeout=60,
            env=build_environment(settings),
        )

    errors = done.stderr.decode().splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in errors if line.startswith("import time")}
    assert done.returncode == 0, errors
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3, 4]
    assert "mcp.server.lowlevel.server" in loaded, "nothing shows in this list"
    assert not loaded & UNUSED


def end_input(process: Process) -> None:
    assert process.stdin
    process.stdin.close()


def terminate(process: Process) -> None:
    process.send_signal(signal.SIGTERM)


@pytest.mark.thorough
@pytest.mark.parametrize("end", [end_input, terminate])
async def test_a_client_that_reads_nothing_stops_its_own_requests_and_no_end(
    settings: Settings, end: Callable[[Process], None]
) -> None:
    with start(settings) as process:
        try:
            await fill_pipes(process)

            end(process)

            assert await asyncio.to_thread(process.wait, 120) in (0, -signal.SIGTERM)
        finally:
            process.kill()


async def fill_pipes(process: Process) -> None:
    assert process.stdin
    os.set_blocking(process.stdin.fileno(), False)
    calls = [build_call(n, "file_read_bulk", paths=["big.txt"]) for n in range(20_000)]
    lines = b"\n".join([build_request("hello", "initialize", HELLO), *calls])
    remaining = memoryview(lines)
    refusals = 0

    while refusals < 20:
        assert remaining, "the server takes requests without end, and nobody reads its answers"

        try:
            remaining = remaining[os.write(process.stdin.fileno(), remaining) :]
            refusals = 0
        except BlockingIOError:
            refusals += 1
            await asyncio.sleep(0.1)


def test_pipes_that_do_not_block_are_read_and_written_whole(settings: Settings) -> None:
    their_stdin, our_stdin = os.pipe()
    our_stdout, their_stdout = os.pipe()
    for descriptor in (their_stdin, their_stdout):
        os.set_blocking(descriptor, False)

    with subprocess.Popen(
        COMMAND, stdin=their_stdin, stdout=their_stdout, env=build_environment(settings)
    ) as process:
        os.close(their_stdout)
        calls = [build_call(n, "file_read_bulk", paths=["big.txt"]) for n in range(10)]
        with os.fdopen(our_stdout, "rb") as replies, os.fdopen(our_stdin, "wb", 0) as requests:
            requests.write(build_request("hello", "initialize", HELLO) + b"\n")
            assert json.loads(replies.readline())["id"] == "hello"

            os.set_blocking(their_stdin, False)  # as others may who share it
            for n in range(2):
                requests.write(build_request(n, "ping") + b"\n")
                assert json.loads(replies.readline())["id"] == n

            os.close(their_stdin)
            requests.write(b"".join(call + b"\n" for call in calls))
            requests.close()
            assert sorted(json.loads(line)["id"] for line in replies) == list(range(10))

        assert process.wait(60) == 0


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
        await client.send(*(build_call(request_id, "wait") for request_id in (1, "1", 2)))
        await wait_until(lambda: gate.waiting == 3)

        await client.request(1, "ping")
        refused = await client.read()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)

        # To cancel what is not in flight does nothing.
        others: list[Any] = [True, 1.0, "2", 2.0, "unknown", None, 2**63, {}]
        for request_id in others:
            await client.cancel(request_id)

        gate.opened.set()
        answers = [await client.read() for _ in range(3)]
        assert {repr(answer["id"]) for answer in answers} == {"1", "'1'", "2"}
        assert all("result" in answer for answer in answers)

        await client.cancel(1)
        await client.request(1, "ping")
        assert (await client.read())["result"] == {}


async def test_of_cancelled_requests_nothing_is_kept_and_none_delays_the_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only a server that still waits for what was cancelled takes as long.
    monkeypatch.setattr(stdio_module, "DRAIN_SECONDS", 10_000.0)

    async with open_gated(settings) as (client, gate):
        await client.request("before", "ping")
        await client.read()
        objects_before = count_protocol_objects()

        for number in range(size("ABILITIES_INPUTS", quick=150, full=1_000)):
            await client.send(build_call(number, "wait"))
            if number == 0:  # of the others, some are cancelled before they begin
                await wait_until(lambda: gate.waiting == 1)
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


async def test_a_write_that_has_begun_completes_though_cancelled(settings: Settings) -> None:
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
    count = size("ABILITIES_INPUTS", quick=300, full=700)

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


OPENING = "the request that opens the connection"


class Asked(NamedTuple):
    """A request that means something, and the code of its error, if it gets one."""

    method: str
    params: dict[str, Any]
    code: int | None = None


PATHS = {"paths": ["ok.txt", "no-such.txt"]}
ASKED = [
    Asked("tools/list", {}),
    Asked("prompts/list", {}),
    Asked("resources/list", {}),
    Asked("resources/templates/list", {}),
    Asked("tools/call", {"name": "file_read_bulk", "arguments": PATHS}),
    Asked("tools/call", {"name": "file_read_bulk", "arguments": {"paths": 5}}),
    Asked("tools/call", {"name": "memory_get", "arguments": {"key": "no such memory"}}),
    Asked("tools/call", {"name": "file_red_bulk", "arguments": PATHS}, -32602),
    Asked("prompts/get", {"name": "remember", "arguments": {"subject": "tea"}}),
    Asked("prompts/get", {"name": "recall"}, -32602),
    Asked("resources/read", {"uri": "x://y"}, -32602),
    Asked("completion/complete", {}, -32602),
    Asked("no/such/method", {}, -32601),
]

ODD_LINES = [
    b"",
    b" \t ",
    b"\r",
    b"[]",
    b"[" * 1_000,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % 10**1_100,
    build_line(id="long", method="ping", params={"x": "y" * MAX_LINE}),
    build_line(method="notifications/initialized"),
    build_line(method="notifications/cancelled"),
    build_line(method="notifications/cancelled", params=[1]),
    *(
        build_line(method="notifications/cancelled", params={"requestId": odd})
        for odd in (0, "never sent", None, [1])
    ),
    build_line(method="notifications/progress", params={"progressToken": 1, "progress": "x"}),
    build_line(method="tools/call", params={"name": "no_such_tool"}),
    build_line(method="no/such/method", params="x"),
    build_line(id=5, result={}),
    build_line(id=None, error={"code": -1, "message": "x"}),
    build_line(id=5, error="x"),
]


@st.composite
def damage(draw: st.DrawFn) -> bytes:
    line = json.dumps(draw(MESSAGES)).encode()
    start = draw(st.integers(0, len(line)))
    end = start + draw(st.integers(0, 2))
    return line[:start] + draw(st.binary(max_size=2)) + line[end:]


TEXTS = st.one_of(
    MESSAGES.map(lambda message: json.dumps(message).encode()),
    damage(),
    st.binary(max_size=20),
    st.sampled_from(ODD_LINES),
).map(lambda line: line.replace(b"\n", b" "))

SEQUENCES = st.lists(TEXTS | st.sampled_from(ASKED), max_size=10)

LOTS = trying(
    max_examples=size("ABILITIES_INPUTS", quick=40, full=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=[False, True], ids=["plain", "structured"])
async def abilities(settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[Abilities]:
    chosen = surfaces.with_changes(settings, structured=request.param)
    async with Abilities.open(chosen) as abilities:
        yield abilities


@pytest.mark.sampled(2)
@pytest.mark.parametrize("era", ["handshake", "current"])
@given(sequence=SEQUENCES)
@example(sequence=list(ASKED))
@example(sequence=list(ODD_LINES))
@LOTS
async def test_each_of_any_sequence_of_lines_gets_the_answer_that_it_is_owed(
    sequence: list[bytes | Asked], era: str, abilities: Abilities
) -> None:
    lines = [open_era(era)]
    for number, sent in enumerate(sequence):
        lines.append(sent if isinstance(sent, bytes) else ask_in(era, f"asked {number}", sent))

    answers = await send_all(abilities, lines)

    check_owed(lines, answers)
    by_id = {answer["id"]: answer for answer in answers if isinstance(answer["id"], str)}
    assert "result" in by_id[OPENING]
    for number, sent in enumerate(sequence):
        if isinstance(sent, Asked):
            await check_asked(abilities, sent, by_id[f"asked {number}"])


def open_era(era: str) -> bytes:
    if era == "handshake":
        return build_request(OPENING, "initialize", HELLO)

    return ask_in(era, OPENING, Asked("server/discover", {}))


def ask_in(era: str, request_id: str, asked: Asked) -> bytes:
    meta = {"_meta": ENVELOPE} if era == "current" else {}
    return build_request(request_id, asked.method, {**asked.params, **meta})


def check_owed(lines: list[bytes], answers: list[dict[str, Any]]) -> None:
    """Check that lines have the answers that they are owed, which may come in any order.

    A request is not answered if it is cancelled while it is in flight, and it is refused under
    null if another one with its id is.
    """
    owed = [owed for line in lines if (owed := judge_line(line)) is not None]
    wanted = Counter(show(answer.id) for answer in owed)
    given = Counter(show(answer["id"]) for answer in answers)
    cancelled = {named for line in lines if (named := find_cancelled(line)) is not None}
    may_lack = sum(count for named, count in wanted.items() if named in cancelled)

    for answer in answers:
        check_answer(answer)
    assert len(owed) - may_lack <= len(answers) <= len(owed)
    for named, count in wanted.items():
        if named == "null":
            continue
        assert (named not in cancelled) <= given[named] <= count, named

    codes = Counter(answer.code for answer in owed if answer.id is None)
    given_codes = Counter(answer["error"]["code"] for answer in answers if answer["id"] is None)
    assert codes <= given_codes
    assert (given_codes - codes).keys() <= {INVALID_REQUEST}
    assert given.keys() <= {*wanted, "null"}


def judge_line(line: bytes) -> Any:
    if not line.strip():
        return None  # a blank line is skipped

    return judge(b"" if len(line) > MAX_LINE else line)


def show(request_id: Any) -> str:
    """Return an id so that 1 and "1" are two."""
    return json.dumps(request_id)


def find_cancelled(line: bytes) -> str | None:
    if judge_line(line) is not None or not line.strip():
        return None

    message = json.loads(line)
    params = message.get("params")
    if message.get("method") != "notifications/cancelled" or not isinstance(params, dict):
        return None

    request_id = params.get("requestId")
    return None if request_id is None else show(request_id)


async def check_asked(abilities: Abilities, asked: Asked, answer: dict[str, Any]) -> None:
    if asked.code is not None:
        assert answer["error"]["code"] == asked.code
        return

    result = answer["result"]
    if asked.method == "tools/call":
        structured = abilities.settings.structured
        name, arguments = asked.params["name"], asked.params["arguments"]
        reply = await abilities.reply(name, arguments, for_model=True, structured=structured)

        assert [part["text"] for part in result["content"]] == [reply.text]
        assert result["isError"] is reply.failed
        has_payload = structured and not reply.failed
        assert result.get("structuredContent") == (reply.payload if has_payload else None)


async def send_all(abilities: Abilities, lines: list[bytes]) -> list[dict[str, Any]]:
    their_stdin, our_stdin = os.pipe()
    our_stdout, their_stdout = os.pipe()
    server = asyncio.create_task(serve_pipes(abilities, their_stdin, their_stdout))
    reading = asyncio.create_task(asyncio.to_thread(read_all, our_stdout))

    await asyncio.to_thread(write_all, our_stdin, b"".join(line + b"\n" for line in lines))
    await asyncio.wait_for(server, 60)
    os.close(their_stdin)
    os.close(their_stdout)
    return [json.loads(line) for line in (await reading).splitlines()]


def write_all(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as stdin:
        stdin.write(data)


def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as stdout:
        return stdout.read()


@given(st.lists(st.binary(max_size=30) | st.just(b"\n") | st.just(b"a" * MAX_LINE), max_size=8))
def test_lines_do_not_depend_on_how_their_bytes_arrive(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    received: list[bytes] = []
    for chunk in [*filter(None, chunks), b""]:
        received += splitter.split(chunk)

    lines = [line for line in b"".join(chunks).split(b"\n") if line.strip()]
    assert received == [line if len(line) <= MAX_LINE else TOO_LONG for line in lines]
