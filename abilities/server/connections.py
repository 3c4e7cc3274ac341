"""The open connections of a server: how many there may be, and which of them give way.

Who gives way if there are too many: the oldest of the owner that has the most.

Timeouts: for requests on their way in, and for answers that are not read; uvicorn has none.

One connection: its requests are answered one after the other, and its client can be slow.

Accepting connections: never more than the process can hold.

asyncio's own servers accept whatever comes. When they run out of descriptors they log an error for
every place in their backlog, several times a second.

The HTTP server: it accepts what it can hold, and it stops in time.
"""

import asyncio
import logging
import resource
import socket
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar, cast

import uvicorn
from typing_extensions import Buffer, override
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from abilities.adapters.http import to_response
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject
from abilities.registry import build_failed_reply
from abilities.server.headers import MAX_HEADERS, MAX_REQUEST_LINE

Owner = TypeVar("Owner")
Item = TypeVar("Item")


class Crowd(Generic[Owner, Item]):
    """Items of several owners, in the order in which they came.

    If the crowd is bounded by removing what `pick` returns, each owner keeps at least its fair
    share of the room: an owner with less than that never has the most.
    """

    def __init__(self) -> None:
        self._items: dict[Owner, dict[Item, None]] = {}
        self._owners: dict[Item, Owner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, item: Item) -> bool:
        return item in self._owners

    def add(self, owner: Owner, item: Item) -> None:
        """Add an item, or move it to the end of the order."""
        self.remove(item)
        self._owners[item] = owner
        self._items.setdefault(owner, {})[item] = None

    def remove(self, item: Item) -> None:
        """Remove an item if it is there."""
        owner = self._owners.pop(item, None)
        if owner is None:
            return

        items = self._items[owner]
        del items[item]

        if not items:
            del self._items[owner]

    def pick(self) -> Item:
        """Return the oldest item of the owner that has the most. The crowd must not be empty."""
        items = max(self._items.values(), key=len)
        return next(iter(items))


MAX_CONNECTIONS = 1_024
"""Connections that may be open, if the limit on open files has room for them."""
MAX_UNREAD = 64 * 2**20
"""Bytes of answers that may wait for their readers, over all connections."""

_RESERVED = 128
"""Open files that are at least left for roots, files, the store and its pool."""
_LOG_SECONDS = 60.0

_log = logging.getLogger("abilities")


class Connection(Protocol):
    """What the rule needs of a connection. ``owner`` is "" until a request was let through."""

    owner: str

    def abort(self) -> None:
        """Close the connection at once, whatever is still to be sent."""


class Connections:
    """The open connections, of which those that wait for their clients give way to new ones.

    A connection waits for its client if the client has a request to send or an answer to read. It
    belongs to the caller that it last served. If there are too many, the caller with the most
    connections that wait loses the one that has waited longest; connections on which nobody has yet
    shown that they may call belong together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._open: set[Connection] = set()
        self._waiting = Crowd[str, Connection]()
        self._unread = Crowd[str, Connection]()
        self._sizes: dict[Connection, int] = {}
        self._last_logged = float("-inf")

    def can_accept(self) -> bool:
        """Whether there is room for one more, or one that would give way."""
        return len(self._open) < self._capacity or len(self._waiting) > 0

    def add(self, connection: Connection) -> None:
        """Add a new connection; if there is no room for it, another is aborted."""
        if len(self._open) >= self._capacity:
            self.log_crowding()
            self._abort(self._waiting.pick())

        self._open.add(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is lost."""
        self._open.discard(connection)
        self._waiting.remove(connection)
        self.mark_read(connection)

    def mark_waiting(self, connection: Connection) -> None:
        """Note that a connection waits for its client from now on."""
        self._waiting.add(connection.owner, connection)

    def mark_busy(self, connection: Connection) -> None:
        """Note that the server itself has something to do for a connection."""
        self._waiting.remove(connection)

    def mark_unread(self, connection: Connection, size: int) -> None:
        """Note that so many bytes of an answer wait; if they are too many, others are aborted."""
        self._sizes[connection] = size
        self._unread.add(connection.owner, connection)

        while self._count_unread() > MAX_UNREAD and len(self._unread) > 1:
            oldest = self._unread.pick()
            self._abort(oldest)

    def mark_read(self, connection: Connection) -> None:
        """Note that an answer was read."""
        self._unread.remove(connection)
        self._sizes.pop(connection, None)

    def log_crowding(self) -> None:
        """Log that connections have to give way or to wait, once a minute."""
        now = time.monotonic()

        if now - self._last_logged >= _LOG_SECONDS:
            self._last_logged = now
            _log.warning("too many connections", extra={"connections": len(self._open)})

    def _count_unread(self) -> int:
        return sum(self._sizes.values())

    def _abort(self, connection: Connection) -> None:
        # Its place is free at once, although the loop closes the socket a moment later.
        self.remove(connection)
        connection.abort()


