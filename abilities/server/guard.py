"""The guard before everything that is served: who may call, how much, how long, how many at once.

It is plain ASGI, so that it also stands before the framework's own error handling: whatever happens
behind it, its caller gets a response in JSON.

Request bodies: how large, how slow and how many at the same time they may be.

Which pages may make a browser send requests here, and what it may do with the answers.

This protects a server without tokens from the pages of other sites, DNS rebinding included.

Fair shares of a limited number of places.

The rule knows nothing of requests and reads no clock of its own.
"""

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Container, Generator, Hashable, Iterable
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from abilities.adapters.http import to_response
from abilities.declarations.refusals import Fault
from abilities.helpers.threads.turns import take_turn, turn_owner
from abilities.registry import build_failed_reply
from abilities.server.callers import Callers, current_caller, name_surface
from abilities.server.connections import Crowd
from abilities.server.headers import (
    Headers,
    RefusedRequest,
    check_header_size,
    read_headers,
    trim_headers,
)
from abilities.server.telemetry import begin_request, request_id

MAX_BODY = 256 * 1024
"""Bytes of one request body."""
MAX_ARRIVING = 256
"""Bodies that may be on their way at the same time; together they take at most 64 MiB."""
BODY_SECONDS = 10.0
"""How long one body may take to arrive."""

_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS", "DELETE")
_LENGTH = re.compile("[0-9]{1,12}")


def check_body_length(headers: Headers) -> None:
    """Raise RefusedRequest(413) if the announced length is malformed or over the limit."""
    length = headers.get("content-length", ["0"])[0]

    if not _LENGTH.fullmatch(length) or int(length) > MAX_BODY:
        raise RefusedRequest(413, "malformed_request")


def check_no_body(method: str, headers: Headers) -> None:
    """Raise RefusedRequest if a request announces a body, although its path takes none.

    The status is 405 for a method that may have one: the address is meant for another, and the
    client probably means another address, as MCP clients do that leave out /mcp.
    """
    if headers.get("content-length", ["0"]) != ["0"] or "transfer-encoding" in headers:
        if method not in _WITHOUT_BODY:
            raise RefusedRequest(405, "unknown_address")

        raise RefusedRequest(413, "malformed_request")


class BodyReader:
    """Reads whole request bodies within their limits.

    Bodies on their way do not count as calls. If too many arrive, the oldest of the caller that
    sends the most gives way, so that nobody keeps others out by sending slowly.
    """

    def __init__(self) -> None:
        self._arriving = Crowd[Hashable, asyncio.Timeout]()

    async def read(self, method: str, receive: Receive, caller: Hashable) -> bytes | None:
        """Return the body of a caller's request, or None if its sender went away.

        A method that has no body gets an empty one, and nothing is received. Raises
        RefusedRequest: 408 for a slow body, 413 for a large one, 429 for one that gives way.
        """
        if method in _WITHOUT_BODY:
            return b""

        timeout = asyncio.timeout(BODY_SECONDS)

        try:
            async with timeout:
                self._make_room()
                self._arriving.add(caller, timeout)
                return await _receive_body(receive)
        except TimeoutError:
            if timeout not in self._arriving:
                raise RefusedRequest(429, "overloaded") from None

            raise RefusedRequest(408, "malformed_request") from None
        finally:
            self._arriving.remove(timeout)

    def _make_room(self) -> None:
        """Let the oldest body of the caller with the most give way if there are too many."""
        if len(self._arriving) < MAX_ARRIVING:
            return

        timeout = self._arriving.pick()
        self._arriving.remove(timeout)

        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())


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
    """Return a ``receive`` that gives the body once, and after that what the connection says."""
    is_pending = True

    async def replay() -> Message:
        nonlocal is_pending

        if not is_pending:
            return await receive()

        is_pending = False
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:/@?#\[\]\s]+)(?::[0-9]{1,5})?")


ISOLATION = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}
"""What browsers must obey: let no other page load, embed or keep an answer."""

