"""Stopping in time: a uvicorn server that also ends connections which arrive while it stops."""

import asyncio
import socket

import uvicorn
from typing_extensions import override

_POLL_SECONDS = 0.1


class GracefulServer(uvicorn.Server):
    """A server that finishes the calls it has begun, and begins no others for long.

    Uvicorn asks each connection once to end after its current response. A connection that was
    accepted just before, whose protocol asyncio makes a moment later, is never asked. Its client
    could go on calling until the time to drain is over, and would see its last call cut off.
    """

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ending = asyncio.create_task(self._end_connections())

        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()

    async def _end_connections(self) -> None:
        """Ask all connections to end, again and again; asking twice changes nothing."""
        while True:
            for connection in list(self.server_state.connections):
                connection.shutdown()

            await asyncio.sleep(_POLL_SECONDS)
