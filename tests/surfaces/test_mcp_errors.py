"""Errors over MCP: closed codes, sentences of this package, and no library's text, on both ways."""

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as trying

from abilities import Settings
from abilities.adapters.mcp import MAX_ID
from tests.support.jsonrpc import MESSAGES, Owed, check_answer, check_words, judge
from tests.support.piped import (
    ENVELOPE,
    HELLO,
    Piped,
    build_call,
    build_line,
    build_request,
    open_piped,
)
from tests.support.serving import serving_app
from tests.support.tier import size

COMPLETED = {
    "ref": {"type": "ref/resource", "uri": "x://{y}"},
    "argument": {"name": "y", "value": ""},
}


class Case(NamedTuple):
    """A line or body, the code of its error, and the id of its answer."""

    text: bytes
    code: int
    id: Any = None


def nest(depth: int) -> Any:
    return [nest(depth - 1)] if depth > 1 else []


def ping(request_id: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % request_id


UNREADABLE = {
    "words": b"garbage",
    "nothing": b" ",
    "half": b'{"jsonrpc":"2.0","id":1',
    "no UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "byte order mark": b"\xef\xbb\xbf" + build_request(1, "ping"),
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
    "surrogate": ping(b'"\\ud800"'),
    "surrogate in a name": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"\\udc00":1}}',
    "doubled id": ping(b'1,"id":2'),
    "doubled argument": build_call(1, "memory_get", key="a").replace(b'"a"', b'"a","key":"b"'),
    "deep": build_call(1, "memory_get", key=nest(17)),
    "very deep": b"[" * 100_000,
    "very deep objects": b'{"a":' * 40_000,
    "string that never ends": b'"' + b'\\"[' * 50_000,
}
NO_REQUESTS = {
    "batch": b"[" + build_request(1, "ping") + b"]",
    "empty batch": b"[]",
    "number": b"5",
    "null": b"null",
    "empty": b"{}",
    "method alone of a wrong type": build_line(method=5),
    "id null": ping(b"null"),
    "id true": ping(b"true"),
    "id with a fraction": ping(b"1.5"),
    "id of a whole float": ping(b"1.0"),
    "id with an exponent": ping(b"1e3"),
    "id object": ping(b"{}"),
    "long id": ping(b'"%b"' % (b"x" * (MAX_ID + 1))),
    "large id": ping(b"1" + b"0" * MAX_ID),
    "large negative id": ping(b"-1" + b"0" * MAX_ID),
}
INVALID = {
    "no version": b'{"id":1,"method":"ping"}',
    "other version": b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "method of a wrong type": build_line(id=1, method=5),
    "no method": build_line(id=1),
    "params of a wrong type": build_line(id=1, method="ping", params=[1]),
}
WRONG_PARAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown prompt": ("prompts/get", {"name": "x"}),
    "prompt without name": ("prompts/get", {"arguments": {}}),
    "prompt without its argument": ("prompts/get", {"name": "recall"}),
    "argument of a prompt of a wrong type": (
        "prompts/get",
        {"name": "recall", "arguments": {"question": 5}},
    ),
    "prompts' cursor of a wrong type": ("prompts/list", {"cursor": 5}),
    "completion of nothing": ("completion/complete", {}),
    "completion of an unknown kind": ("completion/complete", {**COMPLETED, "ref": {"type": "x"}}),
    "completion of an unknown resource": ("completion/complete", COMPLETED),
    "unknown tool": ("tools/call", {"name": "memory_gets", "arguments": {"key": "a"}}),
    "call without name": ("tools/call", {"arguments": {}}),
    "name of a wrong type": ("tools/call", {"name": 5}),
    "arguments of a wrong type": ("tools/call", {"name": "memory_get", "arguments": [1]}),
    "call without params": ("tools/call", {}),
    "meta of a wrong type": ("tools/call", {"name": "memory_get", "_meta": 5}),
    "cursor of a wrong type": ("tools/list", {"cursor": {}}),
    "uri of a wrong type": ("resources/read", {"uri": 5}),
    "read without uri": ("resources/read", {}),
    "unknown resource": ("resources/read", {"uri": "x://y"}),
    "unknown memory": ("resources/read", {"uri": "memory://pydantic"}),
    "initialize without params": ("initialize", {}),
    "initialize with wrong ones": ("initialize", {**HELLO, "clientInfo": 5}),
}
LARGE = 123456789012345678901234567890
CASES = {
    **{kind: Case(text, -32700) for kind, text in UNREADABLE.items()},
    **{kind: Case(text, -32600) for kind, text in NO_REQUESTS.items()},
    **{kind: Case(text, -32600, 1) for kind, text in INVALID.items()},
    **{kind: Case(build_request(1, *asked), -32602, 1) for kind, asked in WRONG_PARAMS.items()},
    "without params": Case(build_line(id=1, method="tools/call"), -32602, 1),
    "unknown method": Case(b'{"jsonrpc":"2.0","id":%d,"method":"no"}' % LARGE, -32601, LARGE),
}


