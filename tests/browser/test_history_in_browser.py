"""Histories, changes, conflicts, drafts and undoing in the explorer, as people meet them."""

import re

from playwright.sync_api import expect

from tests.browser.sample_memories import SCRIPTS
from tests.browser.visitor import TokenVisit, Visitor

ADA = "people/Ada"
MINE = "Ada leads. She prefers long answers, and tea."
THEIRS = "Ada leads. She prefers short answers, and coffee."


def read_sides(visitor: Visitor) -> tuple[str, str]:
    """Return both contents that are shown side by side."""
    theirs = visitor.page.get_by_label(re.compile("^(Theirs, as it is now|Deleted): Content"))
    mine = visitor.page.get_by_label("Yours, as typed: Content")
    return theirs.inner_text(), mine.inner_text()


def meet_conflict(visitor: Visitor) -> None:
    """Save a form whose memory an agent has changed since it was opened."""
    visitor.expected = ["412 (Precondition Failed)"]
    visitor.edit(ADA)
    visitor.content.fill(MINE)
    visitor.page.get_by_role("textbox", name="Tags").fill("people\nlead")
    visitor.agent.change(ADA, content=THEIRS)
    visitor.agent.change(ADA, summary="Likes coffee.", links=[{"key": "tasks/walk"}])

    visitor.press("Save changes")


def test_a_write_that_came_second_is_not_lost(visitor: Visitor) -> None:
    meet_conflict(visitor)

    heading = visitor.page.get_by_role("heading", name="Somebody changed this memory meanwhile")
    expect(heading).to_be_focused()
    assert read_sides(visitor) == (THEIRS, MINE)
    sides = visitor.page.locator(".conflict .compared")
    assert sides.nth(0).locator("del").all_inner_texts() == ["short", "coffee"]
    assert sides.nth(1).locator("ins").all_inner_texts() == ["long", "tea"]
    assert visitor.agent.get(ADA)["content"] == THEIRS

    # What the person did not touch follows the agent; what was typed stays.
    visitor.button("Keep editing on the newer version").click()
    expect(visitor.content).to_have_value(MINE)
    expect(visitor.page.get_by_label("Summary")).to_have_value("Likes coffee.")
    both = "Ada leads. She prefers long answers, and coffee."
    visitor.content.fill(both)
    visitor.press("Save changes")
    assert "Saved." in visitor.read_texts(".done")

    memory = visitor.agent.get(ADA)
    assert (memory["content"], memory["summary"]) == (both, "Likes coffee.")
    assert memory["tags"] == ["people", "lead"]
    assert "tasks/walk" in {link["key"] for link in memory["links"]}


def test_a_write_that_came_second_can_overwrite(visitor: Visitor) -> None:
    meet_conflict(visitor)

    # It overwrites what was shown, and not what comes after that.
    visitor.agent.change(ADA, content="Ada has left.")
    visitor.press("Overwrite with yours")
    assert read_sides(visitor)[0] == "Ada has left."

    visitor.press("Overwrite with yours")
    memory = visitor.agent.get(ADA)
    assert (memory["content"], memory["summary"]) == (MINE, "Likes coffee.")
    actions = visitor.agent.list_actions(ADA)
    assert actions[:2] == [("changed", "explorer"), ("changed", "http")]


def test_a_write_that_came_second_can_give_way(visitor: Visitor) -> None:
    meet_conflict(visitor)
    before = visitor.agent.get(ADA)

    visitor.press("Take theirs")

    assert visitor.read_texts("pre.content") == [before["content"]]
    assert visitor.agent.get(ADA) == before
    expect(visitor.button("Go on editing")).to_have_count(0)


def test_a_memory_that_was_deleted_meanwhile_can_be_stored_again(visitor: Visitor) -> None:
    visitor.expected = ["404 (Not Found)"]
    stays = "Ada leads and stays."
    visitor.edit(ADA)
    visitor.content.fill(stays)
    visitor.agent.call("delete_memory", key=ADA, permanent=True)

    visitor.press("Save changes")
    assert read_sides(visitor) == ("", stays)
    visitor.press("Store yours again")

    memory = visitor.agent.get(ADA)
    assert (memory["content"], memory["category"]) == (stays, "person")
    assert visitor.read_texts("pre.content") == [stays]


