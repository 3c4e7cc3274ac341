"""The open connections of a server: how many there may be, and which of them give way."""

import logging
import resource
import time
from typing import Protocol

from abilities.server.crowd import Crowd

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
