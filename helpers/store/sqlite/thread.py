"""A daemon thread with a connection of its own, for callers on any number of event loops."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.store.sqlite.file import StoreFile
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.store.sqlite.search import has_terms
from abilities.helpers.threads.calls import Call
from abilities.helpers.threads.serving import ServingThreads

Result = TypeVar("Result")
StoreCall = Call[Callable[[StoreConnection], Any], Any]
"""Work on a connection, and what its caller waits for."""

WAIT_SECONDS = 9.0
"""How long a caller waits until its work begins; a call has ten seconds in all."""


# No lone surrogates: what no hash covers is shown, and bound to the next statement.
replace_damage = partial(str, encoding="utf-8", errors="replace")
"""The text factory that puts a mark in place of each byte that damage has made other than UTF-8."""


def connect(file: StoreFile, *, writing: bool) -> StoreConnection:
    """Return a connection to a file as the store's own threads use one. Raises Refused."""
    connection = file.open(writing=writing)

    if writing:
        connection.text_factory = replace_damage
    connection.create_function("has_terms", -1, has_terms, deterministic=True)
    return connection


class StoreThread:
    """Does work, which takes turns, on a connection of its own to a store.

    It connects when that is first needed. Work is done even if its caller was cancelled. The thread
    starts when it is first needed and ends with `close`.
    """

    def __init__(self, name: str, file: StoreFile, *, writing: bool = False) -> None:
        self.connection: StoreConnection | None = None
        self._file = file
        self._is_writing = writing
        self._is_closed = False
        self._thread: ServingThreads[StoreCall] = ServingThreads(
            name, self._serve, rest=self._rest, end=self._end
        )

    @property
    def queue_size(self) -> int:
        """How many calls wait."""
        return len(self._thread.queue)

    async def run(
        self,
        namespace: str,
        work: Callable[[StoreConnection], Result],
        *,
        is_patient: bool = False,
    ) -> Result:
        """Queue work of a namespace and wait for its result.

        Cancelling the wait does not cancel the work.

        Raises Refused("busy") if the work has not begun after `WAIT_SECONDS`, unless the caller is
        patient; then it never begins. Raises Refused("unavailable") after `close`.
        """
        if self._is_closed:
            raise Refused("unavailable")

        call: Call[Callable[[StoreConnection], Result], Result] = Call(work)
        self._thread.put(namespace, call)
        return await call.wait(None if is_patient else WAIT_SECONDS)

    def wake(self) -> None:
        """Start the thread if it has not started yet, so that `_rest` will be called."""
        if not self._thread.is_started and not self._is_closed:
            self._thread.start()

    async def close(self) -> None:
        """Finish the queued work, then end the thread."""
        self._is_closed = True
        await self._thread.close()

    def _serve(self, call: StoreCall) -> None:
        """Do the work of a call, and of any others that wait."""
        raise NotImplementedError

    def _do(self, call: StoreCall, connection: StoreConnection) -> object:
        if not call.begin(self):
            raise Refused("busy")  # nobody hears it: the caller was told

        return call.work(connection)

    def _rest(self) -> None:
        """Do what is due whenever a second passes without work."""

    def _end(self) -> None:
        """End the work of the thread, after the last call."""
        if self.connection is None:
            return

        # Under the lock, because the last connection to close writes the log back.
        with suppress(Refused, OSError), self._file.lock():
            self.connection.close()

    def _open(self) -> StoreConnection:
        if self.connection is None:
            self.connection = connect(self._file, writing=self._is_writing)

        return self.connection
