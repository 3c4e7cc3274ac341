"""Timeouts: for requests on their way in, and for answers that are not read; uvicorn has none."""

import asyncio
import socket
from typing import cast

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from abilities.server.headers import MAX_HEADERS

RECEIVE_SECONDS = 10.0
"""How long the headers of a request may take, and after them its body.

The time for the headers begins with the connection, or with the first byte of a later request.
"""
UNREAD_SECONDS = 10.0
"""How long a client may take nothing of an answer."""
SEND_BUFFER = 128 * 1024
"""Bytes of answers that the kernel holds for a connection, on top of what its client received."""


class TimeoutProtocol(HttpToolsProtocol):
    """Closes a connection if a request does not arrive in time, or an answer is not read."""

    _deadline: asyncio.TimerHandle | None = None
    _in_headers = True
    _received = 0
    _reading: asyncio.TimerHandle | None = None
    _unread = 0

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))

        # Writing is paused as long as the client has not taken all, however little is left.
        self.transport.set_write_buffer_limits(high=0)

        # asyncio does this only for sockets that were created with their protocol's number. Without
        # it, each small response waits 40 ms for its client's delayed acknowledgement.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        # The kernel would hold megabytes for a client that reads nothing, each an answer that took
        # others' time. The kernel doubles the number, so that a usual answer fits in one piece.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

        self._expect_headers()

    @override
    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._expect_headers()  # the first bytes of another request

        self._received += len(data)
        super().data_received(data)

        # The parser takes headers of any length; the guard sees them only when they are complete.
        is_waiting = self._deadline is not None
        if is_waiting and self._in_headers and self._received > MAX_HEADERS:
            self.transport.close()

    @override
    def on_headers_complete(self) -> None:
        self._expect_body()  # also if the request is refused by its headers
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self._cancel_deadline()  # how long the answer takes is not the client's fault
        super().on_message_complete()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    @override
    def resume_writing(self) -> None:
        self._cancel_reading()
        super().resume_writing()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._cancel_reading()
        super().connection_lost(exc)

    def _expect_reading(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(UNREAD_SECONDS, self._check_reading)

    def _check_reading(self) -> None:
        """Abort the connection if nothing of the answer was taken; closing it would wait for it."""
        if self.transport.get_write_buffer_size() >= self._unread:
            self.transport.abort()
        else:
            self._expect_reading()

    def _cancel_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _expect_headers(self) -> None:
        self._in_headers = True
        self._received = 0
        self._restart_deadline()

    def _expect_body(self) -> None:
        self._in_headers = False
        self._received = 0
        self._restart_deadline()

    def _restart_deadline(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(RECEIVE_SECONDS, self.transport.close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
