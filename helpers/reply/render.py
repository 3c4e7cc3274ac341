"""Turn a payload into the text that a caller reads: compact JSON, the text format, or TOON."""

from typing import Literal

import orjson

from abilities.helpers.reply.tables import fill_tables
from abilities.helpers.reply.text import format_text

Format = Literal["json", "text", "toon"]


def render(payload: object, format: Format = "json") -> str:
    """Return a payload in a format: compact JSON, text whose contents are not escaped, or TOON.

    JSON is UTF-8, not escaped to ASCII. As text, a payload without contents is JSON; `parse_text`
    reads both. In TOON, records of plain values are one table, with null for what a record does
    not have. Raises ValueError for an unknown format, and TypeError for a payload that JSON cannot
    hold.
    """
    if format == "json":
        return json_bytes(payload).decode()

    if format == "text":
        return format_text(payload)

    if format == "toon":
        # Imported only here: it takes a fifth of a second, which only TOON needs.
        import toon_format

        return toon_format.dumps(fill_tables(payload))

    raise ValueError(f"unknown format {format!r}: use 'json', 'text' or 'toon'")


def json_bytes(payload: object) -> bytes:
    """Return a payload as compact JSON in UTF-8, the form in which limits are counted."""
    return orjson.dumps(payload)


def json_size(payload: object) -> int:
    """Return the bytes of a payload as compact JSON."""
    return len(orjson.dumps(payload))


def text_size(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    # Of ASCII that is known; a long text takes a copy to encode it.
    return len(text) if text.isascii() else len(text.encode())