def expect_in_order(visitor: Visitor) -> None:
    """Check that the form is below the heading, and everything else about the memory below it."""
    boxes = [
        visitor.page.locator(part).bounding_box()
        for part in ("h1", ".editor", ".facts", ".history")
    ]
    tops = [box["y"] for box in boxes if box]
    assert len(tops) == len(boxes) and tops == sorted(tops)


def test_a_form_stays_while_its_memory_is_deleted(visitor: Visitor) -> None:
    visitor.expected = ["404 (Not Found)"]
    visitor.edit(ADA)
    visitor.content.fill(MINE)
    expect_in_order(visitor)
    visitor.agent.call("delete_memory", key=ADA, permanent=True)

    expect(visitor.page.get_by_role("alert")).to_contain_text("No memory with this key.")
    expect(visitor.content).to_have_value(MINE)
    expect_in_order(visitor)
    visitor.button("Cancel").click()
    expect(visitor.page.get_by_text("It was deleted by")).to_be_visible()
    expect(visitor.button("Go on editing")).to_be_visible()


def test_a_new_memory_does_not_overwrite_one_with_its_key(visitor: Visitor) -> None:
    visitor.expected = ["412 (Precondition Failed)"]
    visitor.go("memories")
    visitor.button("New memory").click()
    visitor.page.get_by_label("Key", exact=True).fill(ADA)
    visitor.content.fill("Another Ada.")
    visitor.press("Store memory")
    assert read_sides(visitor) == (visitor.agent.get(ADA)["content"], "Another Ada.")

    visitor.press("Overwrite with yours")
    memory = visitor.agent.get(ADA)
    assert (memory["content"], memory["category"]) == ("Another Ada.", "person")
    assert visitor.read_texts("h1") == [ADA]


def test_what_changed_meanwhile_is_not_deleted_unseen(visitor: Visitor) -> None:
    visitor.expected = ["412 (Precondition Failed)"]
    visitor.open("memory", ADA)
    visitor.button("Delete permanently").click()
    visitor.agent.change(ADA, content="Ada leads all of it.")

    visitor.follow(visitor.dialog.get_by_role("button", name="Delete permanently"))
    expect(visitor.dialog.get_by_role("alert")).to_contain_text("The memory changed")
    visitor.dialog.get_by_role("button", name="Cancel").click()

    assert visitor.read_texts("pre.content") == ["Ada leads all of it."]
    assert visitor.agent.get(ADA)["content"] == "Ada leads all of it."


def test_a_half_written_form_is_kept(visitor: Visitor) -> None:
    visitor.edit(ADA)
    visitor.content.fill("half")
    visitor.settle()  # a form is kept once it has been drawn

    # Leaving the page keeps it, and so does leaving the form.
    visitor.go("files")
    visitor.open("memory", ADA)
    visitor.button("Go on editing").click()
    expect(visitor.content).to_have_value("half")
    visitor.button("Cancel").click()
    expect(visitor.content).to_have_count(0)

    # Leaving the tab asks first; a page that is loaded anew still has it.
    visitor.expected_dialogs = ["beforeunload"]
    visitor.page.reload()
    visitor.settle()
    assert visitor.expected_dialogs == []
    visitor.agent.change(ADA, summary="Changed since.")
    visitor.button("Go on editing").click()
    expect(visitor.content).to_have_value("half")

    # It knows which memory it began with.
    visitor.expected = ["412 (Precondition Failed)"]
    visitor.press("Save changes")
    visitor.button("Keep editing on the newer version").click()
    expect(visitor.page.get_by_label("Summary")).to_have_value("Changed since.")
    visitor.press("Save changes")
    assert visitor.agent.get(ADA)["content"] == "half"

    visitor.page.reload()
    visitor.settle()
    expect(visitor.button("Go on editing")).to_have_count(0)


