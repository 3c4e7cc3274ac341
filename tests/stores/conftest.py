"""A PostgreSQL database for the tests of stores."""

from collections.abc import Iterator

import pytest

from tests.support import postgres


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """An empty database."""
    with postgres.database(server) as url:
        yield url
