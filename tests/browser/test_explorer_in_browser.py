"""The explorer as people use it, by mouse and by keyboard."""

import json
import re
from datetime import date, timedelta

from playwright.sync_api import Route, expect

from abilities import render
from abilities.declarations.values import JsonObject
from tests.browser.sample_memories import AGES_OF_NOTES, MEMORIES
from tests.browser.visitor import Visitor, list_suggestions
from tests.support.catalog import BUILT_IN


def test_memories_are_searched_filtered_sorted_and_counted(reader: Visitor) -> None:
    reader.go("memories")
    assert reader.read_texts(".count") == [f"{len(MEMORIES)} memories"]

    for label, value, query in (
        ("Search", "SHORT ANSWERS", {"search": "short answers"}),
        ("Type", "task", {"type": "task"}),
        ("Importance", "high", {"importance": "high"}),
        ("Tag", "plan", {"tags": ["plan"]}),
        ("Category", "person", {"category": "person"}),
        ("Sort by", "importance", {"sort_by": "importance"}),
    ):
        expected = reader.agent.call(
            "query_memories", **{"limit": 25, "sort_by": "updated_at", **query}
        )
        total = expected["total"]

        reader.go("memories")
        control = reader.field(label)
        if label in ("Type", "Importance", "Sort by"):
            control.select_option(value)
        else:
            control.fill(value)
        reader.settle()

        keys = [memory["key"] for memory in expected["memories"]]
        expect(reader.page.locator(".memories a.key")).to_have_text(keys)
        assert reader.read_texts(".count") == ["1 memory" if total == 1 else f"{total} memories"]

    reader.page.reload()
    reader.settle()
    expect(reader.field("Sort by")).to_have_value("importance")


def test_a_key_typed_into_the_search_leads_to_its_memory(reader: Visitor) -> None:
    reader.go("memories")
    reader.field("Search").fill("世界/größe")
    reader.follow(reader.page.locator(".exact a"))

    assert reader.read_texts("h1") == ["世界/größe"]
    assert "世界" in reader.page.title()


def test_a_question_shows_what_an_agent_gets(reader: Visitor) -> None:
    question = "Who decides about the reader?"
    (record,) = reader.agent.call("recall", queries=[question])["results"]
    found = record["memories"]
    linked = next(memory for memory in found if "via" in memory)

    reader.go("home")
    reader.field("Question").fill(question)
    reader.follow(reader.page.get_by_role("button", name="Ask"))

    answered = reader.page.locator(".answer")
    assert answered.locator("ol a.key").all_inner_texts() == [memory["key"] for memory in found]
    expect(answered.locator(".count")).to_contain_text(f"{len(found)} of {record['matched']} hits")
    expect(answered).to_contain_text("holds decides")
    expect(answered).to_contain_text(f"by a link from {linked['via']}")

    answered.get_by_text("The reply", exact=True).click()
    expect(answered.locator("pre")).to_contain_text(found[0]["key"])

    # The question is in the address.
    reader.page.reload()
    reader.settle()
    expect(reader.field("Question")).to_have_value(question)
    assert answered.locator("ol a.key").count() == len(found)


def test_a_question_says_what_the_reply_has_no_room_for(visitor: Visitor) -> None:
    visitor.agent.store(
        *({"key": f"long-{n}", "type": "task", "content": f"zeppelin {n} " * 60} for n in range(30))
    )
    visitor.go("home?question=zeppelin%20unheardof")

    answered = visitor.page.locator(".answer")
    assert 0 < answered.locator("ol a.key").count() < 30
    assert answered.locator(".next a.key").count() == 10
    expect(answered).to_contain_text("In no memory: unheardof")


def test_pages_go_on_and_back(visitor: Visitor) -> None:
    expected = [f"many/{n:02}" for n in range(60)]
    visitor.agent.store(
        *({"type": "core", "key": key, "content": f"multitude {key}"} for key in expected)
    )
    visitor.go("memories")
    visitor.field("Search").fill("multitude")
    visitor.settle()

    keys = visitor.read_texts(".memories a.key")
    for range_text in ("26 to 50 of 60", "51 to 60 of 60"):
        visitor.press("Next →")
        assert visitor.read_texts(".pager span") == [range_text]
        keys += visitor.read_texts(".memories a.key")

    assert sorted(keys) == expected
    expect(visitor.button("Next →")).to_be_disabled()

    visitor.press("← Previous")
    assert visitor.read_texts(".pager span") == ["26 to 50 of 60"]


