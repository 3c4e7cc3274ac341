"""Histories, changes, conflicts, drafts and undoing in the explorer, as people meet them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from abilities import Settings
from abilities.declarations.values import JsonObject
from abilities.helpers.tokens import TokenFile
from tests.browser.sample_memories import SCRIPTS
from tests.browser.test_safety_in_browser import LOOKS, RULES, enter
from tests.browser.visitor import Visitor
from tests.support.serving import serving


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

    def get(self, key: str) -> JsonObject:
        """Return a memory with its version and links."""
        data: JsonObject = self.call("memory_get", key=key, detail="full")["data"]
        return data

    def change(self, memory: str, **values: Any) -> None:
        """Change the memory with a key."""
        self.call("update_memory", id=self.get(memory)["id"], **values)

    def list_actions(self, key: str) -> list[tuple[str, str]]:
        """Return what was done to a memory, newest first, and by whom."""
        entries = self.call("memory_history", key=key)["entries"]
        return [(entry["action"], entry["by"]) for entry in entries]


@pytest.fixture
def agent(visitor: Visitor) -> Agent:
    return Agent(visitor.address)


@pytest.fixture
def content(page: Page) -> Locator:
    """The field of the content in the editor."""
    return page.get_by_role("textbox", name="Content")


def edit(visitor: Visitor, key: str) -> None:
    visitor.open("memory", key)
    visitor.button("Edit").click()


def save(visitor: Visitor) -> None:
    visitor.button("Save changes").click()
    visitor.settle()


def read_sides(visitor: Visitor, label: str) -> tuple[str, str]:
    """Return both texts of a field that are shown side by side."""
    page = visitor.page
    theirs = page.get_by_label(re.compile(f"^(Theirs, as it is now|Deleted): {label}")).inner_text()
    mine = page.get_by_label(f"Yours, as typed: {label}").inner_text()
    return theirs, mine


def meet_conflict(visitor: Visitor, agent: Agent, content: Locator) -> None:
    """Save a form whose memory an agent has changed since it was opened."""
    visitor.expected = ["412 (Precondition Failed)"]
    edit(visitor, "people/Ada")
    content.fill("Ada leads. She prefers long answers, and tea.")
    visitor.page.get_by_role("textbox", name="Tags").fill("people\nlead")
    agent.change("people/Ada", content="Ada leads. She prefers short answers, and coffee.")
    agent.change("people/Ada", summary="Likes coffee.", links=[{"key": "tasks/walk"}])

    save(visitor)


def test_a_write_that_came_second_is_not_lost(
    visitor: Visitor, agent: Agent, content: Locator
) -> None:
    meet_conflict(visitor, agent, content)

    heading = visitor.page.get_by_role("heading", name="Somebody changed this memory meanwhile")
    expect(heading).to_be_focused()
    assert read_sides(visitor, "Content") == (
        "Ada leads. She prefers short answers, and coffee.",
        "Ada leads. She prefers long answers, and tea.",
    )
    sides = visitor.page.locator(".conflict .compared")
    assert sides.nth(0).locator("del").all_inner_texts() == ["short", "coffee"]
    assert sides.nth(1).locator("ins").all_inner_texts() == ["long", "tea"]
    assert agent.get("people/Ada")["content"].endswith("coffee.")

    # What the person did not touch follows the agent; what was typed stays.
    visitor.button("Keep editing on the newer version").click()
    expect(content).to_have_value("Ada leads. She prefers long answers, and tea.")
    expect(visitor.page.get_by_label("Summary")).to_have_value("Likes coffee.")
    content.fill("Ada leads. She prefers long answers, and coffee.")
    save(visitor)
    assert "Saved." in visitor.read_texts(".done")

    memory = agent.get("people/Ada")
    assert memory["content"] == "Ada leads. She prefers long answers, and coffee."
    assert (memory["summary"], memory["tags"]) == ("Likes coffee.", ["people", "lead"])
    assert "tasks/walk" in {link["key"] for link in memory["links"]}


def test_a_write_that_came_second_can_overwrite(
    visitor: Visitor, agent: Agent, content: Locator
) -> None:
    meet_conflict(visitor, agent, content)

    # It overwrites what was shown, and not what comes after that.
    agent.change("people/Ada", content="Ada has left.")
    visitor.button("Overwrite with yours").click()
    visitor.settle()
    assert read_sides(visitor, "Content")[0] == "Ada has left."

    visitor.button("Overwrite with yours").click()
    visitor.settle()
    memory = agent.get("people/Ada")
    assert memory["content"] == "Ada leads. She prefers long answers, and tea."
    assert memory["summary"] == "Likes coffee."
    assert agent.list_actions("people/Ada")[:2] == [("changed", "explorer"), ("changed", "http")]


def test_a_write_that_came_second_can_give_way(
    visitor: Visitor, agent: Agent, content: Locator
) -> None:
    meet_conflict(visitor, agent, content)
    before = agent.get("people/Ada")

    visitor.button("Take theirs").click()
    visitor.settle()

    assert visitor.read_texts("pre.content") == [before["content"]]
    assert agent.get("people/Ada") == before
    expect(visitor.button("Go on editing")).to_have_count(0)


def test_a_memory_that_was_deleted_meanwhile_can_be_stored_again(
    visitor: Visitor, agent: Agent, content: Locator
) -> None:
    visitor.expected = ["404 (Not Found)"]
    edit(visitor, "people/Ada")
    content.fill("Ada leads and stays.")
    agent.call("delete_memory", id=agent.get("people/Ada")["id"], permanent=True)

    save(visitor)
    assert read_sides(visitor, "Content") == ("", "Ada leads and stays.")
    visitor.button("Store yours again").click()
    visitor.settle()

    memory = agent.get("people/Ada")
    assert (memory["content"], memory["category"]) == ("Ada leads and stays.", "person")
    assert visitor.read_texts("pre.content") == ["Ada leads and stays."]


def test_a_new_memory_does_not_overwrite_one_with_its_key(
    visitor: Visitor, agent: Agent, content: Locator
) -> None:
    visitor.expected = ["412 (Precondition Failed)"]
    visitor.go("memories")
    visitor.button("New memory").click()
    visitor.page.get_by_label("Key", exact=True).fill("people/Ada")
    content.fill("Another Ada.")
    visitor.button("Store memory").click()
    visitor.settle()

    theirs, mine = read_sides(visitor, "Content")
    assert theirs == agent.get("people/Ada")["content"] != mine == "Another Ada."

    visitor.button("Overwrite with yours").click()
    visitor.settle()
    memory = agent.get("people/Ada")
    assert (memory["content"], memory["category"]) == ("Another Ada.", "person")
    assert visitor.read_texts("h1") == ["people/Ada"]


def test_what_changed_meanwhile_is_not_deleted_unseen(visitor: Visitor, agent: Agent) -> None:
    visitor.expected = ["412 (Precondition Failed)"]
    visitor.open("memory", "people/Ada")
    visitor.button("Delete permanently").click()
    agent.change("people/Ada", content="Ada leads all of it.")

    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete permanently").click()
    visitor.settle()
    expect(dialog.get_by_role("alert")).to_contain_text("The memory changed")
    dialog.get_by_role("button", name="Cancel").click()

    assert visitor.read_texts("pre.content") == ["Ada leads all of it."]
    assert agent.get("people/Ada")["content"] == "Ada leads all of it."


def test_a_half_written_form_is_kept(visitor: Visitor, agent: Agent, content: Locator) -> None:
    page = visitor.page
    edit(visitor, "people/Ada")
    content.fill("half")

    # Leaving the page keeps it, and so does leaving the form.
    visitor.go("files")
    visitor.open("memory", "people/Ada")
    visitor.button("Go on editing").click()
    expect(content).to_have_value("half")
    visitor.button("Cancel").click()
    expect(content).to_have_count(0)

    # Leaving the tab asks first; a page that is loaded anew still has it.
    visitor.expected_dialogs = ["beforeunload"]
    page.reload()
    visitor.settle()
    assert visitor.expected_dialogs == []
    agent.change("people/Ada", summary="Changed since.")
    visitor.button("Go on editing").click()
    expect(content).to_have_value("half")

    # It knows which memory it began with.
    visitor.expected = ["412 (Precondition Failed)"]
    save(visitor)
    visitor.button("Keep editing on the newer version").click()
    expect(page.get_by_label("Summary")).to_have_value("Changed since.")
    save(visitor)
    assert agent.get("people/Ada")["content"] == "half"

    page.reload()
    visitor.settle()
    expect(visitor.button("Go on editing")).to_have_count(0)


def test_a_form_that_was_left_can_be_discarded(visitor: Visitor, content: Locator) -> None:
    visitor.go("memories")
    visitor.button("New memory").click()
    content.fill("half")
    visitor.open("memory", "people/Ada")
    visitor.go("memories")

    visitor.button("Discard it").click()
    expect(visitor.button("Go on editing")).to_have_count(0)
    visitor.button("New memory").click()
    expect(content).to_have_value("")
    assert visitor.page.evaluate("sessionStorage.length") == 0


def test_an_older_version_is_looked_at_and_restored(visitor: Visitor, agent: Agent) -> None:
    original = agent.get("people/Ada")
    agent.change("people/Ada", content="Ada leads. She prefers long answers, and tea.")
    agent.change("people/Ada", tags=["people", "lead"], importance="high")

    visitor.open("memory", "people/Ada")
    page = visitor.page
    entries = page.locator(".history li")
    latest, content_change, creation = visitor.read_texts(".history summary")
    assert latest.startswith("changed importance, ")
    assert "tags by http" in latest
    assert content_change.startswith("changed content by http")
    assert creation.startswith("created by python")

    entries.nth(1).locator("summary").click()
    visitor.settle()
    compared = page.get_by_label("Differences: Content")
    assert compared.locator("del").all_inner_texts() == ["short"]
    assert compared.locator("ins").all_inner_texts() == ["long"]

    page.get_by_label("Compare with").select_option("after")
    visitor.settle()
    assert page.get_by_label("Differences: Tags").locator("ins").all_inner_texts() == ["\nlead"]
    expect(compared).to_have_count(0)

    # The present version is not offered.
    assert page.get_by_role("button", name="Restore this version").count() == 2
    visitor.button(f"Restore this version, {original['version']}").click()
    visitor.settle()
    restored = agent.get("people/Ada")
    ignored = {"version", "updated_at"}
    for name in original.keys() - ignored:
        assert restored[name] == original[name], name
    assert visitor.read_texts("pre.content") == [original["content"]]
    assert agent.list_actions("people/Ada")[0] == ("restored", "explorer")

    visitor.button("Undo").click()
    visitor.settle()
    assert agent.get("people/Ada")["tags"] == ["people", "lead"]
    assert "long" in visitor.read_texts("pre.content")[0]


def test_a_long_history_goes_on(visitor: Visitor, agent: Agent) -> None:
    for number in range(30):
        agent.change("people/Ada", content=f"state {number}")

    visitor.open("memory", "people/Ada")
    entries = visitor.page.locator(".history li")
    assert entries.count() == 20

    visitor.button("Older changes").click()
    visitor.settle()
    assert entries.count() == 31
    expect(visitor.button("Older changes")).to_have_count(0)

    entries.nth(30).locator("summary").click()
    visitor.settle()
    first = visitor.page.get_by_label("Differences: Content").locator("ins")
    assert first.all_inner_texts() == ["Ada leads. She prefers short answers, and tea."]


def test_deleting_is_undone(visitor: Visitor, agent: Agent) -> None:
    before = agent.get("tasks/store")
    visitor.open("memory", "tasks/store")
    dialog = visitor.page.get_by_role("dialog")

    visitor.button("Delete permanently").click()
    dialog.get_by_role("button", name="Delete permanently").click()
    visitor.settle()
    assert visitor.read_texts("h1") == ["Memories"]
    expect(visitor.page.locator(".notice")).to_contain_text("Deleted")
    assert "tasks/store" not in visitor.read_texts(".memories a.key")

    visitor.button("Undo").click()
    visitor.settle()
    after = agent.get("tasks/store")
    assert {**after, "version": 0, "updated_at": ""} == {**before, "version": 0, "updated_at": ""}
    assert visitor.read_texts("h1") == ["tasks/store"]

    visitor.button("Archive").click()
    dialog.get_by_role("button", name="Archive").click()
    visitor.settle()
    assert agent.get("tasks/store")["archived"]
    visitor.button("Undo").click()
    visitor.settle()
    assert "archived" not in agent.get("tasks/store")
    expect(visitor.button("Archive")).to_be_visible()


def test_a_deleted_memory_is_restored_from_its_history(visitor: Visitor, agent: Agent) -> None:
    visitor.expected = ["404 (Not Found)"]
    before = agent.get("people/Ada")
    agent.call("delete_memory", id=before["id"], permanent=True)

    visitor.open("memory", "people/Ada")
    expect(visitor.page.locator(".history")).to_contain_text("It was deleted by http")
    visitor.page.locator(".history summary").first.click()
    visitor.settle()
    deleted = visitor.page.get_by_label("Differences: Content").locator("del")
    assert deleted.all_inner_texts() == [before["content"]]

    visitor.button(f"Restore this version, {before['version']}").click()
    visitor.settle()
    assert visitor.read_texts("pre.content") == [before["content"]]
    assert agent.get("people/Ada")["links"] == before["links"]


def test_a_former_key_leads_to_the_memory(visitor: Visitor, agent: Agent) -> None:
    visitor.expected = ["404 (Not Found)"]
    agent.change("people/Ada", key="people/Ada Lovelace")

    visitor.open("memory", "people/Ada")
    visitor.page.get_by_role("link", name="people/Ada Lovelace").click()
    visitor.settle()

    assert visitor.read_texts("h1") == ["people/Ada Lovelace"]


def test_changes_tell_who_did_what(visitor: Visitor, agent: Agent) -> None:
    agent.change("people/Ada", content="new")
    agent.call("delete_memory", id=agent.get("tasks/walk")["id"])
    edit(visitor, "people/Grace")
    visitor.page.get_by_label("Summary").fill("Reviews.")
    save(visitor)

    visitor.page.get_by_role("link", name="Changes").click()
    visitor.settle()
    lines = [line.split(" ", 2)[2] for line in visitor.read_texts(".timeline li")]
    assert lines[:4] == [
        "explorer changed people/Grace",
        "http archived tasks/walk",
        "http changed people/Ada",
        "python created 世界/größe",
    ]

    visitor.page.get_by_role("link", name="http", exact=True).first.click()
    visitor.settle()
    assert len(visitor.read_texts(".timeline li")) == 2
    visitor.field("What was done").select_option("archived")
    visitor.settle()
    assert visitor.read_texts(".timeline a.key") == ["tasks/walk"]

    visitor.page.locator(".timeline a.key").click()
    visitor.settle()
    assert visitor.read_texts("h1") == ["tasks/walk"]


def test_changes_go_back_to_the_first(visitor: Visitor, agent: Agent) -> None:
    for number in range(60):
        agent.change("people/Ada", content=f"state {number}")

    visitor.go("changes")
    assert len(visitor.read_texts(".timeline li")) == 50
    visitor.button("Older changes").click()
    visitor.settle()

    keys = visitor.read_texts(".timeline a.key")
    assert keys[:60] == ["people/Ada"] * 60
    assert len(keys) == 71
    assert keys[-1] == "project/goals"


class TwoTokens(NamedTuple):
    """A server that requires tokens: a person's who may only read, and an agent's."""

    visitor: Visitor
    read_token: str
    agent: Agent


@pytest.fixture
def two_tokens(settings: Settings, tmp_path: Path, page: Page) -> Iterator[TwoTokens]:
    settings = settings.model_copy(update={"tokens_file": tmp_path / "tokens.json"})
    tokens = TokenFile(settings.tokens_file)
    read_token = tokens.add("default", "read")[1]
    write_token = tokens.add("default", "write", label="helper bot")[1]

    with serving(settings, tmp_path) as server:
        visitor = Visitor(page, server.address)
        visitor.expected = ["401 (Unauthorized)"]
        yield TwoTokens(visitor, read_token, Agent(server.address, write_token))
        assert visitor.violations == []


def test_who_may_only_read_sees_the_past_and_no_button(two_tokens: TwoTokens) -> None:
    visitor, read_token, agent = two_tokens
    agent.change("people/Ada", content="new")
    visitor.page.goto(visitor.address)
    enter(visitor, read_token)
    visitor.settle()

    visitor.open("memory", "people/Ada")
    visitor.page.locator(".history summary").first.click()
    visitor.settle()
    assert visitor.read_texts(".compared ins") == ["new"]
    assert visitor.page.get_by_role("button", name="Restore this version").count() == 0

    visitor.go("changes")
    assert "helper bot changed people/Ada" in visitor.read_texts(".timeline li")[0]

    # What was deleted is for those who could restore it.
    agent.call("delete_memory", id=agent.get("people/Ada")["id"], permanent=True)
    visitor.expected += ["404 (Not Found)", "403 (Forbidden)"]
    visitor.open("memory", "people/Ada")
    assert visitor.page.locator(".history li").count() == 0


def test_the_past_is_text(visitor: Visitor, agent: Agent) -> None:
    visitor.expected = ["412 (Precondition Failed)"]
    key = SCRIPTS[0]
    agent.call("store_memory", key=key, type="core", content="\n".join(SCRIPTS))
    visitor.open("memory", key)
    visitor.button("Edit").click()
    visitor.page.get_by_role("textbox", name="Content").fill("\n".join(reversed(SCRIPTS)))
    agent.change(key, content="x\n".join(SCRIPTS), tags=[script[:30] for script in SCRIPTS[:9]])
    save(visitor)
    assert read_sides(visitor, "Content") == ("x\n".join(SCRIPTS), "\n".join(reversed(SCRIPTS)))

    visitor.button("Take theirs").click()
    visitor.settle()
    for summary in visitor.page.locator(".history summary").all():
        summary.click()
    visitor.settle()
    added = visitor.page.get_by_label("Differences: Tags").inner_text()
    assert added == "\n".join(script[:30] for script in SCRIPTS[:9])

    visitor.go("changes")
    assert visitor.read_texts(".timeline a.key")[0] == key
    assert visitor.page.title() != "HACKED"


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_the_past(look: str, visitor: Visitor, agent: Agent) -> None:
    browser = visitor.page.context.browser
    assert browser is not None
    window = browser.new_context(**LOOKS[look])
    somebody = Visitor(window.new_page(), visitor.address)
    content = somebody.page.get_by_role("textbox", name="Content")

    agent.change("people/Ada", content="Ada leads, mostly.", tags=["people", "lead"])
    somebody.open("memory", "people/Ada")
    somebody.page.locator(".history summary").first.click()
    somebody.settle()
    _expect_usable(somebody)

    meet_conflict(somebody, agent, content)
    _expect_usable(somebody)
    somebody.button("Overwrite with yours").click()
    somebody.settle()

    somebody.button("Edit").click()
    content.fill("half")
    somebody.button("Cancel").click()
    somebody.page.get_by_role("button", name="Restore this version").first.click()
    somebody.settle()
    _expect_usable(somebody)

    somebody.go("changes")
    _expect_usable(somebody)
    assert somebody.violations == []
    window.close()


def _expect_usable(visitor: Visitor) -> None:
    result = Axe().run(visitor.page, options={"runOnly": RULES})
    problems = [
        (rule["id"], [node["html"][:200] for node in rule["nodes"]])
        for rule in result.response["violations"]
    ]
    assert problems == []
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
