"""The guard before the application: who may call, how much, how long, and how many at once.

The guard is plain ASGI, so that it is outside of the framework's own error handling: whatever
happens behind it, the caller gets a response in JSON. The module also has its rules: how large and
how slow request bodies may be (`BodyReader`), which web pages may send requests (`HostCheck`), and
how callers share a limited number of places (`Shares`).
"""

import asyncio
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from abilities.adapters.http import refuse
from abilities.declarations.refusals import Fault
from abilities.helpers.threads.turns import take_turn, turn_owner
from abilities.server.callers import Callers, current_caller, name_surface
from abilities.server.connections import (
    Crowd,
    Headers,
    RefusedRequest,
    check_header_size,
    read_headers,
    trim_headers,
)
from abilities.server.telemetry import begin_request, request_id

MAX_CALLS = 64
"""Calls that may be answered at the same time."""

MAX_BODY = 256 * 1024
"""Bytes of one request body."""

MAX_ARRIVING = 256
"""Bodies that may arrive at the same time; together they take at most 64 MiB."""

BODY_SECONDS = 10.0
"""Timeout for one body to arrive."""

MEMORY_SECONDS = 1.0
"""How long a caller counts after it was last seen, and how long a refusal makes callers share."""

ISOLATION = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}
"""Headers by which browsers let no other page load, embed or keep a response."""

_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS", "DELETE")
_LENGTH = re.compile("[0-9]{1,12}")
_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:/@?#\[\]\s]+)(?::[0-9]{1,5})?")

_OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata/) for requests of our own pages,
and for an address that a person typed. "same-site" is not enough: every port of localhost is one
site."""

_EVERYONE = "everyone"
"""The owner of connections that need no token; no token has such an id."""

_STRANGERS = "strangers"
"""The owner of all requests for the public paths of a server that needs tokens."""

_log = logging.getLogger("abilities")


def check_body_length(headers: Headers) -> None:
    """Raise RefusedRequest(413) if the announced length is malformed or over the limit."""
    length = headers.get("content-length", ["0"])[0]

    if not _LENGTH.fullmatch(length) or int(length) > MAX_BODY:
        raise RefusedRequest(413, "malformed_request")


def check_no_body(method: str, headers: Headers) -> None:
    """Raise RefusedRequest if a request announces a body, although its path takes none.

    The status is 405 for a method that may have a body. Such a client probably means another
    address, such as an MCP client that leaves out /mcp.
    """
    if headers.get("content-length", ["0"]) != ["0"] or "transfer-encoding" in headers:
        if method not in _WITHOUT_BODY:
            raise RefusedRequest(405, "unknown_address")

        raise RefusedRequest(413, "malformed_request")


class BodyReader:
    """Reads whole request bodies within their limits.

    Bodies that are still arriving do not count as calls. If there are too many, the oldest one of
    the caller with the most is dropped, so that a slow sender does not keep others out.
    """

    def __init__(self) -> None:
        self._arriving = Crowd[Hashable, asyncio.Timeout]()

    async def read(self, method: str, receive: Receive, caller: Hashable) -> bytes | None:
        """Return the body of a caller's request, or None if the client has disconnected.

        A method without a body gets an empty one, and nothing is received. Raises
        RefusedRequest: 408 for a slow body, 413 for a large one, 429 for one that is dropped.
        """
        if method in _WITHOUT_BODY:
            return b""

        if len(self._arriving) >= MAX_ARRIVING:
            # The oldest body of the caller with the most times out at once.
            oldest = self._arriving.pick()
            self._arriving.remove(oldest)
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())

        timeout = asyncio.timeout(BODY_SECONDS)
        try:
            async with timeout:
                self._arriving.add(caller, timeout)
                return await _receive_body(receive)
        except TimeoutError:
            if timeout not in self._arriving:
                raise RefusedRequest(429, "overloaded") from None

            raise RefusedRequest(408, "malformed_request") from None
        finally:
            self._arriving.remove(timeout)


async def _receive_body(receive: Receive) -> bytes | None:
    body = bytearray()

    while True:
        message = await receive()
        body += message.get("body", b"")

        if len(body) > MAX_BODY:
            raise RefusedRequest(413, "malformed_request")

        if message["type"] == "http.disconnect":
            return None

        if not message.get("more_body", False):
            return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives the body once, and then the messages of the connection."""
    is_pending = True

    async def replay() -> Message:
        nonlocal is_pending

        if not is_pending:
            return await receive()

        is_pending = False
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