def test_the_keyboard_is_enough(reader: Visitor) -> None:
    reader.go("memories")
    keyboard = reader.page.keyboard

    keyboard.press("/")
    expect(reader.field("Search")).to_be_focused()
    keyboard.type("the")
    reader.settle()

    keys = reader.read_texts(".memories a.key")
    reader.page.locator(".memories a.key").first.focus()
    keyboard.press("ArrowDown")
    keyboard.press("Enter")
    reader.settle()
    assert reader.read_texts("h1") == [keys[1]]
    expect(reader.page.locator("h1")).to_be_focused()

    reader.page.go_back()
    reader.settle()
    expect(reader.field("Search")).to_have_value("the")


def test_a_memory_shows_its_content_its_links_both_ways_and_counts_no_access(
    visitor: Visitor,
) -> None:
    visitor.open("memory", "people/Ada")

    links, backlinks = visitor.page.locator(".columns section").all()
    content = "Ada leads. She prefers short answers, and tea."
    assert visitor.read_texts("pre.content") == [content]
    assert links.locator("a").all_inner_texts() == ["project/goals", "people/Grace"]
    assert backlinks.locator("a").all_inner_texts() == ["project/goals"]
    assert "0 times" in visitor.read_texts(".facts")[0]

    visitor.follow(backlinks.locator("a"))
    assert visitor.read_texts("h1") == ["project/goals"]
    assert visitor.agent.find("people/Ada")["access_count"] == 0


def test_a_memory_is_edited_field_by_field(visitor: Visitor) -> None:
    before = visitor.agent.find("project/goals")
    visitor.edit("project/goals")

    visitor.content.fill("Ship in autumn.\nNothing lost.")
    visitor.field("Tags").fill("project\nlater, maybe")
    visitor.field("Importance").select_option("low")
    visitor.field("Metadata").fill('{"reviewed": false, "by": "Grace"}')
    visitor.button("Remove the link to gone/one").click()
    visitor.page.get_by_label("Weight of the link").first.fill("0.25")
    visitor.button("Add a link").click()
    visitor.page.get_by_label("Key of the linked memory").last.fill("tasks/store")
    visitor.press("Save changes")
    assert "Saved." in visitor.read_texts(".done")

    after = visitor.agent.get("project/goals")
    after["metadata"].pop("memory_score")
    assert {link["key"]: link["link_weight"] for link in after["links"]} == {
        "project/plan": 0.25,
        "people/Ada": 0.8,
        "decisions/storage": 0.7,
        "tasks/store": 0.5,
    }
    expected = {
        "content": "Ship in autumn.\nNothing lost.",
        "tags": ["project", "later, maybe"],
        "importance": "low",
        "metadata": {"reviewed": False, "by": "Grace"},
        "summary": before["summary"],
        "category": before["category"],
    }
    assert {name: after[name] for name in expected} == expected


def test_a_refusal_is_shown_and_the_form_keeps_what_was_typed(reader: Visitor) -> None:
    reader.expected = ["400 (Bad Request)"]
    reader.edit("people/Ada")

    reader.content.fill("x" * 200_001)
    reader.press("Save changes")
    assert "operations takes at most 200000 bytes in total" in reader.read_texts(".fault")[0]
    expect(reader.content).to_have_value("x" * 200_001)

    reader.content.fill("shorter")
    reader.field("Metadata").fill("not JSON")
    reader.button("Save changes").click()
    assert reader.read_texts(".fault") == ["Metadata must be a JSON object."]

    reader.button("Cancel").click()
    assert reader.agent.find("people/Ada")["content"].startswith("Ada leads.")


def test_a_memory_is_stored(visitor: Visitor) -> None:
    visitor.go("memories")
    visitor.button("New memory").click()
    form = visitor.page.get_by_role("form", name="New memory")

    form.get_by_label("Key", exact=True).fill("new/one")
    form.get_by_label("Type").select_option("learning")
    form.get_by_label(re.compile("^Content")).fill("Learned today.")
    form.get_by_label("Tags").fill("new")
    visitor.press("Store memory")

    memory = visitor.agent.find("new/one")
    assert visitor.read_texts("h1") == ["new/one"]
    assert (memory["type"], memory["content"]) == ("learning", "Learned today.")
    assert memory["tags"] == ["new"]


def test_a_memory_is_renamed_and_that_is_undone(visitor: Visitor) -> None:
    visitor.open("memory", "people/Ada")
    visitor.button("Rename").click()
    visitor.field("New key").fill("people/Ada Lovelace")
    visitor.expect_usable()
    visitor.press("Rename")

    assert visitor.read_texts("h1") == ["people/Ada Lovelace"]
    links = visitor.agent.get("project/goals")["links"]
    assert "people/Ada Lovelace" in [link["key"] for link in links]

    visitor.press("Undo")
    assert visitor.read_texts("h1") == ["people/Ada"]
    assert visitor.agent.find("people/Ada Lovelace") == {}


