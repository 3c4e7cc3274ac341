"""A real Chromium that looks at real servers over stores with samples."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from abilities import Settings
from abilities.helpers.tokens import TokenFile
from tests.browser.other_site import Site, serving_site
from tests.browser.sample_memories import create_samples
from tests.browser.visitor import FLAGS, LOOKS, TokenVisit, Visitor
from tests.support.serving import Server, serving

expect.set_options(timeout=30_000)  # only a test that fails waits as long


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


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("samples")
    with serving(create_samples(folder), folder) as server:
        yield server
        server.stop()


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """A window of its own, without anything from earlier tests."""
    window = chromium.new_context(**LOOKS["light"])
    yield window
    window.close()


@pytest.fixture
def page(window: BrowserContext) -> Page:
    return window.new_page()


@pytest.fixture
def visitor(page: Page, server: Server) -> Iterator[Visitor]:
    """A person at the explorer of a server of its own."""
    visitor = Visitor(page, server.address)
    yield visitor
    assert visitor.violations == []


@pytest.fixture
def reader(page: Page, shared_server: Server) -> Iterator[Visitor]:
    """A person who changes nothing, and whose agent reads no single memory: that is counted."""
    reader = Visitor(page, shared_server.address)
    yield reader
    assert reader.violations == []


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def somebody(look: str, chromium: Browser, server: Server) -> Iterator[Visitor]:
    """A person with any kind of screen."""
    window = chromium.new_context(**LOOKS[look])
    somebody = Visitor(window.new_page(), server.address)
    yield somebody
    assert somebody.violations == []
    window.close()


@pytest.fixture(params=["localhost", "127.0.0.1"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Another site, and another port of the server's own."""
    with serving_site(request.param) as site:
        yield site


@pytest.fixture
def token_visit(settings: Settings, tmp_path: Path, page: Page) -> Iterator[TokenVisit]:
    update = {"tokens_file": tmp_path / "tokens.json", "shared_files": True}
    settings = settings.model_copy(update=update)
    tokens = TokenFile(settings.tokens_file)
    read_token = tokens.add("default", "read")[1]
    write_token = tokens.add("default", "write", label="helper bot")[1]

    with serving(settings, tmp_path) as server:
        visitor = Visitor(page, server.address, write_token)
        visitor.expected = ["401 (Unauthorized)"]
        yield TokenVisit(visitor, read_token, write_token)
        assert visitor.violations == []
