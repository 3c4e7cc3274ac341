"""Connections that must not take their time: uvicorn waits for the rest of a request for ever."""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from abilities.server.guard import MAX_HEADERS

RECEIVE_SECONDS = 10.0
"""For the headers of a request, from a connection's beginning or a later request's first byte; and for its body."""


class TimeoutProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not come to the end of its headers, or of its body, in time."""

    _deadline: asyncio.TimerHandle | None = None
    _in_headers = True
    _received = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        # asyncio leaves this out for sockets that were made without naming their protocol, and then each small answer
        # waits 40 ms for its client's delayed acknowledgement.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._expect(headers=True)

    def data_received(self, data: bytes) -> None:
        """Take up data; where no request is on its way, another one begins."""
        if self._deadline is None:
            self._expect(headers=True)
        self._received += len(data)
        super().data_received(data)
        if self._deadline is not None and self._in_headers and self._received > MAX_HEADERS:
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Go on to wait for the body, also for one that was refused already."""
        self._expect(headers=False)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there; what it takes to answer it is not the client's fault."""
        self._forget()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._forget()
        super().connection_lost(exc)

    def _expect(self, *, headers: bool) -> None:
        self._forget()
        self._in_headers, self._received = headers, 0
        self._deadline = self.loop.call_later(RECEIVE_SECONDS, self.transport.close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
