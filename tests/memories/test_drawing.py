"""What `abilities graph` draws is what a bulk read returns."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from abilities import Abilities, Settings
from abilities.cli.drawing import Drawing, DrawnEdge, DrawnNode, as_svg
from abilities.cli.main import main
from tests.support.surfaces import environment

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
async def answer(roots: Settings) -> dict[str, Any]:
    async with Abilities.open(roots) as abilities:
        for key, links in EDGES.items():
            listed = [{"key": other, "link_weight": weight} for other, weight in links.items()]
            await abilities.call(
                "store_memory",
                {"type": "core", "content": key, "key": key, "memory_score": 1, "links": listed},
            )
        return await abilities.call("bulk_read_memory", {"key": "start", "depth": 2, "breadth": 2})


def draw(roots: Settings, *arguments: str) -> str:
    done = CliRunner().invoke(
        main,
        ["graph", "start", "--depth", "2", "--breadth", "2", *arguments],
        env=environment(roots),
    )

    assert done.exit_code == 0, done.output

    return done.stdout


def list_keys(answer: dict[str, Any]) -> list[str]:
    return [record["key"] for record in (answer["targetMemory"], *answer["associatedMemories"])]


def test_the_svg_numbers_what_is_retrieved_and_pales_what_was_cut(
    roots: Settings, answer: dict[str, Any]
) -> None:
    picture = ET.fromstring(draw(roots))
    space = {"s": "http://www.w3.org/2000/svg"}
    groups = [
        (g.get("class"), g.findtext("s:title", "", space), g.findtext("s:text", "", space))
        for g in picture.findall("s:g", space)
    ]
    kept = [(title, text) for kind, title, text in groups if kind == "kept"]

    assert [title for title, _ in kept] == list_keys(answer)
    assert [text.split(".")[0] for _, text in kept] == [str(n) for n in range(1, len(kept) + 1)]

    cut = [
        (g.findtext("s:title", "", space), g.findall("s:text", space)[1].text)
        for g in picture.findall("s:g", space)
        if g.get("class") == "cut"
    ]

    assert cut == [(c["key"], f"cut by {c['cutBy']}") for c in answer["metadata"]["frontier"]]
    assert {"c", "deeper"} == {key for key, _ in cut}

    ways = [path for path in picture.findall("s:path", space) if path.get("class") == "way"]
    again = [path for path in picture.findall("s:path", space) if path.get("class") == "again"]

    assert len(ways) == len(kept) - 1
    assert len(again) == answer["metadata"]["duplicatesSkipped"]

    boxes = [
        tuple(map(float, (rect.get("x", 0), rect.get("y", 0))))
        for rect in picture.findall("s:g/s:rect", space)
    ]

    assert len(set(boxes)) == len(groups), "no box hides another"
    assert not picture.findall(".//s:script", space)


def test_the_mermaid_shows_the_same_walk(roots: Settings, answer: dict[str, Any]) -> None:
    lines = draw(roots, "--format", "mermaid").splitlines()

    assert lines[0] == "flowchart LR"

    nodes = dict(re.findall(r'^    (m\d+)\["(.*)"\](?:::: ?cut)?', "\n".join(lines), re.M))
    shown = [label for label in nodes.values() if re.match(r"\d+\. ", label)]
    keys = [
        re.sub(r"#(\d+);", lambda m: chr(int(m[1])), label.split(". ", 1)[1]) for label in shown
    ]

    assert keys == list_keys(answer)
    assert "<" not in "".join(shown) and 'm0 -->|"0.9"| m1' in "\n".join(lines)
    assert sum("cut by" in line for line in lines) == len(answer["metadata"]["frontier"])


def test_a_file_an_unknown_key_and_a_wrong_limit(
    roots: Settings, answer: dict[str, Any], tmp_path: Path
) -> None:
    draw(roots, "-o", str(tmp_path / "walk.svg"))

    assert (tmp_path / "walk.svg").read_text() == draw(roots)

    unknown = CliRunner().invoke(main, ["graph", "none"], env=environment(roots))

    assert unknown.exit_code == 1 and "No memory with this key." in unknown.stderr

    too_deep = CliRunner().invoke(main, ["graph", "start", "--depth", "7"], env=environment(roots))

    assert too_deep.exit_code == 2


def test_a_drawing_that_cannot_be_written(
    roots: Settings, answer: dict[str, Any], tmp_path: Path
) -> None:
    output = tmp_path / "none" / "walk.svg"

    done = CliRunner().invoke(main, ["graph", "start", "-o", str(output)], env=environment(roots))

    assert done.exit_code == 1
    reason = "No such file or directory; create its folder, or name another place."
    assert done.stderr == f"Error: {output}: {reason}\n"


def test_each_depth_is_a_column_from_the_first_retrieved_to_what_was_cut() -> None:
    depths = [0, 1, 2, 2, 2, 1, 3, 2, 1]  # the last two were cut
    nodes = [DrawnNode(f"m{n}", n + 1 if n < 7 else 0, depth) for n, depth in enumerate(depths)]
    edges = [DrawnEdge("m0", "m1", 0.5, "way")]

    picture = ET.fromstring(as_svg(Drawing(nodes, edges)))

    boxes = picture.findall("{*}g/{*}rect")
    columns: dict[int, list[int]] = {}
    for box, depth in zip(boxes, depths, strict=True):
        assert int(box.get("x", "")) == 24 + 300 * depth
        columns.setdefault(depth, []).append(int(box.get("y", "")))
    assert columns == {0: [120], 1: [56, 120, 184], 2: [24, 88, 152, 216], 3: [120]}