def count_allowed() -> int:
    """Return how many connections the process may have, by its limit on open files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS

    reserved = max(_RESERVED, limit // 4)
    return max(1, min(MAX_CONNECTIONS, limit - reserved))


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


BACKLOG = 1_024
"""Connections that the kernel keeps until they are accepted."""
PAUSE_SECONDS = 0.1
"""How long nothing is accepted if no connection can give way, or no descriptor is left."""

_AT_ONCE = 16
"""Connections accepted in one turn of the loop.

There are few, so that a client's first bytes are read before others push its connection out.
"""


class Acceptor:
    """Accepts the connections of listening sockets, as long as there is room for them."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        connections: Connections,
        create_protocol: Callable[[], HttpConnection],
    ) -> None:
        self._listeners = listeners
        self._connections = connections
        self._create_protocol = create_protocol
        self._loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Task[None]]()
        self._has_ended = False

    def start(self) -> None:
        """Accept connections from now on."""
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen(BACKLOG)
            self._resume(listener)

    def stop(self) -> None:
        """Accept no more connections; the sockets stay open."""
        self._has_ended = True

        for listener in self._listeners:
            self._loop.remove_reader(listener)

    def _resume(self, listener: socket.socket) -> None:
        if not self._has_ended:
            self._loop.add_reader(listener, self._accept, listener)

    def _pause(self, listener: socket.socket) -> None:
        self._connections.log_crowding()
        self._loop.remove_reader(listener)
        self._loop.call_later(PAUSE_SECONDS, self._resume, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if not self._connections.can_accept():
                self._pause(listener)
                return

            try:
                client, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._pause(listener)  # no descriptor or no memory
                return

            self._open(client)

    def _open(self, client: socket.socket) -> None:
        client.setblocking(False)
        protocol = self._create_protocol()
        self._connections.add(protocol)

        task = self._loop.create_task(self._connect(client, protocol))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: socket.socket, protocol: HttpConnection) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, client)
        except OSError:
            self._connections.remove(protocol)
            client.close()


STOP_SECONDS = 9.5
"""How long stopping takes at most, whatever clients, files and the store do."""

_POLL_SECONDS = 0.1


class GracefulServer(uvicorn.Server):
    """A server that finishes the calls it has begun, and begins no others for long.

    Uvicorn asks each connection once to end after its current response. A connection that was
    accepted just before, whose protocol asyncio makes a moment later, is never asked. Its client
    could go on calling until the time to drain is over, and would see its last call cut off.

    It is served by sockets that listen: ``serve(sockets=[...])``.
    """

    _acceptor: Acceptor

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        connections = Connections(count_allowed())

        def create_protocol() -> HttpConnection:
            return HttpConnection(connections, self.config, self.server_state, self.lifespan.state)

        # Uvicorn itself is left without a socket, so that asyncio accepts nothing.
        await super().startup(sockets=[])
        self._acceptor = Acceptor(sockets or [], connections, create_protocol)
        self._acceptor.start()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._acceptor.stop()
        ending = asyncio.create_task(self._end_connections())

        try:
            async with asyncio.timeout(STOP_SECONDS):
                await super().shutdown(sockets)
        except TimeoutError:
            _log.error("stopped before all calls had ended")
        finally:
            ending.cancel()

    async def _end_connections(self) -> None:
        """Ask all connections to end, again and again; asking twice changes nothing."""
        while True:
            for connection in list(self.server_state.connections):
                connection.shutdown()

            await asyncio.sleep(_POLL_SECONDS)
