"""`recall`'s answer as people read it: a table of memories per question."""

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Column, Page, begin_content
from abilities.cli.pretty.words import style_failure
from abilities.cli.text import format_count
from abilities.declarations.values import JsonObject

_COLUMNS = (
    Column("score", leads=True),
    Column("memory", wraps=True, leads=True),
    Column("date"),
    Column("content", wraps=True),
)


def print_questions(answer: AnsweredCall, page: Page) -> None:
    """Print each question with a table of what answers it."""
    for record in answer.payload["results"]:
        data: JsonObject = record.get("data", record)
        shown = data["memories"]

        page.print_line(record["input"], style="bold")
        if shown:
            page.print_table(_COLUMNS, [_build_row(memory) for memory in shown])
        page.print_line(_summarize(data))
        if "overview" in data:
            page.print_line("The question names nothing to look for. What there is, in short:")
            page.print_table(_COLUMNS, [_build_row(memory) for memory in data["overview"]])

    if "next_request" in answer.payload:
        page.print_rest(answer.name, answer.payload["next_request"])


def _build_row(record: JsonObject) -> list[str | Text]:
    name: str = record.get("key") or record["filename"]
    if "via" in record:
        name = f"{name} (via {record['via']})"

    content: str | Text = begin_content(record.get("content", ""))
    if "content" not in record:
        content = style_failure(record)

    score = f"{record['score']:.2f}" if "score" in record else ""
    return [score, name, record.get("date", ""), content]


def _summarize(data: JsonObject) -> str:
    words = f"{len(data['memories'])} of {format_count(data['matched'], 'match', 'matches')} shown"
    if "also" in data:
        words += f"; under another question: {', '.join(data['also'])}"
    if "unknown_words" in data:
        words += f"; in no key, summary or content: {', '.join(data['unknown_words'])}"

    return words
