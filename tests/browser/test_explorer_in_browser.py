"""The explorer as people use it, by mouse and by keyboard."""

import json
import re
from datetime import date, timedelta
from typing import Any

from playwright.sync_api import Route, expect

from abilities import Abilities, Settings, render
from abilities.declarations.values import JsonObject
from tests.browser.sample_memories import MEMORIES, run
from tests.browser.visitor import Visitor
from tests.support.catalog import BUILT_IN


def call_ability(settings: Settings, name: str, **arguments: Any) -> JsonObject:
    """Call an ability from Python."""

    async def call() -> JsonObject:
        async with Abilities.open(settings) as abilities:
            return await abilities.call(name, arguments)

    return run(call())


def find_memory(settings: Settings, key: str) -> JsonObject:
    """Return a memory with its counters, which a query does not change; {} if there is none."""
    page = call_ability(settings, "query_memories", archived=True, limit=100)
    return next((memory for memory in page["memories"] if memory["key"] == key), {})


def test_memories_are_searched_filtered_sorted_and_counted(
    visitor: Visitor, settings: Settings
) -> None:
    visitor.go("memories")
    assert visitor.read_texts(".count") == [f"{len(MEMORIES)} memories"]

    for label, value, query in (
        ("Search", "SHORT ANSWERS", {"search": "short answers"}),
        ("Type", "task", {"type": "task"}),
        ("Importance", "high", {"importance": "high"}),
        ("Tag", "plan", {"tags": ["plan"]}),
        ("Category", "person", {"category": "person"}),
        ("Sort by", "importance", {"sort_by": "importance"}),
    ):
        expected = call_ability(settings, "query_memories", limit=25, **query)
        keys = [memory["key"] for memory in expected["memories"]]
        total = expected["total"]

        visitor.go("memories")
        control = visitor.field(label)
        if label in ("Type", "Importance", "Sort by"):
            control.select_option(value)
        else:
            control.fill(value)
        visitor.settle()

        assert visitor.read_texts(".memories a.key") == keys
        assert visitor.read_texts(".count") == ["1 memory" if total == 1 else f"{total} memories"]

    visitor.page.reload()
    visitor.settle()
    expect(visitor.field("Sort by")).to_have_value("importance")


def test_a_key_typed_into_the_search_leads_to_its_memory(visitor: Visitor) -> None:
    visitor.go("memories")

    visitor.field("Search").fill("世界/größe")
    visitor.page.locator(".exact a").click()
    visitor.settle()

    assert visitor.read_texts("h1") == ["世界/größe"]
    assert "世界" in visitor.page.title()


def test_a_question_shows_what_an_agent_gets(visitor: Visitor, settings: Settings) -> None:
    question = "Who decides about the reader?"
    answer = call_ability(settings, "recall", queries=[question])
    (record,) = answer["results"]
    found = record["memories"]
    linked = next(memory for memory in found if "via" in memory)

    visitor.go("memories")
    visitor.field("Question").fill(question)
    visitor.page.get_by_role("button", name="Ask").click()
    visitor.settle()

    answered = visitor.page.locator(".answer")
    assert answered.locator("ol a.key").all_inner_texts() == [memory["key"] for memory in found]
    expect(answered.locator(".count")).to_contain_text(f"{len(found)} of {record['matched']} hits")
    expect(answered).to_contain_text("holds decides")
    expect(answered).to_contain_text(f"by a link from {linked['via']}")

    answered.get_by_text("The reply", exact=True).click()
    expect(answered.locator("pre")).to_contain_text(found[0]["key"])

    # The question is in the address.
    visitor.page.reload()
    visitor.settle()
    expect(visitor.field("Question")).to_have_value(question)
    assert answered.locator("ol a.key").count() == len(found)


def test_a_question_says_what_the_reply_has_no_room_for(
    visitor: Visitor, settings: Settings
) -> None:
    async def store_many() -> None:
        async with Abilities.open(settings) as abilities:
            for n in range(30):
                memory = {"key": f"long-{n}", "type": "task", "content": f"zeppelin {n} " * 60}
                await abilities.call("store_memory", memory)

    run(store_many())
    visitor.go("memories?question=zeppelin%20unheardof")

    answered = visitor.page.locator(".answer")
    shown = answered.locator("ol a.key").count()
    assert 0 < shown < 30
    assert answered.locator(".next a.key").count() == 10
    expect(answered).to_contain_text("In no memory: unheardof")


