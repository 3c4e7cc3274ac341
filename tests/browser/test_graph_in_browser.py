"""The drawing of a walk in a real browser: what it shows first, and how it is zoomed and moved."""

import pytest
from playwright.sync_api import Locator, expect

from abilities.declarations.values import JsonObject
from tests.browser.visitor import Visitor

NAME = "decisions/2026/payments-provider-for-europe"


@pytest.fixture
def walker(visitor: Visitor) -> Visitor:
    """A person in front of a walk of 50 memories, which is larger than the pane for it."""
    memories: list[JsonObject] = []
    for number in range(60):
        children = [f"{NAME}-{child}" for child in range(4 * number + 1, 4 * number + 5)]
        links = [{"key": key, "link_weight": 0.5} for key in children]
        memories.append({"key": f"{NAME}-{number}", "type": "core", "content": "x", "links": links})

    visitor.agent.store(*memories)
    visitor.go(f"graph/{NAME.replace('/', '%2F')}-0?depth=6&breadth=20&total=50")
    return visitor


def is_inside(pane: Locator, box: Locator) -> bool:
    """Return whether a box can be seen in the pane, apart from the border around it."""
    outer, inner = pane.bounding_box(), box.bounding_box()
    assert outer and inner

    for start, size in (("x", "width"), ("y", "height")):
        end, inner_end = outer[start] + outer[size], inner[start] + inner[size]  # type: ignore[literal-required]
        if inner[start] < outer[start] - 3 or inner_end > end + 3:  # type: ignore[literal-required]
            return False

    return True


def measure_width(box: Locator) -> float:
    bounds = box.bounding_box()
    assert bounds
    return bounds["width"]


def test_a_large_walk_opens_at_its_start_with_whole_names(walker: Visitor) -> None:
    pane, boxes = walker.page.locator(".drawing"), walker.page.locator(".box")
    assert boxes.count() >= 50
    assert is_inside(pane, boxes.first)

    names = boxes.locator("text:not(.order)").all_text_contents()
    assert f"{NAME}-0" in names
    assert not any(name.endswith("…") for name in names)
    for box in boxes.all():
        width = box.locator("rect").evaluate("rect => rect.getBBox().width")
        end = box.locator("text:not(.order)").evaluate(
            "text => text.getBBox().x + text.getBBox().width"
        )
        assert end <= width


def test_a_walk_is_fitted_zoomed_and_moved_by_mouse(walker: Visitor) -> None:
    pane, boxes = walker.page.locator(".drawing"), walker.page.locator(".box")
    before = measure_width(boxes.first)

    walker.button("Zoom in").click()
    assert measure_width(boxes.first) > 1.2 * before
    walker.button("Zoom out").click()
    walker.button("Zoom out").click()
    assert measure_width(boxes.first) < before

    walker.button("Fit").click()
    assert all(is_inside(pane, box) for box in boxes.all())
    walker.button("Start").click()
    assert is_inside(pane, boxes.first)
    assert not is_inside(pane, boxes.last)

    area = pane.bounding_box()
    assert area
    x, y = area["x"] + area["width"] / 2, area["y"] + 20
    left = pane.evaluate("pane => pane.scrollLeft")
    walker.page.mouse.move(x, y)
    walker.page.mouse.down()
    walker.page.mouse.move(x - 150, y, steps=3)
    walker.page.mouse.up()
    assert pane.evaluate("pane => pane.scrollLeft") == left + 150

    whole = measure_width(boxes.first)
    walker.page.keyboard.down("Control")
    walker.page.mouse.wheel(0, 300)
    walker.page.keyboard.up("Control")
    walker.settle()
    assert measure_width(boxes.first) < whole
    assert walker.page.evaluate("visualViewport.scale") == 1


def test_a_walk_is_zoomed_and_moved_by_keyboard(walker: Visitor) -> None:
    pane, boxes = walker.page.locator(".drawing"), walker.page.locator(".box")
    before = measure_width(boxes.first)
    pane.focus()

    walker.page.keyboard.press("+")
    walker.settle()
    assert measure_width(boxes.first) > before
    walker.page.keyboard.press("0")
    walker.settle()
    assert all(is_inside(pane, box) for box in boxes.all())

    walker.button("Start").click()
    boxes.first.focus()
    for _ in range(boxes.count() - 1):
        walker.page.keyboard.press("ArrowDown")
    expect(boxes.last).to_be_focused()
    walker.settle()
    assert is_inside(pane, boxes.last)
