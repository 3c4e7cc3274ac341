"""What the shared store needs of an engine: transactions, and what only the engine can do."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

from abilities.declarations.refusals import AbilitiesError
from abilities.helpers.store.protocol import IntegrityFinding, Mark
from abilities.helpers.store.transaction import Transaction

ResultT = TypeVar("ResultT")

Work = Callable[[Transaction], Coroutine[Any, Any, ResultT]]
"""What a transaction does. It may run more than once, and then begins anew."""

OPERATOR = ""
"""Whose turn it is with work on all namespaces, such as imports. No namespace has that name."""

READ_SECONDS = 9.5
"""How long a read may take with all its waiting: a call is answered within 10 seconds."""


class MemoriesDue(AbilitiesError):
    """Memories of the namespace are to be archived first; then the call can be tried again."""


class Engine(Protocol):
    """Transactions of one database, from any event loop and any thread.

    Every method raises Refused if the database cannot answer. Where a method is written out, an
    engine may do better, and need not.
    """

    @property
    def queue_size(self) -> int:
        """How many calls wait."""
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
        """Do work that sees one snapshot; ``whose`` is the namespace whose turn it takes.

        With ``now``, it raises MemoriesDue if memories of the namespace expired by then. Raises
        Refused: timeout after some seconds.
        """
        ...

    async def write(
        self, namespace: str, work: Work[ResultT], *, size: int = 1, is_patient: bool = False
    ) -> ResultT:
        """Do work in a savepoint of a transaction that alone changes a namespace.

        It returns once that is committed; cancelling the wait does not cancel the work. ``size`` is
        how many changes it consists of. Raises Refused: busy if it has not begun after some
        seconds, unless the caller is patient; then it never begins.
        """
        ...

    def count_access(self, namespace: str, key: str, now: str) -> None:
        """Count an access to a memory soon, best effort; never raises and never waits."""
        ...

    async def flush_accesses(self) -> None:
        """Write the accesses that were counted so far, before a key changes by which they were."""
        ...

    async def clean(self) -> None:
        """Remove what was purged from where no query reads it; never raises."""
        ...

    async def has_mark(self, mark: Mark) -> bool:
        """Return whether a mark is set, however long others take to open the database."""
        return await self.read(OPERATOR, partial(read_mark, mark=mark), READ_SECONDS)

    async def ping(self) -> None:
        """Find out soon whether the database answers; no other call is waited for."""
        ...

    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check everything in one snapshot, beside other calls."""
        ...

    async def close(self) -> None:
        """Finish the calls that have begun and release everything."""
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
