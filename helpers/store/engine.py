"""The interface between the shared store and a database: engines, and their transactions.

All engines have one dialect of SQL: standard SQL with ``?`` for bound values. An engine translates
the rest:

- ``= ANY (?)`` takes a list, which is bound as one value;
- ``TEXTS(?) AS t (name)`` and ``NUMBERS(?) AS t (name)`` in FROM turn a list into a table;
- ``ROWS(?) AS t (name type, ...)`` in FROM turns a JSON list of objects into a table;
- ``RAW(column)`` is a text that may be damaged, and so not valid UTF-8; see `to_name`;
- ``JSON_LIST(column)`` is a JSON array of all values;
- ``FILTER(column)`` is a column that must not be looked up in an index;
- ``octet_length``, ``greatest`` and ``least``;
- ``INDEXED BY name`` is the index for an engine without statistics;
- ``COLLATE "C"`` and ``STRICT, WITHOUT ROWID`` in a migration are for the engines that know them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from abilities.declarations.refusals import AbilitiesError
from abilities.helpers.store.model import Query, Row, is_tags
from abilities.helpers.store.protocol import IntegrityFinding, Mark

ResultT = TypeVar("ResultT")
RecordT = TypeVar("RecordT")

SEARCHED_COLUMNS = ("key", "summary", "content", "category", "tags")
"""The columns of a memory that a search covers."""

SEPARATOR = "A"
"""Separates the fields of a searchable text: a case-folded text has no capital letter."""


class Numbers(NamedTuple):
    """Numbers of memories in a namespace, for planning.

    ``size`` counts all of them, and ``visible`` all that a query may return: with ``archived`` it
    includes archived memories. ``fewest`` is an upper bound of the matches.
    """

    size: int
    visible: int
    fewest: int


class Matches(NamedTuple):
    """A condition in SQL on rows of the memory index AS s, and the values to bind.

    ``source`` is the FROM clause; if empty, the caller chooses the tables, and ``condition`` is on
    ``s`` alone.
    """

    condition: str
    values: tuple[str | int | list[str], ...]
    source: str = ""


class SearchPlan(NamedTuple):
    """The conditions to find all matches, and to meet them along an index until a page is full.

    ``are_few`` is True if it is cheaper to find and sort all of them. ``total`` is the number of
    matches if known.
    """

    found: Matches
    met: Matches
    are_few: bool = False
    total: int | None = None


def fold_searchable(row: Row) -> str:
    """Return the searchable text of a memory: its `SEARCHED_COLUMNS`, case-folded."""
    return fold_columns(row.key, row.summary, row.content, row.category, row.tags)


def fold_columns(*columns: object) -> str:
    """Return the searchable text of a memory from its `SEARCHED_COLUMNS`.

    Damage can give a column any type. A column that is not a text is left out, and so are tags that
    are not a JSON list of strings.
    """
    *fields, tags = columns
    texts = [field for field in fields if isinstance(field, str)]

    try:
        parsed: object = orjson.loads(tags)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        parsed = None
    if is_tags(parsed):
        texts += parsed

    return SEPARATOR.join(text.casefold() for text in texts)


_SAVE_WORDS = """
INSERT INTO words (namespace, id, folded) VALUES (?, ?, ?)
ON CONFLICT (namespace, id) DO UPDATE SET folded = excluded.folded
"""
_DELETE_WORDS = "DELETE FROM words WHERE namespace = ? AND id = ?"

PORTION = 1_000
"""Rows to process before other calls get a turn; this takes some milliseconds."""

Columns = Sequence[Any]

Statement = tuple[str, *tuple[object, ...]]
"""SQL and the values to bind."""


class Reached(NamedTuple):
    """The keys that a walk from ``key`` probably reaches, guessed by the engine.

    ``depth``, ``breadth`` and ``total`` are as in `WalkLimits`; ``page`` is the number of links to
    look at per memory.
    """

    namespace: str
    key: str
    depth: int
    breadth: int
    total: int
    page: int


class ForEach(NamedTuple):
    """The arguments of `Transaction.fetch_for`: a statement to run for each key.

    A `Reached` key without rows gets one row of nulls.
    """

    text: str
    keys: Sequence[str] | Reached
    values: tuple[object, ...]


class Transaction(Protocol):
    """A transaction, or a read-only snapshot. A statement sees the effects of earlier ones.

    An engine may override a default implementation with a faster one. By default, the search index
    is a table ``words`` with the searchable text of each memory.
    """

    is_remote: bool = False
    """Whether a statement is a round trip to a server, so that callers batch their statements."""

    shelf_columns: tuple[tuple[str, str], ...] = ()
    """Additional columns of this engine in the memory index, with their SQL from memories AS m."""

    search_tables: tuple[str, ...] = ("words",)
    """Tables of the search index in which each row belongs to one memory, by namespace and id."""

    searched: str = (
        "(SELECT w.folded FROM words AS w WHERE w.namespace = m.namespace AND w.id = m.id)"
    )
    """SQL of the content of the search index for memories AS m, as an argument of `is_findable`."""

    most_sorted: int = 10_000
    """Up to this number of matches, a query finds and sorts them all instead of following an index.

    Along an index in the right order, matches may be far apart.
    """

    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        """Return all rows of a statement."""
        ...

    async def fetch_each(self, *statements: Statement | ForEach) -> list[Sequence[Columns]]:
        """Return the rows of several independent statements."""
        found: list[Sequence[Columns]] = []
        for statement in statements:
            if isinstance(statement, ForEach):
                text, keys, given = statement
                names = [keys.key] if isinstance(keys, Reached) else keys
                found.append(await self.fetch_for(text, names, *given))
            else:
                text, *values = statement
                found.append(await self.fetch(text, *values))

        return found

    async def fetch_for(self, text: str, keys: Sequence[str], *values: object) -> Sequence[Columns]:
        """Return the rows of a statement for each key, with the key as an additional first column.

        The text refers to the key as ``asked.key``, for example in ``WHERE source = asked.key``.
        """
        first, *others = text.split("asked.key")
        statement = "?".join([first, *others])

        rows: list[Columns] = []
        for key in keys:
            given = iter(values)
            bound = list(islice(given, first.count("?")))
            for part in others:
                bound += [key, *islice(given, part.count("?"))]

            found = await self.fetch(statement, *bound)
            rows += [(key, *columns) for columns in found]

        return rows

    async def plan_search(self, namespace: str, query: Query, numbers: Numbers) -> SearchPlan:
        """Return a plan to find the memories that have all terms of a query's search."""
        ...

    async def run(self, text: str, *values: object) -> None:
        """Run a statement that returns nothing."""
        ...

    async def run_many(self, text: str, rows: Iterable[Columns]) -> None:
        """Run a statement for each row of values."""
        for row in rows:
            await self.run(text, *row)

    async def attempt(
        self, work: "Callable[[Transaction], Awaitable[ResultT]]"
    ) -> ResultT | Exception:
        """Do work in a savepoint; if it fails, undo it and return its exception.

        An error of the database itself is raised, and fails the whole transaction.
        """
        ...

    async def save_words(self, before: Row | None, after: Row | None) -> None:
        """Update the search index after a memory's row was written, or before it is deleted."""
        if before is not None and (after is None or before.id != after.id):
            await self.run(_DELETE_WORDS, before.namespace, before.id)
            before = None
        if after is not None and (
            before is None or fold_searchable(before) != fold_searchable(after)
        ):
            await self.renew_words(after)

    async def renew_words(self, row: Row) -> None:
        """Reindex the words of a memory, without trusting the present content of the index."""
        await self.run(_SAVE_WORDS, row.namespace, row.id, fold_searchable(row))

    def is_findable(self, row: Row, searched: object) -> bool:
        """Return whether the search index has the right content for a sound memory."""
        return searched == fold_searchable(row)

    async def pause(self) -> None:
        """Give a turn to other calls that share the thread."""
        await asyncio.sleep(0)

    async def stream(self, text: str, *values: object) -> AsyncIterator[Columns]:
        """Yield any number of rows of a statement, for checks and repairs only.

        The caller may run other statements meanwhile. This default keeps all rows in memory.
        """
        for columns in await self.fetch(text, *values):
            yield columns


async def split(
    transaction: Transaction, records: Sequence[RecordT]
) -> AsyncIterator[Sequence[RecordT]]:
    """Yield records in portions, and give other calls a turn between these."""
    for start in range(0, len(records), PORTION):
        if start > 0:
            await transaction.pause()
        yield records[start : start + PORTION]


def to_name(value: str | bytes) -> str:
    """Return the text of a ``RAW`` column; invalid UTF-8 becomes surrogates (PEP 383)."""
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")

    return value


def to_raw(text: str) -> str | bytes:
    """Return the value to bind for ``CAST(? AS text)``: bytes for a damaged text of `to_name`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")

    return text


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