def test_a_form_that_was_left_can_be_discarded(reader: Visitor) -> None:
    reader.go("memories")
    reader.button("New memory").click()
    reader.content.fill("half")
    reader.settle()
    reader.open("memory", ADA)
    reader.go("memories")

    reader.button("Discard it").click()
    expect(reader.button("Go on editing")).to_have_count(0)
    reader.button("New memory").click()
    expect(reader.content).to_have_value("")
    assert reader.page.evaluate("sessionStorage.length") == 0


def test_an_older_version_is_looked_at_and_restored(visitor: Visitor) -> None:
    original = visitor.agent.get(ADA)
    visitor.agent.change(ADA, content=MINE)
    visitor.agent.change(ADA, tags=["people", "lead"], importance="high")

    visitor.open("memory", ADA)
    page = visitor.page
    latest, content_change, creation = visitor.read_texts(".history summary")
    assert latest.startswith("changed importance, ")
    assert "tags by http" in latest
    assert content_change.startswith("changed content by http")
    assert creation.startswith("created by python")

    visitor.follow(page.locator(".history li").nth(1).locator("summary"))
    compared = page.get_by_label("Differences: Content")
    assert compared.locator("del").all_inner_texts() == ["short"]
    assert compared.locator("ins").all_inner_texts() == ["long"]

    page.get_by_label("Compare with").select_option("after")
    visitor.settle()
    assert page.get_by_label("Differences: Tags").locator("ins").all_inner_texts() == ["\nlead"]
    expect(compared).to_have_count(0)

    # The present version is not offered.
    assert page.get_by_role("button", name="Restore this version").count() == 2
    visitor.press(f"Restore this version, {original['version']}")
    restored = visitor.agent.get(ADA)
    changed = {name: original[name] for name in ("version", "updated_at")}
    assert {**restored, **changed} == original
    assert visitor.read_texts("pre.content") == [original["content"]]
    assert visitor.agent.list_actions(ADA)[0] == ("restored", "explorer")

    visitor.press("Undo")
    assert visitor.agent.get(ADA)["tags"] == ["people", "lead"]
    assert visitor.read_texts("pre.content") == [MINE]


def test_a_long_history_goes_on(visitor: Visitor) -> None:
    visitor.agent.store(
        *({"type": "core", "key": ADA, "content": f"state {number}"} for number in range(30))
    )

    visitor.open("memory", ADA)
    entries = visitor.page.locator(".history li")
    assert entries.count() == 20

    visitor.press("Older changes")
    assert entries.count() == 31
    expect(visitor.button("Older changes")).to_have_count(0)

    visitor.follow(entries.nth(30).locator("summary"))
    first = visitor.page.get_by_label("Differences: Content").locator("ins")
    assert first.all_inner_texts() == ["Ada leads. She prefers short answers, and tea."]


def test_a_deleted_memory_is_restored_from_its_history(visitor: Visitor) -> None:
    visitor.expected = ["404 (Not Found)"]
    before = visitor.agent.get(ADA)
    visitor.agent.call("delete_memory", key=ADA, permanent=True)

    visitor.open("memory", ADA)
    expect(visitor.page.locator(".history")).to_contain_text("It was deleted by http")
    visitor.follow(visitor.page.locator(".history summary").first)
    deleted = visitor.page.get_by_label("Differences: Content").locator("del")
    assert deleted.all_inner_texts() == [before["content"]]

    visitor.press(f"Restore this version, {before['version']}")
    assert visitor.read_texts("pre.content") == [before["content"]]
    assert visitor.agent.get(ADA)["links"] == before["links"]


def test_a_former_key_leads_to_the_memory(visitor: Visitor) -> None:
    visitor.expected = ["404 (Not Found)"]
    visitor.agent.change(ADA, key="people/Ada Lovelace")

    visitor.open("memory", ADA)
    visitor.follow(visitor.page.get_by_role("link", name="people/Ada Lovelace"))

    assert visitor.read_texts("h1") == ["people/Ada Lovelace"]


