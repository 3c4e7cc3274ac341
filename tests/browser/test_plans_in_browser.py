"""Plans in the explorer: what there is, what would come, and then the call itself."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject
from tests.browser.sample_memories import run
from tests.browser.test_safety_in_browser import LOOKS, RULES
from tests.browser.visitor import Visitor


@pytest.fixture(params=LOOKS)
def somebody(
    request: pytest.FixtureRequest, chromium: Browser, visitor: Visitor
) -> Iterator[Visitor]:
    """Somebody with another screen."""
    window = chromium.new_context(**LOOKS[request.param])
    somebody = Visitor(window.new_page(), visitor.address)
    yield somebody
    assert somebody.violations == []
    window.close()


def call_read(settings: Settings, **arguments: Any) -> JsonObject:
    async def call() -> JsonObject:
        async with Abilities.open(settings) as abilities:
            return await abilities.call("read", arguments)

    return run(call())


def list_problems(visitor: Visitor) -> list[JsonObject]:
    """Return what keeps somebody from using the page."""
    result = Axe().run(visitor.page, options={"runOnly": RULES})
    problems: list[JsonObject] = result.response["violations"]
    return problems


def measure_bars(visitor: Visitor) -> list[tuple[float, float]]:
    """Return the lengths of the bars of the items and of their filled parts, in percent."""
    lengths: list[tuple[float, float]] = []
    for bar in visitor.page.locator(".plan td .bar").all():
        there, granted = (rect.get_attribute("width") or "" for rect in bar.locator("rect").all())
        lengths.append((float(there.rstrip("%")), float(granted.rstrip("%"))))

    return lengths


def test_files_are_planned_and_then_read(visitor: Visitor, settings: Settings) -> None:
    names = ["shared.md", "long.txt", "README.md"]
    planned = call_read(settings, items=names, max_tokens=4_000, plan=True)
    there, granted = (planned["results"][1][name] for name in ("bytes", "granted_bytes"))

    visitor.go("files")
    for name in names:
        visitor.page.get_by_label(f"Select {name}").check()
    visitor.field("Budget in tokens").fill("4000")
    visitor.button("Plan 3 files").click()
    visitor.settle()

    assert visitor.read_texts(".plan .path") == names
    (total,) = visitor.read_texts(".plan .count")
    assert "of at most 16.0 kB" in total and "of 4,000 tokens: 2 whole, 1 in part." in total
    assert visitor.read_texts(".plan td:last-child")[0] == "whole"
    assert visitor.read_texts(".plan td:last-child")[1].startswith("in part: ")

    long = measure_bars(visitor)[1]
    assert long[0] == 100
    assert long[1] == pytest.approx(100 * granted / there)
    assert measure_bars(visitor)[0][0] < 1

    read = call_read(settings, items=names, max_tokens=4_000)
    visitor.button("Read: send next_request").click()
    visitor.settle()
    assert visitor.read_texts(".record h3") == names
    assert json.loads(visitor.page.locator(".reply pre").inner_text()) == read

    # The plan stays, and it spoke of these records.
    expect(visitor.button("Read: send next_request")).to_be_focused()
    contents = [record["data"]["content"] for record in read["results"]]
    assert [len(content.encode()) for content in contents] == [
        item["granted_bytes"] for item in planned["results"]
    ]


def test_all_files_that_match_are_planned_as_one_item(visitor: Visitor) -> None:
    visitor.go("files?pattern=*.md")
    visitor.button("Plan all that match").click()
    visitor.settle()

    assert visitor.read_texts(".plan .path") == ['{"glob":"*.md"}']
    assert visitor.read_texts(".plan td:nth-child(2)")[0].startswith("3 contents: ")
    assert visitor.read_texts(".plan td:last-child") == ["whole"]

    visitor.button("Read: send next_request").click()
    visitor.settle()
    headings = visitor.read_texts(".record h3")
    assert headings == ['{"glob":"*.md"}', "MEMORY.md", "README.md", "shared.md"]
    assert visitor.read_texts(".items .record pre")[2] == "the agent's own"


def test_a_plan_says_in_words_what_becomes_of_every_item(
    visitor: Visitor, settings: Settings
) -> None:
    version = call_read(settings, items=["README.md"])["results"][0]["data"]["version"]
    items = [
        "none.md",
        {"file": "README.md", "known": version},
        "long.txt",
        {"file": "long.txt", "weight": 2},
        {"glob": "nothing/**"},
    ]

    visitor.go("try/read")
    visitor.field("items").fill(json.dumps(items))
    visitor.field("max_tokens").fill("1000")
    visitor.button("Plan").click()
    visitor.settle()

    outcomes = visitor.read_texts(".plan td:last-child")
    assert outcomes[:3] == ["failed: not found", "unchanged, not sent again", "left out, no room"]
    assert outcomes[3].startswith("in part: ")
    assert outcomes[4] == "whole"
    assert visitor.read_texts(".plan td:nth-child(2)")[4] == "nothing"
    counts = "1 whole, 1 in part, 1 left out, 1 unchanged, 1 failed."
    assert visitor.read_texts(".plan .count")[0].endswith(counts)
    assert measure_bars(visitor)[0][1] == 0

    visitor.button("Read: send next_request").click()
    visitor.settle()
    sent = json.loads(visitor.field("Arguments as JSON").input_value())
    assert sent == {"items": items, "max_tokens": 1000}
    assert visitor.read_texts(".record")[1].endswith("Unchanged, not sent again.")


def test_a_plan_that_is_refused_says_why(visitor: Visitor) -> None:
    visitor.go("files?pattern=*.md")
    visitor.field("Budget in tokens").fill("1")
    visitor.button("Plan all that match").click()
    visitor.settle()

    assert "max_tokens" in visitor.read_texts(".fault")[0]
    assert visitor.page.locator(".plan").count() == 0


def test_everybody_can_use_a_plan(somebody: Visitor) -> None:
    somebody.go("files")
    for name in ("shared.md", "long.txt"):
        somebody.page.get_by_label(f"Select {name}").check()

    # By keyboard alone: Enter in the field plans, and Enter on the button reads.
    somebody.field("Budget in tokens").fill("1000")
    somebody.page.keyboard.press("Enter")
    somebody.settle()
    assert list_problems(somebody) == []
    assert somebody.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    somebody.button("Read: send next_request").press("Enter")
    somebody.settle()
    assert somebody.read_texts(".record h3") == ["shared.md", "long.txt"]
    assert list_problems(somebody) == []
