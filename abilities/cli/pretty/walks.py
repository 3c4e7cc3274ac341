"""A walk as people read it: a tree of memories, and what the limits left out."""

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Page, begin_content, styled
from abilities.cli.pretty.words import format_truncation, style_failure
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject

_INDENT = 2
"""Cells by which a memory is indented for each link that leads to it."""


def print_walk(answer: AnsweredCall, page: Page) -> None:
    """Print each memory beneath the one that leads to it, and how to get what is left."""
    payload = answer.payload
    entries: list[JsonObject] = [payload["targetMemory"], *payload["associatedMemories"]]
    for entry in entries:
        _print_entry(entry, page)

    metadata: JsonObject = payload.get("metadata", {})
    page.print_line(_summarize(entries, metadata))

    frontier = metadata.get("frontier", [])
    if frontier:
        _print_frontier(frontier, metadata, page)

    # Of a cut content some is known; of what the limits left out, nothing yet.
    for request in payload.get("next_requests", []):
        page.print_rest("memory_read_bulk", request, "For the rest of what was cut:")
    if frontier:
        targets = [{"type": "stored", "key": _name_left_out(entry)} for entry in frontier]
        page.print_rest("memory_read_bulk", {"targets": targets}, "To read what was left out:")


def _print_entry(entry: JsonObject, page: Page) -> None:
    indent = _INDENT * entry.get("depth", 0)
    data: JsonObject = entry.get("data", entry)

    details = _list_details(entry, data)
    heading = styled(entry["key"], "bold")
    page.print_line(heading, styled(f"  {details}" if details else "", "dim"), indent=indent)

    words: str | Text = begin_content(data.get("content", ""))
    if "content" not in data:
        words = style_failure(entry)
    page.print_line(words, indent=indent + _INDENT)


def _list_details(entry: JsonObject, data: JsonObject) -> str:
    score = entry.get("combinedScore", entry.get("score"))
    link = entry.get("link", "")
    if isinstance(link, str):  # of a concise entry
        link = {"type": link, "direction": entry.get("direction")}

    details = [
        f"{score:.2f}" if score is not None else "",
        link.get("type", ""),
        data.get("type", ""),
        "leads here" if link.get("direction") == "in" else "",
        format_truncation(entry["truncation"]) if "truncation" in entry else "",
        "cut" if "next" in entry else "",
    ]
    return ", ".join(filter(None, details))


def _summarize(entries: list[JsonObject], metadata: JsonObject) -> str:
    depth = max(entry.get("depth", 0) for entry in entries)
    words = [
        format_count(len(entries), "memory", "memories"),
        f"{format_count(depth, 'link')} deep",
    ]
    if metadata.get("failed"):
        words.append(f"{metadata['failed']} failed")
    if metadata.get("missingLinks"):
        words.append(f"{format_count(metadata['missingLinks'], 'link')} to no memory")
    if metadata.get("invalidLinks"):
        words.append(f"{format_count(metadata['invalidLinks'], 'damaged link')}")

    return ", ".join(words)


def _print_frontier(frontier: list[JsonObject | str], metadata: JsonObject, page: Page) -> None:
    limits = ", ".join(metadata["limitsReached"])
    more = ", and more" if metadata.get("frontier_more") else ""
    names = ", ".join(_describe_left_out(entry) for entry in frontier)

    page.print_line(styled(f"Left out by {limits}: ", "yellow"), f"{names}{more}")


def _describe_left_out(entry: JsonObject | str) -> str:
    if isinstance(entry, str):
        return entry

    return f"{entry['key']} ({entry['combinedScore']:.2f}, {entry['cutBy']})"


def _name_left_out(entry: JsonObject | str) -> str:
    return entry if isinstance(entry, str) else entry["key"]
