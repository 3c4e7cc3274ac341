"""The first page of the explorer, and what is kept up to date, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from abilities import Settings
from tests.browser.visitor import LOOKS, Visitor, list_suggestions
from tests.support.serving import serving

SAID = "We deploy the payments service on Tuesdays, never on Fridays"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An empty store, without notes and files."""
    (tmp_path / "agent").mkdir()
    return Settings(
        agent_dir=tmp_path / "agent",
        workspace_dir=tmp_path / "agent",
        store_url=f"sqlite:///{tmp_path}/memory.db",
    )


@pytest.fixture
def clicks(page: Page) -> list[str]:
    """What the person has clicked since it was cleared."""
    clicked: list[str] = []
    page.expose_function("noteClick", lambda text: clicked.append(text))  # it must be a function
    page.add_init_script(
        "addEventListener('click', ({ detail, target }) => "
        "detail && noteClick(target.closest('button, a, summary, label')?.innerText ?? ''), true)"
    )
    return clicked


def test_an_empty_store_says_what_to_do_and_has_a_sample(visitor: Visitor) -> None:
    visitor.go("")
    expect(visitor.page.get_by_text("abilities setup")).to_be_visible()
    visitor.expect_usable()

    visitor.press("Load the sample")
    keys = {memory["key"] for memory in visitor.agent.call("query_memories", limit=100)["memories"]}
    assert len(keys) == 7
    expect(visitor.page.get_by_text("7 of these memories are a sample.")).to_be_visible()

    visitor.press("Remove the sample")
    expect(visitor.button("Load the sample")).to_be_visible()
    assert visitor.agent.call("query_memories", archived=True)["total"] == 0

    visitor.press("Undo")
    found = visitor.agent.call("query_memories", limit=100)["memories"]
    assert {memory["key"] for memory in found} == keys
    assert visitor.read_texts("h1") == ["Overview"]


def test_what_an_agent_writes_appears_without_a_reload(visitor: Visitor) -> None:
    visitor.go("")
    visitor.agent.store({"key": "deploy/day", "type": "core", "content": "Tuesdays"})
    expect(visitor.page.locator(".timeline a.key")).to_have_text("deploy/day")

    for view, selector in (("memory/deploy%2Fday", "pre.content"), ("memories", ".snippet")):
        visitor.go(view)
        content = f"Wednesdays, as seen in {view}"
        visitor.agent.change("deploy/day", content=content)
        expect(visitor.page.locator(selector)).to_have_text(content)

    # A form keeps what was typed.
    visitor.edit("deploy/day")
    visitor.content.fill("typed")
    visitor.agent.change("deploy/day", summary="theirs")
    expect(visitor.page.locator(".history li").first).to_contain_text("summary")
    expect(visitor.content).to_have_value("typed")


def test_a_tab_catches_up_once_it_is_seen_and_once_the_server_is_back(
    settings: Settings, tmp_path: Path, page: Page
) -> None:
    snippet = page.locator(".snippet")

    with serving(settings, tmp_path) as server:
        visitor = Visitor(page, server.address)
        visitor.expected = ["ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_REFUSED"]
        visitor.agent.store({"key": "day", "type": "core", "content": "Monday"})
        visitor.go("memories?search=day")

        with page.expect_event("requestfailed"):  # a hidden tab holds no connection
            hide(page, hidden=True)
        visitor.agent.change("day", content="Tuesday")
        visitor.settle()
        expect(snippet).to_have_text("Monday")
        hide(page, hidden=False)
        expect(snippet).to_have_text("Tuesday")
        server.stop()

    port = server.address.rpartition(":")[2]
    with serving(settings, tmp_path, "--port", port):
        visitor.agent.change("day", content="Wednesday")
        expect(snippet).to_have_text("Wednesday")

    assert visitor.violations == []


