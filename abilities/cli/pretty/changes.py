"""Changes of memories as people read them: a timeline of one, and a table of many."""

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Column, Page, format_time, styled
from abilities.declarations.values import JsonObject

_TIMELINE = (
    Column("version", is_right=True, leads=True),
    Column("when (UTC)", leads=True),
    Column("what"),
    Column("by", wraps=True),
    Column("fields", wraps=True),
    Column("kept bytes", is_right=True),
)

_CHANGES = (
    Column("version", is_right=True, leads=True),
    Column("when (UTC)", leads=True),
    Column("what"),
    Column("memory", wraps=True),
    Column("by", wraps=True),
)


def print_timeline(answer: AnsweredCall, page: Page) -> None:
    """Print what became of one memory, newest first, and how to go back."""
    payload = answer.payload
    name = str(payload.get("key") or payload.get("id") or "A deleted memory")
    state = "deleted" if payload.get("deleted") else f"version {payload.get('version', '')} now"
    page.print_line(styled(name, "bold"), f", {state}")

    entries: list[JsonObject] = payload["entries"]
    if entries:
        page.print_table(_TIMELINE, [_build_entry_row(entry) for entry in entries])
    else:
        page.print_line("no changes")

    if "earliest" in payload:
        words = f"memory_restore brings back versions from {payload['earliest']} on."
        page.print_line(words, style="dim")
    if "next_request" in payload:
        page.print_rest(answer.name, payload["next_request"], "For older changes:")


def _build_entry_row(entry: JsonObject) -> list[str | Text]:
    fields = ", ".join(entry.get("changed", []))
    when, size = format_time(entry["at"]), f"{entry['size']:,}"
    return [str(entry["version"]), when, entry["action"], entry["by"], fields, size]


def print_changes(answer: AnsweredCall, page: Page) -> None:
    """Print which memories changed, and how to ask for what changes later."""
    payload = answer.payload
    changes: list[JsonObject] = payload["changes"]
    if changes:
        page.print_table(_CHANGES, [_build_change_row(change) for change in changes])
    else:
        page.print_line("nothing changed")

    if not payload.get("complete", True):
        words = "Older changes are forgotten: list all memories anew."
        page.print_line(words, style="yellow")

    if "next_request" in payload:
        page.print_rest(answer.name, payload["next_request"])
    else:
        later = {**answer.arguments, "since": payload["next"]}
        page.print_rest(answer.name, later, "For what changes later:")


def _build_change_row(change: JsonObject) -> list[str | Text]:
    # The key of a purged memory is not known.
    name = change.get("key") or change["id"]
    when = format_time(change["at"])
    return [str(change["version"]), when, change["action"], name, change["by"]]
