"""The guard before everything served: who may ask, how much, how long, and how many at a time. Plain ASGI."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from abilities.adapters.http import to_response
from abilities.declarations.faults import Fault, Reason, Refused
from abilities.replies import failed_reply
from abilities.server.callers import Callers
from abilities.server.telemetry import begin_request, request_id

MAX_BODY = 256 * 1024
MAX_HEADERS = 16 * 1024
MAX_CALLS = 64
MAX_ARRIVING = 256
"""Bodies on their way at a time; all of them together are 64 MiB at most."""
BODY_SECONDS = 10.0

_NETLOC = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:/@?#\[\]\s]+)(?::[0-9]{1,5})?")
_LENGTH = re.compile("[0-9]{1,12}")
_log = logging.getLogger("abilities")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Headers = dict[str, list[str]]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Answers what must not reach the application, and tells it whose call the rest is.

    Refused are foreign hosts and origins, callers without a token that is needed, large or slow bodies, and too
    many calls at a time. ``open_paths`` are answered to everybody and always; ``challenge`` says, with a request's
    scope, what a caller without a token is told in WWW-Authenticate.
    """

    def __init__(
        self,
        app: App,
        hosts: Iterable[str],
        callers: Callers,
        open_paths: Iterable[str],
        challenge: Callable[[Scope], str],
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._callers = callers
        self._open = frozenset(open_paths)
        self._challenge = challenge
        self._calls = 0
        self._arriving = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Space around a value is no part of it (RFC 9110, 5.5); the HTTP parser leaves what follows it.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        headers = _headers(scope)
        send = _marked(send, begin_request(headers))
        refused = self._refusal(scope, headers)
        if refused is not None:
            await self._refuse(scope, receive, send, *refused)
            return
        body = await self._body(scope, receive)
        if isinstance(body, tuple):
            await self._refuse(scope, receive, send, *body)
        elif body is not None:
            await self._call(scope, _replayed(body, receive), receive, send)

    async def _call(self, scope: Scope, replay: Receive, receive: Receive, send: Send) -> None:
        """Have a whole request answered, if there are not too many already."""
        if self._calls >= MAX_CALLS and scope["path"] not in self._open:
            await self._refuse(scope, receive, send, 429, "overloaded")
            return
        self._calls += 1
        try:
            await self._app(scope, replay, send)
        finally:
            self._calls -= 1

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, Reason] | None:
        """Why a request is answered before anything of it is looked at, by its headers alone."""
        if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADERS:
            return 431, "malformed_request"
        hosts = headers.get("host", [])
        if len(hosts) != 1 or _host(hosts[0]) not in self._hosts:
            return 421, "foreign_host"
        for origin in headers.get("origin", []):
            scheme, _, netloc = origin.partition("://")
            if scheme.lower() not in ("http", "https") or _host(netloc) not in self._hosts:
                return 403, "foreign_origin"
        length = headers.get("content-length", ["0"])[0]
        if not _LENGTH.fullmatch(length) or int(length) > MAX_BODY:
            return 413, "malformed_request"
        if scope["path"] in self._open:
            return None
        try:
            scope["abilities"] = self._callers.identify(headers.get("authorization", []))
        except Refused as refused:
            return 401, refused.reason
        return None

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, reason: Reason
    ) -> None:
        _log.info(
            "refused", extra={"reason": reason, "status": status, "request_id": request_id.get()}
        )
        response = to_response(failed_reply(Fault.from_reason(reason)), status=status)
        if status == 401:
            response.headers["WWW-Authenticate"] = self._challenge(scope)
        await response(scope, receive, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | tuple[int, Reason] | None:
        """The whole body; or why it was not taken; None when its sender went away.

        Bodies that are on their way do not count as calls: slow senders must not keep others out.
        """
        if scope["method"] in ("GET", "HEAD", "OPTIONS", "DELETE"):
            return b""
        if self._arriving >= MAX_ARRIVING:
            return 429, "overloaded"
        self._arriving += 1
        try:
            return await _received(receive)
        finally:
            self._arriving -= 1


async def _received(receive: Receive) -> bytes | tuple[int, Reason] | None:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    return 413, "malformed_request"
                if message["type"] == "http.disconnect":
                    return None
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return 408, "malformed_request"


def _host(netloc: str) -> str:
    """The name in a Host or Origin header, without its port; whatever is no such thing is no name that is allowed."""
    found = _NETLOC.fullmatch(netloc)
    return found[1].lower() if found else ""


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once, then what the connection says."""
    told = False

    async def replay() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _headers(scope: Scope) -> Headers:
    found: Headers = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _marked(send: Send, name: str) -> Send:
    """Every answer names its request, is what it says it is, and is kept by nobody on its way."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(b"x-request-id", name.encode()), (b"x-content-type-options", b"nosniff")]
            message["headers"] = [*message["headers"], *own, (b"cache-control", b"no-store")]
        await send(message)

    return marked
