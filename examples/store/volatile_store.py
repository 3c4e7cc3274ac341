"""Write a store of your own: a dialect of SQL, and transactions in it.

`SqlStore` knows what memories are. It needs an `Engine`, which gives it transactions, and a
`Transaction`, which runs its statements; schema.sql beside this file has the tables. This one lives
in the memory of a process, in one connection of the standard library's sqlite3, and shares no code
with the built-in stores' engines. Copy it for another database.
"""

import asyncio
import json
import logging
import re
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from typing_extensions import override

from abilities.declarations.refusals import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.store.changes import Change
from abilities.helpers.store.checking import check_rows
from abilities.helpers.store.engine import (
    Columns,
    Engine,
    Matches,
    MemoriesDue,
    Numbers,
    SearchPlan,
    Transaction,
    Work,
)
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.model import Query
from abilities.helpers.store.past import StoreRules
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.reads import AccessBuffer, count_accesses, has_due
from abilities.helpers.store.store import SqlStore

ResultT = TypeVar("ResultT")

_log = logging.getLogger("abilities.store")

SCHEMA = Path(__file__).with_name("schema.sql")

DEFAULT_LIMITS = HistoryLimits()

TURN_SECONDS = 9.0
"""How long a change waits until it begins; one that has begun is finished."""

TRANSLATIONS = (
    (r"= ANY \(\?\)", "IN (SELECT value FROM json_each(?))"),
    (
        r"\b(?:TEXTS|NUMBERS)\(\?\) AS (\w+) \((\w+)\)",
        r"(SELECT value AS \2 FROM json_each(?)) AS \1",
    ),
    (r"\bRAW\(([\w.]+)\)", r"\1"),  # no damage happens to this memory
    (r"\bJSON_LIST\(", "json_group_array("),
    (r"\bFILTER\(([\w.]+)\)", r"+\1"),
    (r"\boctet_length\((\w+)\)", r"length(CAST(\1 AS BLOB))"),
    (r"\bgreatest\(", "max("),
    (r"\bleast\(", "min("),
    (r"\s+INDEXED BY \w+", ""),
)
"""What stands for the words of `abilities.helpers.store.engine` that are no standard SQL."""

ROWS = re.compile(r"\bROWS\(\?\) AS (\w+) \(([^)]*)\)")

ERRORS_OF_ONE_CHANGE = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""What a change's own values cause; any other error of the database ends the whole transaction."""


@lru_cache(maxsize=1_024)
def translate(text: str) -> str:
    """Return a statement in the words of this database."""
    for pattern, words in TRANSLATIONS:
        text = re.sub(pattern, words, text)

    return ROWS.sub(select_rows, text)


def select_rows(rows: re.Match[str]) -> str:
    """Return the objects of a list in JSON as a table."""
    table, columns = rows.groups()
    names = [column.split()[0] for column in columns.split(",")]
    values = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in names)
    return f"(SELECT {values} FROM json_each(?)) AS {table}"  # noqa: S608 - names of the package


def bind(values: Sequence[object]) -> list[object]:
    """Return values as this database takes them: a list as JSON."""
    return [json.dumps(value) if isinstance(value, list) else value for value in values]


def refuse(error: sqlite3.Error) -> Refused:
    """Return what an error of the database means to callers, who do not see its words."""
    _log.error("the store refused: %s", error)
    return Refused("storage_error")


