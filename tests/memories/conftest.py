"""An application over an empty store, and calls of it."""

from collections.abc import AsyncIterator

import pytest

from abilities import Abilities, Settings
from tests.memories.calls import calls_of
from tests.support.surfaces import Call


@pytest.fixture
async def app(roots: Settings) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as app:
        yield app


@pytest.fixture
def call(app: Abilities) -> Call:
    return calls_of(app)
