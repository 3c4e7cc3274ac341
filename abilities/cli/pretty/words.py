"""Words for outcomes that several kinds of answers share."""

from rich.text import Text

from abilities.cli.pretty.page import styled
from abilities.declarations.values import JsonObject


def style_failure(record: JsonObject) -> Text:
    """Return why a record failed; a concise one has the reason alone, or with a message."""
    if "error" in record:
        words = f"{record['error']['code']}: {record['error']['message']}"
    else:
        words = ": ".join(filter(None, [record["reason"], record.get("message", "")]))

    return styled(words, "red")


def format_truncation(truncation: JsonObject) -> str:
    """Return how much of a content is there."""
    returned = f"{truncation['returned_chars']:,}"

    # The total is unknown if reading stopped before the end.
    if "total_chars" in truncation:
        returned += f" of {truncation['total_chars']:,}"

    return f"cut at {returned} characters ({truncation['reason']})"


def format_mended(payload: JsonObject) -> str:
    """Return which fields of a memory were damaged; empty if none was."""
    fields = payload.get("mended")
    if not fields:
        return ""

    return f"It was damaged: {', '.join(fields)} had to be replaced by defaults."
