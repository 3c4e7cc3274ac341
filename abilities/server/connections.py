"""The HTTP server: its connections and request headers, and how slow clients may be.

Uvicorn parses requests and runs the application. This module adds bounds that it lacks: if there
are too many connections, some of them give way; a client must send its request and read its answer
in time; and a shutdown ends in time.
"""

import asyncio
import logging
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

import uvicorn
from starlette.types import Scope
from typing_extensions import Buffer, override
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from abilities.adapters.http import refuse
from abilities.declarations.refusals import Fault, Reason, Refused
from abilities.declarations.values import JsonObject

MAX_HEADERS = 16 * 1024
"""Bytes of all request headers together, as they are sent."""

MAX_REQUEST_LINE = 8 * 1024
"""Bytes of the path and query of a request."""

_SEPARATORS = len(": \r\n")

Headers = dict[str, list[str]]
"""The values of each header, in order, by its name in lower case."""

MAX_CONNECTIONS = 1_024
"""Connections that may be open, if the limit on open files has room for them."""

MAX_UNREAD = 64 * 2**20
"""Bytes of answers that may wait for their readers, over all connections."""

RECEIVE_SECONDS = 10.0
"""Timeout for the headers of a request, and after them for its body.

The time for the headers begins with the connection, or with the first byte of a later request.
"""

UNREAD_SECONDS = 10.0
"""Timeout for a client to read more of an answer."""

SEND_BUFFER = 128 * 1024
"""Bytes of answers that the kernel buffers for a connection."""

BACKLOG = 1_024
"""Connections that the kernel keeps until they are accepted."""

PAUSE_SECONDS = 0.1
"""Pause in accepting if no connection can give way, or no descriptor is left."""

STOP_SECONDS = 9.5
"""Maximum duration of a shutdown, whatever clients, files and the store do."""

_ACCEPTED_AT_ONCE = 16
"""Connections accepted in one turn of the loop.

There are few, so that a client's first bytes are read before others push its connection out.
"""

_HEADERS_END = b"\r\n\r\n"
_LOG_SECONDS = 60.0

_RESERVED = 128
"""Minimum number of open files left for roots, files, the store and its pool."""

_buffer = bytearray(64 * 1024)
"""The bytes that a connection has just received, copied before another connection reads."""

_log = logging.getLogger("abilities")

Owner = TypeVar("Owner")
Item = TypeVar("Item")


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


class Crowd(Generic[Owner, Item]):
    """Items of several owners, in the order in which they came.

    If the crowd is kept small by removing the items that `pick` returns, each owner keeps at least
    its fair share: an owner with less than that never has the most.
    """

    def __init__(self) -> None:
        self._owners: dict[Item, Owner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, item: Item) -> bool:
        return item in self._owners

    def add(self, owner: Owner, item: Item) -> None:
        """Add an item, or move it to the end of the order."""
        self.remove(item)
        self._owners[item] = owner

    def remove(self, item: Item) -> None:
        """Remove an item if it is there."""
        self._owners.pop(item, None)

    def pick(self) -> Item:
        """Return the oldest item of the owner that has the most. The crowd must not be empty."""
        ((most, _),) = Counter(self._owners.values()).most_common(1)
        return next(item for item, owner in self._owners.items() if owner == most)


class Connection(Protocol):
    """A connection that `Connections` can close."""

    owner: str
    """The caller of the last request that was let through; "" before the first one."""

    def abort(self) -> None:
        """Close the connection at once, even if an answer is not sent completely."""


