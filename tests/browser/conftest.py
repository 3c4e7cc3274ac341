"""A real Chromium that looks at a real server over a store of its own."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from abilities import Settings
from tests.browser.sample_memories import create_samples
from tests.browser.visitor import FLAGS, Visitor
from tests.support.serving import Server, serving


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("ABILITIES_CHROMIUM") or shutil.which("chromium")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Memories, notes and files to look at."""
    return create_samples(tmp_path)


@pytest.fixture
def server(settings: Settings, tmp_path: Path) -> Iterator[Server]:
    with serving(settings, tmp_path) as server:
        yield server
        server.stop()


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """A window of its own, without anything from earlier tests."""
    window = chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield window
    window.close()


@pytest.fixture
def page(window: BrowserContext) -> Page:
    return window.new_page()


@pytest.fixture
def visitor(page: Page, server: Server) -> Iterator[Visitor]:
    """A person at the explorer, whose browser records everything that must not happen."""
    visitor = Visitor(page, server.address)
    yield visitor
    assert visitor.violations == []
