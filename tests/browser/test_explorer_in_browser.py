"""The explorer as people use it, by mouse and by keyboard."""

import json
import re
from datetime import date, timedelta
from typing import Any

from playwright.sync_api import expect

from abilities import Abilities, Settings, render
from abilities.builtin.catalog import BUILT_IN
from tests.browser.sample_memories import MEMORIES, finished
from tests.browser.visitor import Visitor


def called(settings: Settings, name: str, **arguments: Any) -> dict[str, Any]:
    """What the ability answers to Python."""

    async def asked() -> dict[str, Any]:
        async with Abilities.open(settings) as abilities:
            return await abilities.call(name, arguments)

    return finished(asked())


def looked(settings: Settings, key: str) -> dict[str, Any]:
    """A memory with its counters, which asking does not change."""
    found = called(settings, "query_memories", archived=True, limit=100)["memories"]
    return next((memory for memory in found if memory["key"] == key), {})


def test_memories_are_searched_filtered_sorted_and_counted(
    visitor: Visitor, house: Settings
) -> None:
    visitor.go("memories")
    assert visitor.texts(".count") == [f"{len(MEMORIES)} memories"]
    for label, value, query in (
        ("Search", "SHORT ANSWERS", {"search": "short answers"}),
        ("Type", "task", {"type": "task"}),
        ("Importance", "high", {"importance": "high"}),
        ("Tag", "plan", {"tags": ["plan"]}),
        ("Category", "person", {"category": "person"}),
        ("Sort by", "importance", {"sort_by": "importance"}),
    ):
        visitor.go("memories")
        control = visitor.field(label)
        if label in ("Type", "Importance", "Sort by"):
            control.select_option(value)
        else:
            control.fill(value)
        visitor.settle()
        found = called(house, "query_memories", limit=25, **query)
        assert visitor.texts(".memories a.key") == [memory["key"] for memory in found["memories"]]
        total = found["total"]
        assert visitor.texts(".count") == ["1 memory" if total == 1 else f"{total} memories"]
    visitor.page.reload()
    visitor.settle()
    expect(visitor.field("Sort by")).to_have_value("importance")


def test_a_key_typed_into_the_search_leads_to_its_memory(visitor: Visitor) -> None:
    visitor.go("memories")
    visitor.field("Search").fill("世界/größe")
    visitor.page.locator(".exact a").click()
    visitor.settle()
    assert visitor.texts("h1") == ["世界/größe"]
    assert "世界" in visitor.page.title()


def test_pages_go_on_and_back(visitor: Visitor, house: Settings) -> None:
    async def more() -> None:
        async with Abilities.open(house) as abilities:
            for n in range(60):
                await abilities.call(
                    "store_memory",
                    {"type": "core", "key": f"many/{n:02}", "content": f"multitude {n}"},
                )

    finished(more())
    visitor.go("memories")
    visitor.field("Search").fill("multitude")
    visitor.settle()
    seen = visitor.texts(".memories a.key")
    for words in ("26 to 50 of 60", "51 to 60 of 60"):
        visitor.button("After →").click()
        visitor.settle()
        assert visitor.texts(".pager span") == [words]
        seen += visitor.texts(".memories a.key")
    assert sorted(seen) == [f"many/{n:02}" for n in range(60)]
    expect(visitor.button("After →")).to_be_disabled()
    visitor.button("← Before").click()
    visitor.settle()
    assert visitor.texts(".pager span") == ["26 to 50 of 60"]


def test_keys_alone_are_enough(visitor: Visitor) -> None:
    visitor.go("memories")
    keyboard = visitor.page.keyboard
    keyboard.press("/")
    expect(visitor.field("Search")).to_be_focused()
    keyboard.type("the")
    visitor.settle()
    keys = visitor.texts(".memories a.key")
    visitor.page.locator(".memories a.key").first.focus()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    visitor.settle()
    assert visitor.texts("h1") == [keys[1]]
    expect(visitor.page.locator("h1")).to_be_focused()
    visitor.page.go_back()
    visitor.settle()
    expect(visitor.field("Search")).to_have_value("the")


