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


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StorePlace:
    """A place for a store of each engine."""
    if request.param == "sqlite":
        return FilePlace(tmp_path / "m.db")

    return DatabasePlace(request.getfixturevalue("url"), tmp_path)
