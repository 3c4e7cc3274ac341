"""Plans in the explorer: what there is, what would come, and then the call itself."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Visitor

READ = "Read: send next_request"


def measure_bars(visitor: Visitor) -> list[tuple[float, float]]:
    """Return the lengths of the bars of the items and of their filled parts, in percent."""
    lengths: list[tuple[float, float]] = []
    for bar in visitor.page.locator(".plan td .bar").all():
        there, granted = (rect.get_attribute("width") or "" for rect in bar.locator("rect").all())
        lengths.append((float(there.rstrip("%")), float(granted.rstrip("%"))))

    return lengths


def test_files_are_planned_and_then_read(reader: Visitor) -> None:
    names = ["shared.md", "long.txt", "README.md"]
    asked = {"items": names, "max_tokens": 4_000}
    planned = reader.agent.call("read", **asked, plan=True)["results"]
    read = reader.agent.call("read", **asked)

    reader.go("files")
    for name in names:
        reader.page.get_by_label(f"Select {name}").check()
    reader.field("Budget in tokens").fill("4000")
    reader.press("Plan 3 files")

    assert reader.read_texts(".plan .path") == names
    (total,) = reader.read_texts(".plan .count")
    assert "of at most 16.0 kB" in total and "of 4,000 tokens: 2 whole, 1 in part." in total
    whole, in_part, _ = reader.read_texts(".plan td:last-child")
    assert whole == "whole" and in_part.startswith("in part: ")

    (short, _), (long, filled), _ = measure_bars(reader)
    assert short < 1 and long == 100
    assert filled == pytest.approx(100 * planned[1]["granted_bytes"] / planned[1]["bytes"])

    reader.press(READ)
    assert reader.read_texts(".record h3") == names
    assert json.loads(reader.page.locator(".reply pre").inner_text()) == read

    # The plan stays, and it spoke of these records.
    expect(reader.button(READ)).to_be_focused()
    contents = [record["data"]["content"] for record in read["results"]]
    assert [len(content.encode()) for content in contents] == [
        item["granted_bytes"] for item in planned
    ]


def test_all_files_that_match_are_planned_as_one_item(reader: Visitor) -> None:
    reader.go("files?pattern=*.md")
    reader.press("Plan all that match")

    assert reader.read_texts(".plan .path") == ['{"glob":"*.md"}']
    assert reader.read_texts(".plan td:nth-child(2)")[0].startswith("3 contents: ")
    assert reader.read_texts(".plan td:last-child") == ["whole"]

    reader.press(READ)
    headings = reader.read_texts(".record h3")
    assert headings == ['{"glob":"*.md"}', "MEMORY.md", "README.md", "shared.md"]
    assert reader.read_texts(".items .record pre")[2] == "the agent's own"


def test_a_plan_says_in_words_what_becomes_of_every_item(reader: Visitor) -> None:
    (record,) = reader.agent.call("read", items=["README.md"])["results"]
    items = [
        "none.md",
        {"file": "README.md", "known": record["data"]["version"]},
        "long.txt",
        {"file": "long.txt", "weight": 2},
        {"glob": "nothing/**"},
    ]

    reader.go("try/read")
    reader.field("items").fill(json.dumps(items))
    reader.field("max_tokens").fill("1000")
    reader.press("Plan")

    outcomes = reader.read_texts(".plan td:last-child")
    assert outcomes[:3] == ["failed: not found", "unchanged, not sent again", "left out, no room"]
    assert outcomes[3].startswith("in part: ")
    assert outcomes[4] == "whole"
    assert reader.read_texts(".plan td:nth-child(2)")[4] == "nothing"
    counts = "1 whole, 1 in part, 1 left out, 1 unchanged, 1 failed."
    assert reader.read_texts(".plan .count")[0].endswith(counts)
    assert measure_bars(reader)[0][1] == 0

    reader.press(READ)
    sent = json.loads(reader.field("Arguments as JSON").input_value())
    assert sent == {"items": items, "max_tokens": 1000}
    assert reader.read_texts(".record")[1].endswith("Unchanged, not sent again.")


def test_a_plan_that_is_refused_says_why(reader: Visitor) -> None:
    reader.go("files?pattern=*.md")
    reader.field("Budget in tokens").fill("1")
    reader.press("Plan all that match")

    assert "max_tokens" in reader.read_texts(".fault")[0]
    assert reader.page.locator(".plan").count() == 0


def test_everybody_can_use_a_plan(somebody: Visitor) -> None:
    somebody.go("files")
    for name in ("shared.md", "long.txt"):
        somebody.page.get_by_label(f"Select {name}").check()

    # By keyboard alone: Enter in the field plans, and Enter on the button reads.
    somebody.field("Budget in tokens").fill("1000")
    somebody.page.keyboard.press("Enter")
    somebody.settle()
    somebody.expect_usable()

    somebody.button(READ).press("Enter")
    somebody.settle()
    assert somebody.read_texts(".record h3") == ["shared.md", "long.txt"]
    somebody.expect_usable()
