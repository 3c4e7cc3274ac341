"""What the explorer keeps from others (tokens, hostile content), and that everybody can use it."""

import re
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import BrowserContext, Page, expect

from abilities import Settings
from abilities.helpers.tokens import TokenFile
from tests.browser.sample_memories import SCRIPTS, list_attacks
from tests.browser.visitor import Agent, TokenVisit, Visitor

SCREENSHOTS = Path(__file__).parent.parent.parent / ".browser"
SHOTS = {
    "light": ("graph/project%2Fgoals?breadth=2&depth=2", "explorer-light.png"),
    "dark": ("memories?sort=importance", "explorer-dark.png"),
    "phone": ("graph/project%2Fgoals?breadth=2&depth=2", "explorer-phone.png"),
}
VIEWS = [
    "home",
    "memories",
    "home?question=Who%20decides%20what%20counts%3F",
    "memory/project%2Fgoals",
    "changes",
    "graph",
    "graph/project%2Fgoals",
    "graph/project%2Fgoals?breadth=1",
    "map",
    "map/project%2F",
    "map?by=tag",
    "notes",
    "notes?read=long_term",
    "files",
    "files?pattern=*.md",
    "files/src%2Fapp.py",
    "try/store_memory",
]


def expect_token_form(page: Page) -> None:
    expect(page.get_by_role("heading", name="Enter a token")).to_be_visible()


def test_a_token_is_asked_for_and_stays_in_the_tab(
    token_visit: TokenVisit, window: BrowserContext
) -> None:
    visitor, _, token = token_visit
    page = visitor.page
    heading = page.locator("h1")
    page.goto(f"{visitor.address}/#/memory/people%2FAda")
    expect_token_form(page)

    visitor.enter("abl_nonsense")
    assert "A valid token is needed" in visitor.read_texts(".fault")[0]
    visitor.expect_usable()

    visitor.enter(token)
    expect(heading).to_have_text("people/Ada")
    page.reload()
    expect(heading).to_have_text("people/Ada")

    assert window.cookies() == []
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("sessionStorage.length") == 1
    assert token not in page.url
    assert token not in page.content()

    visitor.settle()
    visitor.button("Delete permanently").click()
    expect(visitor.dialog).to_be_visible()
    visitor.expect_usable()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    visitor.dialog.get_by_role("button", name="Cancel").click()

    other_tab = window.new_page()
    other_tab.goto(visitor.address)
    expect_token_form(other_tab)

    visitor.button("Forget token").click()
    expect_token_form(page)
    assert page.evaluate("sessionStorage.length") == 0


def test_tokens_of_several_namespaces_are_chosen_from_a_menu(
    token_visit: TokenVisit, tmp_path: Path
) -> None:
    visitor, page = token_visit.visitor, token_visit.visitor.page
    visitor.expected.append("404 (Not Found)")
    team_token = TokenFile(tmp_path / "tokens.json").add("team", "write")[1]
    Agent(visitor.address, team_token).store({"key": "rules", "type": "core", "content": "x"})
    page.goto(visitor.address)
    visitor.enter(token_visit.write_token)
    expect(visitor.field("Namespace")).to_have_count(0)

    visitor.button("Add a token").click()
    visitor.enter("abl_nonsense")
    assert "A valid token is needed" in visitor.read_texts(".fault")[0]
    visitor.expect_usable()
    visitor.press("default")
    visitor.button("Add a token").click()
    visitor.enter(team_token)

    menu = visitor.field("Namespace")
    expect(menu).to_have_value("team")
    visitor.go("memories")
    assert visitor.read_texts(".memories a.key") == ["rules"]
    visitor.expect_usable()

    menu.select_option("default")
    visitor.settle()
    visitor.go("memories")
    assert "rules" not in visitor.read_texts(".memories a.key")
    assert visitor.read_texts(".memories a.key")
    page.reload()
    expect(menu).to_have_value("default")

    visitor.settle()
    visitor.button("Forget token").click()
    expect_token_form(page)
    assert page.evaluate("sessionStorage.length") == 0


