"""An answer as a table for people."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abilities.declarations.values import has_control_character


def print_payload(payload: dict[str, Any], console: Console | None = None) -> None:
    """Print a bulk reply as a table, an error as a sentence, any other answer as indented JSON."""
    console = console or Console()
    if "error" in payload:
        fault = payload["error"]
        console.print(Text(f"{fault['code']} ({fault['reason']}): {fault['message']}", style="red"))
    elif "results" in payload and "summary" in payload:
        console.print(_table(payload["results"]))
        console.print(_summed_up(payload), highlight=False)
    else:
        console.print_json(data=payload)


def _table(records: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "item", "from", "characters", "what to know"):
        table.add_column(
            heading, justify="right" if heading == "characters" else "left", overflow="fold"
        )
    for record in records:
        table.add_row(*(_answered(record) if record["success"] else _failed(record)))
    return table


def _answered(record: dict[str, Any]) -> list[Text]:
    data, cut = record["data"], record.get("truncation")
    note = ""
    if cut:
        known = f" of {cut['total_chars']:,}" if "total_chars" in cut else ""
        note = f"cut at {cut['returned_chars']:,}{known} characters ({cut['reason']})"
    origin = data.get("source") or data.get("date") or data.get("filename", "")
    mark = Text("cut", style="yellow") if cut else Text("ok", style="green")
    return [
        mark,
        _asked(record),
        Text(origin),
        Text(f"{len(data['content']):,}"),
        Text(note, style="dim"),
    ]


def _failed(record: dict[str, Any]) -> list[Text]:
    fault = record["error"]
    reason = Text(f"{fault['code']}: {fault['message']}", style="red")
    return [Text("failed", style="red"), _asked(record), Text(), Text(), reason]


def _asked(record: dict[str, Any]) -> Text:
    """The item as it was asked, without what could steer a terminal."""
    return Text(
        "".join("\ufffd" if has_control_character(char) else char for char in record["input"])
    )


def _summed_up(payload: dict[str, Any]) -> str:
    summary = payload["summary"]
    counts = f"{summary['succeeded']} of {summary['requested']} read, {summary['failed']} failed"
    more = "; send next_request for the rest" if "next_request" in payload else ""
    return f"{counts}, {summary['truncated']} cut, {summary['returned_chars']:,} characters{more}"