class HostCheck:
    """Lets a request pass if its Host and Origin headers name an allowed host, on any port.

    This protects a server without tokens from the pages of other sites, including DNS rebinding.
    Such a page can make a browser connect to this machine, but it can neither forge the Origin
    header nor send a Host header other than its own name. For some requests, such as those for
    images, scripts and forms, a browser sends no Origin; Sec-Fetch-Site then says which site they
    come from. ``pages`` may be reached by a link from anywhere.
    """

    def __init__(self, names: Iterable[str], pages: Container[str] = ()) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._pages = pages

    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise RefusedRequest, 421 for a foreign host and 403 for a foreign origin or site."""
        hosts = headers.get("host", [])

        if len(hosts) != 1 or parse_host(hosts[0]) not in self._names:
            raise RefusedRequest(421, "foreign_host")

        for origin in headers.get("origin", []):
            scheme, _, netloc = origin.partition("://")

            if scheme.lower() not in ("http", "https") or parse_host(netloc) not in self._names:
                raise RefusedRequest(403, "foreign_origin")

        # A browser opens one of our pages in a tab, for example by a link.
        is_visit = (
            scope["method"] == "GET"
            and scope["path"] in self._pages
            and headers.get("sec-fetch-mode") == ["navigate"]
            and headers.get("sec-fetch-dest") == ["document"]
        )
        for site in headers.get("sec-fetch-site", []):
            if site not in _OWN_SITES and not is_visit:
                raise RefusedRequest(403, "foreign_origin")


def parse_host(netloc: str) -> str | None:
    """Return the name in a Host or Origin header, in lower case and without its port.

    Returns None if the header is malformed.

    >>> parse_host("LOCALHOST:8642"), parse_host("[::1]"), parse_host("user@localhost")
    ('localhost', '[::1]', None)
    """
    match = _NETLOC.fullmatch(netloc)
    return match[1].lower() if match else None


class Shares:
    """A limited number of places, which callers share only while one of them is refused.

    One caller may hold all places. After a refusal, each caller may hold its share: ``size``
    divided by the number of callers, rounded up. This lasts until a second has passed without
    another refusal. A caller counts if it held a place, or was refused one, within the last second.

    A caller with more than its share keeps its places, because nothing that has begun is stopped.
    So that others need not wait, a known caller gets its share even if all places are taken;
    together callers hold at most twice ``size``.

    Not thread-safe: there is no lock. ``clock`` returns seconds and never goes back.
    """

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._held: Counter[Hashable] = Counter()
        self._total = 0
        self._seen: dict[Hashable, float] = {}
        self._last_refusal = float("-inf")

    def take(self, caller: Hashable, *, is_known: bool) -> bool:
        """Take a place for a caller and return True; return False if the caller is refused."""
        now = self._clock()
        self._note(caller, now)

        held = self._held[caller]
        is_within_share = held < math.ceil(self._size / len(self._seen))
        is_sharing = now - self._last_refusal < MEMORY_SECONDS

        if self._total >= self._size:
            has_room = is_known and is_within_share and self._total < 2 * self._size
        elif is_sharing:
            has_room = is_within_share
        else:
            has_room = is_within_share or held < self._size

        if not has_room:
            self._last_refusal = now
            return False

        self._held[caller] += 1
        self._total += 1
        return True

    def give_back(self, caller: Hashable) -> None:
        """Free one of the places that a caller has taken."""
        self._held[caller] -= 1
        self._total -= 1
        self._note(caller, self._clock())

    def _note(self, caller: Hashable, now: float) -> None:
        """Note that a caller was seen, and forget callers that were not seen for a second.

        The dictionary is in the order in which callers were last seen. A caller that holds a place
        is never forgotten.
        """
        self._seen.pop(caller, None)
        self._seen[caller] = now

        while True:
            oldest, seen = next(iter(self._seen.items()))
            if now - seen < MEMORY_SECONDS:
                return

            del self._seen[oldest]

            if self._held[oldest]:
                self._seen[oldest] = now
            else:
                del self._held[oldest]


@dataclass(eq=False, repr=False)
class Guard:
    """An ASGI application that passes only acceptable requests on to another.

    It refuses foreign hosts and origins, callers without a token if one is needed, large or slow
    bodies, and too many calls at the same time. A request that passes has its `Caller` in
    ``scope["caller"]``, and the caller's `Abilities` in ``scope["abilities"]``.

    Requests for ``open_paths`` need no token, may have no body, and are answered even if too many
    calls are running. Requests for ``public_paths`` need no token either, but are counted as the
    calls of one caller. Other calls are counted by token; if no token is needed, by connection.
    Requests for ``stream_paths`` are not counted: they have bounds of their own.
    ``challenge`` returns the WWW-Authenticate header for a request without a token, by its scope.
    """

    app: ASGIApp
    hosts: HostCheck
    callers: Callers
    open_paths: Container[str]
    public_paths: Container[str]
    stream_paths: Container[str]
    challenge: Callable[[Scope], str]

    def __post_init__(self) -> None:
        self._bodies = BodyReader()
        self._calls = Shares(MAX_CALLS, time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on (ASGI)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        trim_headers(scope)
        headers = read_headers(scope)
        response = _ResponseSender(send, begin_request(headers))

        try:
            await self._handle(scope, headers, receive, response.send)
        except RefusedRequest as refusal:
            await self._refuse(refusal, scope, receive, response.send)
        except asyncio.CancelledError:
            # Most likely the server stops and does not wait any longer. The caller still gets an
            # answer, but the task stays cancelled.
            error = TimeoutError("the call was cancelled before it ended")
            await _answer_failure(error, scope, receive, response)
            raise
        except Exception as error:
            if response.has_started:
                raise  # it is too late for another response; the server closes the connection
            await _answer_failure(error, scope, receive, response)

    async def _handle(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        """Check a request, read its body and pass it on. Raises RefusedRequest."""
        check_header_size(scope)
        self.hosts.check(scope, headers)
        check_body_length(headers)

        if self._is_open(scope):
            check_no_body(scope["method"], headers)
            await self.app(scope, replay_body(b"", receive), send)
            return

        # The token is checked last, so that pages of other sites cannot even try out tokens.
        sender: Hashable = _STRANGERS
        if scope["path"] in self.public_paths:
            turn_owner.set(_STRANGERS)
        else:
            sender = await self._identify_sender(scope, headers)

        body = await self._bodies.read(scope["method"], receive, sender)

        if body is None:
            return  # the client has disconnected

        # Refusals take turns too: a caller can pipeline thousands of requests that are refused.
        await take_turn()

        if scope["path"] in self.stream_paths:
            await self.app(scope, replay_body(body, receive), send)
            return

        is_known = current_caller.get().token is not None
        if not self._calls.take(sender, is_known=is_known):
            raise RefusedRequest(429, "overloaded")

        try:
            await self.app(scope, replay_body(body, receive), send)
        finally:
            self._calls.give_back(sender)

    async def _identify_sender(self, scope: Scope, headers: Headers) -> Hashable:
        """Put the caller and its abilities into the scope, and return the owner of its calls.

        The owner is the id of a token or, without a token, a connection. Raises RefusedRequest.
        """
        surface = name_surface(scope["path"], headers)
        caller = (await self.callers.identify(headers))._replace(surface=surface)
        current_caller.set(caller)
        scope["caller"] = caller
        scope["abilities"] = self.callers.open_abilities(caller, scope["path"])

        connection = scope.get("connection")
        token = None if caller.token is None else caller.token.id
        if connection is not None:
            connection.owner = token or _EVERYONE

        turn_owner.set(token or str(id(connection)))
        return token or connection

    def _is_open(self, scope: Scope) -> bool:
        return scope["path"] in self.open_paths

    async def _refuse(
        self, refusal: RefusedRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        details = {
            "reason": refusal.reason,
            "status": refusal.status,
            **current_caller.get().details,
            "request_id": request_id.get(),
        }
        _log.info("refused", extra=details)

        response = refuse(Fault.from_reason(refusal.reason), status=refusal.status)
        if refusal.status == 401:
            response.headers["WWW-Authenticate"] = self.challenge(scope)

        if refusal.status == 405:
            response.headers["Allow"] = "GET, HEAD"

        if self._is_open(scope):
            response.headers["Connection"] = "close"  # its body is not read

        await response(scope, receive, send)


class _ResponseSender:
    """Sends a response with the headers that every response has, and knows if it has started."""

    def __init__(self, send: Send, request_id: str) -> None:
        self.has_started = False
        self._send = send
        self._headers = {b"x-request-id": request_id.encode(), **ISOLATION}

    async def send(self, message: Message) -> None:
        """Send a message (ASGI)."""
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = list(message.get("headers", ()))
            present = {name for name, _ in headers}

            # A page has its own policy.
            missing = [header for header in self._headers.items() if header[0] not in present]
            message["headers"] = [*headers, *missing]

        await self._send(message)


async def _answer_failure(
    error: Exception, scope: Scope, receive: Receive, response: _ResponseSender
) -> None:
    """Answer a request that failed unexpectedly, unless its response has already started."""
    if response.has_started:
        return

    await refuse(Fault.from_exception(error))(scope, receive, response.send)