def check_error(answer: Any, case: Case) -> None:
    owed = judge(case.text)
    if owed is not None:
        assert (owed.id, owed.code) in ((case.id, case.code), (case.id, None)), case
        assert (owed.code is None) == (case.code in (-32601, -32602)), case

    assert answer.keys() == {"jsonrpc", "id", "error"}
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", case.id)
    assert answer["error"]["code"] == case.code
    check_words(answer)


@pytest.fixture
async def piped(settings: Settings) -> AsyncIterator[Piped]:
    async with open_piped(settings) as client:
        yield client


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the whole server, whose messages need a Content-Type only if it is another."""
    async with serving_app(settings) as server:
        server.client.headers["Content-Type"] = "application/json"
        server.client.headers["Accept"] = "application/json, text/event-stream"
        yield server.client


async def test_h5_every_refused_line_gets_one_error_in_our_words(piped: Piped) -> None:
    for kind, case in CASES.items():
        if kind == "nothing":
            continue  # blank lines are not even refused

        await piped.send(case.text, build_request("next", "ping"))
        answers = [await piped.read(), await piped.read()]

        # A request may be answered after the one that follows it.
        (refused,) = [answer for answer in answers if answer["id"] != "next"]
        check_error(refused, case)


VERSIONS = (None, "2025-03-26", "2025-11-25")


async def test_h3_every_refused_body_gets_one_error_in_our_words(client: httpx.AsyncClient) -> None:
    for version in VERSIONS:
        headers = {"MCP-Protocol-Version": version} if version else {}

        for kind, case in CASES.items():
            response = await client.post("/mcp", content=case.text, headers=headers)

            assert response.headers["content-type"] == "application/json", kind
            assert response.status_code == (400 if case.code in (-32700, -32600) else 200), kind
            check_error(response.json(), case)


async def test_errors_of_the_current_revision_are_ours_too(client: httpx.AsyncClient) -> None:
    for kind, case in CASES.items():
        message = case.text
        method = ""

        if case.code in (-32601, -32602):
            fields = json.loads(message)
            if kind != "meta of a wrong type":
                fields["params"] = {"_meta": ENVELOPE, **fields.get("params", {})}
            method = fields["method"]
            message = json.dumps(fields).encode()

        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        response = await client.post("/mcp", content=message, headers=headers)

        answer = response.json()
        assert response.status_code in (400, 404), kind
        assert answer["id"] == case.id, kind
        check_words(answer)


VERSION = "MCP-Protocol-Version"
CURRENT = (VERSION, "2026-07-28")
CALLING = ("Mcp-Method", "tools/call")
ROUTING: dict[str, tuple[list[tuple[str, str]], int, int]] = {
    "unknown version": ([(VERSION, "1999-01-01")], 400, -32020),
    "odd version": ([(VERSION, "\x7f<script>")], 400, -32020),
    "no JSON accepted": ([("Accept", "text/html")], 406, -32600),
    "no JSON accepted, current": ([("Accept", "text/html"), CURRENT], 406, -32600),
    "no method": ([CURRENT], 400, -32020),
    "another method": ([CURRENT, ("Mcp-Method", "tools/list")], 400, -32020),
    "no name": ([CURRENT, CALLING], 400, -32020),
    "another name": ([CURRENT, CALLING, ("Mcp-Name", "other")], 400, -32020),
    "twice": ([CURRENT, CURRENT, CALLING, ("Mcp-Name", "memory_get")], 400, -32020),
}


async def test_headers_that_are_wrong_or_disagree_with_the_body_are_refused_in_our_words(
    client: httpx.AsyncClient,
) -> None:
    call = {"name": "memory_get", "arguments": {"key": "a"}, "_meta": ENVELOPE}

    for kind, (headers, status, code) in ROUTING.items():
        message = build_request(7, "tools/call", call)
        response = await client.post("/mcp", content=message, headers=headers)

        assert response.headers["content-type"] == "application/json", kind
        answer = response.json()
        assert (response.status_code, answer["error"]["code"]) == (status, code), kind
        assert answer["id"] == 7, kind
        check_words(answer)


async def test_h3_another_media_type_or_method_is_refused(client: httpx.AsyncClient) -> None:
    for media in ("text/plain", "application/xml", "", "application/jsonp"):
        headers = {"Content-Type": media}
        refused = await client.post("/mcp", content=build_request(1, "ping"), headers=headers)
        assert refused.status_code == 400, media
        assert refused.json()["error"]["reason"] == "malformed_request", media

    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        refused = await client.request(method, "/mcp")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST"), method
        assert refused.json()["error"]["reason"] == "unknown_address", method


async def test_posted_notifications_are_taken_and_answers_not(client: httpx.AsyncClient) -> None:
    for version in ("2025-11-25", "2026-07-28"):
        headers = {"MCP-Protocol-Version": version}
        cancel = build_line(method="notifications/cancelled", params={"requestId": 1})
        taken = await client.post("/mcp", content=cancel, headers=headers)
        assert (taken.status_code, taken.content) == (202, b"")

        for answer in (build_line(id=1, result={}), build_line(id=1, error={"code": 1})):
            refused = await client.post("/mcp", content=answer, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
            check_words(refused.json())


IDS: list[int | str] = [0, -1, 2**53 + 1, 2**63, -(2**64) - 1, "", "7", "x" * MAX_ID]


async def test_a_request_is_answered_under_its_own_id_however_large(
    client: httpx.AsyncClient, piped: Piped
) -> None:
    for request_id in IDS:
        # Text, because a parser may turn large integers into floats.
        start = f'{{"jsonrpc":"2.0","id":{json.dumps(request_id, ensure_ascii=False)}'
        message = f'{start},"method":"ping"}}'.encode()
        await piped.send(message)

        assert (await client.post("/mcp", content=message)).text == f'{start},"result":{{}}}}'
        assert (await piped.read_line()).decode() == f'{start},"result":{{}}}}\n'

    await piped.send(ping(b"9" * 100_000))  # Python itself reads no such number
    posted = await client.post("/mcp", content=ping(b"9" * 100_000))
    for answer in (await piped.read(), posted.json()):
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)


async def test_a_connection_keeps_to_the_revision_that_opened_it(settings: Settings) -> None:
    piped: Piped

    async def ask(request_id: int, method: str, params: Any = None) -> int | None:
        await piped.request(request_id, method, params)
        answer = await piped.read()
        if "error" not in answer:
            return None
        check_words(answer)
        code: int = answer["error"]["code"]
        return code

    async with open_piped(settings, hello=None) as piped:
        assert await ask(1, "tools/call", {"name": "get_memory_stats"}) == -32602
        assert await ask(2, "initialize", HELLO) is None
        assert await ask(3, "tools/list", {"_meta": ENVELOPE}) == -32600

    async with open_piped(settings, hello=None) as piped:
        assert await ask(1, "tools/list", {"_meta": ENVELOPE}) is None
        unknown = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "1999-01-01"}
        assert await ask(2, "initialize", HELLO) == -32022
        assert await ask(3, "tools/list") == -32602
        assert await ask(4, "tools/list", {"_meta": unknown}) == -32022


LOTS = trying(
    max_examples=size("ABILITIES_INPUTS", quick=40, full=300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@given(message=MESSAGES)
@LOTS
async def test_h3_any_posted_json_gets_one_answer(message: Any, client: httpx.AsyncClient) -> None:
    body = json.dumps(message).encode()
    owed = judge(body)

    response = await client.post("/mcp", content=body)

    if owed is None and "method" in message:
        assert (response.status_code, response.content) == (202, b"")
        return

    answer = response.json()
    check_answer(answer)
    if owed is None:
        owed = Owed(None, -32600)  # nobody was asked

    assert answer["id"] == owed.id
    if owed.code is not None:
        assert (response.status_code, answer["error"]["code"]) == (400, owed.code)
