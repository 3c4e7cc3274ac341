"""JSON-RPC 2.0 messages of MCP: a strict parser, and formatters for answers and errors.

Error texts of the SDK and its libraries may quote parts of the request, so callers never get them.
They get the SDK's error code with one fixed sentence. Only an error whose data is a fault of this
package is passed on unchanged.
"""

import json
from typing import Any, Final, TypeGuard

import mcp_types as types
import orjson

from abilities.adapters.documents import MAX_DEPTH, parse_document
from abilities.declarations.refusals import FAULTS, AbilitiesError
from abilities.declarations.values import JsonObject, as_object

RequestId = int | str

MAX_ID = 1_024
"""Maximum length of a request's id, in characters, or in digits if it is an integer."""

# A call's arguments are nested in the params, and these in the message.
_MAX_DEPTH = MAX_DEPTH + 2
_ID_BOUND: int = 10**MAX_ID

_SENTENCES: Final = {
    types.PARSE_ERROR: (
        "Parse error: send one JSON message in UTF-8, without repeated fields or deep nesting."
    ),
    types.INVALID_REQUEST: "Invalid request: not a JSON-RPC 2.0 message that this server answers.",
    types.METHOD_NOT_FOUND: "Unknown method.",
    types.INVALID_PARAMS: "The params do not fit this method and protocol version.",
    types.INTERNAL_ERROR: "Internal error; the server's log has the details.",
    types.CONNECTION_CLOSED: "The server stopped before this request was answered.",
    types.HEADER_MISMATCH: "The MCP headers of a request must be there and agree with its body.",
    types.MISSING_REQUIRED_CLIENT_CAPABILITY: (
        "This request needs a capability that the client did not declare."
    ),
    types.UNSUPPORTED_PROTOCOL_VERSION: "This protocol version is not served here.",
}
"""Messages of the errors without a fault, by their codes."""


class InvalidMessage(AbilitiesError):
    """A text that is not a valid message. ``answer`` is the JSON to reply with."""

    def __init__(
        self, code: int, request_id: RequestId | None = None, sentence: str | None = None
    ) -> None:
        super().__init__(code)
        error = {"code": code, "message": sentence or _SENTENCES[code]}
        self.answer = format_answer(request_id, "error", error)


def parse_message(text: bytes) -> types.JSONRPCRequest | types.JSONRPCNotification | None:
    """Parse a message. An answer gives None, because this server sends no requests.

    Raises InvalidMessage for any other text. An id must be a string or an integer of at most
    `MAX_ID` characters.
    """
    try:
        value = parse_document(text, _MAX_DEPTH)
    except ValueError:
        raise InvalidMessage(types.PARSE_ERROR) from None

    if isinstance(value, list):
        sentence = "Invalid request: batches are not served; send one message at a time."
        raise InvalidMessage(types.INVALID_REQUEST, sentence=sentence)

    message = as_object(value) or {}
    request_id: object = message.get("id")
    method: object = message.get("method")
    params = as_object(message.get("params"))
    is_message = message.get("jsonrpc") == "2.0"

    if "method" in message and "id" in message and not is_id(request_id):
        sentence = (
            f"Invalid request: an id is a string or an integer of at most {MAX_ID} characters."
        )
        raise InvalidMessage(types.INVALID_REQUEST, sentence=sentence)

    if is_message and "method" not in message and ("result" in message or "error" in message):
        return None

    known_id = request_id if is_id(request_id) else None
    if not is_message or not isinstance(method, str):
        raise InvalidMessage(types.INVALID_REQUEST, known_id)

    # Absent params must stay unset, or the SDK would see null.
    fields: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        fields["params"] = params

    if known_id is None:
        return types.JSONRPCNotification(**fields)

    if message.get("params") is not None and params is None:
        sentence = "Invalid request: params must be an object."
        raise InvalidMessage(types.INVALID_REQUEST, known_id, sentence)

    return types.JSONRPCRequest(id=known_id, **fields)


def is_id(value: object) -> TypeGuard[RequestId]:
    """Return whether a value may be the id of a request."""
    if isinstance(value, str):
        return len(value) <= MAX_ID

    # In Python True is an integer, in JSON it is not.
    if isinstance(value, bool) or not isinstance(value, int):
        return False

    return abs(value) < _ID_BOUND


def format_answer(request_id: RequestId | None, kind: str, content: object) -> bytes:
    """Return an answer as JSON. Its ``kind`` is "result" or "error"."""
    # orjson does not support integers of more than 64 bits, which are allowed as ids.
    shown_id = json.dumps(request_id, ensure_ascii=False).encode()
    shown_content = orjson.dumps(content)

    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (shown_id, kind.encode(), shown_content)


def format_error(request_id: RequestId | None, error: JsonObject) -> bytes:
    """Return the answer to a failed request as JSON.

    An error of the SDK keeps its code and gets the fixed sentence for it. An error whose data is a
    fault is sent as it is.
    """
    data = as_object(error.get("data")) or {}
    if data.get("reason") in FAULTS:
        return format_answer(request_id, "error", error)

    code: int = error["code"]
    if code not in _SENTENCES:
        code = types.INTERNAL_ERROR

    described: JsonObject = {"code": code, "message": _SENTENCES[code]}
    # The data lists the supported versions, from which a client chooses another one.
    if code == types.UNSUPPORTED_PROTOCOL_VERSION and data:
        described["data"] = data

    return format_answer(request_id, "error", described)