def test_names_that_are_in_use_are_suggested(visitor: Visitor) -> None:
    tag, category = (visitor.page.get_by_label(name, exact=True) for name in ("Tag", "Category"))

    visitor.go("memories")
    tags = {tag for one in MEMORIES for tag in one.get("tags", [])}
    assert list_suggestions(tag) == sorted(tags)
    assert list_suggestions(category) == ["goal", "person"]

    visitor.edit("tasks/walk")
    visitor.settle()
    assert list_suggestions(category) == ["goal", "person"]
    visitor.button("Add the tag plan").click()
    visitor.button("Add a link").click()
    linked = visitor.page.get_by_label("Key of the linked memory").last
    linked.fill("decisions")
    visitor.settle()
    assert list_suggestions(linked) == ["decisions/storage"]

    linked.fill("decisions/storage")
    visitor.press("Save changes")
    memory = visitor.agent.get("tasks/walk")
    assert memory["tags"] == ["plan"]
    assert "decisions/storage" in [link["key"] for link in memory["links"]]


def test_limits_are_those_that_the_server_publishes(reader: Visitor) -> None:
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

    reader.page.route("**/api/abilities", publish_other_limits)

    reader.go("memories")
    reader.button("New memory").click()
    reader.button("Add a link").click()
    form = reader.page.get_by_role("form", name="New memory")
    for label, limit in (("Key", "11"), ("Summary", "12"), ("Category", "13")):
        expect(form.get_by_label(label, exact=True)).to_have_attribute("maxlength", limit)
    expect(form.get_by_label("Type of the link")).to_have_attribute("maxlength", "16")
    expect(form.get_by_text("0 characters")).to_be_visible()
    expect(form.get_by_text("at most 14, up to 15 characters each")).to_be_visible()
    assert reader.read_texts(".editor option")[:2] == ["core", "other"]

    reader.go("graph/project%2Fgoals?depth=3")
    depth = reader.page.get_by_role("slider", name="depth")
    expect(depth).to_have_attribute("max", "17")
    reader.go("graph/project%2Fgoals")
    expect(depth).to_have_value("7")

    reader.go("files")
    for name in ("shared.md", "README.md"):
        reader.page.get_by_label(f"Select {name}").check()
    expect(reader.page.get_by_text("2 of at most 2 selected")).to_be_visible()
    expect(reader.page.get_by_label("Select long.txt")).to_be_disabled()


def test_archiving_restoring_and_deleting_ask_first_and_are_undone(visitor: Visitor) -> None:
    key = "tasks/store"
    before = visitor.agent.get(key)
    visitor.open("memory", key)

    for name, archived in (("Archive", True), ("Restore", False)):
        visitor.button(name).click()
        visitor.dialog.get_by_role("button", name="Cancel").click()
        assert visitor.agent.find(key).get("archived", False) is not archived

        visitor.confirm(name)
        assert visitor.agent.find(key).get("archived", False) is archived

    visitor.confirm("Archive")
    visitor.press("Undo")
    assert "archived" not in visitor.agent.get(key)
    expect(visitor.button("Archive")).to_be_visible()

    visitor.button("Delete permanently").click()
    expect(visitor.dialog).to_be_visible()
    visitor.page.keyboard.press("Escape")
    expect(visitor.dialog).to_have_count(0)
    assert visitor.agent.find(key)

    visitor.confirm("Delete permanently")
    assert visitor.agent.find(key) == {}
    assert visitor.read_texts("h1") == ["Memories"]
    expect(visitor.page.locator(".notice")).to_contain_text("Deleted")
    assert key not in visitor.read_texts(".memories a.key")

    visitor.press("Undo")
    changed = {"version": 0, "updated_at": ""}
    assert {**visitor.agent.get(key), **changed} == {**before, **changed}
    assert visitor.read_texts("h1") == [key]


