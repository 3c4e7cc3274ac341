"""Events for the explorer's open pages: each learns that memories of its namespace were changed.

A stream is one response of type ``text/event-stream``, whose events hold the number of the latest
change. All pages share one task that asks the store, because agents also write through other
processes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from contextvars import Context

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from abilities.adapters.http import get_abilities
from abilities.declarations.refusals import Refused
from abilities.server.callers import EXPLORER, Callers
from abilities.server.connections import HttpConnection, RefusedRequest, read_headers

EVENTS = "/api/explorer/events"

MAX_STREAMS = 64
"""Streams that may be open at the same time."""

MAX_TOKEN_STREAMS = 16
"""Streams that may be open at the same time with one token."""

LOOK_SECONDS = 1.0
"""How often the store is asked for the latest change of each namespace that a page shows."""

COMMENT_SECONDS = 15.0
"""How long a stream is silent at most.

A comment then keeps proxies from closing it. The token is checked before each comment and event.
"""

_HEADERS = {"X-Accel-Buffering": "no"}
"""Asks nginx to pass on each event at once."""


class _Namespace:
    """The latest change in a namespace, and what wakes each page that shows the namespace."""

    def __init__(self, read_latest: Callable[[], Awaitable[int]]) -> None:
        self._read_latest = read_latest
        self.latest: int | None = None  # not known yet
        self.pages: set[asyncio.Event] = set()

    async def look(self) -> None:
        """Ask the store, and wake the pages if the answer is another one. Raises Refused."""
        latest = await self._read_latest()

        if latest != self.latest:
            self.latest = latest
            for page in self.pages:
                page.set()


class ChangeEvents:
    """Answers requests for streams, and looks for changes while any stream is open."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._namespaces: dict[str, _Namespace] = {}
        self._open = Counter[str]()
        self._looking: asyncio.Task[None] | None = None

    async def respond(self, request: Request) -> Response:
        """Open a stream. Raises Refused: overloaded."""
        token = request.scope["caller"].token
        owner = "" if token is None else token.id
        most = MAX_STREAMS if token is None else MAX_TOKEN_STREAMS

        if self._open.total() >= MAX_STREAMS or self._open[owner] >= most:
            raise Refused("overloaded")

        context = get_abilities(request).context
        namespace = self._namespaces.setdefault(
            context.namespace, _Namespace(context.memory.reader.read_latest)
        )
        page = asyncio.Event()
        namespace.pages.add(page)
        self._open[owner] += 1

        if self._looking is None:
            # In a context of its own, because it works for the callers of all streams.
            self._looking = asyncio.create_task(
                self._keep_looking(), name="abilities-events", context=Context()
            )

        def close() -> None:
            self._open[owner] -= 1
            namespace.pages.remove(page)
            if not namespace.pages:
                del self._namespaces[context.namespace]
            if not self._namespaces and self._looking is not None:
                self._looking.cancel()
                self._looking = None

        return _Stream(self._list_events(request, namespace, page), close)

    async def _list_events(
        self, request: Request, namespace: _Namespace, page: asyncio.Event
    ) -> AsyncIterator[str]:
        """Yield an event for each change that was seen, and a comment after a long silence."""
        sent: int | None = None

        while await self._is_allowed(request):
            latest = namespace.latest
            if latest == sent:
                yield ": nothing was changed\n\n"
            else:
                yield f"data: {latest}\n\n"
            sent = latest

            with suppress(TimeoutError):
                async with asyncio.timeout(COMMENT_SECONDS):
                    await page.wait()
            page.clear()

    async def _is_allowed(self, request: Request) -> bool:
        """Return whether the sender of a request may still read the namespace."""
        try:
            caller = await self._callers.identify(read_headers(request.scope))
            self._callers.open_abilities(caller._replace(surface=EXPLORER), EVENTS)
        except RefusedRequest:
            return False

        return True

    async def _keep_looking(self) -> None:
        while True:
            looks = [namespace.look() for namespace in self._namespaces.values()]
            # A store that does not answer is asked again.
            await asyncio.gather(*looks, return_exceptions=True)
            await asyncio.sleep(LOOK_SECONDS)


class _Stream(StreamingResponse):
    """A response without an end. ``close`` is called when the client or the server has left it."""

    def __init__(self, events: AsyncIterator[str], close: Callable[[], None]) -> None:
        super().__init__(events, headers=_HEADERS, media_type="text/event-stream")
        self._close = close

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: HttpConnection | None = scope.get("connection")
        if connection is not None:
            connection.mark_endless()

        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()
