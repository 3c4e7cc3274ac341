"""One memory as people read it: a heading, its content, and its links."""

import json
from typing import NamedTuple

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Column, Page, format_time, styled
from abilities.cli.pretty.walks import print_walk
from abilities.cli.pretty.words import format_truncation
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject

_COLUMNS = (
    Column("weight"),
    Column("memory", wraps=True, leads=True),
    Column("kind", wraps=True),
    Column("term", wraps=True),
)


class _Count(NamedTuple):
    shown: int
    left: int


def print_memory(answer: AnsweredCall, page: Page) -> None:
    """Print one memory, or a walk if the call asked for it."""
    payload = answer.payload
    if "targetMemory" in payload:
        print_walk(answer, page)
        return

    memory: JsonObject = payload.get("data", payload)
    page.print_line(styled(payload["key"], "bold"))
    for line in _describe(memory):
        page.print_line(line, style="dim")

    page.print_blank()
    page.print_content(memory["content"])
    page.print_blank()

    _print_links(memory, "links", "Links to", page)
    _print_links(memory, "backlinks", "Linked from", page)
    _print_more(answer, memory, page)


def _describe(memory: JsonObject) -> list[str]:
    """Return what there is to know of a memory besides its content, a line for each kind."""
    lines = [_describe_state(memory)]
    for name in ("summary", "category"):
        if name in memory:
            lines.append(f"{name}: {memory[name]}")

    if "tags" in memory:
        lines.append(f"tags: {', '.join(memory['tags'])}")
    if "expires_at" in memory:
        lines.append(f"expires: {format_time(memory['expires_at'])} UTC")

    own = {name: value for name, value in _list_metadata(memory) if name != "memory_score"}
    if own:
        lines.append(f"metadata: {json.dumps(own, ensure_ascii=False)}")

    return lines


def _list_metadata(memory: JsonObject) -> list[tuple[str, object]]:
    return list(memory.get("metadata", {}).items())


def _describe_state(memory: JsonObject) -> str:
    words: list[str] = []
    if "type" in memory:
        words += [memory["type"], f"{memory['importance']} importance"]
    if "version" in memory:
        words.append(f"version {memory['version']}")
    if "updated_at" in memory:
        words.append(f"changed {format_time(memory['updated_at'])} UTC")
    if memory.get("archived"):
        words.append("archived")

    return ", ".join(words)


def _print_links(memory: JsonObject, field: str, heading: str, page: Page) -> None:
    links: list[JsonObject] = memory.get(field, [])
    total: int = memory.get(f"{field}_total", 0)
    if not total:
        return

    page.print_line(f"{heading} {format_count(total, 'memory', 'memories')}", style="bold")
    if links:
        page.print_table(_COLUMNS, [_build_row(link) for link in links])


def _build_row(link: JsonObject) -> list[str | Text]:
    return [f"{link['link_weight']:.2f}", link["key"], link.get("type", ""), link.get("term", "")]


def _print_more(answer: AnsweredCall, memory: JsonObject, page: Page) -> None:
    """Print how to get more links, and the rest of a content that was cut."""
    # The model of the arguments also takes a number in a string.
    offset = int(answer.arguments.get("links_offset", 0))
    counts = [_count_links(memory, field, offset) for field in ("links", "backlinks")]
    if any(count.left for count in counts):
        shown = max(count.shown for count in counts)
        more = {**answer.arguments, "links_offset": offset + shown}
        page.print_rest(answer.name, more, "For more links:")

    if "truncation" in answer.payload:
        page.print_line(format_truncation(answer.payload["truncation"]))
    _print_rest_of_content(answer, page)


def _count_links(memory: JsonObject, field: str, offset: int) -> _Count:
    # Without the list only the number of links is shown, and more of them would not be either.
    if field not in memory:
        return _Count(0, 0)

    shown = len(memory[field])
    return _Count(shown, max(0, memory[f"{field}_total"] - offset - shown))


def _print_rest_of_content(answer: AnsweredCall, page: Page) -> None:
    payload = answer.payload
    if "next_request" in payload:
        page.print_rest(answer.name, payload["next_request"])
    elif "truncation" in payload:
        page.print_rest("memory_read_bulk", {"targets": [payload["truncation"]["next"]]})
    elif "next" in payload:
        target = {"type": "stored", "key": payload["key"], "resume": payload["next"]}
        page.print_rest("memory_read_bulk", {"targets": [target]})
