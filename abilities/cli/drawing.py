"""What a bulk read returns, as a picture: retrieval order, weights, and what the limits cut; as SVG or Mermaid."""

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

from abilities.helpers.walk import WalkOutcome

Kind = Literal["way", "again", "cut"]

_COLUMN, _ROW, _BOX, _HEIGHT, _MARGIN = 300, 64, 210, 40, 24
_LABEL, _BEND = 23, 45.0
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1c2733; }
  .small { font-size: 11px; fill: #53616f; }
  rect { fill: #e8f1fb; stroke: #2f6fb3; rx: 6; }
  .cut rect { fill: #fafafa; stroke: #b9c2cb; stroke-dasharray: 4 3; }
  .cut text { fill: #8a959f; }
  path { fill: none; stroke: #2f6fb3; stroke-width: 1.5; }
  path.again { stroke: #9bb8d6; stroke-dasharray: 2 3; }
  path.cut { stroke: #c6cdd4; stroke-dasharray: 4 3; }
  .paper { fill: #ffffff; stroke: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4ebf2; } .small { fill: #9fb0c0; } .paper { fill: #12181f; }
    rect { fill: #1d3147; stroke: #5b9bdd; } .cut rect { fill: #1a2129; stroke: #4a5763; }
    .cut text { fill: #7c8994; } path { stroke: #5b9bdd; } path.again { stroke: #3d5d7d; } path.cut { stroke: #3c4751; }
  }
"""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A memory; ``number`` is its place in the order of retrieval, 0 for one that was cut, and ``note`` says why."""

    key: str
    number: int
    depth: int
    note: str = ""


class DrawnEdge(NamedTuple):
    """A link between two nodes: the way on which its target was retrieved, another one, or one that was cut."""

    source: str
    target: str
    weight: float
    kind: Kind


class Drawing(NamedTuple):
    """The nodes in the order of retrieval, the cut ones last, and the links between them."""

    nodes: list[DrawnNode]
    edges: list[DrawnEdge]


def draw_walk(walked: WalkOutcome) -> Drawing:
    """The picture of a walk."""
    steps = walked.steps
    depths = {step.key: step.depth for step in steps}
    nodes = [DrawnNode(step.key, number, step.depth) for number, step in enumerate(steps, 1)]
    nodes += [
        DrawnNode(cut.key, 0, depths[cut.source] + 1, f"cut by {cut.cut_by}")
        for cut in walked.frontier
    ]
    edges = [
        DrawnEdge(step.key, target.key, link.weight, "way" if target.link is link else "again")
        for step in steps
        for target, link in step.kept
    ]
    edges += [DrawnEdge(cut.source, cut.key, cut.weight, "cut") for cut in walked.frontier]
    return Drawing(nodes, edges)


def as_mermaid(drawing: Drawing) -> str:
    """The picture as a Mermaid flowchart."""
    names = {node.key: f"m{n}" for n, node in enumerate(drawing.nodes)}
    arrows = {"way": "-->", "again": "-.->", "cut": "-.->"}
    lines = ["flowchart LR"]
    for node in drawing.nodes:
        label = (
            f"{node.number}. {_entities(node.key)}"
            if node.number
            else f"{_entities(node.key)}<br/>{node.note}"
        )
        lines.append(f'    {names[node.key]}["{label}"]{"" if node.number else ":::cut"}')
    for edge in drawing.edges:
        lines.append(
            f'    {names[edge.source]} {arrows[edge.kind]}|"{edge.weight:g}"| {names[edge.target]}'
        )
    lines.append("    classDef cut fill:#fafafa,stroke:#b9c2cb,color:#8a959f,stroke-dasharray:4 3")
    return "\n".join(lines) + "\n"


def _entities(text: str) -> str:
    """Text that Mermaid shows as it is: every mark that could mean something there as a character reference."""
    return "".join(c if c.isalnum() or c in " -_./:" else f"#{ord(c)};" for c in text)


def as_svg(drawing: Drawing) -> str:
    """The picture as SVG, a column a depth, laid out by networkx."""
    places = _places(drawing)
    width = max(x for x, _ in places.values()) + _BOX + _MARGIN
    height = max(y for _, y in places.values()) + _HEIGHT + 2 * _MARGIN
    title = f"What reading {drawing.nodes[0].key} returns"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
            f' height="{height:.0f}" role="img">',
            f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            *(_edge(edge, places) for edge in drawing.edges),
            *(_node(node, places[node.key]) for node in drawing.nodes),
            "</svg>\n",
        )
    )


def _places(drawing: Drawing) -> dict[str, tuple[float, float]]:
    """The upper left corner of each box."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    for number, node in enumerate(drawing.nodes):
        graph.add_node(number, depth=node.depth)
    found = nx.multipartite_layout(graph, subset_key="depth")
    heights = [float(found[number][1]) for number in range(len(drawing.nodes))]
    columns = Counter(node.depth for node in drawing.nodes)
    spread = max(heights) - min(heights)
    scale = (max(columns.values()) - 1) * _ROW / spread if spread else 0.0
    return {
        node.key: (_MARGIN + node.depth * _COLUMN, _MARGIN + (height - min(heights)) * scale)
        for node, height in zip(drawing.nodes, heights, strict=True)
    }


def _node(node: DrawnNode, place: tuple[float, float]) -> str:
    x, y = place
    label = node.key if len(node.key) <= _LABEL else node.key[: _LABEL - 1] + "…"
    first = f"{node.number}. {label}" if node.number else label
    note = (
        f'<text class="small" x="{x + 10:.0f}" y="{y + 33:.0f}">{escape(node.note)}</text>'
        if node.note
        else ""
    )
    return (
        f'<g class="{"kept" if node.number else "cut"}"><title>{escape(node.key)}</title>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX}" height="{_HEIGHT}"/>'
        f'<text x="{x + 10:.0f}" y="{y + (18 if node.note else 25):.0f}">{escape(first)}</text>{note}</g>'
    )


def _edge(edge: DrawnEdge, places: dict[str, tuple[float, float]]) -> str:
    """A curve from box to box: to the right, around within a column, and beneath the boxes on the way back."""
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    half = _HEIGHT / 2
    if x2 > x1:
        ends = (x1 + _BOX, y1 + half, x2, y2 + half)
        bends = (_BEND, 0.0, -_BEND, 0.0)
    elif x2 == x1:
        ends = (x1 + _BOX, y1 + half, x2 + _BOX, y2 + half)
        bends = (_BEND, 0.0, _BEND, 0.0)
    else:
        ends = (x1 + _BOX / 2, y1 + _HEIGHT, x2 + _BOX / 2, y2 + _HEIGHT)
        bends = (0.0, _BEND, 0.0, _BEND)
    controls = tuple(end + bend for end, bend in zip(ends, bends, strict=True))
    middle = [(ends[n] + ends[n + 2] + 3 * (controls[n] + controls[n + 2])) / 8 for n in (0, 1)]
    path = "M {:.0f} {:.0f} C {:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}".format(
        *ends[:2], *controls, *ends[2:]
    )
    weight = f'<text class="small" x="{middle[0] - 8:.0f}" y="{middle[1] - 4:.0f}">{edge.weight:g}</text>'
    return f'<path class="{edge.kind}" d="{path}"/>{weight}'
