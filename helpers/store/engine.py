"""The interface between the shared store and a database engine."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

from abilities.declarations.refusals import AbilitiesError
from abilities.helpers.store.protocol import IntegrityFinding, Mark
from abilities.helpers.store.transaction import Transaction

ResultT = TypeVar("ResultT")

Work = Callable[[Transaction], Coroutine[Any, Any, ResultT]]
"""The body of a transaction. It may be retried, and then starts over."""

OPERATOR = ""
"""The name under which work on all namespaces, such as an import, queues. No namespace has it."""

READ_SECONDS = 9.5
"""Time limit of a read, waiting included, so that a call is answered within 10 seconds."""


class MemoriesDue(AbilitiesError):
    """Memories of the namespace have expired. Archive them, then retry the call."""


class Engine(Protocol):
    """Transactions of one database, from any event loop and any thread.

    Every method raises Refused if the database cannot answer. An engine may override a method that
    has a default implementation with a faster one.
    """

    @property
    def queue_size(self) -> int:
        """The number of calls that wait."""
        ...

    async def prepare(self) -> None:
        """Open the database, however long that takes."""
        ...

    async def read(
        self,
        whose: str,
        work: Work[ResultT],
        seconds: float,
        *,
        now: str | None = None,
    ) -> ResultT:
        """Do work in one snapshot, in the queue of the namespace ``whose``.

        Raises MemoriesDue if ``now`` is given and a memory of the namespace has expired by then,
        and Refused("timeout") after ``seconds``.
        """
        ...

    async def write(
        self, namespace: str, work: Work[ResultT], *, size: int = 1, is_patient: bool = False
    ) -> ResultT:
        """Do work in a savepoint of a transaction that alone changes a namespace.

        Returns after the commit. Cancelling the wait does not cancel the work. ``size`` is the
        number of changes in the work. Raises Refused("busy") if the work has not begun after some
        seconds, unless ``is_patient`` is set; the work then never begins.
        """
        ...

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access to a memory, later and with best effort; never raise, never block."""
        ...

    async def flush_accesses(self) -> None:
        """Write the accesses counted so far. They are counted by key: call this before a rename."""
        ...

    async def clean(self) -> None:
        """Erase purged data from places that no query reads, such as free pages; never raise."""
        ...

    async def has_mark(self, mark: Mark) -> bool:
        """Return whether a mark is set, however long others take to open the database."""
        return await self.read(OPERATOR, partial(read_mark, mark=mark), READ_SECONDS)

    async def exists(self) -> bool:
        """Return whether the database can be read without creating it first."""
        return True

    async def ping(self) -> None:
        """Raise Refused soon if the database does not answer, without waiting for other calls."""
        ...

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check everything in one snapshot, alongside other calls."""
        ...

    async def close(self) -> None:
        """Finish the calls that have begun, and release all resources."""
        ...


_WRITE_MARK = """
INSERT INTO marks (name) SELECT CAST(? AS text)
WHERE NOT EXISTS (SELECT 1 FROM marks WHERE name = ?)
"""


async def write_mark(transaction: Transaction, mark: Mark) -> None:
    """Set a mark. Setting it again changes nothing."""
    await transaction.run(_WRITE_MARK, mark, mark)


async def read_mark(transaction: Transaction, mark: Mark) -> bool:
    """Return whether a mark is set."""
    return bool(await transaction.fetch("SELECT 1 FROM marks WHERE name = ?", mark))
