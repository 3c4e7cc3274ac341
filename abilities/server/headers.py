"""Request headers: their values by name, their maximum size, and the refusal of a request."""

from starlette.types import Scope

from abilities.declarations.refusals import Reason, Refused

MAX_HEADERS = 16 * 1024
"""Bytes of all request headers together, as they are sent."""

MAX_REQUEST_LINE = 8 * 1024
"""Bytes of the path and query of a request."""

_SEPARATORS = len(": \r\n")

Headers = dict[str, list[str]]
"""The values of each header, in order, by its name in lower case."""


def trim_headers(scope: Scope) -> None:
    """Remove the whitespace around each header value of a request (ASGI scope).

    Surrounding whitespace is not part of a value (RFC 9110, section 5.5), but the HTTP parser keeps
    it at the end.
    """
    scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]


def read_headers(scope: Scope) -> Headers:
    """Return the headers of a request (ASGI scope).

    >>> read_headers({"headers": [(b"Host", b"localhost"), (b"host", b"::1")]})
    {'host': ['localhost', '::1']}
    """
    headers: Headers = {}

    # Every byte is valid Latin-1, so no header makes this fail.
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    return headers


def check_header_size(scope: Scope) -> None:
    """Raise RefusedRequest: 414 for a long path and query, 431 for headers that are too large."""
    line = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    if line > MAX_REQUEST_LINE:
        raise RefusedRequest(414, "malformed_request")

    size = sum(len(name) + len(value) + _SEPARATORS for name, value in scope["headers"])
    if size > MAX_HEADERS:
        raise RefusedRequest(431, "malformed_request")


class RefusedRequest(Refused):
    """The server rejects a whole request; ``status`` is the HTTP status of the response."""

    def __init__(self, status: int, reason: Reason) -> None:
        super().__init__(reason)
        self.status = status
