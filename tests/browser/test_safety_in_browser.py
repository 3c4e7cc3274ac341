"""What the explorer keeps from others (tokens, hostile content), and that everybody can use it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from abilities import Settings
from abilities.helpers.tokens import TokenFile
from tests.browser.sample_memories import SCRIPTS, attack, run
from tests.browser.visitor import VIEWS, Visitor
from tests.support.serving import serving

SCREENSHOTS = Path(__file__).parent.parent.parent / ".browser"
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
SHOTS = {
    "light": ("graph/project%2Fgoals?breadth=2&depth=2", "explorer-light.png"),
    "dark": ("memories?sort=importance", "explorer-dark.png"),
    "phone": ("graph/project%2Fgoals?breadth=2&depth=2", "explorer-phone.png"),
}


class TokenVisit(NamedTuple):
    """A visitor of a server that requires a token, and a token for each scope."""

    visitor: Visitor
    read_token: str
    write_token: str


@pytest.fixture
def token_visit(settings: Settings, tmp_path: Path, page: Page) -> Iterator[TokenVisit]:
    settings = settings.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    tokens = TokenFile(settings.tokens_file)
    read_token = tokens.add("default", "read")[1]
    write_token = tokens.add("default", "write")[1]

    with serving(settings, tmp_path) as server:
        visitor = Visitor(page, server.address)
        visitor.expected = ["401 (Unauthorized)"]
        yield TokenVisit(visitor, read_token, write_token)
        assert visitor.violations == []


def enter(visitor: Visitor, token: str) -> None:
    visitor.field("Token").fill(token)
    visitor.button("Enter").click()
    visitor.page.wait_for_load_state("networkidle")


def expect_token_form(page: Page) -> None:
    expect(page.get_by_role("heading", name="Enter a token")).to_be_visible()


def test_a_token_is_asked_for_and_stays_in_the_tab(
    token_visit: TokenVisit, window: BrowserContext
) -> None:
    visitor = token_visit.visitor
    page = visitor.page
    heading = page.locator("h1")
    page.goto(f"{visitor.address}/#/memory/people%2FAda")
    expect_token_form(page)

    enter(visitor, "abl_nonsense")
    assert "A valid token is needed" in visitor.read_texts(".fault")[0]

    enter(visitor, token_visit.write_token)
    expect(heading).to_have_text("people/Ada")
    page.reload()
    expect(heading).to_have_text("people/Ada")

    assert window.cookies() == []
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("sessionStorage.length") == 1
    assert token_visit.write_token not in page.url
    assert token_visit.write_token not in page.content()

    other_tab = window.new_page()
    other_tab.goto(visitor.address)
    expect_token_form(other_tab)

    visitor.button("Forget token").click()
    expect_token_form(page)
    assert page.evaluate("sessionStorage.length") == 0


def test_a_read_token_is_offered_no_way_to_write(token_visit: TokenVisit) -> None:
    visitor = token_visit.visitor
    visitor.page.goto(visitor.address)
    enter(visitor, token_visit.read_token)
    visitor.settle()
    assert "read only" in visitor.read_texts(".who")[0]
    expect(visitor.button("New memory")).to_have_count(0)

    visitor.open("memory", "people/Ada")
    for name in ("Edit", "Archive", "Delete permanently"):
        expect(visitor.button(name)).to_have_count(0)

    visitor.go("try")
    offered = set(visitor.read_texts(".try nav code"))
    assert offered
    assert not offered & {"store_memory", "update_memory", "delete_memory"}


def test_the_api_page_loads_from_here_and_sends_the_tabs_token(token_visit: TokenVisit) -> None:
    visitor = token_visit.visitor
    visitor.page.goto(visitor.address)
    enter(visitor, token_visit.read_token)
    visitor.settle()

    visitor.page.get_by_role("link", name="API").click()
    expect(visitor.page.locator(".opblock-summary-path").first).to_be_visible()

    # Swagger UI puts zero-width spaces into paths, so that they can wrap.
    text = visitor.page.locator("#api").inner_text().replace("\u200b", "")
    assert "/api/abilities/file_read_bulk" in text


def test_names_show_what_turns_or_hides_text(visitor: Visitor, settings: Settings) -> None:
    (settings.workspace_dir / "src" / "a\u200bb.txt").write_text("\u202etext")

    visitor.go("files?pattern=src/**")

    shown = visitor.page.locator("td.path").all_inner_texts()
    assert "src/a\\u{200b}b.txt" in shown
    assert not any("\u200b" in path for path in shown)


def test_hostile_contents_are_text_in_every_view(visitor: Visitor, settings: Settings) -> None:
    run(attack(settings))
    page = visitor.page
    keys = page.locator(".memories a.key")

    for script in SCRIPTS:
        visitor.open("memory", script)
        assert page.locator("h1").inner_text() == script
        assert page.locator("pre.content").inner_text() == script

        visitor.open("graph", script)
        assert page.locator("aside pre").inner_text() == script

        visitor.go(f"memories?search={quote(script, safe='')}")
        assert script in keys.all_inner_texts()

        tag, category = quote(script[:30], safe=""), quote(script[:50], safe="")
        visitor.go(f"memories?tag={tag}&category={category}")
        assert script in keys.all_inner_texts()

    visitor.open("memory", SCRIPTS[0])
    visitor.button("Edit").click()
    expect(page.get_by_role("textbox", name="Content")).to_have_value(SCRIPTS[0])

    visitor.go("files?pattern=src/**")
    page.get_by_label(f"Select src/{SCRIPTS[1]}.txt").check()
    visitor.button("Read 1 in one call").click()
    visitor.settle()
    assert page.locator(".record pre").inner_text() == SCRIPTS[0]

    visitor.go("notes?read=long_term")
    assert page.locator("pre.content").inner_text() == "\n".join(SCRIPTS)

    visitor.go("try/query_memories")
    visitor.button("Call query_memories").click()
    visitor.settle()
    assert SCRIPTS[-1] in page.locator(".reply pre").inner_text()

    # Addresses can hold hostile text, too: as the name of a view, and as a parameter.
    for script in SCRIPTS:
        page.goto(f"{visitor.address}/#/{script}?search={script}")
        page.wait_for_timeout(50)
    assert page.title() != "HACKED"


def test_a_foreign_page_cannot_frame_or_call_it(visitor: Visitor, chromium: Browser) -> None:
    visitor.go("memories")
    response = visitor.page.request.get(visitor.address)
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]

    foreign = chromium.new_page()
    foreign.goto("data:text/html,<p>elsewhere</p>")
    call = f"fetch('{visitor.address}/api/stats').then(() => 'answered', () => 'refused')"
    assert foreign.evaluate(call) == "refused"
    foreign.close()


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_it(look: str, chromium: Browser, visitor: Visitor) -> None:
    window = chromium.new_context(**LOOKS[look])
    somebody = Visitor(window.new_page(), visitor.address)
    views = [
        *VIEWS,
        "files?pattern=*.md",
        "notes?read=long_term",
        "graph/project%2Fgoals?breadth=1",
    ]

    for view in views:
        somebody.go(view)
        if view == "memory/project%2Fgoals":
            somebody.button("Edit").click()

        result = Axe().run(somebody.page, options={"runOnly": RULES})
        problems = [
            (rule["id"], [node["html"][:200] for node in rule["nodes"]])
            for rule in result.response["violations"]
        ]
        assert problems == [], f"{view}: {json.dumps(problems, indent=1)}"
        assert len(result.response["passes"]) > 10

        fits = somebody.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert fits, f"{view} is too wide"

    assert somebody.violations == []
    window.close()


def test_everybody_can_use_dialogs_and_the_token_form(token_visit: TokenVisit) -> None:
    visitor = token_visit.visitor
    page = visitor.page
    page.goto(f"{visitor.address}/#/memory/people%2FAda")

    enter(visitor, "wrong")
    assert Axe().run(page).response["violations"] == []

    enter(visitor, token_visit.write_token)
    visitor.settle()
    visitor.button("Delete permanently").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    assert page.evaluate("document.activeElement.closest('dialog') !== null")


@pytest.mark.parametrize("look", SHOTS)
def test_screenshots_are_taken(look: str, chromium: Browser, visitor: Visitor) -> None:
    view, name = SHOTS[look]
    SCREENSHOTS.mkdir(exist_ok=True)
    window = chromium.new_context(**LOOKS[look])
    somebody = Visitor(window.new_page(), visitor.address)

    somebody.go(view)
    somebody.page.screenshot(path=SCREENSHOTS / name)

    assert (SCREENSHOTS / name).stat().st_size > 10_000
    window.close()