_OWN_SITES = ("same-origin", "none")
"""Who lets a browser send a request (https://www.w3.org/TR/fetch-metadata/): our own pages, or a
person who typed the address. "same-site" is not enough: every port of localhost is one site."""


class HostCheck:
    """Lets requests pass whose Host and Origin headers name an allowed host, on any port.

    A web page of another site can make a browser connect to this machine. It can neither forge
    the Origin header nor send a Host header that is not its own name. It also sends requests
    without an Origin, for images, scripts and forms for example; of those, browsers tell in
    Sec-Fetch-Site where they come from. ``pages`` may be reached by a link from anywhere.
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

        for site in headers.get("sec-fetch-site", []):
            if site not in _OWN_SITES and not self._is_visit(scope, headers):
                raise RefusedRequest(403, "foreign_origin")

    def _is_visit(self, scope: Scope, headers: Headers) -> bool:
        """Whether a browser goes to one of our pages, in a tab of its own."""
        return (
            scope["method"] == "GET"
            and scope["path"] in self._pages
            and headers.get("sec-fetch-mode") == ["navigate"]
            and headers.get("sec-fetch-dest") == ["document"]
        )


def parse_host(netloc: str) -> str | None:
    """Return the name in a Host or Origin header, in lower case and without its port.

    Returns None if the header is malformed.

    >>> parse_host("LOCALHOST:8642"), parse_host("[::1]"), parse_host("user@localhost")
    ('localhost', '[::1]', None)
    """
    match = _NETLOC.fullmatch(netloc)
    return match[1].lower() if match else None


MEMORY_SECONDS = 1.0
"""How long a caller counts after it was last seen, and how long a refusal makes callers share."""


class Shares:
    """A limited number of places, which callers share only while somebody has to go without.

    One caller may hold all places. From a refusal on, each caller may hold its share, ``size``
    divided by the number of callers, rounded up, until a second has passed without another refusal.
    The callers are those that held a place or were refused one within the last second.

    Who holds more than its share keeps it: nothing that has begun is stopped. So that others do not
    wait for its end, a caller who is known gets its share even if all places are taken; together
    callers hold twice ``size`` at most.

    For one thread: there is no lock. ``clock`` returns seconds and never goes back.
    """

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._held: Counter[Hashable] = Counter()
        self._total = 0
        self._seen: dict[Hashable, float] = {}
        self._last_refusal = float("-inf")

    def take(self, caller: Hashable, *, is_known: bool) -> bool:
        """Take a place for a caller, and return True; return False if it has to come again."""
        now = self._clock()
        self._note(caller, now)

        if not self._has_room(caller, now, is_known=is_known):
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

    def _has_room(self, caller: Hashable, now: float, *, is_known: bool) -> bool:
        held = self._held[caller]
        is_within_share = held < -(-self._size // len(self._seen))

        if self._total >= self._size:
            return is_known and is_within_share and self._total < 2 * self._size

        is_sharing = now - self._last_refusal < MEMORY_SECONDS
        return is_within_share or (not is_sharing and held < self._size)

    def _note(self, caller: Hashable, now: float) -> None:
        """Note that a caller was seen, and forget those that were not for a second.

        The dictionary is in the order in which callers were last seen. Whoever holds a place is
        never forgotten.
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


MAX_CALLS = 64
"""Calls that may be answered at the same time."""

_EVERYONE = "everyone"
"""The owner of connections that need no token; no token has such an id."""

_log = logging.getLogger("abilities")


