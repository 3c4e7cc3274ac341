"""`remember`'s answer as people read it: a line for each operation, and how to undo one."""

from typing import cast

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Column, Page, styled
from abilities.cli.pretty.words import format_mended, style_failure
from abilities.declarations.values import JsonObject, as_object, unwrap_json

_COLUMNS = (
    Column("", leads=True),
    Column("operation", leads=True),
    Column("memory", wraps=True, leads=True),
    Column("version", is_right=True),
    Column("what to know", wraps=True),
)

_UNDONE = "rolled_back"


def print_operations(answer: AnsweredCall, page: Page) -> None:
    """Print one row per operation, the summary, and how to undo what was done."""
    payload = answer.payload
    # A string that holds the operations as JSON was accepted too.
    operations = cast(list[object], unwrap_json(answer.arguments["operations"]))
    rows = [_build_row(record, operations[record["input"]]) for record in payload["results"]]
    page.print_table(_COLUMNS, rows)

    summary = payload["summary"]
    undone = sum(_find_reason(record) == _UNDONE for record in payload["results"])
    words = f"{summary['succeeded']} of {summary['requested']} made"
    failed = summary["failed"] - undone
    if failed:
        words += f", {failed} failed"
    if undone:
        words += f", {undone} not made because another one failed"
    page.print_line(words)

    made = [record for record in payload["results"] if _has_succeeded(record)]
    if made:
        last: JsonObject = made[-1].get("data", made[-1])
        words = "memory_restore undoes a change. For the versions of the last one:"
        page.print_rest("memory_history", _name_memory(last, operations[made[-1]["input"]]), words)


def _name_memory(data: JsonObject, operation: object) -> JsonObject:
    """Return the argument that names a memory: its id, or its key once it is deleted."""
    if "id" in data:
        return {"id": data["id"]}

    asked = as_object(unwrap_json(operation)) or {}
    return {name: asked[name] for name in ("key", "id") if name in asked}


def _build_row(record: JsonObject, operation: object) -> list[str | Text]:
    asked = as_object(unwrap_json(operation)) or {}
    data: JsonObject = record.get("data", record)
    verb = str(asked.get("op", ""))
    name = str(data.get("key") or asked.get("key") or asked.get("id") or "")

    if _has_succeeded(record):
        mark = styled("ok", "green")
        return [mark, verb, name, str(data["version"]), _describe(data)]
    if _find_reason(record) == _UNDONE:
        note = styled("another operation failed", "dim")
        return [styled("not made", "yellow"), verb, name, "", note]

    return [styled("failed", "red"), verb, name, "", style_failure(record)]


def _has_succeeded(record: JsonObject) -> bool:
    return _find_reason(record) is None


def _find_reason(record: JsonObject) -> str | None:
    """Return why an operation failed; None if it did not."""
    reason: str | None = record.get("error", record).get("reason")
    return reason


def _describe(data: JsonObject) -> str:
    words: list[str] = []
    if data.get("created"):
        words.append("new")
    if "replaced" in data:
        words.append(f"replaced version {data['replaced']}")
    if data.get("updated_fields"):
        words.append(f"changed {', '.join(data['updated_fields'])}")
    if data.get("mended"):
        words.append(format_mended(data))

    return ", ".join(words)