def test_a_memory_shows_its_content_its_links_both_ways_and_counts_no_access(
    visitor: Visitor, house: Settings
) -> None:
    visitor.open("memory", "people/Ada")
    assert visitor.texts("pre.content") == ["Ada leads. She prefers short answers, and tea."]
    out, back = visitor.page.locator(".columns section").all()
    assert [" ".join(text.split()) for text in out.locator("a").all_inner_texts()] == [
        "project/goals",
        "people/Grace",
    ]
    assert back.locator("a").all_inner_texts() == ["project/goals"]
    assert "0 times" in visitor.texts(".facts")[0]
    back.locator("a").click()
    visitor.settle()
    assert visitor.texts("h1") == ["project/goals"]
    assert looked(house, "people/Ada")["access_count"] == 0


def test_a_memory_is_edited_field_by_field(visitor: Visitor, house: Settings) -> None:
    visitor.open("memory", "project/goals")
    before = looked(house, "project/goals")
    visitor.button("Edit").click()
    visitor.page.get_by_role("textbox", name="Content").fill("Ship in autumn.\nNothing lost.")
    visitor.field("Tags").fill("project\nlater, maybe")
    visitor.field("Importance").select_option("low")
    visitor.field("Further values").fill('{"reviewed": false, "by": "Grace"}')
    visitor.page.get_by_role("button", name="Remove the link to gone/one").click()
    visitor.page.get_by_label("Weight of the link").first.fill("0.25")
    visitor.button("Add a link").click()
    visitor.page.get_by_label("Key of the linked memory").last.fill("tasks/store")
    visitor.button("Save changes").click()
    visitor.settle()
    assert "Saved." in visitor.texts(".done")
    after = looked(house, "project/goals")
    assert after["content"] == "Ship in autumn.\nNothing lost." and after["tags"] == [
        "project",
        "later, maybe",
    ]
    assert (after["summary"], after["category"]) == (before["summary"], before["category"])
    assert {k: v for k, v in after["metadata"].items() if k != "memory_score"} == {
        "reviewed": False,
        "by": "Grace",
    }
    shown = called(house, "memory_get", key="project/goals")["data"]["links"]
    links = {link["key"]: link["link_weight"] for link in shown}
    assert links == {
        "project/plan": 0.25,
        "people/Ada": 0.8,
        "decisions/storage": 0.7,
        "tasks/store": 0.5,
    }


def test_what_cannot_be_stored_is_said_and_nothing_is_lost(
    visitor: Visitor, house: Settings
) -> None:
    visitor.expected = ["400 (Bad Request)"]
    visitor.open("memory", "people/Ada")
    visitor.button("Edit").click()
    visitor.page.get_by_role("textbox", name="Content").fill("x" * 5001)
    visitor.button("Save changes").click()
    visitor.settle()
    assert "malformed" in visitor.texts(".fault")[0] and "content" in visitor.texts(".fault")[0]
    expect(visitor.page.get_by_role("textbox", name="Content")).to_have_value("x" * 5001)
    visitor.page.get_by_role("textbox", name="Content").fill("shorter")
    visitor.field("Further values").fill("no json")
    visitor.button("Save changes").click()
    assert visitor.texts(".fault")[0].startswith("Error: Further values must be a JSON object.")
    visitor.button("Cancel").click()
    assert looked(house, "people/Ada")["content"].startswith("Ada leads.")


def test_a_memory_is_stored(visitor: Visitor, house: Settings) -> None:
    visitor.go("memories")
    visitor.button("New memory").click()
    form = visitor.page.get_by_role("form", name="New memory")
    form.get_by_label("Key", exact=True).fill("new/one")
    form.get_by_label("Type").select_option("learning")
    form.get_by_label(re.compile("^Content")).fill("Learned today.")
    form.get_by_label("Tags").fill("new")
    visitor.button("Store memory").click()
    visitor.settle()
    assert visitor.texts("h1") == ["new/one"]
    stored = looked(house, "new/one")
    assert (stored["type"], stored["content"], stored["tags"]) == (
        "learning",
        "Learned today.",
        ["new"],
    )


