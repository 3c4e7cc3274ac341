"""Watching a tokens file from a server: a stuck disk must not stop the event loop."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from abilities.helpers.tokens import TokenSet
from abilities.server.refusals import RefusedRequest

FRESH_SECONDS = 0.5
"""How old a look at the file may be when a request arrives, so that most requests need none."""

LOOK_SECONDS = 5.0
"""How long a look may take; after that, requests are refused until it ends.

A busy disk takes a second or two for a small file; what waits this long is stuck.
"""


class _Look(NamedTuple):
    """A look at the file that has begun; ``finished`` tells those who wait for it."""

    began: float
    finished: Future[None]


class _Seen(NamedTuple):
    """What the last look saw that has ended."""

    began: float
    tokens: TokenSet


class TokenWatch:
    """Reads a tokens file on a thread, one look at a time, at most when a request arrives.

    ``load`` looks at the file; what it raises is raised to those who wait for the look. ``clock``
    returns seconds.
    """

    def __init__(
        self, load: Callable[[], TokenSet], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._clock = clock
        self._look: _Look | None = None
        self._seen: _Seen | None = None  # set on the thread

    async def read_recent(self) -> TokenSet:
        """Return what the file held at most `FRESH_SECONDS` ago. Raises RefusedRequest(503)."""
        return await self._read(self._clock() - FRESH_SECONDS)

    async def read_now(self) -> TokenSet:
        """Return what the file holds at this moment or later. Raises RefusedRequest(503)."""
        return await self._read(self._clock())

    async def _read(self, since: float) -> TokenSet:
        """Return what a look saw that began at ``since`` or later."""
        while True:
            seen = self._seen
            if seen is not None and seen.began >= since:
                return seen.tokens

            look = self._look
            if look is None or look.finished.done():
                look = self._begin_look()

            await self._wait(look)

    def _begin_look(self) -> _Look:
        look = _Look(self._clock(), Future())
        self._look = look

        # A daemon, so that a disk that never answers does not keep the process from ending.
        run = threading.Thread(target=self._run, args=(look,), name="abilities-tokens", daemon=True)
        run.start()
        return look

    def _run(self, look: _Look) -> None:
        try:
            self._seen = _Seen(look.began, self._load())
            look.finished.set_result(None)
        except Exception as error:
            look.finished.set_exception(error)

    async def _wait(self, look: _Look) -> None:
        """Wait for a look. Raises RefusedRequest(503) if it takes longer than `LOOK_SECONDS`."""
        seconds = look.began + LOOK_SECONDS - self._clock()
        if seconds > 0:
            await asyncio.wait([asyncio.wrap_future(look.finished)], timeout=seconds)

        # An older result would be an answer as well, but a token may have been revoked since.
        if not look.finished.done():
            raise RefusedRequest(503, "timeout")

        look.finished.result()
