"""The documentation's site as newcomers use it: nothing from elsewhere, answers in two clicks."""

import functools
import http.server
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from typing_extensions import override

from tests.browser.other_site import serving_pages
from tests.browser.visitor import LOOKS
from tools import site

SHOWN = 5
"""The results of a search that a reader looks at."""

QUESTIONS = {
    "install": "install.html",
    "uninstall": "operating.html",
    "claude code": "clients.html",
    "vs code": "clients.html",
    "system prompt": "teach.html",
    "langchain": "frameworks/langchain.html",
    "pydantic-ai": "frameworks/pydantic-ai.html",
    "fastapi": "fastapi.html",
    "namespace per user": "fastapi.html",
    "test an agent": "apps.html",
    "postgresql": "scale.html",
    "backup": "operating.html",
    "import sessions": "moving.html",
    "kv-memory": "moving.html",
    "export": "moving.html",
    "token scope": "serving.html",
    "docker container": "serving.html",
    "undo": "remember.html",
    "replaced fact": "remember.html",
    "confidence": "recall.html",
    "embedder": "recall.html",
    "next_request": "read.html",
    "secrets": "security.html",
    "hooks": "clients.html",
    "exit code": "troubleshooting.html",
    "pdf": "read.html",
    "obsidian": "mirror.html",
    "chatgpt": "oauth.html",
}


class _Handler(http.server.SimpleHTTPRequestHandler):
    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the tests short."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server of the site, which is built first."""
    assert site.main() == 0
    handler = functools.partial(_Handler, directory=str(site.SITE))

    with serving_pages(handler) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("look", LOOKS)
def test_pages_fit_the_screen_and_load_nothing_from_elsewhere(
    look: str, chromium: Browser, address: str
) -> None:
    window = chromium.new_context(**LOOKS[look])
    page = window.new_page()
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))

    for path in site.SITE.rglob("*.html"):
        page.goto(f"{address}/{path.relative_to(site.SITE)}", wait_until="load")
        fits = "document.documentElement.scrollWidth <= window.innerWidth"
        assert page.evaluate(fits), path.name

    assert len(requested) > 100
    assert [url for url in requested if not url.startswith((address, "data:", "blob:"))] == []
    window.close()


@pytest.mark.parametrize(("question", "answer"), QUESTIONS.items())
def test_a_question_is_answered_within_two_clicks(
    question: str, answer: str, page: Page, address: str
) -> None:
    """One opens the search, the other its result."""
    page.goto(address + "/index.html", wait_until="networkidle")
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type(question)

    results = page.locator("a[href*='?h=']")
    expect(results.first).to_be_visible()
    page.wait_for_timeout(500)
    links = [
        urljoin(page.url, result.get_attribute("href") or "") for result in results.all()[:SHOWN]
    ]
    pages = [urlsplit(link).path.removeprefix("/") for link in links]
    assert answer in pages

    results.nth(pages.index(answer)).click()
    page.wait_for_url(f"**/{answer}*")
