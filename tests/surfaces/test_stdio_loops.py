"""The two loops of MCP over stdio: both answer every sequence of messages with the same bytes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any, Literal

import mcp_types as types
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as trying
from hypothesis import strategies as st
from mcp_types import version

from abilities import Abilities, Settings
from abilities.adapters import messages, shapes
from abilities.adapters.stdio import serve_pipes
from tests.support.piped import HELLO, build_request
from tests.support.surfaces import environment
from tests.support.tier import size

Loop = Literal["own", "sdk"]

VERSIONS = [*version.KNOWN_PROTOCOL_VERSIONS, "1999-01-01", ""]
RESERVED = "io.modelcontextprotocol/"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def build_mostly(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of which most are right, and the others anything."""
    return st.one_of(right, right, right, right, right, JSON)


ANY_OBJECT = st.dictionaries(st.text(max_size=5), JSON, max_size=2)
ICON = st.fixed_dictionaries(
    {"src": build_mostly(st.just("https://a/b.png"))},
    optional={
        "mimeType": build_mostly(st.just("image/png")),
        "sizes": JSON,
        "theme": build_mostly(st.just("dark")),
    },
)
CLIENT = st.fixed_dictionaries(
    {"name": build_mostly(st.text(max_size=5))},
    optional={
        "version": build_mostly(st.just("1")),
        "title": build_mostly(st.text(max_size=5)),
        "description": build_mostly(st.text(max_size=5)),
        "websiteUrl": build_mostly(st.text(max_size=5)),
        "website_url": JSON,
        "icons": build_mostly(st.lists(ICON, max_size=2)),
        "other": JSON,
    },
)
CAPABILITIES = st.fixed_dictionaries(
    {},
    optional={
        "experimental": build_mostly(st.dictionaries(st.text(max_size=3), ANY_OBJECT, max_size=2)),
        "extensions": build_mostly(st.dictionaries(st.text(max_size=3), ANY_OBJECT, max_size=2)),
        "roots": build_mostly(
            st.fixed_dictionaries({}, optional={"listChanged": build_mostly(st.booleans())})
        ),
        "sampling": build_mostly(
            st.dictionaries(st.sampled_from(["context", "tools", "x"]), build_mostly(ANY_OBJECT))
        ),
        "elicitation": build_mostly(
            st.dictionaries(st.sampled_from(["form", "url", "x"]), build_mostly(ANY_OBJECT))
        ),
        "tasks": build_mostly(
            st.fixed_dictionaries(
                {},
                optional={
                    "list": build_mostly(st.just({})),
                    "cancel": build_mostly(st.just({})),
                    "requests": build_mostly(
                        st.dictionaries(
                            st.sampled_from(["sampling", "elicitation", "x"]),
                            build_mostly(st.just({"create": {}, "createMessage": {}})),
                        )
                    ),
                },
            )
        ),
        "other": JSON,
    },
)
META = {
    "progressToken": build_mostly(st.integers() | st.text(max_size=5)),
    "progress_token": JSON,
    "traceparent": st.text(max_size=5),
    "other/key": JSON,
}
PLAIN_META = st.fixed_dictionaries({}, optional=META)
ENVELOPE = st.fixed_dictionaries(
    {
        RESERVED + "protocolVersion": build_mostly(st.just(version.LATEST_MODERN_VERSION)),
        RESERVED + "clientCapabilities": build_mostly(CAPABILITIES),
    },
    optional={
        **META,
        RESERVED + "clientInfo": build_mostly(CLIENT),
        RESERVED + "logLevel": build_mostly(st.just("info")),
        RESERVED + "other": JSON,
    },
) | st.dictionaries(
    st.sampled_from(["protocolVersion", "clientInfo"]).map(RESERVED.__add__),
    build_mostly(st.sampled_from(VERSIONS)),
)
ARGUMENTS = st.sampled_from(
    [
        {},
        {"paths": ["ok.txt"]},
        {"paths": ["ok.txt", "no-such.txt"], "output_format": "json"},
        {"paths": 5},
        {"key": "no such memory"},
        {"pattern": "*.txt"},
    ]
)
FIELDS = {
    "name": build_mostly(
        st.sampled_from(
            ["file_read_bulk", "file_list", "memory_get", "file_red_bulk", "x", "remember"]
        )
    ),
    "ref": build_mostly(st.just({"type": "ref/resource", "uri": "memory://{key}"})),
    "argument": build_mostly(st.just({"name": "key", "value": ""})),
    "arguments": build_mostly(ARGUMENTS),
    "cursor": build_mostly(st.text(max_size=3)),
    "uri": build_mostly(st.sampled_from(["memory://none", "x://y"])),
    "task": JSON,
    "inputResponses": JSON,
    "other": JSON,
}
HANDSHAKE = st.fixed_dictionaries(
    {"capabilities": build_mostly(CAPABILITIES)},
    optional={
        "protocolVersion": build_mostly(st.sampled_from(VERSIONS)),
        "clientInfo": build_mostly(CLIENT),
        "_meta": build_mostly(PLAIN_META | ENVELOPE),
        "other": JSON,
    },
)
METHODS = st.sampled_from(
    [
        "ping",
        "tools/list",
        "tools/call",
        "tools/call",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "server/discover",
        "logging/setLevel",
        "subscriptions/listen",
        "completion/complete",
        "no/such/method",
    ]
)


