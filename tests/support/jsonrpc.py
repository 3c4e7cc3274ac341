"""JSON-RPC 2.0 as this server owes it to its clients: an oracle for any text, and texts to try."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

from abilities.adapters.mcp import MAX_ID
from abilities.declarations.limits import MAX_METADATA_DEPTH

PARSE_ERROR, INVALID_REQUEST = -32700, -32600

CODES = {PARSE_ERROR, INVALID_REQUEST, -32601, -32602, -32603, -32020, -32022}
"""The codes of all errors."""

CANARIES = ["pydantic", "validation error", "input should", "traceback", "mcp.", "starlette"]
CANARIES += ["for further information", "jsonrpcrequest", "unprocessable", "session terminated"]
CANARIES += ["handler returned", "not acceptable", "expected value", "at line", "exception"]
"""Parts of what the SDK, its libraries and Python say, in lower case."""

_MAX_DEPTH = MAX_METADATA_DEPTH + 3
"""Metadata within arguments, params and the message."""


class Owed(NamedTuple):
    """The one answer that a text gets: the id, and the code of an error that is not the SDK's."""

    id: Any
    code: int | None


def judge(text: bytes) -> Owed | None:
    """Return the answer that a text gets, None if it gets none; blank lines are not for this."""
    try:
        value = _read(text)
    except (ValueError, RecursionError):
        return Owed(None, PARSE_ERROR)

    if not isinstance(value, dict):
        return Owed(None, INVALID_REQUEST)

    has_method, has_id = "method" in value, "id" in value
    if value.get("jsonrpc") == "2.0" and not has_method and value.keys() & {"result", "error"}:
        return None  # an answer, and answers are not answered

    known_id = value["id"] if has_id and _is_id(value["id"]) else None
    if has_method and has_id and known_id is None:
        return Owed(None, INVALID_REQUEST)
    if value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str):
        return Owed(known_id, INVALID_REQUEST)
    if not has_id:
        return None  # a notification

    is_right = isinstance(value.get("params"), dict | None)
    return Owed(known_id, None if is_right else INVALID_REQUEST)


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return type(value) is int and len(str(abs(value))) <= MAX_ID


def _read(text: bytes) -> Any:
    """Return the value of strict JSON. Raises ValueError or RecursionError."""
    value = json.loads(text.decode("utf-8"), object_pairs_hook=_pair, parse_constant=_refuse)
    if _measure_depth(value) > _MAX_DEPTH:
        raise ValueError("too deep")
    json.dumps(value, ensure_ascii=False).encode()  # a UnicodeEncodeError is a ValueError
    return value


def _pair(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("a field stands twice")
    return dict(pairs)


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _measure_depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_measure_depth, inner), default=0)


def check_answer(answer: Any) -> None:
    assert answer.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    assert answer["jsonrpc"] == "2.0"
    if "error" in answer:
        check_words(answer)


def check_words(answer: Any) -> None:
    error = answer["error"]
    assert error.keys() <= {"code", "message", "data"}
    assert error["code"] in CODES
    assert len(error["message"]) <= 120 and error["message"].endswith((".", "?"))
    data = error.get("data", {})
    text = (error["message"] + str({**data, "uri": ""})).lower()
    assert not [canary for canary in CANARIES if canary in text], text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
REFERENCES: tuple[Any, ...] = (
    {"type": "ref/resource", "uri": "memory://{key}"},
    {"type": "ref/prompt", "name": "remember"},
    {"name": "key", "value": "a"},
    {"name": "subject", "value": ""},
)
METHODS = ["ping", "initialize", "tools/call", "tools/list", "resources/read", "server/discover"]
METHODS += ["notifications/cancelled", "subscriptions/listen", "logging/setLevel"]
METHODS += ["completion/complete", "prompts/list", "prompts/get"]
PARAMS = VALUES | st.dictionaries(
    st.sampled_from(
        ["name", "arguments", "uri", "requestId", "_meta", "cursor", "ref", "argument"]
    ),
    VALUES | st.sampled_from(["file_list", "memory_get", "memory://a", "remember", *REFERENCES]),
)
MESSAGES = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": st.integers() | st.text(max_size=9) | VALUES,
        "method": st.sampled_from(METHODS) | VALUES,
        "params": PARAMS,
        "result": VALUES,
        "error": VALUES,
    },
)
"""Values of JSON, many of which are nearly messages or messages."""
