"""Where a store of each engine lies, so that one test is about both.

A test that takes the fixture `place` runs on each engine; one of a single engine, or whose SQL
differs, chooses with `list_cases`.
"""

import asyncio
import json
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from click.testing import Result
from typing_extensions import override

from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import Change
from abilities.helpers.store.opening import open_store, repair_store
from abilities.helpers.store.postgres.store import PostgresStore
from abilities.helpers.store.protocol import ServableStore
from abilities.helpers.store.repairing import RepairReport
from abilities.helpers.store.sqlite.store import SqliteStore
from tests.stores.behaviours.steps import TIME, link_to, plan, put_many
from tests.support.surfaces import run

ENGINES = ("sqlite", "postgres")


class StorePlace(ABC):
    """A place for one store, empty at first, and a folder for other files."""

    engine: ClassVar[str]

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncGenerator[ServableStore]:
        """Open the store; any number of stores may be open at once."""
        store = open_store(self.url, **options)
        try:
            yield store
        finally:
            await store.close()

    def tamper(self, *statements: str) -> None:
        """Change the store behind its back; each statement changes one row or more."""
        with self.connect() as connection:
            for statement in statements:
                assert connection.execute(statement).rowcount > 0, statement

    def fetch(self, statement: str) -> list[Any]:
        """Return the rows of a statement, whatever the store says of them."""
        with self.connect() as connection:
            rows: list[Any] = connection.execute(statement).fetchall()
            return rows

    def run(self, *arguments: str | Path, stdin: bytes | None = None) -> Result:
        variables = {"ABILITIES_STORE_URL": self.url, "ABILITIES_WORKSPACE_DIR": str(self.folder)}
        return run(None, *map(str, arguments), stdin=stdin, **variables)

    def fill(self, count: int, *, now: str = TIME, **fields: Any) -> None:
        """Store memories k0000, k0001, ..., each with a tag and a link to the next one."""
        changes: list[Change] = []
        for number in range(count):
            key, link = f"k{number:04}", link_to(f"k{number + 1:04}")
            given = {"type": "core", "content": f"content of {key}", "tags": ["t"], **fields}
            changes.append(plan("store", key, now=now, fields=given, links=link))

        async def store_all() -> None:
            async with self.open() as store:
                await put_many(store, changes)

        asyncio.run(store_all())

    def export(self, *options: str) -> bytes:
        """Return the lines of an export; without options it leaves out the history."""
        done = self.run("export", *(options or ["--no-history"]))
        assert done.exit_code == 0, done.output
        return done.stdout_bytes

    def read_memories(self) -> dict[str, dict[str, Any]]:
        memories = map(json.loads, self.export().splitlines()[1:])
        return {memory["key"]: memory for memory in memories}

    async def repair(self, *, dry_run: bool = False) -> RepairReport:
        """Mend the store; what was damaged is kept in `originals`."""
        return await repair_store(self.url, self.originals, lambda _: None, dry_run=dry_run)

    @property
    def originals(self) -> Path:
        return self.folder / "originals.jsonl"

    @abstractmethod
    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Connect to the database itself; each statement is committed at once."""


class FilePlace(StorePlace):
    """A file for a store."""

    engine = "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__(f"sqlite:///{path}", path.parent)
        self.path = path

    @override
    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncGenerator[SqliteStore]:
        async with super().open(**options) as store:
            assert isinstance(store, SqliteStore)
            yield store

    def beside(self, name: str) -> "FilePlace":
        return FilePlace(self.folder / name)

    def copy(self, other: "FilePlace") -> None:
        """Make this store of the files of another one."""
        for suffix in ("", "-lock"):
            shutil.copy(f"{other.path}{suffix}", f"{self.path}{suffix}")

    def check_whole(self) -> None:
        """Check that no transaction is torn, whatever the store's own check says.

        Every memory has its narrow row, one tag and its words, and the counters agree.
        """
        counters = "SELECT ifnull(sum(number), 0) FROM counters WHERE name = 'all'"
        with self.connect() as connection:
            execute = connection.execute
            execute("INSERT INTO search (search) VALUES ('integrity-check')")
            assert execute("PRAGMA integrity_check").fetchone() == ("ok",)

            memories = execute("SELECT rowid, id FROM memories ORDER BY rowid").fetchall()
            assert memories == execute("SELECT memory, id FROM shelf ORDER BY memory").fetchall()
            tags = execute("SELECT count(*) FROM tags").fetchone()
            assert tags == execute("SELECT count(*) FROM shelf").fetchone()
            assert execute(counters).fetchone() == (len(memories),)

    @override
    @contextmanager
    def connect(self) -> Iterator[Any]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            yield connection


class DatabasePlace(StorePlace):
    """A database for a store."""

    engine = "postgres"

    @override
    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncGenerator[PostgresStore]:
        async with super().open(**options) as store:
            assert isinstance(store, PostgresStore)
            yield store

    @override
    @contextmanager
    def connect(self) -> Iterator[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET search_path = abilities_data")
            yield connection


async def find_reason(work: Awaitable[object]) -> str:
    try:
        await work
    except Refused as error:
        return error.reason
    return "done"


async def find_damage(store: ServableStore) -> list[str]:
    findings = await store.check(lambda _: None, full=True)
    return [finding.name for finding in findings if finding.state == "damaged"]


def list_cases(
    both: Iterable[Any] = (),
    *,
    sqlite: Iterable[Any] = (),
    postgres: Iterable[Any] = (),
    sampled: int | None = None,
) -> list[Any]:
    """Return pairs of an engine and a value: of both, and what only one engine has.

    They are the parameters of ``place``, which is indirect, and of a value. The quick tier may try
    a sample of those of PostgreSQL: what an engine finds and mends is decided by the same code.
    """
    common = list(both)
    marks = {"sqlite": (), "postgres": () if sampled is None else pytest.mark.sampled(sampled)}
    return [
        pytest.param(engine, value, id=f"{engine}-{value}", marks=marks[engine])
        for engine, own in zip(ENGINES, (sqlite, postgres), strict=True)
        for value in (*common, *own)
    ]