class Guard:
    """An ASGI application that stands before another and lets only acceptable requests through.

    It refuses foreign hosts and origins, callers without a token if one is needed, large or slow
    bodies, and too many calls at the same time. A request that passes has its `Caller` in
    ``scope["caller"]``, and what that may use in ``scope["abilities"]``.

    Requests for ``open_paths`` need no token, may have no body, and are answered even if too many
    calls are running. A caller is a token; as long as none is needed, a connection.
    ``challenge`` returns, for a request's scope, the WWW-Authenticate header of a caller without a
    token.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: HostCheck,
        callers: Callers,
        open_paths: Iterable[str],
        challenge: Callable[[Scope], str],
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._callers = callers
        self._open_paths = frozenset(open_paths)
        self._challenge = challenge
        self._bodies = BodyReader()
        self._calls = Shares(MAX_CALLS, time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        trim_headers(scope)
        headers = read_headers(scope)
        response = _ResponseSender(send, begin_request(headers))

        try:
            await self._handle(scope, headers, receive, response.send)
        except RefusedRequest as refusal:
            await self._refuse(refusal, scope, receive, response.send)
        except asyncio.CancelledError:
            # Most likely the server stops, and its time to finish calls is over. The caller is
            # answered all the same, but the task stays cancelled.
            error = TimeoutError("the call was cancelled before it ended")
            await _answer_failure(error, scope, receive, response)
            raise
        except Exception as error:
            if response.has_started:
                raise  # it is too late for another response; the server closes the connection
            await _answer_failure(error, scope, receive, response)

    async def _handle(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        """Check a request, read its body and have it answered. Raises RefusedRequest."""
        self._check(scope, headers)

        if self._is_open(scope):
            check_no_body(scope["method"], headers)
            await self._app(scope, replay_body(b"", receive), send)
            return

        # The token comes last, so that pages of other sites cannot even try out tokens.
        sender = await self._identify_sender(scope, headers)
        body = await self._bodies.read(scope["method"], receive, sender)

        if body is None:
            return  # nobody is left to answer

        # Refusals take turns too: a caller can pipeline thousands of requests that are refused.
        await take_turn()
        with self._take_place(sender):
            await self._app(scope, replay_body(body, receive), send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Check all that the headers tell, before anything else of a request is looked at."""
        check_header_size(scope)
        self._hosts.check(scope, headers)
        check_body_length(headers)

    async def _identify_sender(self, scope: Scope, headers: Headers) -> Hashable:
        """Put the caller, and what it may use, into the scope; return what stands for it.

        That is a token or, if there is none, a connection. Raises RefusedRequest.
        """
        surface = name_surface(scope["path"], headers)
        caller = (await self._callers.identify(headers))._replace(surface=surface)
        current_caller.set(caller)
        scope["caller"] = caller
        scope["abilities"] = self._callers.open_abilities(caller, scope["path"])

        connection = scope.get("connection")
        token = None if caller.token is None else caller.token.id
        if connection is not None:
            connection.owner = token or _EVERYONE

        turn_owner.set(token or str(id(connection)))
        return token or connection

    @contextmanager
    def _take_place(self, sender: Hashable) -> Generator[None]:
        """Hold one of a caller's places for a ``with`` block. Raises RefusedRequest(429)."""
        is_known = current_caller.get().token is not None
        if not self._calls.take(sender, is_known=is_known):
            raise RefusedRequest(429, "overloaded")

        try:
            yield
        finally:
            self._calls.give_back(sender)

    def _is_open(self, scope: Scope) -> bool:
        return scope["path"] in self._open_paths

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

        reply = build_failed_reply(Fault.from_reason(refusal.reason))
        response = to_response(reply, status=refusal.status)
        if refusal.status == 401:
            response.headers["WWW-Authenticate"] = self._challenge(scope)

        if refusal.status == 405:
            response.headers["Allow"] = "GET, HEAD"

        if self._is_open(scope):
            response.headers["Connection"] = "close"  # its body is not read

        await response(scope, receive, send)


class _ResponseSender:
    """Sends a response: adds the headers that each one has, and knows whether it has started."""

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

            # A page brings a policy of its own.
            missing = [header for header in self._headers.items() if header[0] not in present]
            message["headers"] = [*headers, *missing]

        await self._send(message)


async def _answer_failure(
    error: Exception, scope: Scope, receive: Receive, response: _ResponseSender
) -> None:
    """Answer a request that failed unexpectedly, unless its response has started already."""
    if response.has_started:
        return

    reply = build_failed_reply(Fault.from_exception(error))
    await to_response(reply)(scope, receive, response.send)
