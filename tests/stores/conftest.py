"""Places for the stores that are tested."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgres
from tests.support.places import ENGINES, DatabasePlace, FilePlace, StorePlace


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """An empty database."""
    with postgres.database(server) as url:
        yield url


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
