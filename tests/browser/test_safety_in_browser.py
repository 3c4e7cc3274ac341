"""What the explorer keeps from others: tokens, hostile contents, other hosts; and whom it leaves out: nobody."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from abilities import Settings
from abilities.helpers.tokens import TokenFile
from tests.browser.sample_memories import SCRIPTS, attack, finished
from tests.browser.visitor import VIEWS, Visitor
from tests.support.serving import serving

RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
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


@pytest.fixture
def guarded(
    house: Settings, tmp_path: Path, page: Page
) -> Iterator[tuple[Visitor, dict[str, str]]]:
    """A visitor of a server with tokens, which asks everybody for one."""
    house = house.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    tokens = {
        scope: TokenFile(house.tokens_file).add("default", scope)[1] for scope in ("read", "write")
    }
    with serving(house, tmp_path) as server:
        visitor = Visitor(page, server.address)
        visitor.expected = ["401 (Unauthorized)"]
        yield visitor, tokens
        assert visitor.wrongs == []


def enter(visitor: Visitor, token: str) -> None:
    visitor.field("Token").fill(token)
    visitor.button("Enter").click()
    visitor.page.wait_for_load_state("networkidle")


def test_with_tokens_the_page_asks_for_one_and_keeps_it_in_the_tab(
    guarded: tuple[Visitor, dict[str, str]], window: BrowserContext
) -> None:
    visitor, tokens = guarded
    visitor.page.goto(f"{visitor.address}/#/memory/people%2FAda")
    expect(visitor.page.get_by_role("heading", name="A token, please")).to_be_visible()
    enter(visitor, "abl_nonsense")
    assert "A valid token is needed" in visitor.texts(".fault")[0]
    enter(visitor, tokens["write"])
    expect(visitor.page.locator("h1")).to_have_text("people/Ada")
    visitor.page.reload()
    expect(visitor.page.locator("h1")).to_have_text("people/Ada")
    assert window.cookies() == []
    assert visitor.page.evaluate("localStorage.length") == 0
    assert visitor.page.evaluate("sessionStorage.length") == 1
    assert tokens["write"] not in visitor.page.url and tokens["write"] not in visitor.page.content()
    other = window.new_page()
    other.goto(visitor.address)
    expect(other.get_by_role("heading", name="A token, please")).to_be_visible()
    visitor.button("Forget token").click()
    expect(visitor.page.get_by_role("heading", name="A token, please")).to_be_visible()
    assert visitor.page.evaluate("sessionStorage.length") == 0


def test_who_may_only_read_is_offered_no_writing(guarded: tuple[Visitor, dict[str, str]]) -> None:
    visitor, tokens = guarded
    visitor.page.goto(visitor.address)
    enter(visitor, tokens["read"])
    visitor.settle()
    assert "read only" in visitor.texts(".who")[0]
    expect(visitor.button("New memory")).to_have_count(0)
    visitor.open("memory", "people/Ada")
    for name in ("Edit", "Archive", "Delete for good"):
        expect(visitor.button(name)).to_have_count(0)
    visitor.go("try")
    assert not {"store_memory", "update_memory", "delete_memory"} & set(
        visitor.texts(".try nav code")
    )


def test_the_api_page_loads_from_here_and_sends_the_tabs_token(
    guarded: tuple[Visitor, dict[str, str]],
) -> None:
    visitor, tokens = guarded
    visitor.page.goto(visitor.address)
    enter(visitor, tokens["read"])
    visitor.settle()
    visitor.page.get_by_role("link", name="API").click()
    expect(visitor.page.locator(".opblock-summary-path").first).to_be_visible()
    assert "/api/abilities/file_read_bulk" in visitor.page.locator("#api").inner_text().replace(
        "​", ""
    )


def test_hostile_contents_are_text_in_every_view(visitor: Visitor, house: Settings) -> None:
    finished(attack(house))
    for script in SCRIPTS:
        visitor.open("memory", script)
        assert visitor.page.locator("h1").inner_text() == script
        assert visitor.page.locator("pre.content").inner_text() == script
        visitor.open("graph", script)
        assert visitor.page.locator("aside pre").inner_text() == script
        visitor.go(f"memories?search={quote(script, safe='')}")
        assert script in visitor.page.locator(".memories a.key").all_inner_texts()
        visitor.go(
            f"memories?tag={quote(script[:30], safe='')}&category={quote(script[:50], safe='')}"
        )
        assert script in visitor.page.locator(".memories a.key").all_inner_texts()
    visitor.open("memory", SCRIPTS[0])
    visitor.button("Edit").click()
    expect(visitor.page.get_by_role("textbox", name="Content")).to_have_value(SCRIPTS[0])
    visitor.go("files?pattern=src/**")
    visitor.page.get_by_label(f"Choose src/{SCRIPTS[1]}.txt").check()
    visitor.button("Read 1 in one call").click()
    visitor.settle()
    assert visitor.page.locator(".record pre").inner_text() == SCRIPTS[0]
    visitor.go("notes?read=long_term")
    assert visitor.page.locator("pre.content").inner_text() == "\n".join(SCRIPTS)
    visitor.go("try/query_memories")
    visitor.button("Call query_memories").click()
    visitor.settle()
    assert SCRIPTS[-1] in visitor.page.locator(".reply pre").inner_text()
    for script in SCRIPTS:  # as names of views and of what they are asked for, too
        visitor.page.goto(f"{visitor.address}/#/{script}?search={script}")
        visitor.page.wait_for_timeout(50)
    assert visitor.page.title() != "HACKED"


def test_a_foreign_page_cannot_frame_or_call_it(visitor: Visitor, chromium: Browser) -> None:
    visitor.go("memories")
    policy = visitor.page.request.get(visitor.address).headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    foreign = chromium.new_page()
    foreign.goto("data:text/html,<p>elsewhere</p>")
    asked = f"fetch('{visitor.address}/api/stats').then(() => 'answered', () => 'refused')"
    assert foreign.evaluate(asked) == "refused"
    foreign.close()


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_it(look: str, chromium: Browser, visitor: Visitor) -> None:
    window = chromium.new_context(**LOOKS[look])
    somebody = Visitor(window.new_page(), visitor.address)
    for view in [
        *VIEWS,
        "files?pattern=*.md",
        "notes?read=long_term",
        "graph/project%2Fgoals?breadth=1",
    ]:
        somebody.go(view)
        if view == "memory/project%2Fgoals":
            somebody.button("Edit").click()
        found = Axe().run(somebody.page, options={"runOnly": RULES})
        wrongs = [
            (v["id"], [node["html"][:200] for node in v["nodes"]])
            for v in found.response["violations"]
        ]
        assert wrongs == [], f"{view}: {json.dumps(wrongs, indent=1)}"
        assert len(found.response["passes"]) > 10
        assert somebody.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            f"{view} is too wide"
        )
    assert somebody.wrongs == []
    window.close()


def test_dialogs_and_the_token_page_are_for_everybody_too(
    guarded: tuple[Visitor, dict[str, str]],
) -> None:
    visitor, tokens = guarded
    visitor.page.goto(f"{visitor.address}/#/memory/people%2FAda")
    enter(visitor, "wrong")
    assert Axe().run(visitor.page).response["violations"] == []
    enter(visitor, tokens["write"])
    visitor.settle()
    visitor.button("Delete for good").click()
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    assert Axe().run(visitor.page).response["violations"] == []
    assert visitor.page.evaluate("document.activeElement.closest('dialog') !== null")


SHOTS = {
    "light": ("graph/project%2Fgoals?breadth=2&depth=2", "explorer-light.png"),
    "dark": ("memories?sort=importance", "explorer-dark.png"),
    "phone": ("graph/project%2Fgoals?breadth=2&depth=2", "explorer-phone.png"),
}


@pytest.mark.parametrize("look", SHOTS)
def test_pictures_are_taken(look: str, chromium: Browser, visitor: Visitor) -> None:
    folder = Path(__file__).parent.parent.parent / ".browser"
    folder.mkdir(exist_ok=True)
    view, name = SHOTS[look]
    window = chromium.new_context(**LOOKS[look])
    somebody = Visitor(window.new_page(), visitor.address)
    somebody.go(view)
    somebody.page.screenshot(path=folder / name)
    assert (folder / name).stat().st_size > 10_000
    window.close()
