"""A daemon thread with a connection of its own, for callers on any number of event loops."""

from collections.abc import Callable
from typing import Any, TypeVar

from abilities.declarations.faults import Refused
from abilities.helpers.store.sqlite.log import StoreConnection
from abilities.helpers.threads.calls import Call
from abilities.helpers.threads.serving import ServingThreads

Result = TypeVar("Result")
StoreCall = Call[Callable[[StoreConnection], Any], Any]
"""Work on a connection, and what its caller waits for."""

WAIT_SECONDS = 9.0
"""How long a caller waits until its work begins; a call has ten seconds in all."""


class StoreThread:
    """Does work, which takes turns, on a connection to a store.

    ``connect`` makes the connection when it is first needed, and ``disconnect`` closes it. Work is
    done even if its caller was cancelled. The thread starts when it is first needed and ends with
    `close`.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], StoreConnection],
        disconnect: Callable[[StoreConnection], None],
    ) -> None:
        self.connection: StoreConnection | None = None
        self._connect = connect
        self._disconnect = disconnect
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
        patient; then it never begins.
        """
        call: Call[Callable[[StoreConnection], Result], Result] = Call(work)
        self._thread.put(namespace, call)
        return await call.wait(None if is_patient else WAIT_SECONDS)

    async def close(self) -> None:
        """Finish the queued work, then end the thread."""
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
        if self.connection is not None:
            self._disconnect(self.connection)

    def _open(self) -> StoreConnection:
        if self.connection is None:
            self.connection = self._connect()

        return self.connection
