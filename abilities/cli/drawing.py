"""Pictures of a bulk read in SVG or Mermaid: the order of memories, weights, and cut links."""

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

from abilities.declarations.memory import USUAL_LINK_TYPE
from abilities.helpers.walk import WalkOutcome

EdgeKind = Literal["way", "again", "cut"]
"""The role of a link in a walk.

"way": its target was retrieved through it. "again": its target was retrieved through another link.
"cut": a limit left its target out.
"""

# Sizes in the units of the SVG, which are pixels on a screen.
_COLUMN_WIDTH = 300
_ROW_HEIGHT = 64
_BOX_WIDTH = 210
_BOX_HEIGHT = 40
_MARGIN = 24
_BEND = 45.0  # the distance of a curve's control points from its ends

_LABEL_CHARS = 23
"""Characters of usual width that fit into a box."""

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
    .cut text { fill: #7c8994; } path { stroke: #5b9bdd; } path.again { stroke: #3d5d7d; } \
path.cut { stroke: #3c4751; }
  }
"""

_MERMAID_ARROWS: dict[EdgeKind, str] = {"way": "-->", "again": "-.->", "cut": "-.->"}
_MERMAID_SAFE = " -_./:"
_MERMAID_STYLE = "classDef cut fill:#fafafa,stroke:#b9c2cb,color:#8a959f,stroke-dasharray:4 3"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A memory; ``number`` is its position in the order of retrieval.

    A memory that a limit left out has the number 0, and its ``note`` names the limit.
    """

    key: str
    number: int
    depth: int
    note: str = ""


class DrawnEdge(NamedTuple):
    """A link between two nodes, given by their keys.

    The walk went from ``source`` to ``target``; an ``incoming`` link leads the other way.
    """

    source: str
    target: str
    weight: float
    kind: EdgeKind
    incoming: bool = False
    type: str = USUAL_LINK_TYPE

    @property
    def label(self) -> str:
        """The weight, after the type unless that is the usual one: "0.5" or "causes 0.5"."""
        weight = f"{self.weight:g}"
        return weight if self.type == USUAL_LINK_TYPE else f"{self.type} {weight}"


class Drawing(NamedTuple):
    """The nodes in the order of retrieval, the cut ones last, and the links between them."""

    nodes: list[DrawnNode]
    edges: list[DrawnEdge]


class Point(NamedTuple):
    """A position in the SVG, from its upper left corner."""

    x: float
    y: float

    def move(self, dx: float, dy: float) -> "Point":
        """Return the point ``dx`` to the right of this one and ``dy`` below."""
        return Point(self.x + dx, self.y + dy)


def draw_walk(outcome: WalkOutcome) -> Drawing:
    """Return the picture of a walk."""
    drawing = Drawing([], [])
    depths: dict[str, int] = {}

    for number, step in enumerate(outcome.steps, 1):
        depths[step.key] = step.depth
        drawing.nodes.append(DrawnNode(step.key, number, step.depth))

        for target, link in step.kept:
            kind: EdgeKind = "way" if target.link is link else "again"
            drawing.edges.append(
                DrawnEdge(step.key, target.key, link.weight, kind, link.incoming, link.type)
            )

    for cut in outcome.frontier:
        depth = depths[cut.source] + 1
        drawing.nodes.append(DrawnNode(cut.key, 0, depth, f"cut by {cut.cut_by}"))
        drawing.edges.append(DrawnEdge(cut.source, cut.key, cut.weight, "cut", cut.incoming))

    return drawing


def as_mermaid(drawing: Drawing) -> str:
    """Return the picture as a Mermaid flowchart."""
    names: dict[str, str] = {}
    lines = ["flowchart LR"]

    # Keys are not valid names in Mermaid, so nodes are named by their position.
    for index, node in enumerate(drawing.nodes):
        names[node.key] = f"m{index}"
        key = _escape_mermaid(node.key)
        if node.number:
            lines.append(f'    m{index}["{node.number}. {key}"]')
        else:
            lines.append(f'    m{index}["{key}<br/>{node.note}"]:::cut')

    for edge in drawing.edges:
        arrow = _MERMAID_ARROWS[edge.kind]
        start, end = names[edge.source], names[edge.target]
        if edge.incoming:
            start, end = end, start
        lines.append(f'    {start} {arrow}|"{_escape_mermaid(edge.label)}"| {end}')

    lines.append(f"    {_MERMAID_STYLE}")
    return "\n".join(lines) + "\n"


def _escape_mermaid(text: str) -> str:
    """Return text with a character reference for each mark that Mermaid may interpret."""
    escaped: list[str] = []

    for char in text:
        if char.isalnum() or char in _MERMAID_SAFE:
            escaped.append(char)
        else:
            escaped.append(f"#{ord(char)};")

    return "".join(escaped)


def as_svg(drawing: Drawing) -> str:
    """Return the picture as SVG, with a column per depth; all are centered on the same height."""
    columns = Counter(node.depth for node in drawing.nodes)
    tallest = max(columns.values())
    placed: Counter[int] = Counter()
    corners: dict[str, Point] = {}
    for node in drawing.nodes:
        row = (tallest - columns[node.depth]) / 2 + placed[node.depth]
        placed[node.depth] += 1
        x = _MARGIN + node.depth * _COLUMN_WIDTH
        corners[node.key] = Point(x, _MARGIN + row * _ROW_HEIGHT)

    width = max(corner.x for corner in corners.values()) + _BOX_WIDTH + _MARGIN
    height = max(corner.y for corner in corners.values()) + _BOX_HEIGHT + 2 * _MARGIN
    title = escape(f"What reading {drawing.nodes[0].key} returns")

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
    ]

    # Edges come first, so that boxes cover them.
    for edge in drawing.edges:
        lines.append(_draw_edge(edge, corners[edge.source], corners[edge.target]))
    for node in drawing.nodes:
        lines.append(_draw_node(node, corners[node.key]))

    lines.append("</svg>\n")
    return "\n".join(lines)


