"""Errors over MCP: closed codes, sentences of this package, and no library's text, on both ways."""

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as trying

from abilities import Abilities, Settings
from abilities.adapters.messages import MAX_ID
from abilities.server.app import create_app
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
from tests.support.surfaces import run_lifespan
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
    """Return arrays in arrays."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]

    return value


CASES = {
    "words": Case(b"garbage", -32700),
    "nothing": Case(b" ", -32700),
    "half": Case(b'{"jsonrpc":"2.0","id":1', -32700),
    "no UTF-8": Case(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    "byte order mark": Case(b"\xef\xbb\xbf" + build_request(1, "ping"), -32700),
    "NaN": Case(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700),
    "surrogate": Case(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700),
    "surrogate in a name": Case(
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"\\udc00":1}}', -32700
    ),
    "doubled id": Case(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
    "doubled argument": Case(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_get",'
        b'"arguments":{"key":"a","key":"b"}}}',
        -32700,
    ),
    "deep": Case(build_call(1, "memory_get", key=nest(17)), -32700),
    "very deep": Case(b"[" * 100_000, -32700),
    "very deep objects": Case(b'{"a":' * 40_000, -32700),
    "string that never ends": Case(b'"' + b'\\"[' * 50_000, -32700),
    "batch": Case(b"[" + build_request(1, "ping") + b"]", -32600),
    "empty batch": Case(b"[]", -32600),
    "number": Case(b"5", -32600),
    "null": Case(b"null", -32600),
    "empty": Case(b"{}", -32600),
    "no version": Case(b'{"id":1,"method":"ping"}', -32600, 1),
    "other version": Case(b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
    "method of a wrong type": Case(build_line(id=1, method=5), -32600, 1),
    "method alone of a wrong type": Case(build_line(method=5), -32600),
    "no method": Case(build_line(id="a"), -32600, "a"),
    "params of a wrong type": Case(build_line(id=1, method="ping", params=[1]), -32600, 1),
    "id null": Case(build_line(id=None, method="ping"), -32600),
    "id true": Case(build_line(id=True, method="ping"), -32600),
    "id with a fraction": Case(build_line(id=1.5, method="ping"), -32600),
    "id object": Case(build_line(id={}, method="ping"), -32600),
    "long id": Case(build_line(id="x" * (MAX_ID + 1), method="ping"), -32600),
    "unknown method": Case(build_request(1, "no/such"), -32601, 1),
    "unknown method, large id": Case(
        b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"no/such"}',
        -32601,
        123456789012345678901234567890,
    ),
    "unknown prompt": Case(build_request(1, "prompts/get", {"name": "x"}), -32602, 1),
    "prompt without name": Case(build_request(1, "prompts/get", {"arguments": {}}), -32602, 1),
    "prompt without its argument": Case(
        build_request(1, "prompts/get", {"name": "recall"}), -32602, 1
    ),
    "argument of a prompt of a wrong type": Case(
        build_request(1, "prompts/get", {"name": "recall", "arguments": {"question": 5}}), -32602, 1
    ),
    "prompts' cursor of a wrong type": Case(
        build_request(1, "prompts/list", {"cursor": 5}), -32602, 1
    ),
    "completion of nothing": Case(build_request(1, "completion/complete"), -32602, 1),
    "completion of an unknown kind": Case(
        build_request(1, "completion/complete", {**COMPLETED, "ref": {"type": "x"}}), -32602, 1
    ),
    "completion of an unknown resource": Case(
        build_request(1, "completion/complete", COMPLETED), -32602, 1
    ),
    "unknown tool": Case(build_call(1, "memory_gets", key="a"), -32602, 1),
    "call without name": Case(build_request(1, "tools/call", {"arguments": {}}), -32602, 1),
    "name of a wrong type": Case(build_request(1, "tools/call", {"name": 5}), -32602, 1),
    "arguments of a wrong type": Case(
        build_request(1, "tools/call", {"name": "memory_get", "arguments": [1]}), -32602, 1
    ),
    "call without params": Case(build_line(id=1, method="tools/call"), -32602, 1),
    "meta of a wrong type": Case(
        build_request(1, "tools/call", {"name": "memory_get", "_meta": 5}), -32602, 1
    ),
    "cursor of a wrong type": Case(build_request(1, "tools/list", {"cursor": {}}), -32602, 1),
    "uri of a wrong type": Case(build_request(1, "resources/read", {"uri": 5}), -32602, 1),
    "read without uri": Case(build_request(1, "resources/read"), -32602, 1),
    "unknown resource": Case(build_request(1, "resources/read", {"uri": "x://y"}), -32602, 1),
    "unknown memory": Case(
        build_request(1, "resources/read", {"uri": "memory://pydantic"}), -32602, 1
    ),
    "initialize without params": Case(build_line(id=1, method="initialize"), -32602, 1),
    "initialize with wrong ones": Case(
        build_request(1, "initialize", {**HELLO, "clientInfo": 5}), -32602, 1
    ),
}


def check_error(answer: Any, case: Case) -> None:
    """Check that an answer is the well-formed error that the case asks for."""
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
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    async with (
        Abilities.open(settings) as abilities,
        run_lifespan(create_app(abilities)) as app,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost", headers=headers
        ) as client,
    ):
        yield client


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


async def test_h3_every_refused_body_gets_one_error_in_our_words(
    client: httpx.AsyncClient,
) -> None:
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


HEADERS = {
    "unknown version": {"MCP-Protocol-Version": "1999-01-01"},
    "odd version": {"MCP-Protocol-Version": "\x7f<script>"},
    "current version without envelope": {"MCP-Protocol-Version": "2026-07-28"},
    "no JSON accepted": {"Accept": "text/html"},
    "no JSON accepted, current": {"Accept": "text/html", "MCP-Protocol-Version": "2026-07-28"},
}


@pytest.mark.parametrize("kind", HEADERS)
async def test_wrong_headers_are_refused_in_our_words(kind: str, client: httpx.AsyncClient) -> None:
    response = await client.post("/mcp", content=build_request(7, "ping"), headers=HEADERS[kind])

    assert response.status_code == (406 if "Accept" in HEADERS[kind] else 400)
    assert response.headers["content-type"] == "application/json"
    assert response.json()["id"] == 7
    check_words(response.json())


async def test_routing_headers_that_disagree_with_the_body_are_refused(
    client: httpx.AsyncClient,
) -> None:
    version = ("MCP-Protocol-Version", "2026-07-28")
    call = {"name": "memory_get", "arguments": {"key": "a"}, "_meta": ENVELOPE}
    lists: list[list[tuple[str, str]]] = [
        [version],
        [version, ("Mcp-Method", "tools/list")],
        [version, ("Mcp-Method", "tools/call")],
        [version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "other")],
        [version, version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "memory_get")],
    ]

    for headers in lists:
        message = build_request(7, "tools/call", call)
        response = await client.post("/mcp", content=message, headers=headers)

        assert (response.status_code, response.json()["error"]["code"]) == (400, -32020), headers
        check_words(response.json())


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "", "application/jsonp"])
async def test_h3_another_media_type_is_refused_as_everywhere(
    media: str, client: httpx.AsyncClient
) -> None:
    headers = {"Content-Type": media}
    response = await client.post("/mcp", content=build_request(1, "ping"), headers=headers)

    assert response.status_code == 400
    assert response.json()["error"]["reason"] == "malformed_request"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_than_post_get_our_envelope(
    method: str, client: httpx.AsyncClient
) -> None:
    response = await client.request(method, "/mcp")

    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["error"]["reason"] == "unknown_address"


async def test_posted_notifications_are_taken_and_answers_are_not(
    client: httpx.AsyncClient,
) -> None:
    for version in ("2025-11-25", "2026-07-28"):
        headers = {"MCP-Protocol-Version": version}
        cancel = build_line(method="notifications/cancelled", params={"requestId": 1})
        taken = await client.post("/mcp", content=cancel, headers=headers)
        assert (taken.status_code, taken.content) == (202, b"")

        for answer in (build_line(id=1, result={}), build_line(id=1, error={"code": 1})):
            refused = await client.post("/mcp", content=answer, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
            check_words(refused.json())


@pytest.mark.parametrize("request_id", [0, -1, 2**63, -(2**80), int("9" * MAX_ID), "", "7", "\n"])
async def test_a_posted_request_is_answered_under_its_own_id(
    request_id: int | str, client: httpx.AsyncClient
) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "ping"})

    response = await client.post("/mcp", content=message)

    shown_id = json.dumps(request_id)
    assert response.text == f'{{"jsonrpc":"2.0","id":{shown_id},"result":{{}}}}'


async def test_a_connection_of_the_current_revision_refuses_the_earlier_one_in_our_words(
    settings: Settings,
) -> None:
    async with open_piped(settings, hello=None) as piped:
        await piped.request(1, "tools/list", {"_meta": ENVELOPE})
        assert "result" in await piped.read()

        wrong = {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}
        refusals = (
            (build_request(2, "initialize", HELLO), -32022),
            (build_request(3, "tools/list", {}), -32602),
            (build_request(4, "tools/list", {"_meta": {**ENVELOPE, **wrong}}), -32022),
        )
        for line, code in refusals:
            await piped.send(line)
            answer = await piped.read()
            assert answer["error"]["code"] == code
            check_words(answer)


async def test_a_request_before_initialize_is_refused_in_our_words(
    settings: Settings,
) -> None:
    async with open_piped(settings, hello=None) as piped:
        await piped.send(build_call(1, "get_memory_stats"))
        check_error(await piped.read(), Case(b"", -32602, 1))

        await piped.request(2, "initialize", HELLO)
        await piped.read()
        await piped.request(3, "tools/list", {"_meta": ENVELOPE})
        check_error(await piped.read(), Case(b"", -32600, 3))


LOTS = trying(
    deadline=None,
    max_examples=size("ABILITIES_INPUTS", quick=60, full=600),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@given(message=MESSAGES)
@LOTS
async def test_h3_any_posted_json_gets_one_answer_in_our_words(
    message: Any, client: httpx.AsyncClient
) -> None:
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


def test_the_oracle_says_of_each_refused_text_what_is_said_here() -> None:
    for kind, case in CASES.items():
        owed = judge(case.text)
        assert owed is not None, kind
        assert owed.id == case.id, kind
        assert owed.code in (None, case.code), kind
        assert (owed.code is None) == (case.code in (-32601, -32602)), kind
