"""MCP over stdio with the real process: rows in both eras, hostile lines, a clean stdout."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from abilities import Settings
from tests.support.catalog import BUILT_IN
from tests.support.file_cases import ROWS, Row
from tests.support.piped import HELLO, build_request
from tests.support.surfaces import (
    CannotCarry,
    environment,
    python,
    read_tool_result,
    refuse_uncarried,
)
from tests.support.tier import size

COMMAND = [sys.executable, "-m", "abilities", "mcp"]


def build_environment(settings: Settings, **more: str) -> dict[str, str]:
    return {**os.environ, **environment(settings), **more}


def connect(settings: Settings) -> Any:
    """Return a transport to a server in a process of its own."""
    program, *arguments = COMMAND
    variables = build_environment(settings)

    return stdio_client(StdioServerParameters(command=program, args=arguments, env=variables))


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.thorough)])
async def test_every_row_crosses_a_real_pipe_unchanged(mode: str, settings: Settings) -> None:
    carried = 0
    async with Client(connect(settings), mode=mode) as client:
        for row in ROWS:
            if row.settings or not can_carry(row):
                continue

            result = await client.call_tool(row.name, row.arguments)
            assert read_tool_result(result) == await python(settings, row.name, row.arguments), (
                row.id
            )
            carried += 1

    assert carried > 60


def can_carry(row: Row) -> bool:
    """Return whether JSON can hold the row's arguments."""
    try:
        refuse_uncarried(row.arguments)
    except CannotCarry:
        return False

    return True


@pytest.mark.requirement("R1.1.1", "R1.1.2", "R3.0.1", "R3.8.1", "R5.4.3")
async def test_the_tools_are_listed_with_their_marks(settings: Settings) -> None:
    async with Client(connect(settings)) as client:
        tools = (await client.list_tools()).tools
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})

    assert [tool.name for tool in tools] == [ability.name for ability in BUILT_IN]
    writing = {"store_memory", "update_memory", "delete_memory", "remember", "memory_restore"}
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (None if tool.name in writing else True)
        assert tool.output_schema is None

    assert caught.value.code == -32602


@pytest.mark.requirement("R1.7.3", "R2.4.2", "R4.4.6", "R4.6.3")
async def test_structured_content_is_sent_only_when_asked_for(settings: Settings) -> None:
    async with Client(connect(settings.model_copy(update={"structured": True}))) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool("file_read_bulk", {"paths": ["ok.txt", "none"]})

    assert all(tool.output_schema for tool in tools)
    assert result.structured_content is not None
    read_tool_result(result, structured=True)


def exchange(settings: Settings, *lines: bytes, **more: str) -> tuple[list[dict[str, Any]], bytes]:
    """Send lines at once, close stdin, and return every answer and what stderr holds."""
    process = subprocess.run(
        COMMAND,
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        timeout=60,
        env=build_environment(settings, **more),
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()], process.stderr


MALFORMED_LINES = {
    "words": (b"garbage", -32700),
    "half": (b'{"jsonrpc": "2.0", "id": 1', -32700),
    "nan": (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"x":NaN}}', -32700),
    "surrogate": (
        b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"x":"\\ud800"}}',
        -32700,
    ),
    "utf-8": (b'{"jsonrpc":"2.0","id":9,"method":"\xff"}', -32700),
    "deep": (b"[" * 100_000, -32700),
    "array": (b"[]", -32600),
    "no version": (b'{"id": 1, "method": "ping"}', -32600),
    "long": (b'"' + b"x" * 2_000_000 + b'"', -32700),
}


async def test_a_line_that_is_no_message_gets_an_error_and_the_next_one_its_answer(
    settings: Settings,
) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=build_environment(settings),
        limit=2**20,
    )
    assert (await ask(process, build_request(1, "initialize", HELLO)))["id"] == 1

    for number, (kind, (line, code)) in enumerate(MALFORMED_LINES.items(), 2):
        refused = await ask(process, line)
        assert refused["error"]["code"] == code, kind
        assert "result" not in refused, kind

        answered = await ask(process, build_request(number, "ping", {}))
        assert (answered["id"], "result" in answered) == (number, True), kind

    assert process.stdin and process.stdout
    process.stdin.close()
    assert await process.stdout.read() == b"", "no line has two answers"
    assert await process.wait() == 0


async def ask(process: asyncio.subprocess.Process, line: bytes) -> dict[str, Any]:
    """Send a line to a server and return the next line that it answers."""
    assert process.stdin and process.stdout

    process.stdin.write(line + b"\n")
    await process.stdin.drain()

    answer: dict[str, Any] = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    return answer


@pytest.mark.thorough
async def test_fifty_megabytes_in_one_line_do_not_swell_the_process(settings: Settings) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=build_environment(settings)
    )
    assert (await ask(process, build_request(1, "initialize", HELLO)))["id"] == 1
    peak_before = read_peak_kib(process.pid)

    refused = await ask(process, b'"' + b"x" * 50_000_000)
    answered = await ask(process, build_request(2, "ping", {}))

    assert refused["error"]["code"] == -32700
    assert answered["id"] == 2
    assert read_peak_kib(process.pid) - peak_before < 8 * 1024
    assert process.stdin
    process.stdin.close()
    assert await process.wait() == 0


def read_peak_kib(pid: int) -> int:
    """Return the largest amount of memory that a process has held, as Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def test_every_request_is_answered_though_the_input_ends_at_once(settings: Settings) -> None:
    paths = {"paths": ["ok.txt", "big.txt"]}
    call = {"name": "file_read_bulk", "arguments": paths}
    calls = [build_request(n, "tools/call", call) for n in range(2, 12)]

    for _ in range(size("ABILITIES_INPUTS", quick=1, full=5)):
        answers, _ = exchange(settings, build_request(1, "initialize", HELLO), *calls)
        assert sorted(answer["id"] for answer in answers) == list(range(1, 12))


def test_a_client_that_goes_away_ends_the_server_quietly(settings: Settings) -> None:
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=build_environment(settings),
    )
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(build_request(1, "initialize", HELLO) + b"\n")
    process.stdin.flush()
    assert process.stdout.readline()

    process.stdout.close()
    process.stdin.write(build_request(2, "ping", {}) + b"\n")
    process.stdin.flush()

    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


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
    (tmp_path / "loud.py").write_text(PRINTER)
    info = tmp_path / "loud-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[abilities]\nloud = loud:loud\n")

    calls = (
        build_request(1, "initialize", HELLO),
        build_request(2, "tools/call", {"name": "loud", "arguments": {}}),
    )
    answers, errors = exchange(settings, *calls, PYTHONPATH=str(tmp_path))

    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["content"][0]["text"] == '{"said":true}'
    assert {b"printed", b"written", b"echoed"} <= set(errors.split())
