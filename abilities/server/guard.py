"""The guard before everything that is served: who may call, how much, how long, how many at once.

It is plain ASGI, so that it also stands before the framework's own error handling: whatever happens
behind it, its caller gets a response in JSON.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from abilities.adapters.http import to_response
from abilities.declarations.faults import Fault
from abilities.helpers.threads.turns import take_turn, turn_owner
from abilities.registry import build_failed_reply
from abilities.server.bodies import BodyReader, check_body_length, check_no_body, replay_body
from abilities.server.callers import Callers, current_caller, name_surface
from abilities.server.headers import Headers, check_header_size, read_headers, trim_headers
from abilities.server.hosts import ISOLATION, HostCheck
from abilities.server.refusals import RefusedRequest
from abilities.server.shares import Shares
from abilities.server.telemetry import begin_request, request_id

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