def _draw_node(node: DrawnNode, corner: Point) -> str:
    """Return a box with its label, and with a note below the label if the node has one."""
    kind = "kept" if node.number else "cut"
    label = node.key
    if len(label) > _LABEL_CHARS:
        label = label[: _LABEL_CHARS - 1] + "…"
    if node.number:
        label = f"{node.number}. {label}"

    baseline = 25
    note = ""
    if node.note:
        baseline = 18  # two lines share the box
        note = _draw_text(corner.move(10, 33), node.note, small=True)

    return (
        f'<g class="{kind}"><title>{escape(node.key)}</title>'
        f'<rect x="{corner.x:.0f}" y="{corner.y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"/>'
        f"{_draw_text(corner.move(10, baseline), label)}{note}</g>"
    )


def _draw_edge(edge: DrawnEdge, source: Point, target: Point) -> str:
    """Return a cubic Bézier curve between two boxes, given by their corners, and its label.

    It leads to the right; within a column it runs around the boxes, and back it runs below them.
    """
    start = source.move(_BOX_WIDTH, _BOX_HEIGHT / 2)
    if target.x > source.x:
        end, pulls = target.move(0, _BOX_HEIGHT / 2), ((_BEND, 0.0), (-_BEND, 0.0))
    elif target.x == source.x:
        end, pulls = target.move(_BOX_WIDTH, _BOX_HEIGHT / 2), ((_BEND, 0.0), (_BEND, 0.0))
    else:
        start = source.move(_BOX_WIDTH / 2, _BOX_HEIGHT)
        end, pulls = target.move(_BOX_WIDTH / 2, _BOX_HEIGHT), ((0.0, _BEND), (0.0, _BEND))

    points = (start, start.move(*pulls[0]), end.move(*pulls[1]), end)
    path = "M {} C {} {} {}".format(*(f"{x:.0f} {y:.0f}" for x, y in points))

    # The middle of the curve: the weights of its points at one half are 1/8, 3/8, 3/8, 1/8.
    x = sum(weight * point.x for weight, point in zip((1, 3, 3, 1), points, strict=True)) / 8
    y = sum(weight * point.y for weight, point in zip((1, 3, 3, 1), points, strict=True)) / 8
    label = _draw_text(Point(x - 8, y - 4), edge.label, small=True)

    return f'<path class="{edge.kind}" d="{path}"/>{label}'


def _draw_text(at: Point, text: str, *, small: bool = False) -> str:
    kind = ' class="small"' if small else ""
    return f'<text{kind} x="{at.x:.0f}" y="{at.y:.0f}">{escape(text)}</text>'
