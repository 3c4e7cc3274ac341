"""How many of one kind of work may go on at the same time."""

from collections.abc import Generator
from contextlib import contextmanager

from abilities.server.refusals import RefusedRequest


class Slots:
    """A limited number of slots; work that finds none free is refused, it does not wait.

    For one event loop: there is no lock.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0

    @contextmanager
    def take(self, *, always: bool = False) -> Generator[None]:
        """Take a slot for the duration of a ``with`` block.

        Raises RefusedRequest(429) if none is free, unless ``always`` is true.
        """
        if self._taken >= self._size and not always:
            raise RefusedRequest(429, "overloaded")

        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
