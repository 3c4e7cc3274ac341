"""Accepting connections: never more than the process can hold.

asyncio's own servers accept whatever comes. When they run out of descriptors they log an error for
every place in their backlog, several times a second.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence

from abilities.server.connections import Connections
from abilities.server.http_connection import HttpConnection

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
