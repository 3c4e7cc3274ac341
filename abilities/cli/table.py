"""An ability's answer as people read it: a table, a sentence or indented JSON."""

import json

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.table import Table
from rich.text import Text

from abilities.cli.plans import holds_plan, print_plan
from abilities.cli.questions import holds_questions, print_answers
from abilities.cli.text import escape_lines, escape_text, format_count
from abilities.declarations.values import JsonObject

_HEADINGS = ("", "item", "from", "characters", "what to know")


def print_payload(payload: JsonObject, console: Console | None = None) -> None:
    """Print a bulk reply as tables, an error as a sentence, any other answer as indented JSON."""
    console = console or Console()

    if "error" in payload:
        fault = payload["error"]
        sentence = f"{fault['code']} ({fault['reason']}): {fault['message']}"
        # Text, unlike a string, is printed as it stands: markup in it is not obeyed.
        console.print(Text(escape_text(sentence), style="red"))
    elif holds_questions(payload):
        print_answers(payload, console)
    elif holds_plan(payload):
        print_plan(payload, console)
    elif "results" in payload and "summary" in payload:
        console.print(_build_table(payload["results"]))
        console.print(_format_summary(payload), highlight=False)
    else:
        document = json.dumps(payload, indent=2, ensure_ascii=False)
        console.print(JSONHighlighter()(Text(escape_lines(document))), soft_wrap=True)


def _build_table(records: list[JsonObject]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")

    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")

    table.columns[_HEADINGS.index("characters")].justify = "right"

    for record in records:
        if record["success"]:
            table.add_row(*_build_success_row(record))
        else:
            table.add_row(*_build_failure_row(record))

    return table


def _build_success_row(record: JsonObject) -> list[Text]:
    data = record.get("data", record)  # a concise record has no level of its own for them
    truncation = record.get("truncation")
    mark = Text("ok", style="green")
    note = ""

    if truncation or "next" in record:
        mark = Text("cut", style="yellow")
    if truncation:
        note = _format_truncation(truncation)

    if "unchanged" in record:
        note = "unchanged, not sent again"
    if "items" in data:
        note = ", ".join(filter(None, [_count_contents(data), note]))

    origin = data.get("source") or data.get("date") or data.get("filename", "")
    chars = f"{_count_chars(data):,}"

    return [
        mark,
        _format_item(record),
        Text(escape_text(origin)),
        Text(chars),
        Text(note, style="dim"),
    ]


def _count_contents(data: JsonObject) -> str:
    return format_count(len(data["items"]), "content", "contents")


def _count_chars(data: JsonObject) -> int:
    """Return the characters of a record's content, or of all its contents."""
    if "items" in data:
        return sum(_count_chars(item.get("data", item)) for item in data["items"])

    return len(data.get("content", ""))


def _build_failure_row(record: JsonObject) -> list[Text]:
    if _is_left_out(record):
        note = Text("no room left; next_request fetches it", style="dim")
        return [Text("later", style="yellow"), _format_item(record), Text(), Text(), note]

    mark = Text("failed", style="red")
    sentence = Text(escape_text(_format_failure(record)), style="red")

    return [mark, _format_item(record), Text(), Text(), sentence]


def _is_left_out(record: JsonObject) -> bool:
    """Return whether an item only did not fit; people need not take that for a failure."""
    reason = record.get("error", record).get("reason")
    return bool(reason == "response_budget")


def _format_failure(record: JsonObject) -> str:
    if "error" in record:
        return f"{record['error']['code']}: {record['error']['message']}"

    words = [record["reason"], record.get("message", "")]
    return ": ".join(filter(None, words))


def _format_truncation(truncation: JsonObject) -> str:
    returned = f"{truncation['returned_chars']:,}"

    # The total is unknown if reading stopped before the end.
    if "total_chars" in truncation:
        returned += f" of {truncation['total_chars']:,}"

    return f"cut at {returned} characters ({truncation['reason']})"


def _format_item(record: JsonObject) -> Text:
    """Return the item as requested; a concise record of a memory has the parts of its target."""
    names = [record.get(name, "") for name in ("input", "key", "date", "type")]
    return Text(escape_text(next(filter(None, names))))


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

    parts.append(f"{summary['returned_chars']:,} characters")
    sentence = ", ".join(parts)

    if "next_request" in payload:
        sentence += "; send next_request for the rest"

    return sentence
