"""A call that failed as a whole, as people read it: a sentence, and the rules that were broken."""

import json

from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall, Column, Page
from abilities.declarations.values import JsonObject

_COLUMNS = (
    Column("field", wraps=True, leads=True),
    Column("expected", wraps=True),
    Column("did you mean", wraps=True),
)


def print_fault(answer: AnsweredCall, page: Page) -> None:
    """Print the sentence of a fault, and a table of the arguments that are wrong."""
    fault: JsonObject = answer.payload["error"]
    page.print_line(f"{fault['code']} ({fault['reason']}): {fault['message']}", style="red")

    rows = [_build_row(mistake) for mistake in fault.get("fields", [fault])]
    if any(any(row) for row in rows):
        page.print_table(_COLUMNS, rows)

    if "ref" in fault:
        page.print_line(f"The log has the details under {fault['ref']}.")
    if fault.get("retryable"):
        page.print_line("The same call may succeed later.")
    if fault["code"] == "INVALID_INPUT":
        page.print_command("For all arguments:", f"abilities describe {answer.name}")


def _build_row(mistake: JsonObject) -> list[str | Text]:
    expected = _describe_rule(mistake.get("expected", {}))
    suggestion: str = mistake.get("did_you_mean", "")
    return [mistake.get("field", ""), expected, suggestion]


def _describe_rule(rule: JsonObject) -> str:
    """Return a rule in words, such as "1 to 6" or "one of: out, in, both"."""
    rest = dict(rule)
    parts: list[str] = []

    if "type" in rest:
        parts.append(rest.pop("type"))
    if "minimum" in rest and "maximum" in rest:
        parts.append(f"{rest.pop('minimum')} to {rest.pop('maximum')}")
    if "one_of" in rest:
        parts.append(f"one of: {', '.join(map(str, rest.pop('one_of')))}")

    for name, value in rest.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"{name.replace('_', ' ')}: {text}")

    return "; ".join(parts)
