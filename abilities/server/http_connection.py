"""One connection: its requests are answered one after the other, and its client can be slow."""

import asyncio

from typing_extensions import Buffer, override
from uvicorn import Config
from uvicorn.server import ServerState

from abilities.adapters.http import to_response
from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.registry import build_failed_reply
from abilities.server.connections import Connections
from abilities.server.headers import MAX_REQUEST_LINE
from abilities.server.timeouts import TimeoutProtocol

_HEADERS_END = b"\r\n\r\n"
_READ_BYTES = 64 * 1024

_buffer = bytearray(_READ_BYTES)
"""What a connection has just received; it is copied before another connection reads."""


class HttpConnection(TimeoutProtocol, asyncio.BufferedProtocol):
    """An HTTP connection that begins a request only when the answer before it was taken.

    Requests that a client sends meanwhile stay in the kernel, but for what was read together with
    the current one: uvicorn would parse all of them, and read on after each answer.

    ``owner`` is the caller of the last request that was let through.
    """

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: JsonObject,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.owner = ""
        self.url = b""
        self._others = connections
        self._held: bytes = b""
        self._is_holding = False

    def abort(self) -> None:
        """Close the connection at once, whatever is still to be sent."""
        self.transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._others.mark_waiting(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._held = b""
        self._others.remove(self)
        super().connection_lost(exc)

    @override
    def get_buffer(self, sizehint: int) -> Buffer:
        return _buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._held += bytes(_buffer[:nbytes])
        self._feed()

    @override
    def on_headers_complete(self) -> None:
        self._others.mark_busy(self)
        super().on_headers_complete()
        self.scope["connection"] = self  # type: ignore[typeddict-unknown-key]

    @override
    def on_response_complete(self) -> None:
        self._others.mark_waiting(self)
        super().on_response_complete()
        self._feed()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._others.mark_unread(self, self.transport.get_write_buffer_size())

    @override
    def resume_writing(self) -> None:
        self._others.mark_read(self)
        super().resume_writing()
        self._feed()

    def _feed(self) -> None:
        """Parse what was received, up to the end of one request."""
        while self._held and not self._is_busy() and not self.transport.is_closing():
            # A piece with one end of headers begins one request.
            head, end, rest = self._held.partition(_HEADERS_END)
            self._held = rest
            self.data_received(head + end)

            if self._in_headers and len(self.url) > MAX_REQUEST_LINE:
                self._refuse_line()

        if self._held:
            self._is_holding = True
            self.flow.pause_reading()
        elif self._is_holding:
            self._is_holding = False
            self.flow.resume_reading()

    def _is_busy(self) -> bool:
        """Whether a request has arrived that is not answered, or its answer is not taken."""
        if self.flow.write_paused:
            return True

        cycle = self.cycle
        return bool(cycle) and not cycle.response_complete and not cycle.more_body

    def _refuse_line(self) -> None:
        """Refuse a request whose first line is too long, before the rest of it has come."""
        response = to_response(build_failed_reply(Fault.from_reason("malformed_request")))
        head = b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\n"

        for name, value in response.raw_headers:
            head += name + b": " + value + b"\r\n"

        self.transport.write(head + b"\r\n" + bytes(response.body))
        self.transport.close()