def test_pages_go_on_and_back(visitor: Visitor, settings: Settings) -> None:
    async def store_many() -> None:
        async with Abilities.open(settings) as abilities:
            for n in range(60):
                memory = {"type": "core", "key": f"many/{n:02}", "content": f"multitude {n}"}
                await abilities.call("store_memory", memory)

    run(store_many())
    visitor.go("memories")
    visitor.field("Search").fill("multitude")
    visitor.settle()

    keys = visitor.read_texts(".memories a.key")
    for range_text in ("26 to 50 of 60", "51 to 60 of 60"):
        visitor.button("Next →").click()
        visitor.settle()
        assert visitor.read_texts(".pager span") == [range_text]
        keys += visitor.read_texts(".memories a.key")

    assert sorted(keys) == [f"many/{n:02}" for n in range(60)]
    expect(visitor.button("Next →")).to_be_disabled()

    visitor.button("← Previous").click()
    visitor.settle()
    assert visitor.read_texts(".pager span") == ["26 to 50 of 60"]


def test_the_keyboard_is_enough(visitor: Visitor) -> None:
    visitor.go("memories")
    keyboard = visitor.page.keyboard

    keyboard.press("/")
    expect(visitor.field("Search")).to_be_focused()
    keyboard.type("the")
    visitor.settle()

    keys = visitor.read_texts(".memories a.key")
    visitor.page.locator(".memories a.key").first.focus()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    visitor.settle()
    assert visitor.read_texts("h1") == [keys[1]]
    expect(visitor.page.locator("h1")).to_be_focused()

    visitor.page.go_back()
    visitor.settle()
    expect(visitor.field("Search")).to_have_value("the")


def test_a_memory_shows_its_content_its_links_both_ways_and_counts_no_access(
    visitor: Visitor, settings: Settings
) -> None:
    visitor.open("memory", "people/Ada")

    links, backlinks = visitor.page.locator(".columns section").all()
    content = "Ada leads. She prefers short answers, and tea."
    assert visitor.read_texts("pre.content") == [content]
    assert links.locator("a").all_inner_texts() == ["project/goals", "people/Grace"]
    assert backlinks.locator("a").all_inner_texts() == ["project/goals"]
    assert "0 times" in visitor.read_texts(".facts")[0]

    backlinks.locator("a").click()
    visitor.settle()
    assert visitor.read_texts("h1") == ["project/goals"]
    assert find_memory(settings, "people/Ada")["access_count"] == 0


def test_a_memory_is_edited_field_by_field(visitor: Visitor, settings: Settings) -> None:
    before = find_memory(settings, "project/goals")
    visitor.open("memory", "project/goals")

    visitor.button("Edit").click()
    visitor.page.get_by_role("textbox", name="Content").fill("Ship in autumn.\nNothing lost.")
    visitor.field("Tags").fill("project\nlater, maybe")
    visitor.field("Importance").select_option("low")
    visitor.field("Metadata").fill('{"reviewed": false, "by": "Grace"}')
    visitor.button("Remove the link to gone/one").click()
    visitor.page.get_by_label("Weight of the link").first.fill("0.25")
    visitor.button("Add a link").click()
    visitor.page.get_by_label("Key of the linked memory").last.fill("tasks/store")
    visitor.button("Save changes").click()
    visitor.settle()

    assert "Saved." in visitor.read_texts(".done")

    after = find_memory(settings, "project/goals")
    assert after["content"] == "Ship in autumn.\nNothing lost."
    assert after["tags"] == ["project", "later, maybe"]
    assert after["importance"] == "low"
    assert (after["summary"], after["category"]) == (before["summary"], before["category"])

    after["metadata"].pop("memory_score")
    assert after["metadata"] == {"reviewed": False, "by": "Grace"}

    links = call_ability(settings, "memory_get", key="project/goals")["data"]["links"]
    assert {link["key"]: link["link_weight"] for link in links} == {
        "project/plan": 0.25,
        "people/Ada": 0.8,
        "decisions/storage": 0.7,
        "tasks/store": 0.5,
    }