class Connections:
    """The open connections. If there are too many, a waiting one gives way to a new one.

    A connection waits if its client has a request to send or an answer to read. It belongs to the
    caller that it last served; connections without such a caller belong together. The owner of the
    most waiting connections loses the one that has waited longest.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._open: set[Connection] = set()
        self._waiting = Crowd[str, Connection]()
        self._unread = Crowd[str, Connection]()
        self._sizes: dict[Connection, int] = {}
        self._last_logged = float("-inf")

    def can_accept(self) -> bool:
        """Return whether there is room for another connection, or one would give way to it."""
        return len(self._open) < self._capacity or len(self._waiting) > 0

    def add(self, connection: Connection) -> None:
        """Add a new connection; if there is no room for it, another is aborted."""
        if len(self._open) >= self._capacity:
            self.log_crowding()
            self._abort(self._waiting.pick())

        self._open.add(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        self._waiting.remove(connection)
        self.mark_read(connection)

    def mark_waiting(self, connection: Connection) -> None:
        """Note that a connection begins to wait for its client."""
        self._waiting.add(connection.owner, connection)

    def mark_busy(self, connection: Connection) -> None:
        """Note that the server itself begins to work for a connection."""
        self._waiting.remove(connection)

    def mark_unread(self, connection: Connection, size: int) -> None:
        """Note that ``size`` bytes of an answer wait for the client.

        If over `MAX_UNREAD` bytes wait on all connections together, some of these are aborted.
        """
        self._sizes[connection] = size
        self._unread.add(connection.owner, connection)

        while sum(self._sizes.values()) > MAX_UNREAD and len(self._unread) > 1:
            self._abort(self._unread.pick())

    def mark_read(self, connection: Connection) -> None:
        """Note that an answer was read."""
        self._unread.remove(connection)
        self._sizes.pop(connection, None)

    def log_crowding(self) -> None:
        """Log that connections have to give way or to wait, at most once a minute."""
        now = time.monotonic()

        if now - self._last_logged >= _LOG_SECONDS:
            self._last_logged = now
            _log.warning("too many connections", extra={"connections": len(self._open)})

    def _abort(self, connection: Connection) -> None:
        # Its place is free at once, although the loop closes the socket only later.
        self.remove(connection)
        connection.abort()


def count_allowed() -> int:
    """Return the number of connections that the process may have, by its limit on open files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS

    reserved = max(_RESERVED, limit // 4)
    return max(1, min(MAX_CONNECTIONS, limit - reserved))


class HttpConnection(HttpToolsProtocol, asyncio.BufferedProtocol):
    """An HTTP connection that begins a request only when the previous answer has been read.

    It closes if a request is not sent, or an answer not read, in time. Pipelined requests stay in
    the kernel, except for bytes that arrived together with the current request. Uvicorn would parse
    all of them, and read more after each answer.

    ``owner`` is the caller of the last request that was let through.
    """

    _is_endless = False
    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

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
        self._in_headers = True
        self._received = 0  # bytes of the request's current part
        self._held: bytes = b""
        self._is_holding = False

    def abort(self) -> None:
        """Close the connection at once, even if an answer is not sent completely."""
        self.transport.abort()

    def mark_endless(self) -> None:
        """Note that the present answer ends only with the connection.

        A shutdown does not wait for it, and it gives way if there are too many connections.
        """
        self._is_endless = True
        self._others.mark_waiting(self)

    @override
    def shutdown(self) -> None:
        if self._is_endless:
            self.transport.close()
        else:
            super().shutdown()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))

        # Writing is paused until the client has taken everything.
        self.transport.set_write_buffer_limits(high=0)

        # asyncio does this only for sockets that were created with their protocol's number. Without
        # it, each small response waits 40 ms for its client's delayed acknowledgement.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        # By default the kernel buffers megabytes for a client that reads nothing. It doubles this
        # number, so that a usual answer fits in one piece.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

        self._expect_part(in_headers=True)
        self._others.mark_waiting(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._held = b""
        self._others.remove(self)
        self._cancel_deadline()
        self._cancel_reading()
        super().connection_lost(exc)

    @override
    def get_buffer(self, sizehint: int) -> Buffer:
        return _buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._held += bytes(_buffer[:nbytes])
        self._feed()

    @override
    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._expect_part(in_headers=True)  # the first bytes of another request

        self._received += len(data)
        super().data_received(data)

        # The parser accepts headers of any length, and the guard sees only complete ones.
        is_waiting = self._deadline is not None
        if is_waiting and self._in_headers and self._received > MAX_HEADERS:
            self.transport.close()

    @override
    def on_headers_complete(self) -> None:
        self._others.mark_busy(self)
        # The body gets a timeout even if the headers are refused.
        self._expect_part(in_headers=False)
        super().on_headers_complete()
        self.scope["connection"] = self  # type: ignore[typeddict-unknown-key]

    @override
    def on_message_complete(self) -> None:
        self._cancel_deadline()  # the time for the answer is the server's own
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        self._is_endless = False
        self._others.mark_waiting(self)
        super().on_response_complete()
        self._feed()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()
        self._others.mark_unread(self, self.transport.get_write_buffer_size())

    @override
    def resume_writing(self) -> None:
        self._others.mark_read(self)
        self._cancel_reading()
        super().resume_writing()
        self._feed()

    def _expect_part(self, *, in_headers: bool) -> None:
        self._in_headers = in_headers
        self._received = 0
        self._cancel_deadline()
        self._deadline = self.loop.call_later(RECEIVE_SECONDS, self.transport.close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expect_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()

        def check() -> None:
            # Closing the connection would wait until the client reads, so it is aborted.
            if self.transport.get_write_buffer_size() >= unread:
                self.transport.abort()
            else:
                self._expect_reading()

        self._reading = self.loop.call_later(UNREAD_SECONDS, check)

    def _cancel_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _feed(self) -> None:
        """Parse the received bytes, up to the end of one request."""
        while self._held and not self._is_busy() and not self.transport.is_closing():
            # A piece with a single end of headers begins a single request.
            head, end, rest = self._held.partition(_HEADERS_END)
            self._held = rest
            self.data_received(head + end)

            if self._in_headers and len(self.url) > MAX_REQUEST_LINE:
                # Before the rest has arrived.
                response = refuse(Fault.from_reason("malformed_request"))
                answer = b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\n"
                for name, value in response.raw_headers:
                    answer += name + b": " + value + b"\r\n"

                self.transport.write(answer + b"\r\n" + bytes(response.body))
                self.transport.close()

        if self._held:
            self._is_holding = True
            self.flow.pause_reading()
        elif self._is_holding:
            self._is_holding = False
            self.flow.resume_reading()

    def _is_busy(self) -> bool:
        """Return whether a request is not answered yet, or its answer is not read yet."""
        if self.flow.write_paused:
            return True

        cycle = self.cycle
        return bool(cycle) and not cycle.response_complete and not cycle.more_body


@dataclass(eq=False, repr=False)
class Acceptor:
    """Accepts the connections of listening sockets, as long as there is room for them.

    asyncio's own servers accept without limit. When they run out of descriptors, they log an error
    for every place in their backlog, several times a second.
    """

    listeners: Sequence[socket.socket]
    connections: Connections
    create_protocol: Callable[[], HttpConnection]

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Task[None]]()
        self._has_ended = False

    def start(self) -> None:
        """Begin to accept connections."""
        for listener in self.listeners:
            listener.setblocking(False)
            listener.listen(BACKLOG)
            self._resume(listener)

    async def stop(self) -> None:
        """Stop accepting connections; the sockets stay open.

        Uvicorn then asks each connection once to end after its current response. One that has no
        protocol yet would never be asked, so it is waited for.
        """
        self._has_ended = True

        for listener in self.listeners:
            self._loop.remove_reader(listener)

        if self._tasks:
            await asyncio.wait(self._tasks)

    def _resume(self, listener: socket.socket) -> None:
        if not self._has_ended:
            self._loop.add_reader(listener, self._accept, listener)

    def _pause(self, listener: socket.socket) -> None:
        self.connections.log_crowding()
        self._loop.remove_reader(listener)
        self._loop.call_later(PAUSE_SECONDS, self._resume, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if not self.connections.can_accept():
                self._pause(listener)
                return

            try:
                client, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._pause(listener)  # no descriptor or no memory
                return

            client.setblocking(False)
            protocol = self.create_protocol()
            self.connections.add(protocol)

            task = self._loop.create_task(self._connect(client, protocol))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: socket.socket, protocol: HttpConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, client)
        except OSError:
            self.connections.remove(protocol)
            client.close()


class GracefulServer(uvicorn.Server):
    """A server that bounds its connections, and that finishes the calls it has begun when it stops.

    Call ``serve(sockets=[...])`` with sockets to listen on.
    """

    _acceptor: Acceptor

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        connections = Connections(count_allowed())

        def create_protocol() -> HttpConnection:
            return HttpConnection(connections, self.config, self.server_state, self.lifespan.state)

        # Uvicorn itself gets no socket, so that asyncio accepts nothing.
        await super().startup(sockets=[])
        self._acceptor = Acceptor(sockets or [], connections, create_protocol)
        self._acceptor.start()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._acceptor.stop()
                await super().shutdown(sockets)
        except TimeoutError:
            _log.error("stopped before all calls had ended")
