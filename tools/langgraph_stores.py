"""A pytest plugin that puts our store in the place of LangGraph's; see `tools.langgraph_tests`."""

import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Self
from uuid import uuid4

import langgraph.store.memory
import psycopg
from langgraph.store.base import TTLConfig

from abilities import Settings
from abilities.adapters.functions import Host
from abilities.adapters.langgraph_store import AbilitiesStore

HOST = Host(Settings(store_url=os.environ["STORE_URL"]), "langgraph")
ABILITIES = HOST.run_sync(HOST.get_view())
HOST.run_sync(ABILITIES.check_ready())  # connects with what is replaced below


class Replacement(AbilitiesStore):
    """Our store, in a namespace of its own, with what their tests call to prepare a database."""

    MIGRATIONS = ()

    def __init__(self, *, index: object = None, ttl: TTLConfig | None = None, **_: object) -> None:
        super().__init__(ABILITIES, namespace=uuid4().hex, ttl=ttl)
        self.index = index

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, **options: Any) -> Iterator[Self]:
        """Open a store."""
        yield cls(**options)

    def setup(self) -> None:
        """Do nothing: the store prepares itself."""

    def start_ttl_sweeper(self, interval: int | None = None) -> None:
        """Do nothing: what has expired is never returned."""

    stop_ttl_sweeper = start_ttl_sweeper

    def sweep_ttl(self) -> int:
        """Do nothing, for the same reason."""
        return 0

    def _cursor(self) -> "NoConnection":
        return NoConnection()


class AsyncReplacement(Replacement):
    """The same for the tests of asynchronous stores."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _: str, **options: Any) -> AsyncIterator[Self]:  # type: ignore[override]
        """Open a store."""
        yield cls(**options)

    async def setup(self) -> None:  # type: ignore[override]
        """Do nothing: the store prepares itself."""

    async def start_ttl_sweeper(self, interval: int | None = None) -> None:  # type: ignore[override]
        """Do nothing: what has expired is never returned."""

    stop_ttl_sweeper = start_ttl_sweeper  # type: ignore[assignment]

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """Do nothing, for the same reason."""
        return 0


class NoConnection:
    """Stands for the connections on which their tests create and delete databases."""

    def __class_getitem__(cls, _: object) -> type[Self]:
        return cls

    @classmethod
    def connect(cls, *_: object, **__: object) -> Self:
        """Return a connection that does nothing."""
        return cls()

    def execute(self, *_: object) -> "NoConnection":
        """Do nothing."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __await__(self) -> Generator[None, None, Self]:
        yield from ()
        return self


def replace_module(name: str, **names: object) -> None:
    """Put a module with these names in the place of another, which need not be installed."""
    module = ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module


NOT_OURS = SimpleNamespace()

langgraph.store.memory.InMemoryStore = Replacement  # type: ignore[misc,assignment]
replace_module("langgraph.store.sqlite", SqliteStore=Replacement, AsyncSqliteStore=AsyncReplacement)
replace_module(
    "langgraph.store.sqlite.base",
    BaseSqliteStore=NOT_OURS,
    SqliteIndexConfig=dict,
    NS_MATCH_FUNCTION="",
    _escape_glob_literal=NOT_OURS,
    _namespace_match_pattern=NOT_OURS,
)
replace_module("langgraph.store.sqlite.aio", AsyncSqliteStore=AsyncReplacement)
replace_module("langgraph.store.postgres", PostgresStore=Replacement)
replace_module(
    "langgraph.store.postgres.base",
    _escape_like_literal=NOT_OURS,
    _namespace_match_pattern=NOT_OURS,
)
replace_module("pytest_mock", MockerFixture=object)
psycopg.Connection = NoConnection  # type: ignore[misc,assignment]
psycopg.AsyncConnection = NoConnection  # type: ignore[misc,assignment]