def test_archiving_restoring_and_deleting_ask_first(visitor: Visitor, house: Settings) -> None:
    visitor.open("memory", "tasks/store")
    for name, archived in (("Archive", True), ("Restore", False)):
        visitor.button(name).click()
        visitor.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        assert looked(house, "tasks/store").get("archived", False) is not archived
        visitor.button(name).click()
        visitor.page.get_by_role("dialog").get_by_role("button", name=name).click()
        visitor.settle()
        assert looked(house, "tasks/store").get("archived", False) is archived
    visitor.button("Delete for good").click()
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    assert looked(house, "tasks/store")
    visitor.button("Delete for good").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Delete for good").click()
    visitor.settle()
    assert looked(house, "tasks/store") == {} and visitor.texts("h1") == ["Memories"]


def test_the_graph_is_the_walk(visitor: Visitor, house: Settings) -> None:
    visitor.open("graph", "project/goals")
    asked: dict[str, Any] = {"key": "project/goals"}
    for limits in ({}, {"depth": 2, "breadth": 2}, {"depth": 2, "breadth": 2, "total": 4}):
        for name, value in limits.items():
            visitor.page.get_by_role("slider", name=name).fill(str(value))
        visitor.settle()
        asked |= limits
        walked = called(house, "bulk_read_memory", **asked)
        entries = [walked["targetMemory"], *walked["associatedMemories"]]
        titles = sorted(visitor.page.locator(".box:not(.cut) title").all_text_contents())
        assert titles == sorted(f"{n}. {entry['key']}" for n, entry in enumerate(entries, 1))
        cut = sorted(visitor.page.locator(".box.cut title").all_text_contents())
        assert cut == sorted(
            f"{c['key']}, left out by {c['cutBy']}" for c in walked["metadata"]["frontier"]
        )
        for words in walked["metadata"]["limitsReached"]:
            assert words in visitor.texts(".count")[0]
        texts = render(walked), render(walked, "toon")
        for text, shown in zip(texts, visitor.texts(".formats .sizes"), strict=True):
            assert shown.startswith(f"{len(text):,} characters")
            assert f"about {-(-len(text.encode()) // 4):,} tokens" in shown
    assert "breadth=2" in visitor.page.url
    visitor.page.reload()
    visitor.settle()
    assert len(visitor.page.locator(".box:not(.cut)").all()) == 4


def test_a_memory_in_the_graph_is_chosen_and_walked_from_by_keyboard(visitor: Visitor) -> None:
    visitor.open("graph", "project/goals")
    assert visitor.texts("aside h2") == ["project/goals"]
    visitor.page.get_by_role("button", name="1. project/goals").focus()
    visitor.page.keyboard.press("ArrowDown")
    visitor.page.keyboard.press("Enter")
    assert visitor.texts("aside h2") == ["project/plan"]
    assert "weight 0.9" in visitor.texts("aside p")[0]
    assert visitor.texts("aside pre") == ["First the walk, then the store, then the surfaces."]
    visitor.page.get_by_role("link", name="Walk from here").click()
    visitor.settle()
    assert visitor.texts("h1") == ["Graph of project/plan"]


def test_a_graph_begins_at_a_memory_that_is_picked_or_typed(visitor: Visitor) -> None:
    visitor.go("graph")
    visitor.page.get_by_role("link", name="people/Ada").click()
    visitor.settle()
    assert visitor.texts("h1") == ["Graph of people/Ada"]
    visitor.go("graph")
    visitor.field("Search").fill("no/such/memory")
    visitor.page.keyboard.press("Enter")
    visitor.settle()
    assert "No memory with this key." in visitor.texts(".fault")[0]


def test_notes_are_read_by_day(visitor: Visitor, house: Settings) -> None:
    day = date.today() - timedelta(days=1)
    visitor.go(f"notes?year={day.year}")
    content = called(
        house, "memory_read_bulk", targets=[{"type": "short_term", "date": day.isoformat()}]
    )
    text = content["results"][0]["data"]["content"]
    visitor.page.get_by_role(
        "button", name=f"{day.isoformat()}, {len(text.encode())} bytes"
    ).click()
    visitor.settle()
    assert visitor.page.locator("pre.content").inner_text().strip() == text.strip()
    visitor.button("Lasting notes").click()
    visitor.settle()
    assert "Ada prefers tea." in visitor.texts("pre.content")[0]
    visitor.button("The year before").click()
    visitor.settle()
    assert visitor.texts("h2")[0] == str(day.year - 1)


