"""What `abilities graph` draws is what a bulk read returns."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from abilities import Settings
from tests.memories.calls import Payload, list_keys, store
from tests.support.surfaces import Call, run

HOSTILE = '<script>alert("1")</script>&amp;]]>'
EDGES: dict[str, dict[str, float]] = {
    "start": {"a": 0.9, HOSTILE: 0.85, "c": 0.1},
    "a": {"b": 0.5, "deep": 0.3},
    "b": {},
    "c": {},
    "deep": {"deeper": 0.2},
    "deeper": {},
    HOSTILE: {"a": 0.6, "start": 0.5},
}


@pytest.fixture
async def answer(call: Call) -> Payload:
    for key, links in EDGES.items():
        listed = [{"key": other, "link_weight": weight} for other, weight in links.items()]
        await store(call, key, memory_score=1, links=listed)

    return await call("bulk_read_memory", key="start", depth=2, breadth=2)


def draw(roots: Settings, *arguments: str) -> str:
    done = run(roots, "graph", "start", "--depth", "2", "--breadth", "2", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_svg_numbers_what_is_retrieved_and_pales_what_was_cut(
    roots: Settings, answer: Payload
) -> None:
    picture = ET.fromstring(draw(roots))
    boxes: dict[str, list[tuple[str, list[Any]]]] = {"kept": [], "cut": []}
    for group in picture.findall("{*}g"):
        texts = [text.text for text in group.findall("{*}text")]
        boxes[group.get("class", "")].append((group.findtext("{*}title", ""), texts))
    ways = [path.get("class") for path in picture.findall("{*}path")]
    metadata = answer["metadata"]

    assert [title for title, _ in boxes["kept"]] == list_keys(answer)
    numbers = [texts[0].split(".")[0] for _, texts in boxes["kept"]]
    assert numbers == [str(place + 1) for place in range(len(numbers))]

    assert [(title, texts[1]) for title, texts in boxes["cut"]] == [
        (cut["key"], f"cut by {cut['cutBy']}") for cut in metadata["frontier"]
    ]
    assert {title for title, _ in boxes["cut"]} == {"c", "deeper"}

    assert ways.count("way") == len(boxes["kept"]) - 1
    assert ways.count("again") == metadata["duplicatesSkipped"]

    corners = {(rect.get("x"), rect.get("y")) for rect in picture.findall("{*}g/{*}rect")}
    assert len(corners) == len(boxes["kept"]) + len(boxes["cut"]), "no box hides another"
    assert not picture.findall(".//{*}script")


def test_the_mermaid_shows_the_same_walk(roots: Settings, answer: Payload) -> None:
    text = draw(roots, "--format", "mermaid")

    assert text.startswith("flowchart LR\n")
    labels = re.findall(r'^    m\d+\["\d+\. (.*)"\]', text, re.M)
    keys = [re.sub(r"#(\d+);", lambda m: chr(int(m[1])), label) for label in labels]
    assert keys == list_keys(answer)
    assert "<" not in "".join(labels) and 'm0 -->|"0.9"| m1' in text
    cut = [line for line in text.splitlines() if "cut by" in line]
    assert len(cut) == len(answer["metadata"]["frontier"])


def test_a_drawing_is_written_to_a_file_and_what_is_wrong_is_said(
    roots: Settings, answer: Payload, tmp_path: Path
) -> None:
    draw(roots, "-o", str(tmp_path / "walk.svg"))
    assert (tmp_path / "walk.svg").read_text() == draw(roots)

    unknown = run(roots, "graph", "none")
    assert unknown.exit_code == 1 and "No memory with this key." in unknown.stderr
    assert run(roots, "graph", "start", "--depth", "7").exit_code == 2

    nowhere = tmp_path / "none" / "walk.svg"
    failed = run(roots, "graph", "start", "-o", str(nowhere))
    assert failed.exit_code == 1
    assert failed.stderr.startswith(f"Error: {nowhere}: No such file or directory; ")
