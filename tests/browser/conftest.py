"""A real Chromium, looking at a real server over a store of its own."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from abilities import Settings
from tests.browser.sample_memories import fill
from tests.browser.visitor import FLAGS, Visitor
from tests.support.serving import Server, serving


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = os.environ.get("ABILITIES_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def house(tmp_path: Path) -> Settings:
    """A store, notes and files to look at."""
    return fill(tmp_path)


@pytest.fixture
def server(house: Settings, tmp_path: Path) -> Iterator[Server]:
    with serving(house, tmp_path) as server:
        yield server
        server.stop()


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """A window of its own, with nothing kept from before."""
    window = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield window
    window.close()


@pytest.fixture
def page(window: BrowserContext) -> Page:
    return window.new_page()


@pytest.fixture
def visitor(page: Page, server: Server) -> Iterator[Visitor]:
    """Somebody at the explorer, whose browser notes everything that must not happen."""
    visitor = Visitor(page, server.address)
    yield visitor
    assert visitor.wrongs == []