class VolatileTransaction(Transaction):
    """A transaction of the connection. What the protocol writes out is good enough here."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @override
    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        return self._connection.execute(translate(text), bind(values)).fetchall()

    @override
    async def run(self, text: str, *values: object) -> None:
        self._connection.execute(translate(text), bind(values))

    @override
    async def attempt(
        self, work: Callable[[Transaction], Awaitable[ResultT]]
    ) -> ResultT | Exception:
        await self.run("SAVEPOINT change")
        try:
            result: ResultT | Exception = await work(self)
        except ERRORS_OF_ONE_CHANGE as error:
            await self.run("ROLLBACK TO change")
            result = refuse(error)
        except sqlite3.Error:
            raise
        except Exception as error:
            await self.run("ROLLBACK TO change")
            result = error

        await self.run("RELEASE change")
        return result

    @override
    async def plan_search(self, namespace: str, query: Query, numbers: Numbers) -> SearchPlan:
        conditions = ["w.namespace = s.namespace AND w.id = s.id"]
        conditions += ["instr(w.folded, ?) > 0"] * len(query.search)
        tables = "words AS w CROSS JOIN shelf AS s"
        matches = Matches(" AND ".join(conditions), query.search, tables)
        return SearchPlan(found=matches, met=matches)


class VolatileEngine(Engine):
    """One connection, and one thread on which calls run in the order in which they come.

    So each call has the database for itself, and namespaces take no turns. ``language`` is that of
    the recall index.
    """

    def __init__(self, language: str) -> None:
        # Transactions are begun below, not by the module before it sees a change.
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        self._connection.executescript(SCHEMA.read_text(encoding="utf-8"))
        self._connection.execute("INSERT INTO recall_language VALUES (?)", (language,))

        self._thread = ThreadPoolExecutor(1, "volatile-store")
        self._runner = asyncio.Runner()  # only the thread uses it
        self._calls: set[Future[Any]] = set()
        self._accesses = AccessBuffer()

    @property
    @override
    def queue_size(self) -> int:
        return len(self._calls)

    @override
    async def prepare(self) -> None:
        """Do nothing: the database is open as long as there is one."""

    @override
    async def ping(self) -> None:
        """Do nothing: a database in the same process answers if anything does."""

    @override
    async def read(
        self, whose: str, work: Work[ResultT], seconds: float, *, now: str | None = None
    ) -> ResultT:
        async def find(transaction: Transaction) -> ResultT:
            if now is not None and await has_due(transaction, whose, now):
                raise MemoriesDue
            return await work(transaction)

        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(self._submit(find))
        except TimeoutError:
            raise Refused("timeout") from None

    @override
    async def write(
        self, namespace: str, work: Work[ResultT], *, size: int = 1, is_patient: bool = False
    ) -> ResultT:
        call = self._submit(work)
        waiting = asyncio.wrap_future(call)
        if not is_patient:
            await asyncio.wait([waiting], timeout=TURN_SECONDS)
            if not waiting.done() and call.cancel():
                raise Refused("busy")

        return await asyncio.shield(waiting)  # what has begun is finished without the caller too

    @override
    async def check(self, progress: Callable[[int], None], *, full: bool) -> list[IntegrityFinding]:
        """Check everything; other calls wait until it is done."""
        work = partial(check_rows, progress=progress)
        return await asyncio.wrap_future(self._submit(work))

    @override
    def count_access(self, namespace: str, key: str, now: str) -> None:
        self._accesses.add(namespace, key, now)
        with suppress(Refused):
            self._submit(self._write_accesses)

    async def _write_accesses(self, transaction: Transaction) -> None:
        for namespace, accesses in self._accesses.take().items():
            await count_accesses(transaction, namespace, accesses)

    @override
    async def flush_accesses(self) -> None:
        """Do nothing: they are written before any call that comes after them."""

    @override
    async def clean(self) -> None:
        """Do nothing: nobody reads what is left in the memory of a process."""

    @override
    async def close(self) -> None:
        with suppress(RuntimeError):  # it is closed already
            self._thread.submit(self._release)
        await asyncio.to_thread(self._thread.shutdown)

    def _release(self) -> None:
        self._runner.close()
        self._connection.close()

    def _submit(self, work: Work[ResultT]) -> Future[ResultT]:
        """Let work be done in a transaction, after what was submitted before. Raises Refused."""
        try:
            call = self._thread.submit(self._run, work)
        except RuntimeError:  # it is closed
            raise Refused("unavailable") from None

        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def _run(self, work: Work[ResultT]) -> ResultT:
        """Do work in a transaction; commit it, or roll it back if the work fails."""
        try:
            with self._connection:
                self._connection.execute("BEGIN")
                return self._runner.run(work(VolatileTransaction(self._connection)))
        except sqlite3.Error as error:
            raise refuse(error) from error


class VolatileStore(SqlStore):
    """A store in the memory of this process; nothing of it is left once it is closed.

    ``max_memories`` is the most that one namespace may hold; None sets no limit. ``language`` is
    that of the recall index. ``history`` says how long earlier versions are kept.
    """

    def __init__(
        self,
        *,
        max_memories: int | None = None,
        language: str = "english",
        history: HistoryLimits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(VolatileEngine(language), StoreRules(max_memories, history))


async def main() -> list[str]:
    """Store a memory and search for it; returns the keys that are found."""
    store = VolatileStore()
    try:
        fields = {"type": "core", "content": "Aurora ships in May."}
        change = Change("store", utc_now(), key="aurora", new_id=str(uuid4()), fields=fields)
        await store.change("demo", change)

        page = await store.query("demo", Query(search=("ships", "may")))
        findings = await store.check(lambda _: None, full=True)
        assert {finding.state for finding in findings} == {"sound"}
        return [memory.row.key for memory in page.memories if not isinstance(memory, Exception)]
    finally:
        await store.close()


if __name__ == "__main__":
    print(asyncio.run(main()))
