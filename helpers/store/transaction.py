"""A transaction as the algorithms of a store see it: the same text of SQL on every engine.

Texts are standard SQL with ``?`` for values that are bound. An engine translates the rest:

- ``= ANY (?)`` takes a list, which is bound as one value;
- ``TEXTS(?) AS t (name)`` and ``NUMBERS(?) AS t (name)`` in FROM are a list as a table;
- ``ROWS(?) AS t (name type, ...)`` in FROM are the objects of a list in JSON as a table;
- ``RAW(column)`` is a text that damage may have made something else than UTF-8, see `to_name`;
- ``JSON_LIST(column)`` is the JSON array of all values;
- ``FILTER(column)`` is a column for which no index is to be taken;
- ``octet_length``, ``greatest`` and ``least``;
- ``INDEXED BY name`` names the index that an engine without statistics is to take.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

from abilities.helpers.store.model import Row
from abilities.helpers.store.query import Numbers, Query, SearchPlan, fold_searchable

ResultT = TypeVar("ResultT")
RecordT = TypeVar("RecordT")

_PORTION = 500
"""Names that one statement is given at most."""

_SAVE_WORDS = """
INSERT INTO words (namespace, id, folded) VALUES (?, ?, ?)
ON CONFLICT (namespace, id) DO UPDATE SET folded = excluded.folded
"""
_DELETE_WORDS = "DELETE FROM words WHERE namespace = ? AND id = ?"

PORTION = 1_000
"""Rows that are dealt with before other calls have their turn; it takes some milliseconds."""

Columns = Sequence[Any]

Statement = tuple[str, *tuple[object, ...]]
"""A text and the values that it is given."""


class Reached(NamedTuple):
    """In the place of keys: those that an engine guesses a walk from ``key`` to reach.

    The arguments are those of `WalkLimits`, and how many links of a memory are looked at.
    """

    namespace: str
    key: str
    depth: int
    breadth: int
    total: int
    page: int


class ForEach(NamedTuple):
    """A statement for each of some keys, as `Transaction.fetch_for` takes it.

    A key that was `Reached` and has no rows has one of nulls.
    """

    text: str
    keys: Sequence[str] | Reached
    values: tuple[object, ...]


class Transaction(Protocol):
    """A transaction, or a snapshot that is only read. A statement sees those before it.

    Where a method is written out, an engine may do better, and need not. The search index is then a
    table ``words`` of the searchable text of each memory.
    """

    is_remote: bool = False
    """Whether waiting for rows is a trip to a server, so that rows are fetched together."""

    shelf_columns: tuple[tuple[str, str], ...] = ()
    """Columns that only this engine has in the memory index, and their SQL from memories AS m."""

    search_tables: tuple[str, ...] = ("words",)
    """Tables of the search index whose rows belong to one memory each, by namespace and id."""

    searched: str = (
        "(SELECT w.folded FROM words AS w WHERE w.namespace = m.namespace AND w.id = m.id)"
    )
    """The SQL of what the search index has of memories AS m, as `is_findable` takes it."""

    most_sorted: int = 10_000
    """Matches of a query that are rather all found and sorted than met along an index.

    With statistics, an engine may take an index along which few match.
    """

    async def fetch(self, text: str, *values: object) -> Sequence[Columns]:
        """Return all rows of a statement."""
        ...

    async def fetch_each(self, *statements: Statement | ForEach) -> list[Sequence[Columns]]:
        """Return the rows of several statements, which do not wait for one another."""
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
        """Return the rows of a statement for each of some keys, each behind its key.

        The key is ``asked.key`` in the text, and stands before the columns of each row.
        """
        rows: list[Columns] = []
        for key in keys:
            found = await self.fetch(*_ask_for(key, text, values))
            rows += [(key, *columns) for columns in found]

        return rows

    async def plan_search(self, namespace: str, query: Query, numbers: Numbers) -> SearchPlan:
        """Return how the memories that have all terms of a query's search are found."""
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
        """Let the search index follow a change of a memory, whose row is written or still there."""
        if before is not None and (after is None or before.id != after.id):
            await self.run(_DELETE_WORDS, before.namespace, before.id)
            before = None
        if after is not None and (
            before is None or fold_searchable(before) != fold_searchable(after)
        ):
            await self.renew_words(after)

    async def renew_words(self, row: Row) -> None:
        """Index the words of a memory, whatever the search index has of it."""
        await self.run(_SAVE_WORDS, row.namespace, row.id, fold_searchable(row))

    def is_findable(self, row: Row, searched: object) -> bool:
        """Return whether the search index has of a sound memory what it must have."""
        return searched == fold_searchable(row)

    async def pause(self) -> None:
        """Let other calls have their turn, if they share the thread."""
        await asyncio.sleep(0)

    async def stream(self, text: str, *values: object) -> AsyncIterator[Columns]:
        """Yield the rows of a statement, however many; for checks and repairs alone.

        Other statements are run in the meantime. As it is written out here, all rows are in memory.
        """
        for columns in await self.fetch(text, *values):
            yield columns


def _ask_for(key: str, text: str, values: Sequence[object]) -> Statement:
    """Return a statement with ``asked.key`` for one key."""
    first, *others = text.split("asked.key")
    given = iter(values)

    bound = list(islice(given, first.count("?")))
    for part in others:
        bound += [key, *islice(given, part.count("?"))]

    return "?".join([first, *others]), *bound


async def split(
    transaction: Transaction, records: Sequence[RecordT]
) -> AsyncIterator[Sequence[RecordT]]:
    """Yield records in portions, and let other calls have their turn between these."""
    for start in range(0, len(records), PORTION):
        if start > 0:
            await transaction.pause()
        yield records[start : start + PORTION]


def to_name(value: str | bytes) -> str:
    """Return a text that was selected as ``RAW``; bytes that are not UTF-8 become surrogates."""
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")

    return value


def to_raw(text: str) -> str | bytes:
    """Return a text as ``CAST(? AS text)`` takes it, whatever damage has made of it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")

    return text
