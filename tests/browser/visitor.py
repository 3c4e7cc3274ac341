"""A person at the explorer, who goes to views and records what no page may do."""

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
    "memories?question=Who%20decides%20what%20counts%3F",
    "memory/project%2Fgoals",
    "changes",
    "graph",
    "graph/project%2Fgoals",
    "notes",
    "files",
    "try/store_memory",
]

TYPING_PAUSE_MS = 350
"""Longer than the page waits for a pause in typing before it sends a request."""


class Visitor:
    """Wraps a page.

    ``violations`` lists errors, refused loads, requests to other hosts, dialogs and scripts that
    ran. Console messages that contain one of the ``expected`` texts are none. Dialogs whose types
    are in ``expected_dialogs`` are accepted once each.
    """

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.violations: list[str] = []
        self.expected: list[str] = []
        self.expected_dialogs: list[str] = []

        page.add_init_script(
            "window.hacked = () => { document.title = 'HACKED'; console.error('HACKED'); }"
        )
        page.on("console", self._check_message)
        page.on("pageerror", lambda error: self.violations.append(f"error: {error}"))
        page.on("request", self._check_request)
        page.on("dialog", self._answer_dialog)

    def go(self, address: str) -> None:
        """Go to a view, and wait until everything on it has loaded."""
        self.page.goto(f"{self.address}/#/{address}")
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is loading any more."""
        self.page.wait_for_timeout(TYPING_PAUSE_MS)
        self.page.wait_for_load_state("networkidle")
        expect(self.page.get_by_text("Loading …")).to_have_count(0)

    def open(self, view: str, key: str) -> None:
        """Go to the view of one memory."""
        self.go(f"{view}/{quote(key, safe='')}")

    def read_texts(self, selector: str) -> list[str]:
        """Return the visible texts of all elements that match, each on one line."""
        texts = self.page.locator(selector).all_inner_texts()
        return [" ".join(text.split()) for text in texts]

    def button(self, name: str) -> Locator:
        """Return a button by its name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def field(self, label: str) -> Locator:
        """Return a control by the beginning of its label."""
        return self.page.get_by_label(re.compile(rf"^{re.escape(label)}"))

    def _check_message(self, message: ConsoleMessage) -> None:
        is_expected = any(text in message.text for text in self.expected)

        if message.type in ("error", "warning") and not is_expected:
            self.violations.append(f"console: {message.text}")

    def _check_request(self, request: Request) -> None:
        is_own = urlsplit(request.url).netloc == urlsplit(self.address).netloc

        if not is_own and not request.url.startswith("data:"):
            self.violations.append(f"request to another host: {request.url}")

    def _answer_dialog(self, dialog: Dialog) -> None:
        if dialog.type in self.expected_dialogs:
            self.expected_dialogs.remove(dialog.type)
            dialog.accept()
            return

        self.violations.append(f"dialog: {dialog.message}")
        dialog.dismiss()
