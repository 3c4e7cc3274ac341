"""A plan as people read it: what there is of each item, and what would come of it."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abilities.cli.text import escape_text, format_count
from abilities.declarations.values import JsonObject

_HEADINGS = ("item", "bytes", "would come", "what to know")


def holds_plan(payload: JsonObject) -> bool:
    """Return whether a payload is a plan: only a plan says how large the reply would be."""
    return "reply_bytes" in payload.get("summary", {})


def print_plan(payload: JsonObject, console: Console) -> None:
    """Print a table of the items, and the size of the reply."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")

    table.columns[1].justify = table.columns[2].justify = "right"
    for item in payload["results"]:
        table.add_row(*_build_row(item))

    console.print(table)
    size = payload["summary"]["reply_bytes"]
    console.print(f"the reply would take {size:,} bytes; send next_request", highlight=False)


def _build_row(item: JsonObject) -> list[Text]:
    name = Text(escape_text(item["input"]))
    if "reason" in item:
        return [name, Text(), Text(), Text(escape_text(item["reason"]), style="red")]
    if "unchanged" in item:
        return [name, Text(), Text(), Text("unchanged, not sent again", style="dim")]

    note = ""
    if "items" in item:
        note = f"{item['granted_items']} of {format_count(item['items'], 'content', 'contents')}"
    elif item["bytes"] and not item["granted_bytes"]:
        note = "no room left"

    sizes = [Text(f"{item[name]:,}") for name in ("bytes", "granted_bytes")]
    return [name, *sizes, Text(note, style="dim")]
