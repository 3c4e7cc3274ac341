"""Bulk replies as people read them: a table of records, their contents, and a summary."""

from rich.text import Text

from abilities.cli.pretty.contents import name_item, print_contents
from abilities.cli.pretty.page import AnsweredCall, Column, Page, styled
from abilities.cli.pretty.plans import holds_plan, print_plan
from abilities.cli.pretty.words import format_truncation, style_failure
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject

_COLUMNS = (
    Column("", leads=True, kept=True),
    Column("item", wraps=True, leads=True, kept=True),
    Column("from", wraps=True, kept=True),
    Column("characters", is_right=True, kept=True),
    Column("what to know", wraps=True, kept=True),
)


def print_batch(answer: AnsweredCall, page: Page) -> None:
    """Print one row per record, the contents, the summary, and the command for the rest."""
    payload = answer.payload
    if holds_plan(payload):
        print_plan(answer, page)
        return

    page.print_table(_COLUMNS, [_build_row(record) for record in payload["results"]])
    page.print_blank()
    print_contents(payload["results"], page)
    page.print_line(_format_summary(payload))
    if "next_request" in payload:
        page.print_rest(answer.name, payload["next_request"])


def _build_row(record: JsonObject) -> list[str | Text]:
    if record["success"]:
        return _build_success_row(record)

    return _build_failure_row(record)


def _build_success_row(record: JsonObject) -> list[str | Text]:
    data = record.get("data", record)  # a concise record has no level of its own for them
    truncation = record.get("truncation")
    mark = styled("ok", "green")
    note = ""

    if truncation or "next" in record:
        mark = styled("cut", "yellow")
    if truncation:
        note = format_truncation(truncation)

    if "unchanged" in record:
        note = "unchanged, not sent again"
    if "items" in data:
        note = ", ".join(filter(None, [_count_contents(data), note]))

    origin = data.get("source") or data.get("date") or data.get("filename", "")
    chars = f"{_count_chars(data):,}"

    return [mark, name_item(record), origin, chars, styled(note, "dim")]


def _count_contents(data: JsonObject) -> str:
    return format_count(len(data["items"]), "content", "contents")


def _count_chars(data: JsonObject) -> int:
    """Return the characters of a record's content, or of all its contents."""
    if "items" in data:
        return sum(_count_chars(item.get("data", item)) for item in data["items"])

    return len(data.get("content", ""))


def _build_failure_row(record: JsonObject) -> list[str | Text]:
    if _is_left_out(record):
        note = styled("no room left; next_request fetches it", "dim")
        return [styled("later", "yellow"), name_item(record), "", "", note]

    mark = styled("failed", "red")
    return [mark, name_item(record), "", "", style_failure(record)]


def _is_left_out(record: JsonObject) -> bool:
    """Return whether an item only did not fit; people need not take that for a failure."""
    reason = record.get("error", record).get("reason")
    return bool(reason == "response_budget")


def _format_summary(payload: JsonObject) -> str:
    summary = payload["summary"]
    left_out = sum(_is_left_out(record) for record in payload["results"])

    parts = [
        f"{summary['succeeded']} of {summary['requested']} read",
        f"{summary['failed'] - left_out} failed",
        f"{summary['truncated']} cut",
    ]
    if left_out:
        parts.append(f"{left_out} left for later")

    parts.append(format_count(summary["returned_chars"], "character"))
    return ", ".join(parts)