def test_a_refusal_is_shown_and_the_form_keeps_what_was_typed(
    visitor: Visitor, settings: Settings
) -> None:
    visitor.expected = ["400 (Bad Request)"]
    visitor.open("memory", "people/Ada")
    visitor.button("Edit").click()
    content = visitor.page.get_by_role("textbox", name="Content")

    content.fill("x" * 200_001)
    visitor.button("Save changes").click()
    visitor.settle()
    assert "operations takes at most 200000 bytes in total" in visitor.read_texts(".fault")[0]
    expect(content).to_have_value("x" * 200_001)

    content.fill("shorter")
    visitor.field("Metadata").fill("not JSON")
    visitor.button("Save changes").click()
    assert visitor.read_texts(".fault") == ["Metadata must be a JSON object."]

    visitor.button("Cancel").click()
    assert find_memory(settings, "people/Ada")["content"].startswith("Ada leads.")


def test_a_memory_is_stored(visitor: Visitor, settings: Settings) -> None:
    visitor.go("memories")
    visitor.button("New memory").click()
    form = visitor.page.get_by_role("form", name="New memory")

    form.get_by_label("Key", exact=True).fill("new/one")
    form.get_by_label("Type").select_option("learning")
    form.get_by_label(re.compile("^Content")).fill("Learned today.")
    form.get_by_label("Tags").fill("new")
    visitor.button("Store memory").click()
    visitor.settle()

    memory = find_memory(settings, "new/one")
    assert visitor.read_texts("h1") == ["new/one"]
    assert (memory["type"], memory["content"]) == ("learning", "Learned today.")
    assert memory["tags"] == ["new"]


def test_limits_are_those_that_the_server_publishes(visitor: Visitor) -> None:
    def publish_other_limits(route: Route) -> None:
        abilities = route.fetch().json()
        schemas = {ability["name"]: ability["inputSchema"]["properties"] for ability in abilities}

        stored = schemas["store_memory"]
        stored["key"]["maxLength"] = 11
        stored["summary"]["maxLength"] = 12
        stored["category"]["maxLength"] = 13
        stored["tags"]["maxItems"] = 14
        stored["tags"]["items"]["maxLength"] = 15
        stored["type"]["enum"] = ["core", "other"]
        stored["links"]["items"]["properties"]["type"]["maxLength"] = 16
        schemas["bulk_read_memory"]["depth"] |= {"default": 7, "maximum": 17}
        schemas["file_read_bulk"]["paths"]["maxItems"] = 2
        route.fulfill(json=abilities)

    visitor.page.route("**/api/abilities", publish_other_limits)

    visitor.go("memories")
    visitor.button("New memory").click()
    visitor.button("Add a link").click()
    form = visitor.page.get_by_role("form", name="New memory")
    for label, limit in (("Key", "11"), ("Summary", "12"), ("Category", "13")):
        expect(form.get_by_label(label, exact=True)).to_have_attribute("maxlength", limit)
    expect(form.get_by_label("Type of the link")).to_have_attribute("maxlength", "16")
    expect(form.get_by_text("0 characters")).to_be_visible()
    expect(form.get_by_text("at most 14, up to 15 characters each")).to_be_visible()
    assert visitor.read_texts(".editor option")[:2] == ["core", "other"]

    visitor.go("graph/project%2Fgoals?depth=3")
    depth = visitor.page.get_by_role("slider", name="depth")
    expect(depth).to_have_attribute("max", "17")
    visitor.go("graph/project%2Fgoals")
    expect(depth).to_have_value("7")

    visitor.go("files")
    for name in ("shared.md", "README.md"):
        visitor.page.get_by_label(f"Select {name}").check()
    expect(visitor.page.get_by_text("2 of at most 2 selected")).to_be_visible()
    expect(visitor.page.get_by_label("Select long.txt")).to_be_disabled()


def test_archiving_restoring_and_deleting_ask_first(visitor: Visitor, settings: Settings) -> None:
    visitor.open("memory", "tasks/store")
    dialog = visitor.page.get_by_role("dialog")

    for name, archived in (("Archive", True), ("Restore", False)):
        visitor.button(name).click()
        dialog.get_by_role("button", name="Cancel").click()
        assert find_memory(settings, "tasks/store").get("archived", False) is not archived

        visitor.button(name).click()
        dialog.get_by_role("button", name=name).click()
        visitor.settle()
        assert find_memory(settings, "tasks/store").get("archived", False) is archived

    visitor.button("Delete permanently").click()
    expect(dialog).to_be_visible()
    visitor.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert find_memory(settings, "tasks/store")

    visitor.button("Delete permanently").click()
    dialog.get_by_role("button", name="Delete permanently").click()
    visitor.settle()
    assert find_memory(settings, "tasks/store") == {}
    assert visitor.read_texts("h1") == ["Memories"]


