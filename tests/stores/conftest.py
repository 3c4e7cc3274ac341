"""Places for the stores that are tested."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import postgres
from tests.support.places import ENGINES, DatabasePlace, FilePlace, StorePlace

EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid != pg_backend_pid();
DROP SCHEMA IF EXISTS abilities, abilities_data CASCADE;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$
"""


@pytest.fixture(scope="session")
def _database(server: str) -> Iterator[str]:
    with postgres.database(server) as url:
        yield url


@pytest.fixture
def url(_database: str) -> Iterator[str]:
    """An empty database; making one anew for each test would take longer than most tests do."""
    yield _database
    with psycopg.connect(_database, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(EMPTY)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder that is not that of the store."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture
def file_place(tmp_path: Path) -> FilePlace:
    """A place for a store that is a file."""
    return FilePlace(tmp_path / "m.db")


@pytest.fixture
def database_place(url: str, tmp_path: Path) -> DatabasePlace:
    """A place for a store in an empty database."""
    return DatabasePlace(url, tmp_path)


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest) -> StorePlace:
    """A place for a store of each engine."""
    name = "file_place" if request.param == "sqlite" else "database_place"
    chosen: StorePlace = request.getfixturevalue(name)
    return chosen
