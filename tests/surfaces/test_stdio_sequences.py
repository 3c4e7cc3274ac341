"""MCP over stdio: whatever sequence of lines a client sends, each gets the answer it is owed."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as trying
from hypothesis import strategies as st

from abilities import Abilities, Settings
from abilities.adapters.stdio import MAX_LINE, serve_pipes
from tests.support.jsonrpc import INVALID_REQUEST, MESSAGES, check_answer, judge
from tests.support.piped import ENVELOPE, HELLO, build_line, build_request
from tests.support.tier import size

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
    max_examples=size("ABILITIES_INPUTS", quick=40, full=300),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=[False, True], ids=["plain", "structured"])
async def abilities(settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[Abilities]:
    chosen = settings.model_copy(update={"structured": request.param})
    async with Abilities.open(chosen) as abilities:
        yield abilities


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
        lines.append(sent if isinstance(sent, bytes) else ask(era, f"asked {number}", sent))

    answers = await exchange(abilities, lines)

    check_owed(lines, answers)
    by_id = {answer["id"]: answer for answer in answers if isinstance(answer["id"], str)}
    assert "result" in by_id[OPENING]
    for number, sent in enumerate(sequence):
        if isinstance(sent, Asked):
            await check_asked(abilities, sent, by_id[f"asked {number}"])


def open_era(era: str) -> bytes:
    if era == "handshake":
        return build_request(OPENING, "initialize", HELLO)

    return ask(era, OPENING, Asked("server/discover", {}))


def ask(era: str, request_id: str, asked: Asked) -> bytes:
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


async def exchange(abilities: Abilities, lines: list[bytes]) -> list[dict[str, Any]]:
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