def hide(page: Page, *, hidden: bool) -> None:
    value = str(hidden).lower()
    page.evaluate(
        f"Object.defineProperty(document, 'hidden', {{ value: {value}, configurable: true }});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )


def test_things_to_review_are_settled_and_undone(visitor: Visitor) -> None:
    page, agent = visitor.page, visitor.agent
    agent.store({"key": "older", "type": "core", "content": f"{SAID}."})
    agent.store(
        {"key": "newer", "type": "core", "content": f"{SAID}!"},
        {"key": "due", "type": "core", "content": "soon", "expires_at": "2999-01-01T00:00:00Z"},
        {"key": "from", "type": "core", "content": "from", "links": [{"key": "gone"}]},
        {"key": "before", "type": "core", "content": "before"},
    )
    supersede = {"op": "supersede", "key": "before", "new_key": "after", "content": "after"}
    agent.call("remember", operations=[supersede])
    visitor.go("")
    visitor.expect_usable()
    review = page.locator(".review")
    expect(review.get_by_text("4 things to review in 5 memories.")).to_be_visible()

    def is_archived(key: str) -> bool:
        return bool(agent.find(key).get("archived"))

    def has_link() -> bool:
        return "links_total" in agent.find("from")

    def is_due() -> bool:
        return "expires_at" in agent.get("due")

    actions: list[tuple[str, Callable[[], bool]]] = [
        ("Replace by the newer: older", lambda: is_archived("older")),
        ("Restore: before", lambda: not is_archived("before")),
        ("Remove the link: from", lambda: not has_link()),
        ("Keep for good: due", lambda: not is_due()),
        ("Archive: due", lambda: is_archived("due")),
    ]
    for button, is_settled in actions:
        assert not is_settled()
        visitor.press(button)
        assert is_settled(), button
        expect(visitor.button(button)).to_have_count(0)

        visitor.press("Undo")
        assert not is_settled(), button
        expect(visitor.button(button)).to_be_visible()

    # What is kept as it is stays away in this tab, until the memory changes.
    visitor.press("Keep as it is: from")
    expect(visitor.button("Remove the link: from")).to_have_count(0)
    page.reload()
    visitor.settle()
    expect(review).to_be_visible()
    expect(visitor.button("Remove the link: from")).to_have_count(0)

    # What an agent changes meanwhile is examined at leisure, or when asked for.
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    agent.change("from", content="other")
    expect(page.locator(".timeline li").first).to_contain_text("changed")
    assert "timeline" in asked and "review" not in asked
    visitor.press("Look again")
    expect(visitor.button("Remove the link: from")).to_be_visible()


def test_a_question_says_why_for_each_answer_and_for_a_missing_memory(visitor: Visitor) -> None:
    visitor.agent.store(
        {"key": "tea", "type": "core", "content": "Ada prefers tea."},
        {"key": "rain", "type": "core", "content": "It rains."},
    )
    visitor.go("home?question=What%20does%20Ada%20prefer%3F")

    answer = visitor.page.locator(".answer")
    visitor.follow(answer.locator("ol summary").first)
    expect(answer.locator("ol .why")).to_contain_text("tea is number 1 of 1")
    expect(answer.locator("ol .why")).to_contain_text("together as in the question add")
    expect(answer.locator("ol .why")).to_contain_text("points: Ada prefer.")
    visitor.expect_usable()

    field = visitor.field("A memory is missing?")
    assert sorted(list_suggestions(field)) == ["rain", "tea"]
    field.fill("rain")
    visitor.press("Explain")
    expect(answer.locator("> .why")).to_contain_text("rain is left out. It has no word")


def test_a_map_of_many_memories_shows_folders_that_open(visitor: Visitor) -> None:
    keys = [f"team-{n % 4}/topic-{n % 25}/{n}" for n in range(500)]
    visitor.agent.store(*({"key": key, "type": "core", "content": key} for key in keys))
    cells = visitor.page.locator(".map .cell")

    visitor.go("map")
    names = visitor.list_labels(".map .cell")
    assert sorted(names) == [f"team-{n}/, 125 memories" for n in range(4)]
    assert "team-0/" in visitor.page.locator(".map text").all_text_contents()

    # By keyboard alone, down to a memory.
    for _ in range(2):
        cells.first.focus()
        visitor.page.keyboard.press("Enter")
        visitor.settle()
    assert cells.count() == 5
    name = cells.first.get_attribute("aria-label")
    cells.first.focus()
    visitor.page.keyboard.press("Enter")
    visitor.settle()
    (key,) = visitor.read_texts("h1")
    assert key in keys and key.endswith(f"/{name}")


def test_a_map_shows_clusters_of_other_kinds(visitor: Visitor) -> None:
    for n in range(3):
        tags = [f"tag-{n}", "all"]
        visitor.agent.store({"key": f"m/{n}", "type": "core", "content": "x", "tags": tags})
    visitor.agent.store({"key": "bare", "type": "task", "content": "x"})
    cells = visitor.page.locator(".map .cell")

    visitor.go("map")
    visitor.field("Memories by").select_option("type")
    visitor.settle()
    names = visitor.list_labels(".map .cell")
    assert names == ["core, 3 memories", "task, 1 memory"]
    visitor.field("Memories by").select_option("tag")
    visitor.settle()
    names = visitor.list_labels(".map .cell")
    assert names[0] == "all, 3 memories"
    assert "no tag, 1 memory" in names
    visitor.expect_usable()

    cells.first.focus()
    visitor.page.keyboard.press("Enter")
    visitor.settle()
    assert visitor.read_texts(".memories a.key") == ["m/2", "m/1", "m/0"]


def test_the_page_says_what_agents_were_given(visitor: Visitor) -> None:
    visitor.agent.store({"key": "tea", "type": "core", "content": "Ada prefers tea."})
    visitor.agent.call("recall", queries=["What does Ada prefer?"])
    visitor.agent.call("memory_get", key="tea")

    visitor.go("")
    given = visitor.page.get_by_role("region", name="Given to agents")
    expect(given.locator("li").nth(1)).to_contain_text("What does Ada prefer?")
    visitor.follow(given.get_by_role("link", name="tea").first)
    expect(given.get_by_role("heading")).to_contain_text("2 times")
    expect(given.locator("li").first).to_contain_text("http memory_get")
    visitor.expect_usable()


def test_the_first_memory_is_on_the_first_screen_of_a_phone(
    chromium: Browser, settings: Settings, tmp_path: Path
) -> None:
    with serving(settings, tmp_path) as server:
        window = chromium.new_context(**LOOKS["phone"])
        phone = Visitor(window.new_page(), server.address)
        content = "A memory with a content that takes some room on a small screen. " * 3
        phone.agent.store(
            *({"key": f"m/{n}", "type": "core", "content": content} for n in range(9))
        )

        phone.go("memories")
        first = phone.page.locator(".memories li").first.bounding_box()
        assert first and first["y"] + first["height"] < LOOKS["phone"]["viewport"]["height"]
        expect(phone.field("Tag")).to_be_hidden()

        phone.page.get_by_text("Filters and order").click()
        expect(phone.field("Tag")).to_be_visible()
        phone.expect_usable()
        assert phone.violations == []
        window.close()


def test_the_first_hour_takes_few_clicks(visitor: Visitor, clicks: list[str]) -> None:
    """Each task from the first page on, with the clicks that it takes at most."""
    page = visitor.page
    visitor.go("")
    visitor.press("Load the sample")
    assert len(clicks) == 1

    def begin() -> None:
        visitor.go("")
        clicks.clear()

    # Read what is known about something.
    begin()
    visitor.field("Question").fill("Who reviews storage?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer ol a.key").first).to_have_text("sample/people/grace")
    visitor.follow(page.locator(".answer ol a.key").first)
    assert visitor.read_texts("h1") == ["sample/people/grace"]
    assert len(clicks) == 1

    # See who changed what.
    begin()
    expect(page.locator(".timeline li").first).to_contain_text("explorer created")
    assert clicks == []

    # Settle that two memories say the same.
    begin()
    visitor.press("Replace by the newer: sample/deploy/day")
    assert visitor.agent.find("sample/deploy/day")["archived"]
    assert len(clicks) == 1

    # Correct a memory.
    begin()
    visitor.follow(page.get_by_role("link", name="sample/project/plan").first)
    visitor.button("Edit").click()
    visitor.content.fill("First the ledger, then reports.")
    visitor.press("Save changes")
    assert visitor.agent.get("sample/project/plan")["content"] == "First the ledger, then reports."
    assert len(clicks) == 3

    # Follow links as an agent would.
    begin()
    visitor.follow(page.get_by_role("link", name="sample/people/grace").first)
    visitor.follow(page.get_by_role("link", name="Graph", exact=True).last)
    expect(page.locator(".box").first).to_be_in_viewport()
    assert len(clicks) == 2

    # Write a memory.
    begin()
    visitor.follow(page.get_by_role("link", name="Memories", exact=True))
    visitor.button("New memory").click()
    visitor.field("Content").fill("Mine.")
    visitor.press("Store memory")
    assert len(clicks) == 3

    # Remove the sample.
    begin()
    visitor.press("Remove the sample")
    assert visitor.agent.call("query_memories", archived=True)["total"] == 1
    assert len(clicks) == 1