def test_the_graph_is_the_walk(visitor: Visitor, settings: Settings) -> None:
    boxes = visitor.page.locator(".box:not(.cut)")
    cut_boxes = visitor.page.locator(".box.cut")
    visitor.open("graph", "project/goals")

    # Each step keeps the limits of the one before.
    arguments: JsonObject = {"key": "project/goals"}
    for limits in ({}, {"depth": 2, "breadth": 2}, {"total": 4}):
        arguments |= limits
        for name, value in limits.items():
            visitor.page.get_by_role("slider", name=name).fill(str(value))
        visitor.settle()

        walk = call_ability(settings, "bulk_read_memory", **arguments)
        entries = [walk["targetMemory"], *walk["associatedMemories"]]
        frontier = walk["metadata"]["frontier"]
        titles = [f"{order}. {entry['key']}" for order, entry in enumerate(entries, 1)]
        cut_titles = [f"{cut['key']}, left out by {cut['cutBy']}" for cut in frontier]
        assert sorted(boxes.locator("title").all_text_contents()) == sorted(titles)
        assert sorted(cut_boxes.locator("title").all_text_contents()) == sorted(cut_titles)

        summary = visitor.read_texts(".count")[0]
        assert all(limit in summary for limit in walk["metadata"]["limitsReached"])

        replies = render(walk), render(walk, "text"), render(walk, "toon")
        for reply, sizes in zip(replies, visitor.read_texts(".formats .sizes"), strict=True):
            assert sizes.startswith(f"{len(reply):,} characters")
            assert f"about {-(-len(reply.encode()) // 4):,} tokens" in sizes

    assert "breadth=2" in visitor.page.url
    visitor.page.reload()
    visitor.settle()
    assert boxes.count() == 4


def test_a_memory_in_the_graph_is_chosen_and_walked_from_by_keyboard(visitor: Visitor) -> None:
    visitor.open("graph", "project/goals")
    assert visitor.read_texts("aside h2") == ["project/goals"]

    visitor.button("1. project/goals").focus()
    visitor.page.keyboard.press("ArrowDown")
    visitor.page.keyboard.press("Enter")
    assert visitor.read_texts("aside h2") == ["project/plan"]
    assert "with weight 0.9" in visitor.read_texts("aside p")[0]
    content = "First the walk, then the store, then the surfaces."
    assert visitor.read_texts("aside pre") == [content]

    visitor.page.get_by_role("link", name="Walk from here").click()
    visitor.settle()
    assert visitor.read_texts("h1") == ["Graph of project/plan"]


def test_a_graph_starts_at_a_memory_that_is_chosen_or_typed(visitor: Visitor) -> None:
    visitor.go("graph")
    visitor.page.get_by_role("link", name="people/Ada").click()
    visitor.settle()
    assert visitor.read_texts("h1") == ["Graph of people/Ada"]

    visitor.go("graph")
    visitor.field("Search").fill("no/such/memory")
    visitor.page.keyboard.press("Enter")
    visitor.settle()
    assert "No memory with this key." in visitor.read_texts(".fault")[0]


def test_notes_are_read_by_day(visitor: Visitor, settings: Settings) -> None:
    day = date.today() - timedelta(days=1)
    target = {"type": "short_term", "date": day.isoformat()}
    reply = call_ability(settings, "memory_read_bulk", targets=[target])
    content = reply["results"][0]["data"]["content"]

    visitor.go(f"notes?year={day.year}")
    visitor.button(f"{day.isoformat()}, {len(content.encode())} bytes").click()
    visitor.settle()
    assert visitor.page.locator("pre.content").inner_text().strip() == content.strip()

    visitor.button("Long-term notes").click()
    visitor.settle()
    assert "Ada prefers tea." in visitor.read_texts("pre.content")[0]

    visitor.button("Previous year").click()
    visitor.settle()
    assert visitor.read_texts("h2")[0] == str(day.year - 1)