def test_the_graph_is_the_walk(reader: Visitor) -> None:
    boxes = reader.page.locator(".box:not(.cut)")
    cut_boxes = reader.page.locator(".box.cut")
    reader.open("graph", "project/goals")

    # Each step keeps the limits of the one before.
    arguments: JsonObject = {"key": "project/goals"}
    for limits in ({}, {"depth": 2, "breadth": 2}, {"total": 4}):
        arguments |= limits
        for name, value in limits.items():
            reader.page.get_by_role("slider", name=name).fill(str(value))
        reader.settle()

        walk = reader.agent.call("bulk_read_memory", **arguments)
        entries = [walk["targetMemory"], *walk["associatedMemories"]]
        frontier = walk["metadata"]["frontier"]
        titles = [f"{order}. {entry['key']}" for order, entry in enumerate(entries, 1)]
        cut_titles = [f"{cut['key']}, left out by {cut['cutBy']}" for cut in frontier]
        assert sorted(boxes.locator("title").all_text_contents()) == sorted(titles)
        assert sorted(cut_boxes.locator("title").all_text_contents()) == sorted(cut_titles)

        summary = reader.read_texts(".count")[0]
        assert all(limit in summary for limit in walk["metadata"]["limitsReached"])

        replies = render(walk), render(walk, "text"), render(walk, "toon")
        for reply, sizes in zip(replies, reader.read_texts(".formats .sizes"), strict=True):
            assert sizes.startswith(f"{len(reply):,} characters")
            assert f"about {-(-len(reply.encode()) // 4):,} tokens" in sizes

    assert "breadth=2" in reader.page.url
    reader.page.reload()
    reader.settle()
    assert boxes.count() == 4


def test_a_memory_in_the_graph_is_chosen_and_walked_from_by_keyboard(reader: Visitor) -> None:
    reader.open("graph", "project/goals")
    assert reader.read_texts("aside h2") == ["project/goals"]

    reader.button("1. project/goals").focus()
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    assert reader.read_texts("aside h2") == ["project/plan"]
    assert "with weight 0.9" in reader.read_texts("aside p")[0]
    content = "First the walk, then the store, then the surfaces."
    assert reader.read_texts("aside pre") == [content]

    reader.follow(reader.page.get_by_role("link", name="Walk from here"))
    assert reader.read_texts("h1") == ["Graph of project/plan"]


def test_a_graph_starts_at_a_memory_that_is_chosen_or_typed(reader: Visitor) -> None:
    reader.go("graph")
    reader.follow(reader.page.get_by_role("link", name="people/Ada"))
    assert reader.read_texts("h1") == ["Graph of people/Ada"]

    reader.go("graph")
    reader.field("Search").fill("no/such/memory")
    reader.page.keyboard.press("Enter")
    reader.settle()
    assert "No memory with this key." in reader.read_texts(".fault")[0]


def test_notes_are_read_by_day(reader: Visitor) -> None:
    day = date.today() - timedelta(days=1)
    target = {"type": "short_term", "date": day.isoformat()}
    (record,) = reader.agent.call("memory_read_bulk", targets=[target])["results"]
    content = record["data"]["content"]

    # The latest notes are open, beside the days of the months that have any.
    reader.go("notes")
    today = date.today()
    heading = f"{today.day} {today:%B} {today.year}"
    assert reader.read_texts(".note h3") == [heading]
    note, days = reader.page.locator(".note"), reader.page.locator(".year")
    beside, below = note.bounding_box(), days.bounding_box()
    assert beside and below and beside["x"] > below["x"] + below["width"] - 1

    months = {f"{today - timedelta(days=age):%B}" for age in AGES_OF_NOTES}
    if len({(today - timedelta(days=age)).year for age in AGES_OF_NOTES}) == 1:
        assert set(reader.read_texts(".year h3")) == months

    reader.go(f"notes?year={day.year}")
    reader.press(f"{day.isoformat()}, {len(content.encode())} bytes")
    assert reader.page.locator("pre.content").inner_text().strip() == content.strip()
    assert reader.read_texts(".note h3") == [f"{day.day} {day:%B} {day.year}"]

    reader.press("Long-term notes")
    assert "Ada prefers tea." in reader.read_texts("pre.content")[0]

    reader.press("Previous year")
    assert reader.read_texts("h2")[0] == str(day.year - 1)


def test_files_show_which_root_they_are_read_from(reader: Visitor) -> None:
    reader.go("files")

    rows = reader.read_texts(".files tbody tr")
    hiding = "shared.md agent hides the workspace's file, 36 bytes"
    assert any(row.startswith(hiding) for row in rows)
    assert any(row.startswith("src/app.py workspace") for row in rows)
    assert ".env" not in " ".join(rows)

    reader.field("Pattern").fill("src/**")
    reader.settle()
    assert reader.read_texts(".files .path") == ["src/app.py"]


