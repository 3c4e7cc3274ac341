"""JSON-RPC 2.0 messages as MCP has them: read strictly, and refused in sentences of our own.

The SDK's errors hold texts of its own and of its libraries, and parts of what was sent. Callers get
the same codes with one fixed sentence each. Only errors with a fault as their data stay as they
are, because those are this package's.
"""

import json
from typing import Any, Final, TypeGuard

import orjson
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCNotification,
    JSONRPCRequest,
)

from abilities.adapters.http import MAX_DEPTH, parse_document
from abilities.declarations.refusals import FAULTS, AbilitiesError
from abilities.declarations.values import JsonObject, as_object

RequestId = int | str

MAX_ID = 1_024
"""Characters of a request's id, in digits if it is an integer."""

# The message and its params stand around a call's arguments.
_MAX_DEPTH = MAX_DEPTH + 2
_ID_BOUND: int = 10**MAX_ID

_SENTENCES: Final = {
    PARSE_ERROR: (
        "Parse error: send one JSON message in UTF-8, without repeated fields or deep nesting."
    ),
    INVALID_REQUEST: "Invalid request: not a JSON-RPC 2.0 message that this server answers.",
    METHOD_NOT_FOUND: "Unknown method.",
    INVALID_PARAMS: "The params do not fit this method and protocol version.",
    INTERNAL_ERROR: "Internal error; the server's log has the details.",
    CONNECTION_CLOSED: "The server stopped before this request was answered.",
    HEADER_MISMATCH: "The MCP headers of a request must be there and agree with its body.",
    MISSING_REQUIRED_CLIENT_CAPABILITY: (
        "This request needs a capability that the client did not declare."
    ),
    UNSUPPORTED_PROTOCOL_VERSION: "This protocol version is not served here.",
}
"""What callers read of an error that has no fault, by its code."""


class InvalidMessage(AbilitiesError):
    """A text is no message; ``answer`` says so in JSON."""

    def __init__(
        self, code: int, request_id: RequestId | None = None, sentence: str | None = None
    ) -> None:
        super().__init__(code)
        error = {"code": code, "message": sentence or _SENTENCES[code]}
        self.answer = format_answer(request_id, "error", error)


def parse_message(text: bytes) -> JSONRPCRequest | JSONRPCNotification | None:
    """Return the message in a text; None for an answer, because this server asks for nothing.

    Raises InvalidMessage for all else. Ids are strings and integers of at most `MAX_ID` characters.
    """
    try:
        value = parse_document(text, _MAX_DEPTH)
    except ValueError:
        raise InvalidMessage(PARSE_ERROR) from None

    if isinstance(value, list):
        sentence = "Invalid request: batches are not served; send one message at a time."
        raise InvalidMessage(INVALID_REQUEST, sentence=sentence)

    return _build_message(as_object(value) or {})


def _build_message(message: JsonObject) -> JSONRPCRequest | JSONRPCNotification | None:
    """Return the message that an object holds, as `parse_message` does. Raises InvalidMessage."""
    request_id: object = message.get("id")
    method: object = message.get("method")
    params = as_object(message.get("params"))
    is_message = message.get("jsonrpc") == "2.0"

    if "method" in message and "id" in message and not is_id(request_id):
        sentence = (
            f"Invalid request: an id is a string or an integer of at most {MAX_ID} characters."
        )
        raise InvalidMessage(INVALID_REQUEST, sentence=sentence)

    if is_message and "method" not in message and ("result" in message or "error" in message):
        return None

    known_id = request_id if is_id(request_id) else None
    if not is_message or not isinstance(method, str):
        raise InvalidMessage(INVALID_REQUEST, known_id)

    # What is not given must not be set: it would be sent on as null.
    fields: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        fields["params"] = params

    if known_id is None:
        return JSONRPCNotification(**fields)

    if message.get("params") is not None and params is None:
        sentence = "Invalid request: params must be an object."
        raise InvalidMessage(INVALID_REQUEST, known_id, sentence)

    return JSONRPCRequest(id=known_id, **fields)


def is_id(value: object) -> TypeGuard[RequestId]:
    """Return whether a value may be the id of a request."""
    if isinstance(value, str):
        return len(value) <= MAX_ID

    # True is an integer to Python, but none to JSON.
    if isinstance(value, bool) or not isinstance(value, int):
        return False

    return abs(value) < _ID_BOUND


def format_answer(request_id: RequestId | None, kind: str, content: object) -> bytes:
    """Return an answer as JSON: its ``kind`` is "result" or "error"."""
    # orjson knows no integers of more than 64 bits, but as ids they are allowed.
    shown_id = json.dumps(request_id, ensure_ascii=False).encode()
    shown_content = orjson.dumps(content)

    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (shown_id, kind.encode(), shown_content)


def format_error(request_id: RequestId | None, error: JsonObject) -> bytes:
    """Return the answer to a request that failed, in this package's words."""
    return format_answer(request_id, "error", _describe_error(error))


def _describe_error(error: JsonObject) -> JsonObject:
    """Return what a caller may learn of an error of the SDK: its code and our sentence for it."""
    data = as_object(error.get("data")) or {}
    if data.get("reason") in FAULTS:
        return error

    code: int = error["code"]
    if code not in _SENTENCES:
        code = INTERNAL_ERROR

    described: JsonObject = {"code": code, "message": _SENTENCES[code]}
    # By this, the protocol lets a client choose another version.
    if code == UNSUPPORTED_PROTOCOL_VERSION and data:
        described["data"] = data

    return described