def test_files_show_which_root_answers_and_are_read_in_one_call(
    visitor: Visitor, house: Settings
) -> None:
    visitor.go("files")
    rows = visitor.texts(".files tbody tr")
    assert any(re.match(r"shared\.md agent hides the workspace's, 36 bytes", row) for row in rows)
    assert any(re.match(r"src/app\.py workspace", row) for row in rows) and ".env" not in " ".join(
        rows
    )
    for name in ("shared.md", "long.txt", "README.md"):
        visitor.page.get_by_label(f"Choose {name}").check()
    visitor.button("Read 3 in one call").click()
    visitor.settle()
    expected = called(house, "file_read_bulk", paths=["shared.md", "long.txt", "README.md"])
    assert visitor.texts(".record h3") == ["shared.md", "long.txt", "README.md"]
    assert visitor.page.locator(".record pre").first.inner_text().strip() == "the agent's own"
    assert json.loads(visitor.page.locator(".reply pre").inner_text()) == expected
    assert "Cut after 20,000 characters, by the limit of one item." in visitor.texts(".cutoff")[0]
    visitor.button("Read on: send next_request").click()
    visitor.settle()
    assert visitor.texts(".record h3") == [expected["results"][1]["truncation"]["next"]]
    visitor.field("Pattern").fill("src/**")
    visitor.settle()
    assert visitor.texts(".files .path") == ["src/app.py"]


def test_every_ability_has_a_form_of_its_schema(visitor: Visitor) -> None:
    visitor.go("try")
    assert visitor.texts(".try nav code") == [ability.name for ability in BUILT_IN]
    for ability in BUILT_IN:
        visitor.page.get_by_role("link", name=ability.name, exact=True).click()
        visitor.settle()
        fields = [
            text.removesuffix(" (required)") for text in visitor.texts(".try form label > span")
        ]
        assert fields == [name for name in ability.input.model_fields if name != "output_format"]


def test_abilities_are_tried_and_shown_in_both_formats(visitor: Visitor, house: Settings) -> None:
    visitor.go("try/file_read_bulk")
    visitor.field("paths").fill("shared.md\nnone.md")
    visitor.field("max_chars_per_file").fill("5")
    visitor.button("Call file_read_bulk").click()
    visitor.settle()
    expected = called(house, "file_read_bulk", paths=["shared.md", "none.md"], max_chars_per_file=5)
    assert json.loads(visitor.page.locator(".reply pre").inner_text()) == expected
    assert "NOT_FOUND" in visitor.texts(".record .fault")[0]
    visitor.page.get_by_label("TOON").check()
    assert (
        visitor.page.locator(".reply pre").inner_text().strip() == render(expected, "toon").strip()
    )
    visitor.go("try/memory_read_bulk")
    visitor.field("targets").fill('[{"type": "long_term"}]')
    visitor.button("Write JSON instead").click()
    typed = visitor.field("Arguments as JSON")
    assert json.loads(typed.input_value()) == {"targets": [{"type": "long_term"}]}
    visitor.button("Call memory_read_bulk").click()
    visitor.settle()
    assert "Ada prefers tea." in visitor.texts(".record pre")[0]
    typed.fill("{")
    visitor.button("Call memory_read_bulk").click()
    assert "This is not valid JSON." in visitor.texts(".fault")[0]
    visitor.go("try/memory_get")
    visitor.field("key").fill("none")
    visitor.button("Call memory_get").click()
    visitor.settle()
    assert "No memory with this key." in visitor.texts(".fault")[0]


def test_a_call_that_writes_asks_first(visitor: Visitor, house: Settings) -> None:
    visitor.go("try/store_memory")
    visitor.field("type").select_option("core")
    visitor.field("content").fill("tried")
    visitor.field("key").fill("tried/one")
    visitor.button("Call store_memory").click()
    dialog = visitor.page.get_by_role("dialog")
    assert looked(house, "tried/one") == {}
    dialog.get_by_role("button", name="Call").click()
    visitor.settle()
    assert looked(house, "tried/one")["content"] == "tried"
    expect(dialog).to_have_count(0)
