"""Request bodies: how large, how slow and how many at the same time they may be."""

import asyncio
import re
from collections.abc import Hashable

from starlette.types import Message, Receive

from abilities.server.crowd import Crowd
from abilities.server.headers import Headers
from abilities.server.refusals import RefusedRequest

MAX_BODY = 256 * 1024
"""Bytes of one request body."""
MAX_ARRIVING = 256
"""Bodies that may be on their way at the same time; together they take at most 64 MiB."""
BODY_SECONDS = 10.0
"""How long one body may take to arrive."""

_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS", "DELETE")
_LENGTH = re.compile("[0-9]{1,12}")


def check_body_length(headers: Headers) -> None:
    """Raise RefusedRequest(413) if the announced length is malformed or over the limit."""
    length = headers.get("content-length", ["0"])[0]

    if not _LENGTH.fullmatch(length) or int(length) > MAX_BODY:
        raise RefusedRequest(413, "malformed_request")


def check_no_body(method: str, headers: Headers) -> None:
    """Raise RefusedRequest if a request announces a body, although its path takes none.

    The status is 405 for a method that may have one: the address is meant for another, and the
    client probably means another address, as MCP clients do that leave out /mcp.
    """
    if headers.get("content-length", ["0"]) != ["0"] or "transfer-encoding" in headers:
        if method not in _WITHOUT_BODY:
            raise RefusedRequest(405, "unknown_address")

        raise RefusedRequest(413, "malformed_request")


class BodyReader:
    """Reads whole request bodies within their limits.

    Bodies on their way do not count as calls. If too many arrive, the oldest of the caller that
    sends the most gives way, so that nobody keeps others out by sending slowly.
    """

    def __init__(self) -> None:
        self._arriving = Crowd[Hashable, asyncio.Timeout]()

    async def read(self, method: str, receive: Receive, caller: Hashable) -> bytes | None:
        """Return the body of a caller's request, or None if its sender went away.

        A method that has no body gets an empty one, and nothing is received. Raises
        RefusedRequest: 408 for a slow body, 413 for a large one, 429 for one that gives way.
        """
        if method in _WITHOUT_BODY:
            return b""

        timeout = asyncio.timeout(BODY_SECONDS)

        try:
            async with timeout:
                self._make_room()
                self._arriving.add(caller, timeout)
                return await _receive_body(receive)
        except TimeoutError:
            if timeout not in self._arriving:
                raise RefusedRequest(429, "overloaded") from None

            raise RefusedRequest(408, "malformed_request") from None
        finally:
            self._arriving.remove(timeout)

    def _make_room(self) -> None:
        """Let the oldest body of the caller with the most give way if there are too many."""
        if len(self._arriving) < MAX_ARRIVING:
            return

        timeout = self._arriving.pick()
        self._arriving.remove(timeout)

        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())


async def _receive_body(receive: Receive) -> bytes | None:
    body = bytearray()

    while True:
        message = await receive()
        body += message.get("body", b"")

        if len(body) > MAX_BODY:
            raise RefusedRequest(413, "malformed_request")

        if message["type"] == "http.disconnect":
            return None

        if not message.get("more_body", False):
            return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives the body once, and after that what the connection says."""
    is_pending = True

    async def replay() -> Message:
        nonlocal is_pending

        if not is_pending:
            return await receive()

        is_pending = False
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
