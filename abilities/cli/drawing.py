"""What a bulk read returns, as a picture in SVG or Mermaid: order, weights, what the limits cut."""

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

from abilities.declarations.memory import USUAL_LINK_TYPE
from abilities.helpers.walk import WalkOutcome

EdgeKind = Literal["way", "again", "cut"]
"""What a link is to the walk.

"way": its target was retrieved by it. "again": it leads to a memory that was retrieved by another
link. "cut": a limit left its target out.
"""

# Sizes in the units of the SVG, which are pixels on a screen.
_COLUMN_WIDTH = 300
_ROW_HEIGHT = 64
_BOX_WIDTH = 210
_BOX_HEIGHT = 40
_MARGIN = 24
_BEND = 45.0  # how far a curve's control points are from its ends

_LABEL_CHARS = 23
"""As many characters of the usual width fit into a box."""

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

    ``source`` is the one that the walk was at; the link leads back to it if it is ``incoming``.
    """

    source: str
    target: str
    weight: float
    kind: EdgeKind
    incoming: bool = False
    type: str = USUAL_LINK_TYPE

    @property
    def label(self) -> str:
        """Its weight, after its type unless that is the usual one."""
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
        """Return the point that lies so far to the right and below."""
        return Point(self.x + dx, self.y + dy)


class Curve(NamedTuple):
    """A cubic Bézier curve: two ends, and the control points beside them."""

    start: Point
    start_control: Point
    end_control: Point
    end: Point


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
        lines.append(f"    m{index}{_format_mermaid_node(node)}")

    for edge in drawing.edges:
        arrow = _MERMAID_ARROWS[edge.kind]
        start, end = names[edge.source], names[edge.target]
        if edge.incoming:
            start, end = end, start
        lines.append(f'    {start} {arrow}|"{_escape_mermaid(edge.label)}"| {end}')

    lines.append(f"    {_MERMAID_STYLE}")
    return "\n".join(lines) + "\n"


def _format_mermaid_node(node: DrawnNode) -> str:
    key = _escape_mermaid(node.key)

    if node.number:
        return f'["{node.number}. {key}"]'

    return f'["{key}<br/>{node.note}"]:::cut'


def _escape_mermaid(text: str) -> str:
    """Return text with a character reference for each mark that may mean something to Mermaid."""
    escaped: list[str] = []

    for char in text:
        if char.isalnum() or char in _MERMAID_SAFE:
            escaped.append(char)
        else:
            escaped.append(f"#{ord(char)};")

    return "".join(escaped)


def as_svg(drawing: Drawing) -> str:
    """Return the picture as SVG, with one column per depth."""
    corners = _place_boxes(drawing)
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

    # Edges come first, so that boxes cover what passes beneath them.
    for edge in drawing.edges:
        lines.append(_format_edge(edge, corners[edge.source], corners[edge.target]))

    for node in drawing.nodes:
        lines.append(_format_node(node, corners[node.key]))

    lines.append("</svg>\n")
    return "\n".join(lines)


def _place_boxes(drawing: Drawing) -> dict[str, Point]:
    """Return the upper left corner of each box, by the node's key.

    A depth has a column, and the columns are centered on one another.
    """
    columns = Counter(node.depth for node in drawing.nodes)
    tallest = max(columns.values())
    placed: Counter[int] = Counter()
    corners: dict[str, Point] = {}

    for node in drawing.nodes:
        first_row = (tallest - columns[node.depth]) / 2
        row = first_row + placed[node.depth]
        placed[node.depth] += 1

        x = _MARGIN + node.depth * _COLUMN_WIDTH
        corners[node.key] = Point(x, _MARGIN + row * _ROW_HEIGHT)

    return corners


def _format_node(node: DrawnNode, corner: Point) -> str:
    kind = "kept" if node.number else "cut"
    label = _shorten_label(node.key)
    baseline = 25
    note = ""

    if node.number:
        label = f"{node.number}. {label}"

    if node.note:
        baseline = 18  # two lines share the box
        at = corner.move(10, 33)
        note = f'<text class="small" x="{at.x:.0f}" y="{at.y:.0f}">{escape(node.note)}</text>'

    at = corner.move(10, baseline)
    return (
        f'<g class="{kind}"><title>{escape(node.key)}</title>'
        f'<rect x="{corner.x:.0f}" y="{corner.y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"/>'
        f'<text x="{at.x:.0f}" y="{at.y:.0f}">{escape(label)}</text>{note}</g>'
    )


def _shorten_label(key: str) -> str:
    if len(key) <= _LABEL_CHARS:
        return key

    return key[: _LABEL_CHARS - 1] + "…"


def _format_edge(edge: DrawnEdge, source: Point, target: Point) -> str:
    """Return a curve between two boxes, given by their corners, with its label at its middle."""
    curve = _route_curve(source, target)
    path = "M {:.0f} {:.0f} C {:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}".format(
        *curve.start, *curve.start_control, *curve.end_control, *curve.end
    )
    at = _find_middle(curve).move(-8, -4)
    label = f'<text class="small" x="{at.x:.0f}" y="{at.y:.0f}">{escape(edge.label)}</text>'

    return f'<path class="{edge.kind}" d="{path}"/>{label}'


def _route_curve(source: Point, target: Point) -> Curve:
    """Return the curve from box to box.

    It leads to the right, around within a column, and beneath the boxes on the way back.
    """
    right_side = (_BOX_WIDTH, _BOX_HEIGHT / 2)
    left_side = (0, _BOX_HEIGHT / 2)
    bottom = (_BOX_WIDTH / 2, _BOX_HEIGHT)

    if target.x > source.x:
        start = source.move(*right_side)
        end = target.move(*left_side)
        return Curve(start, start.move(_BEND, 0.0), end.move(-_BEND, 0.0), end)

    if target.x == source.x:
        start = source.move(*right_side)
        end = target.move(*right_side)
        return Curve(start, start.move(_BEND, 0.0), end.move(_BEND, 0.0), end)

    start = source.move(*bottom)
    end = target.move(*bottom)
    return Curve(start, start.move(0.0, _BEND), end.move(0.0, _BEND), end)


def _find_middle(curve: Curve) -> Point:
    """Return the point of the curve at half of its parameter."""
    start, start_control, end_control, end = curve
    x = start.x + end.x + 3 * (start_control.x + end_control.x)
    y = start.y + end.y + 3 * (start_control.y + end_control.y)

    # Weights of a cubic Bezier curve at one half: 1/8, 3/8, 3/8, 1/8.
    return Point(x / 8, y / 8)