def build_params(meta: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return params with such a ``_meta``, if they have one."""
    return build_mostly(
        st.fixed_dictionaries({}, optional={**FIELDS, "_meta": build_mostly(meta)})
        | st.fixed_dictionaries(
            {"name": FIELDS["name"], "arguments": FIELDS["arguments"], "_meta": meta}
        )
        | st.fixed_dictionaries({"_meta": meta})
    )


PARAMS = build_params(PLAIN_META) | build_params(ENVELOPE)
NOTICES = st.sampled_from(
    ["initialized", "cancelled", "progress", "roots/list_changed", "no/such"]
).map("notifications/".__add__)

HELLOS = st.tuples(st.just("initialize"), build_mostly(HANDSHAKE | st.just(HELLO)))
REQUESTS = st.tuples(METHODS, PARAMS)
NOTIFICATIONS = st.tuples(NOTICES, PARAMS | st.just({"requestId": "never sent"}))
MODERN = st.tuples(METHODS, build_params(ENVELOPE))

# Half of the connections begin as they should.
SEQUENCES = st.one_of(
    st.lists(st.one_of(HELLOS, REQUESTS, NOTIFICATIONS), max_size=6),
    st.tuples(HELLOS, st.lists(REQUESTS, max_size=5)).map(lambda pair: [pair[0], *pair[1]]),
    st.lists(MODERN, max_size=5),
    st.lists(st.one_of(REQUESTS, NOTIFICATIONS), max_size=5).map(
        lambda rest: [("initialize", HELLO), *rest]
    ),
)
LOTS = trying(
    deadline=None,
    max_examples=size("ABILITIES_INPUTS", quick=150, full=700),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(params=[False, True])
async def both(
    settings: Settings, request: pytest.FixtureRequest
) -> AsyncIterator[list[Abilities]]:
    """An application for each loop, on the same files and the same store."""
    chosen = settings.model_copy(update={"structured": request.param})
    loops: list[Loop] = ["own", "sdk"]
    own, sdk = (chosen.model_copy(update={"mcp_loop": loop}) for loop in loops)

    async with Abilities.open(own) as first, Abilities.open(sdk) as second:
        yield [first, second]


@given(sequence=SEQUENCES)
@example(sequence=[("initialize", HELLO), ("tools/list", {}), ("resources/templates/list", {})])
@example(
    sequence=[("initialize", HELLO), ("prompts/list", {}), ("prompts/get", {"name": "recall"})]
)
@example(
    sequence=[("initialize", HELLO), ("prompts/list", {}), ("prompts/get", {"name": "remember"})]
)
@example(sequence=[("initialize", HELLO), ("tools/list", {"_meta": {"progressToken": [1]}})])
@example(sequence=[("initialize", HELLO), ("tools/list", {"_meta": {"progressToken": True}})])
@LOTS
async def test_both_loops_answer_any_sequence_with_the_same_bytes(
    sequence: list[tuple[str, Any]], both: list[Abilities]
) -> None:
    lines = [build_message(number, *message) for number, message in enumerate(sequence)]

    own, sdk = [await exchange(abilities, lines) for abilities in both]

    # Requests run side by side, so their answers may come in any order.
    assert sorted(own) == sorted(sdk)
    requests = [method for method, _ in sequence if not is_notification(method)]
    assert len(own) == len(requests)


def build_message(number: int, method: str, params: Any) -> bytes:
    """Return a message as a line: a notification if its method is one, else a request."""
    fields: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if not is_notification(method):
        fields["id"] = number
    if params is not None:
        fields["params"] = params

    return json.dumps(fields).encode()


def is_notification(method: str) -> bool:
    return method.startswith("notifications/")


async def exchange(abilities: Abilities, lines: list[bytes]) -> list[bytes]:
    """Send lines to a server of its own, end its input, and return all that it writes."""
    their_stdin, our_stdin = os.pipe()
    our_stdout, their_stdout = os.pipe()
    server = asyncio.create_task(serve_pipes(abilities, their_stdin, their_stdout))
    reading = asyncio.create_task(asyncio.to_thread(read_all, our_stdout))

    with os.fdopen(our_stdin, "wb") as stdin:
        stdin.write(b"".join(line + b"\n" for line in lines))

    await asyncio.wait_for(server, 60)
    os.close(their_stdin)
    os.close(their_stdout)
    return (await reading).splitlines()


def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as stdout:
        return stdout.read()


def test_what_is_known_of_the_protocol_is_what_the_sdk_knows() -> None:
    codes = [name for name in vars(messages) if name.isupper() and hasattr(types, name)]

    assert len(codes) > 8
    for name in codes:
        assert getattr(messages, name) == getattr(types, name), name

    assert shapes.HANDSHAKE_VERSIONS == version.HANDSHAKE_PROTOCOL_VERSIONS
    assert (shapes.CURRENT_VERSION,) == version.MODERN_PROTOCOL_VERSIONS
    assert shapes.VERSION_KEY == types.PROTOCOL_VERSION_META_KEY
    assert shapes.CAPABILITIES_KEY == types.CLIENT_CAPABILITIES_META_KEY
    assert shapes.CLIENT_KEY == types.CLIENT_INFO_META_KEY
    assert shapes.SERVER_KEY == types.SERVER_INFO_META_KEY


UNUSED = {
    "anyio",
    "deepagents",
    "fastapi",
    "httpx",
    "langchain",
    "langchain_core",
    "mcp",
    "mcp_types",
    "opentelemetry",
    "psycopg",
    "starlette",
    "toon_format",
    "uvicorn",
}
"""Packages that a client of tools needs none of; importing them takes longer than most sessions."""


def test_a_client_that_calls_tools_loads_no_package_in_vain(settings: Settings) -> None:
    common = [
        build_request(1, "initialize", HELLO),
        build_request(2, "tools/list", {}),
        build_request(3, "prompts/list", {}),
        build_request(4, "tools/call", {"name": "file_list", "arguments": {}}),
    ]
    rare = build_request(5, "prompts/get", {"name": "remember"})

    answers, loaded = record_imports(settings, *common)
    more_answers, more_loaded = record_imports(settings, *common, rare)

    assert [sorted(answers), sorted(more_answers)] == [[1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert not loaded & UNUSED
    assert {"mcp", "mcp_types"} <= more_loaded, "nothing shows in this list"


def record_imports(settings: Settings, *lines: bytes) -> tuple[list[int], set[str]]:
    """Return the ids that a server answers, and the packages that it imports for that."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "abilities", "mcp"],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        timeout=60,
        env={**os.environ, **environment(settings)},
    )
    answers = [json.loads(line)["id"] for line in process.stdout.splitlines()]

    packages: set[str] = set()
    for line in process.stderr.decode().splitlines():
        if line.startswith("import time:"):
            packages.add(line.rpartition("|")[2].strip().partition(".")[0])

    return answers, packages
