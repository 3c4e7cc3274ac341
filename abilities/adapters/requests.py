"""The requests of one client that have begun and are not answered yet."""

import asyncio
import itertools

from abilities.adapters.messages import RequestId, is_id

MAX_REQUESTS = 64
"""Requests that may be in flight at the same time; the next ones wait."""


class RequestsInFlight:
    """The ids of the requests in flight, each with the number that the server knows it by.

    Clients choose ids of any size and may take "1" and 1 for two; the SDK does not.
    """

    def __init__(self) -> None:
        self._numbers: dict[RequestId, int] = {}
        self._ids: dict[int, RequestId] = {}
        self._next = itertools.count(1)
        self._room = asyncio.Semaphore(MAX_REQUESTS)
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._numbers

    async def add(self, request_id: RequestId) -> int:
        """Return the number of a new request, as soon as there is room for one more."""
        await self._room.acquire()

        number = next(self._next)
        self._numbers[request_id] = number
        self._ids[number] = request_id
        self._is_empty.clear()
        return number

    def find(self, request_id: object) -> int | None:
        """Return the number of the request with an id, if it is in flight."""
        return self._numbers.get(request_id) if is_id(request_id) else None

    def remove(self, number: object) -> RequestId:
        """Forget a request by its number; return its id."""
        assert isinstance(number, int)
        request_id = self._ids.pop(number)
        del self._numbers[request_id]
        self._room.release()

        if not self._ids:
            self._is_empty.set()

        return request_id

    async def wait_until_none(self) -> None:
        """Wait until no request is in flight."""
        await self._is_empty.wait()