def test_files_show_which_root_they_are_read_from(visitor: Visitor) -> None:
    visitor.go("files")

    rows = visitor.read_texts(".files tbody tr")
    hiding = "shared.md agent hides the workspace's file, 36 bytes"
    assert any(row.startswith(hiding) for row in rows)
    assert any(row.startswith("src/app.py workspace") for row in rows)
    assert ".env" not in " ".join(rows)

    visitor.field("Pattern").fill("src/**")
    visitor.settle()
    assert visitor.read_texts(".files .path") == ["src/app.py"]


def test_files_are_read_in_one_call(visitor: Visitor, settings: Settings) -> None:
    names = ["shared.md", "long.txt", "README.md"]
    expected = call_ability(settings, "file_read_bulk", paths=names)

    visitor.go("files")
    for name in names:
        visitor.page.get_by_label(f"Select {name}").check()
    visitor.button("Read 3 in one call").click()
    visitor.settle()

    assert visitor.read_texts(".record h3") == names
    assert visitor.page.locator(".record pre").first.inner_text().strip() == "the agent's own"
    assert json.loads(visitor.page.locator(".reply pre").inner_text()) == expected
    cut = "Cut after 20,000 characters, by the limit for each item."
    assert cut in visitor.read_texts(".cutoff")[0]

    visitor.button("Continue: send next_request").click()
    visitor.settle()
    assert visitor.read_texts(".record h3") == [expected["results"][1]["truncation"]["next"]]


def test_every_ability_has_a_form_of_its_schema(visitor: Visitor) -> None:
    visitor.go("try")
    assert visitor.read_texts(".try nav code") == [ability.name for ability in BUILT_IN]

    for ability in BUILT_IN:
        visitor.page.get_by_role("link", name=ability.name, exact=True).click()
        visitor.settle()
        labels = visitor.read_texts(".try form label > span")
        names = [label.removesuffix(" (required)") for label in labels]
        assert names == [name for name in ability.input.model_fields if name != "output_format"]


def test_abilities_are_tried_and_shown_in_every_format(
    visitor: Visitor, settings: Settings
) -> None:
    arguments = {"paths": ["shared.md", "none.md"], "max_chars_per_file": 5}
    expected = call_ability(settings, "file_read_bulk", **arguments)

    visitor.go("try/file_read_bulk")
    visitor.field("paths").fill("shared.md\nnone.md")
    visitor.field("max_chars_per_file").fill("5")
    visitor.button("Call file_read_bulk").click()
    visitor.settle()

    reply = visitor.page.locator(".reply pre")
    assert json.loads(reply.inner_text()) == expected
    assert "NOT_FOUND" in visitor.read_texts(".record .fault")[0]

    visitor.page.get_by_label("TOON").check()
    assert reply.inner_text().strip() == render(expected, "toon").strip()

    visitor.page.get_by_label("TEXT").check()
    assert reply.inner_text().strip() == render(expected, "text").strip()


def test_arguments_can_be_written_as_json(visitor: Visitor) -> None:
    targets = [{"type": "long_term"}]
    visitor.go("try/memory_read_bulk")
    visitor.field("targets").fill(json.dumps(targets))

    visitor.button("Write JSON instead").click()
    arguments = visitor.field("Arguments as JSON")
    assert json.loads(arguments.input_value()) == {"targets": targets}

    visitor.button("Call memory_read_bulk").click()
    visitor.settle()
    assert "Ada prefers tea." in visitor.read_texts(".record pre")[0]

    arguments.fill("{")
    visitor.button("Call memory_read_bulk").click()
    assert "This is not valid JSON." in visitor.read_texts(".fault")[0]


def test_a_tried_call_that_fails_says_why(visitor: Visitor) -> None:
    visitor.go("try/memory_get")

    visitor.field("key").fill("none")
    visitor.button("Call memory_get").click()
    visitor.settle()

    assert "No memory with this key." in visitor.read_texts(".fault")[0]


def test_a_call_that_writes_asks_first(visitor: Visitor, settings: Settings) -> None:
    visitor.go("try/store_memory")
    visitor.field("type").select_option("core")
    visitor.field("content").fill("tried")
    visitor.field("key").fill("tried/one")

    visitor.button("Call store_memory").click()
    dialog = visitor.page.get_by_role("dialog")
    assert find_memory(settings, "tried/one") == {}

    dialog.get_by_role("button", name="Call").click()
    visitor.settle()
    assert find_memory(settings, "tried/one")["content"] == "tried"
    expect(dialog).to_have_count(0)
