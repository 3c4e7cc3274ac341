"""The HTTP server: it accepts what it can hold, and it stops in time."""

import asyncio
import logging
import socket

import uvicorn
from typing_extensions import override

from abilities.server.acceptor import Acceptor
from abilities.server.connections import Connections, count_allowed
from abilities.server.http_connection import HttpConnection

STOP_SECONDS = 9.5
"""How long stopping takes at most, whatever clients, files and the store do."""

_POLL_SECONDS = 0.1

_log = logging.getLogger("abilities")


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
