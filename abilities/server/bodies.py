"""Request bodies: how large, how slow and how many at the same time they may be."""

import asyncio
import re

from starlette.types import Message, Receive

from abilities.server.headers import Headers
from abilities.server.refusals import RefusedRequest
from abilities.server.slots import Slots

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


class BodyReader:
    """Reads whole request bodies within their limits.

    Bodies on their way do not count as calls: slow senders must not keep others out.
    """

    def __init__(self) -> None:
        self._arriving = Slots(MAX_ARRIVING)

    async def read(self, method: str, receive: Receive) -> bytes | None:
        """Return the body of a request, or None if its sender went away.

        A method that has no body gets an empty one, and nothing is received. Raises
        RefusedRequest: 408 for a slow body, 413 for a large one, 429 if too many arrive already.
        """
        if method in _WITHOUT_BODY:
            return b""

        with self._arriving.take():
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    return await _receive_body(receive)
            except TimeoutError:
                raise RefusedRequest(408, "malformed_request") from None


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
