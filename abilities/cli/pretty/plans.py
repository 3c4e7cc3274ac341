"""A plan as people read it: what there is of each item, and what would come of it."""

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Column, Page, styled
from abilities.cli.pretty.words import style_failure
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject

_COLUMNS = (
    Column("item", wraps=True, leads=True, kept=True),
    Column("bytes", is_right=True, kept=True),
    Column("would come", is_right=True, kept=True),
    Column("what to know", wraps=True, kept=True),
)


def holds_plan(payload: JsonObject) -> bool:
    """Return whether a payload is a plan: only a plan says how large the reply would be."""
    return "reply_bytes" in payload.get("summary", {})


def print_plan(answer: AnsweredCall, page: Page) -> None:
    """Print a table of the items, the size of the reply, and the command that reads them."""
    payload = answer.payload
    page.print_table(_COLUMNS, [_build_row(item) for item in payload["results"]])
    for index in payload.get("more", ()):
        page.print_line("more match than the limit: ", payload["results"][index]["input"])

    page.print_line(f"the reply would take {payload['summary']['reply_bytes']:,} bytes")
    if "next_request" in payload:
        page.print_rest(answer.name, payload["next_request"], "To read them:")


def _build_row(item: JsonObject) -> list[str | Text]:
    name: str = item["input"]
    if "reason" in item:
        return [name, "", "", style_failure(item)]
    if "unchanged" in item:
        return [name, "", "", styled("unchanged, not sent again", "dim")]

    note = ""
    if "items" in item:
        note = f"{item['granted_items']} of {format_count(item['items'], 'content', 'contents')}"
    elif item["bytes"] and not item["granted_bytes"]:
        note = "no room left"

    sizes = [f"{item[name]:,}" for name in ("bytes", "granted_bytes")]
    return [name, *sizes, styled(note, "dim")]
