"""MCP over stdio with the real process: rows in both eras, hostile lines, a clean stdout."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from abilities import Settings
from tests.support import surfaces
from tests.support.catalog import BUILT_IN
from tests.support.file_cases import ROWS
from tests.support.piped import HELLO, build_call, build_request
from tests.support.plugins import write_distribution
from tests.support.serving import serving_stdio
from tests.support.tier import QUICK

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


@pytest.mark.requirement("R1.1.1", "R1.1.2", "R3.0.1", "R3.8.1", "R5.4.3")
async def test_the_tools_are_listed_with_their_marks(settings: Settings) -> None:
    async with connect(settings) as client:
        tools = (await client.list_tools()).tools
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})

    assert [tool.name for tool in tools] == [ability.name for ability in BUILT_IN]
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (None if tool.name in surfaces.WRITES else True)
        assert tool.output_schema is None

    assert caught.value.code == -32602


@pytest.mark.requirement("R1.7.3", "R2.4.2", "R4.4.6", "R4.6.3")
async def test_structured_content_is_sent_only_when_asked_for(settings: Settings) -> None:
    async with connect(settings.model_copy(update={"structured": True})) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool("file_read_bulk", {"paths": ["ok.txt", "none"]})

    assert all(tool.output_schema for tool in tools)
    assert result.structured_content is not None
    surfaces.read_tool_result(result, structured=True)


def start(settings: Settings, output: int = subprocess.PIPE) -> Process:
    variables = build_environment(settings)
    return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=output, env=variables)


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
MALFORMED_LINES = {
    b"garbage": -32700,
    b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"x":NaN}}': -32700,
    b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"x":"\\ud800"}}': -32700,
    b'{"jsonrpc":"2.0","id":9,"method":"\xff"}': -32700,
    b"[" * 100_000: -32700,
    b"[]": -32600,
    HUGE: -32700,
}


def test_h5_a_malformed_line_gets_an_error_and_the_next_its_answer(
    settings: Settings,
) -> None:
    with start(settings) as process:
        ask(process, build_request(1, "initialize", HELLO))
        peak_before = read_peak_kib(process.pid)

        for line, code in MALFORMED_LINES.items():
            refused = ask(process, line)
            assert refused["error"]["code"] == code, line[:50]
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


def exchange(
    settings: Settings, *lines: bytes, options: tuple[str, ...] = (), **more: str
) -> tuple[list[dict[str, Any]], str]:
    process = subprocess.run(
        [sys.executable, *options, *COMMAND[1:]],
        input=b"\n".join([build_request(1, "initialize", HELLO), *lines]) + b"\n",
        capture_output=True,
        timeout=60,
        env=build_environment(settings, **more),
    )
    errors = process.stderr.decode()
    assert process.returncode == 0, errors
    return [json.loads(line) for line in process.stdout.splitlines()], errors


PRINTER = """
import os, subprocess, sys
from abilities import Arguments, Context, Model, ability

class Answer(Model):
    said: bool

@ability(description="Prints where it should not.")
async def loud(context: Context, arguments: Arguments) -> Answer:
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run(["echo", "echoed"])
    return Answer(said=True)
"""


def test_what_an_ability_prints_never_reaches_the_wire(settings: Settings, tmp_path: Path) -> None:
    write_distribution(tmp_path, {"loud": PRINTER}, {"loud": "loud:loud"})

    answers, errors = exchange(settings, build_call(2, "loud"), PYTHONPATH=str(tmp_path))

    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["content"][0]["text"] == '{"said":true}'
    assert {"printed", "written", "echoed"} <= set(errors.split())


UNUSED = {"deepagents", "fastapi", "httpx", "httpx2", "jwt", "langchain", "langchain_core"}


def test_a_client_over_stdio_loads_no_package_in_vain(settings: Settings) -> None:
    answers, errors = exchange(
        settings,
        build_request(2, "tools/list", {}),
        build_request(3, "prompts/get", {"name": "remember"}),
        build_call(4, "file_list"),
        options=("-X", "importtime"),
    )

    imports = [line for line in errors.splitlines() if line.startswith("import time")]
    loaded = {line.rpartition("|")[2].strip() for line in imports}
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


def test_a_non_blocking_stdout_is_written_whole(settings: Settings) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    with start(settings, writing) as process:
        os.close(writing)
        send(process, build_request("hello", "initialize", HELLO))
        for n in range(10):
            send(process, build_call(n, "file_read_bulk", paths=["big.txt"]))
        end_input(process)

        with os.fdopen(reading, "rb") as output:
            assert len([json.loads(line) for line in output]) == 11
        assert process.wait(60) == 0