def test_changes_tell_who_did_what(visitor: Visitor) -> None:
    visitor.agent.change(ADA, content="new")
    visitor.agent.call("delete_memory", key="tasks/walk")
    visitor.edit("people/Grace")
    visitor.page.get_by_label("Summary").fill("Reviews.")
    visitor.press("Save changes")

    visitor.follow(visitor.page.get_by_role("link", name="Changes"))
    lines = [line.split(" ", 2)[2] for line in visitor.read_texts(".timeline li")]
    assert lines[:4] == [
        "explorer changed people/Grace",
        "http archived tasks/walk",
        "http changed people/Ada",
        "python created 世界/größe",
    ]

    visitor.follow(visitor.page.get_by_role("link", name="http", exact=True).first)
    assert len(visitor.read_texts(".timeline li")) == 2
    visitor.field("What was done").select_option("archived")
    visitor.settle()
    assert visitor.read_texts(".timeline a.key") == ["tasks/walk"]

    visitor.follow(visitor.page.locator(".timeline a.key"))
    assert visitor.read_texts("h1") == ["tasks/walk"]


def test_changes_go_back_to_the_first(visitor: Visitor) -> None:
    visitor.agent.store(
        *({"type": "core", "key": ADA, "content": f"state {number}"} for number in range(60))
    )

    visitor.go("changes")
    assert len(visitor.read_texts(".timeline li")) == 50
    visitor.press("Older changes")

    keys = visitor.read_texts(".timeline a.key")
    assert keys[:60] == [ADA] * 60
    assert (len(keys), keys[-1]) == (71, "project/goals")


def test_who_may_only_read_sees_the_past_and_no_button(token_visit: TokenVisit) -> None:
    visitor = token_visit.visitor
    visitor.agent.change(ADA, content="new")
    visitor.page.goto(visitor.address)
    visitor.enter(token_visit.read_token)
    visitor.settle()

    visitor.open("memory", ADA)
    visitor.follow(visitor.page.locator(".history summary").first)
    assert visitor.read_texts(".compared ins") == ["new"]
    assert visitor.page.get_by_role("button", name="Restore this version").count() == 0

    visitor.go("changes")
    assert "helper bot changed people/Ada" in visitor.read_texts(".timeline li")[0]

    # What was deleted is for those who could restore it.
    visitor.agent.call("delete_memory", key=ADA, permanent=True)
    visitor.expected += ["404 (Not Found)", "403 (Forbidden)"]
    visitor.open("memory", ADA)
    assert visitor.page.locator(".history li").count() == 0


def test_the_past_is_text(visitor: Visitor) -> None:
    visitor.expected = ["412 (Precondition Failed)"]
    key = SCRIPTS[0]
    mine, theirs = "\n".join(reversed(SCRIPTS)), "x\n".join(SCRIPTS)
    tags = [script[:30] for script in SCRIPTS[:9]]
    visitor.agent.store({"key": key, "type": "core", "content": "\n".join(SCRIPTS)})
    visitor.edit(key)
    visitor.content.fill(mine)
    visitor.agent.change(key, content=theirs, tags=tags)
    visitor.press("Save changes")
    assert read_sides(visitor) == (theirs, mine)

    visitor.press("Take theirs")
    for summary in visitor.page.locator(".history summary").all():
        summary.click()
    visitor.settle()
    added = visitor.page.get_by_label("Differences: Tags").inner_text()
    assert added == "\n".join(tags)

    visitor.go("changes")
    assert visitor.read_texts(".timeline a.key")[0] == key
    assert visitor.page.title() != "HACKED"


def test_everybody_can_use_the_past(somebody: Visitor) -> None:
    somebody.agent.change(ADA, content="Ada leads, mostly.", tags=["people", "lead"])
    somebody.open("memory", ADA)
    somebody.follow(somebody.page.locator(".history summary").first)
    somebody.expect_usable()

    meet_conflict(somebody)
    somebody.expect_usable()
    somebody.press("Overwrite with yours")

    somebody.button("Edit").click()
    somebody.content.fill("half")
    somebody.button("Cancel").click()
    somebody.follow(somebody.page.get_by_role("button", name="Restore this version").first)
    somebody.expect_usable()

    somebody.go("changes")
    somebody.expect_usable()