def test_other_namespaces_that_a_token_reads_are_shown_without_a_way_to_write(
    token_visit: TokenVisit, tmp_path: Path
) -> None:
    visitor, page = token_visit.visitor, token_visit.visitor.page
    tokens = TokenFile(tmp_path / "tokens.json")
    reader = tokens.add("ada", "write", reads=("team",))[1]
    agent = Agent(visitor.address, tokens.add("team", "write")[1])
    agent.store({"key": "rules", "type": "core", "content": "x", "links": [{"key": "more"}]})
    agent.store({"key": "more", "type": "core", "content": "y"})
    agent.call("update_memory", id=agent.get("rules")["id"], content="z")
    page.goto(visitor.address)
    visitor.enter(reader)

    menu = visitor.field("Namespace")
    expect(menu).to_have_value("ada")
    menu.select_option("team")
    expect(visitor.page.locator(".timeline a.key").first).to_have_text("rules")
    assert "team (read only)" in visitor.read_texts(".who")[0]
    tabs = visitor.read_texts("nav[aria-label=Views] a")
    assert tabs == ["Overview", "Memories", "Changes", "Graph", "Map"]

    writes = re.compile("New|Edit|Rename|Archive|Delete|Restore|Replace|Remove|Load|Store")
    for address in ("", "memories", "memory/rules", "memory/none", "changes", "graph/rules", "map"):
        visitor.expected = ["404 (Not Found)"]
        visitor.go(address)
        visitor.expect_usable()
        expect(page.get_by_role("button", name=writes)).to_have_count(0)
        if address != "memory/none":
            expect(page.get_by_role("alert")).to_have_count(0)
            expect(page.locator("main")).to_contain_text("rules")
    visitor.go("notes")
    assert visitor.read_texts("h1") == ["Overview"]

    # The choice outlasts a reload, and ends with the right to it.
    page.reload()
    expect(menu).to_have_value("team")
    menu.select_option("ada")
    expect(visitor.page.get_by_text("No memory is stored")).to_be_visible()
    expect(page.get_by_role("link", name="Notes")).to_be_visible()
    page.evaluate("sessionStorage.setItem('abilities-namespace', 'default')")
    page.reload()
    expect(menu).to_have_value("ada")


def test_a_read_token_is_offered_no_way_to_write(token_visit: TokenVisit) -> None:
    visitor = token_visit.visitor
    visitor.page.goto(visitor.address)
    visitor.enter(token_visit.read_token)
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

    # The page of the API loads from here, and sends the tab's token.
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
    (settings.workspace_dir / "src" / f"{SCRIPTS[1]}.txt").write_text(SCRIPTS[0])
    (settings.agent_dir / "MEMORY.md").write_text("\n".join(SCRIPTS))
    visitor.agent.store(*list_attacks())
    page = visitor.page
    keys = page.locator(".memories a.key")

    for script in SCRIPTS:
        visitor.open("memory", script)
        assert page.locator("h1").inner_text() == script
        assert page.locator("pre.content").inner_text() == script

        visitor.open("graph", script)
        assert page.locator("aside pre").inner_text() == script

        tag, category = quote(script[:30], safe=""), quote(script[:50], safe="")
        for query in (f"search={quote(script, safe='')}", f"tag={tag}&category={category}"):
            visitor.go(f"memories?{query}")
            assert script in keys.all_inner_texts()

    visitor.go("home")
    reviewed = " ".join(visitor.read_texts(".review li"))
    assert any(script in reviewed for script in SCRIPTS)
    visitor.go(f"home?question={quote(SCRIPTS[0], safe='')}")
    visitor.go("map")
    named = " ".join(page.locator(".cell title").all_text_contents())
    assert SCRIPTS[0].partition("/")[0] in named

    visitor.edit(SCRIPTS[0])
    expect(visitor.content).to_have_value(SCRIPTS[0])

    visitor.go("files?pattern=src/**")
    page.get_by_label(f"Select src/{SCRIPTS[1]}.txt").check()
    visitor.press("Read 1 in one call")
    assert page.locator(".record pre").inner_text() == SCRIPTS[0]

    visitor.open("files", f"src/{SCRIPTS[1]}.txt")
    assert page.locator(".source pre").inner_text() == SCRIPTS[0]

    visitor.go("notes?read=long_term")
    assert page.locator("pre.content").inner_text() == "\n".join(SCRIPTS)

    visitor.go("try/query_memories")
    visitor.press("Call query_memories")
    assert SCRIPTS[-1] in page.locator(".reply pre").inner_text()

    # Addresses can hold hostile text, too: as the name of a view, and as a parameter.
    for script in SCRIPTS:
        page.goto(f"{visitor.address}/#/{script}?search={script}")
        page.wait_for_timeout(50)
    assert page.title() != "HACKED"


def test_everybody_can_use_it(look: str, somebody: Visitor) -> None:
    """And screenshots are taken on the way."""
    for view in VIEWS:
        somebody.go(view)
        if view == "memory/project%2Fgoals":
            somebody.button("Edit").click()

        somebody.expect_usable()

    view, name = SHOTS[look]
    SCREENSHOTS.mkdir(exist_ok=True)
    somebody.go(view)
    somebody.page.screenshot(path=SCREENSHOTS / name)
    assert (SCREENSHOTS / name).stat().st_size > 10_000