def test_a_path_opens_its_file_with_numbered_lines(reader: Visitor) -> None:
    reader.go("files")
    reader.follow(reader.page.get_by_role("link", name="src/app.py"))
    assert reader.read_texts("h1") == ["src/app.py"]

    source = reader.page.locator(".source")
    assert source.locator("pre").inner_text() == "print('hello')\n"
    assert source.locator(".numbers").inner_text() == "1"
    font = source.locator("pre").evaluate("pre => getComputedStyle(pre).fontFamily")
    assert font.endswith("monospace")

    # A long file comes in pieces, and its lines are numbered on.
    reader.open("files", "long.txt")
    while reader.button("Read on").count():
        reader.press("Read on")
    lines = source.locator("pre").inner_text().splitlines()
    assert lines[-1] == f"line {len(lines) - 1} of a long file"
    numbers = source.locator(".numbers").inner_text().splitlines()
    assert numbers == [str(number) for number in range(1, len(lines) + 1)]

    reader.open("files", "none.md")
    assert "NOT_FOUND" in reader.read_texts(".fault")[0]

    reader.follow(reader.page.get_by_role("link", name="All files"))
    assert reader.read_texts("h1") == ["Files"]


def test_files_are_read_in_one_call(reader: Visitor) -> None:
    names = ["shared.md", "long.txt", "README.md"]
    expected = reader.agent.call("file_read_bulk", paths=names)

    reader.go("files")
    for name in names:
        reader.page.get_by_label(f"Select {name}").check()
    reader.press("Read 3 in one call")

    assert reader.read_texts(".record h3") == names
    assert reader.page.locator(".record pre").first.inner_text().strip() == "the agent's own"
    assert json.loads(reader.page.locator(".reply pre").inner_text()) == expected
    cut = "Cut after 20,000 characters, by the limit for each item."
    assert cut in reader.read_texts(".cutoff")[0]

    reader.press("Continue: send next_request")
    assert reader.read_texts(".record h3") == [expected["results"][1]["truncation"]["next"]]


def test_every_ability_has_a_form_of_its_schema(reader: Visitor) -> None:
    reader.go("try")
    assert reader.read_texts(".try nav code") == [ability.name for ability in BUILT_IN]

    for ability in BUILT_IN:
        reader.follow(reader.page.get_by_role("link", name=ability.name, exact=True))
        labels = reader.read_texts(".try form label > span")
        names = [label.removesuffix(" (required)") for label in labels]
        assert names == [name for name in ability.input.model_fields if name != "output_format"]


def test_abilities_are_tried_and_shown_in_every_format(reader: Visitor) -> None:
    names = ["shared.md", "none.md"]
    expected = reader.agent.call("file_read_bulk", paths=names, max_chars_per_file=5)

    reader.go("try/file_read_bulk")
    reader.field("paths").fill("\n".join(names))
    reader.field("max_chars_per_file").fill("5")
    reader.press("Call file_read_bulk")

    reply = reader.page.locator(".reply pre")
    assert json.loads(reply.inner_text()) == expected
    assert "NOT_FOUND" in reader.read_texts(".record .fault")[0]

    reader.page.get_by_label("TOON").check()
    assert reply.inner_text().strip() == render(expected, "toon").strip()

    reader.page.get_by_label("TEXT").check()
    assert reply.inner_text().strip() == render(expected, "text").strip()


def test_arguments_can_be_written_as_json_and_a_call_that_fails_says_why(reader: Visitor) -> None:
    targets = [{"type": "long_term"}]
    reader.go("try/memory_read_bulk")
    reader.field("targets").fill(json.dumps(targets))

    reader.button("Write JSON instead").click()
    arguments = reader.field("Arguments as JSON")
    assert json.loads(arguments.input_value()) == {"targets": targets}

    reader.press("Call memory_read_bulk")
    assert "Ada prefers tea." in reader.read_texts(".record pre")[0]

    arguments.fill("{")
    reader.button("Call memory_read_bulk").click()
    assert "This is not valid JSON." in reader.read_texts(".fault")[0]

    reader.go("try/memory_get")
    reader.field("key").fill("none")
    reader.press("Call memory_get")
    assert "No memory with this key." in reader.read_texts(".fault")[0]


def test_a_call_that_writes_asks_first(visitor: Visitor) -> None:
    visitor.go("try/store_memory")
    visitor.field("type").select_option("core")
    visitor.field("content").fill("tried")
    visitor.field("key").fill("tried/one")

    visitor.button("Call store_memory").click()
    assert visitor.agent.find("tried/one") == {}

    visitor.follow(visitor.dialog.get_by_role("button", name="Call"))
    assert visitor.agent.find("tried/one")["content"] == "tried"
    expect(visitor.dialog).to_have_count(0)
