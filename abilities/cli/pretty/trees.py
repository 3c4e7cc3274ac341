"""The drawing of a walk as people read it in a terminal: a tree in the order of retrieval."""

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from abilities.cli.drawing import Drawing, DrawnEdge, DrawnNode
from abilities.cli.pretty.page import styled


def print_tree(drawing: Drawing, console: Console) -> None:
    """Print each memory beneath the one that leads to it, with the link between them."""
    ways: dict[str, DrawnEdge] = {}
    again: dict[str, list[DrawnEdge]] = {}
    for edge in drawing.edges:
        if edge.kind == "again":
            again.setdefault(edge.source, []).append(edge)
        else:
            ways[edge.target] = edge

    target, *others = drawing.nodes
    tree = Tree(_describe_node(target, None, again.get(target.key, [])))
    branches = {target.key: tree}

    for node in others:
        way = ways[node.key]
        words = _describe_node(node, way, again.get(node.key, []))
        branches[node.key] = branches[way.source].add(words)

    console.print(tree)


def _describe_node(node: DrawnNode, way: DrawnEdge | None, again: list[DrawnEdge]) -> Text:
    words = styled(node.key, "dim")
    if node.number:
        words = styled(f"{node.number}. {node.key}", "bold")
    if way is not None:
        words.append_text(styled(f"  {_describe_link(way)}", "dim"))
    if node.note:
        words.append_text(styled(f"  {node.note}", "yellow"))

    links = [f"{edge.target} ({_describe_link(edge)})" for edge in again]
    if links:
        words.append_text(styled(f"  also: {', '.join(links)}", "dim"))

    return words


def _describe_link(edge: DrawnEdge) -> str:
    return f"{edge.label}, leads here" if edge.incoming else edge.label
