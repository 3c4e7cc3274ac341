"""A person at the explorer, whose browser records what no page may do, and an agent beside it."""

import re
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httpx
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page, Request, expect

from abilities.declarations.values import JsonObject

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "dark",
        "is_mobile": True,
        "has_touch": True,
    },
}
RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]

TYPING_PAUSE_MS = 350
"""Longer than the page waits for a pause in typing before it sends a request."""

STEP_MS = 50
IDLE_MS = 200
"""How long no request may be on its way until a page counts as loaded."""


class Agent:
    """An agent that uses the same server over HTTP; each of its calls must succeed."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, name: str, **arguments: Any) -> JsonObject:
        """Call an ability and return its answer."""
        url = f"{self._address}/api/abilities/{name}"
        response = httpx.post(url, json=arguments, headers=self._headers)
        assert response.status_code == 200, response.text
        answer: JsonObject = response.json()
        return answer

    def store(self, *memories: JsonObject) -> None:
        """Store memories."""
        for start in range(0, len(memories), 50):
            operations = [{"op": "store", **memory} for memory in memories[start : start + 50]]
            assert self.call("remember", operations=operations)["summary"]["failed"] == 0

    def get(self, key: str) -> JsonObject:
        """Return a memory with its version and links."""
        data: JsonObject = self.call("memory_get", key=key, detail="full")["data"]
        return data

    def find(self, key: str) -> JsonObject:
        """Return a memory with its counters, which this does not change; {} if there is none."""
        page = self.call("query_memories", archived=True, limit=100, detail="full")
        return next((memory for memory in page["memories"] if memory["key"] == key), {})

    def change(self, memory: str, **values: Any) -> None:
        """Change the memory with a key."""
        self.call("update_memory", id=self.get(memory)["id"], **values)

    def list_actions(self, key: str) -> list[tuple[str, str]]:
        """Return what was done to a memory, newest first, and by whom."""
        entries = self.call("memory_history", key=key)["entries"]
        return [(entry["action"], entry["by"]) for entry in entries]


class Visitor:
    """Wraps a page.

    ``violations`` lists errors, refused loads, requests to other hosts, dialogs and scripts that
    ran. Console messages that contain one of the ``expected`` texts are none. Dialogs whose types
    are in ``expected_dialogs`` are accepted once each.
    """

    def __init__(self, page: Page, address: str, token: str | None = None) -> None:
        self.page = page
        self.address = address
        self.agent = Agent(address, token)
        self.violations: list[str] = []
        self.expected: list[str] = []
        self.expected_dialogs: list[str] = []
        self._pending = set[Request]()

        page.add_init_script(
            "window.hacked = () => { document.title = 'HACKED'; console.error('HACKED'); }"
        )
        page.on("console", self._check_message)
        page.on("pageerror", lambda error: self.violations.append(f"error: {error}"))
        page.on("request", self._check_request)
        page.on("requestfinished", lambda request: self._pending.discard(request))
        page.on("requestfailed", lambda request: self._pending.discard(request))
        page.on("dialog", self._answer_dialog)

    def go(self, address: str) -> None:
        """Go to a view, and wait until everything on it has loaded."""
        self.page.goto(f"{self.address}/#/{address}")
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is loading any more, apart from the stream of events."""
        idle_ms = -TYPING_PAUSE_MS
        while idle_ms < IDLE_MS:
            self.page.wait_for_timeout(STEP_MS)
            idle_ms = 0 if self._pending else idle_ms + STEP_MS

        expect(self.page.get_by_text("Loading …")).to_have_count(0)

    def open(self, view: str, key: str) -> None:
        """Go to the view of one memory."""
        self.go(f"{view}/{quote(key, safe='')}")

    def edit(self, key: str) -> None:
        """Open the form of a memory."""
        self.open("memory", key)
        self.button("Edit").click()

    def enter(self, token: str) -> None:
        """Enter a token."""
        self.field("Token").fill(token)
        self.press("Enter")

    def read_texts(self, selector: str) -> list[str]:
        """Return the visible texts of all elements that match, each on one line."""
        texts = self.page.locator(selector).all_inner_texts()
        return [" ".join(text.split()) for text in texts]

    def list_labels(self, selector: str) -> list[str]:
        """Return the names of all elements that match, for those who do not see them."""
        elements = self.page.locator(selector).all()
        return [element.get_attribute("aria-label") or "" for element in elements]

    def button(self, name: str) -> Locator:
        """Return a button by its name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def press(self, name: str) -> None:
        """Press a button, and wait for what it does."""
        self.button(name).click()
        self.settle()

    def follow(self, link: Locator) -> None:
        """Follow a link, and wait for where it leads."""
        link.click()
        self.settle()

    @property
    def dialog(self) -> Locator:
        """The open dialog."""
        return self.page.get_by_role("dialog")

    def confirm(self, name: str) -> None:
        """Press a button, and the one of the same name in the dialog that asks."""
        self.button(name).click()
        self.follow(self.dialog.get_by_role("button", name=name))

    @property
    def content(self) -> Locator:
        """The field of the content in the editor."""
        return self.page.get_by_role("textbox", name="Content")

    def field(self, label: str) -> Locator:
        """Return a control by the beginning of its label."""
        return self.page.get_by_label(re.compile(rf"^{re.escape(label)}"))

    def expect_usable(self) -> None:
        """Check that everybody can use the page: by its structure and colors, and on its screen."""
        result = Axe().run(self.page, options={"runOnly": RULES}).response
        problems = [
            (rule["id"], [node["html"][:200] for node in rule["nodes"]])
            for rule in result["violations"]
        ]
        assert problems == [], self.page.url
        assert result["passes"]
        fits = self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert fits, f"{self.page.url} is too wide"

    def _check_message(self, message: ConsoleMessage) -> None:
        is_expected = any(text in message.text for text in self.expected)

        if message.type in ("error", "warning") and not is_expected:
            self.violations.append(f"console: {message.text}")

    def _check_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        is_own = url.netloc == urlsplit(self.address).netloc
        if url.path != "/api/explorer/events":
            self._pending.add(request)

        if not is_own and not request.url.startswith("data:"):
            self.violations.append(f"request to another host: {request.url}")

    def _answer_dialog(self, dialog: Dialog) -> None:
        if dialog.type in self.expected_dialogs:
            self.expected_dialogs.remove(dialog.type)
            dialog.accept()
            return

        self.violations.append(f"dialog: {dialog.message}")
        dialog.dismiss()


def list_suggestions(field: Locator) -> list[str]:
    """Return what a field suggests."""
    options: list[str] = field.evaluate(
        "input => [...input.list.options].map(({ value }) => value)"
    )
    return options


class TokenVisit(NamedTuple):
    """A visitor of a server that requires tokens, and one for each scope; the agent may write."""

    visitor: Visitor
    read_token: str
    write_token: str
