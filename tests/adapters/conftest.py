"""Fixtures for the tests of adapters, which know nothing of those of the other tests."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from abilities import Settings
from tests.adapters.parity import fill, make_settings, make_tenants
from tools.adapters import WITHOUT_TELEMETRY

os.environ.update(WITHOUT_TELEMETRY)  # the frameworks are imported after this


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep each test from the settings and files of whoever runs it."""
    monkeypatch.setenv("HOME", str(tmp_path))

    for name in list(os.environ):
        if name.startswith("ABILITIES_"):
            monkeypatch.delenv(name)


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    await fill(tmp_path / "sample")
    return make_settings(tmp_path / "sample")


@pytest.fixture
def tenants(tmp_path: Path) -> Settings:
    return make_tenants(tmp_path / "tenants", "default", "ada", "42")


@pytest.fixture
def default_loop() -> Iterator[None]:
    """An event loop for code that has none; frameworks would make one, and never close it."""
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        yield
        asyncio.set_event_loop(None)
