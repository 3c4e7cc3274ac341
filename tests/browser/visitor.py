"""A person at the explorer: goes to views, and notes what no page may do."""

import re
from urllib.parse import quote, urlsplit

from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page, Request, expect

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
VIEWS = [
    "memories",
    "memory/project%2Fgoals",
    "graph",
    "graph/project%2Fgoals",
    "notes",
    "files",
    "try/store_memory",
]


class Visitor:
    """Wraps a page; ``wrongs`` has errors, refused loads, requests to other hosts, dialogs, scripts that ran."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.wrongs: list[str] = []
        self.expected: list[str] = []
        page.add_init_script(
            "window.hacked = () => { document.title = 'HACKED'; console.error('HACKED'); }"
        )
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrongs.append(f"error: {error}"))
        page.on("request", self._asked)
        page.on("dialog", self._asked_back)

    def go(self, place: str) -> None:
        """Go to a view, and wait until it has its heading and what it asked for."""
        self.page.goto(f"{self.address}/#/{place}")
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is read any more."""
        self.page.wait_for_timeout(350)  # typing rests before it is acted on
        self.page.wait_for_load_state("networkidle")
        expect(self.page.get_by_text("Reading …")).to_have_count(0)

    def open(self, name: str, key: str) -> None:
        """Go to a memory's or graph's view."""
        self.go(f"{name}/{quote(key, safe='')}")

    def texts(self, selector: str) -> list[str]:
        """The texts of all that match, as they are seen."""
        return [" ".join(text.split()) for text in self.page.locator(selector).all_inner_texts()]

    def button(self, name: str) -> Locator:
        """A button by its name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def field(self, name: str) -> Locator:
        """A control by its label."""
        return self.page.get_by_label(re.compile(rf"^{re.escape(name)}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(
            words in message.text for words in self.expected
        ):
            self.wrongs.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(
            self.address
        ).netloc and not request.url.startswith("data:"):
            self.wrongs.append(f"request to another host: {request.url}")

    def _asked_back(self, dialog: Dialog) -> None:
        self.wrongs.append(f"dialog: {dialog.message}")
        dialog.dismiss()
