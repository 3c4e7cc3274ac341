"""What a bulk reply read, as people read it: each content below the name of its item."""

from collections.abc import Sequence

from abilities.cli.pretty.page import Page, styled
from abilities.declarations.values import JsonObject

_NAMES = ("input", "path", "key", "filename", "date", "type")
"""What may name a record or a content within one, the first that it has."""


def name_item(record: JsonObject) -> str:
    """Return the item as requested; a concise record of a memory has the parts of its target."""
    names: list[str] = [record.get(name, "") for name in _NAMES]
    return next(filter(None, names))


def print_contents(records: Sequence[JsonObject], page: Page) -> None:
    """Print the contents of all records, also of those that hold several; failed ones have none."""
    for record in records:
        data: JsonObject = record.get("data", record)

        if "items" in data:
            print_contents(data["items"], page)
        elif "content" in data:
            page.print_line(styled(name_item(record), "bold"))
            page.print_beginning(data["content"])
            page.print_blank()
