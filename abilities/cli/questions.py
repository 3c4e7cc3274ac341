"""`recall`'s answer as people read it: a table of memories per question."""

from typing import cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abilities.cli.text import escape_text, format_count
from abilities.declarations.values import JsonObject

_HEADINGS = ("score", "memory", "date", "content")

_SHOWN_CHARS = 200
"""How much of a content a table shows."""


def holds_questions(payload: JsonObject) -> bool:
    """Return whether a payload is an answer to questions."""
    results = cast(list[JsonObject], payload.get("results", []))
    return any("memories" in record.get("data", record) for record in results)


def print_answers(payload: JsonObject, console: Console) -> None:
    """Print each question with a table of what answers it."""
    for record in payload["results"]:
        data: JsonObject = record.get("data", record)
        shown = data["memories"]

        console.print(Text(escape_text(record["input"]), style="bold"))
        if shown:
            console.print(_build_table(shown))
        console.print(_summarize(data), highlight=False)

    if "next_request" in payload:
        console.print("send next_request for the rest", highlight=False)


def _build_table(records: list[JsonObject]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")

    for record in records:
        table.add_row(*_build_row(record))

    return table


def _build_row(record: JsonObject) -> list[Text]:
    name = record.get("key") or record["filename"]
    if "via" in record:
        name = f"{name} (via {record['via']})"

    content = Text(escape_text(record.get("content", "")[:_SHOWN_CHARS]))
    if "content" not in record:
        reason = record["error"]["reason"] if "error" in record else record["reason"]
        content = Text(escape_text(reason), style="red")

    date = record.get("date", "")
    return [Text(f"{record['score']:.2f}"), Text(escape_text(name)), Text(date), content]


def _summarize(data: JsonObject) -> str:
    words = f"{len(data['memories'])} of {format_count(data['matched'], 'match', 'matches')} shown"
    if "unknown_words" in data:
        unknown = ", ".join(data["unknown_words"])
        words += f"; in no memory: {escape_text(unknown)}"

    return words
