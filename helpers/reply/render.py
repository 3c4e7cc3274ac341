"""Turn a payload into the text that a caller reads: compact JSON, or TOON."""

from typing import Literal

import orjson

from abilities.helpers.reply.tables import fill_tables

Format = Literal["json", "toon"]


def render(payload: object, format: Format = "json") -> str:
    """Return a payload as text: compact JSON, or the same payload as TOON.

    In TOON, records of plain values are one table, with null for what a record does not have.
    JSON is UTF-8, not escaped to ASCII. Raises ValueError for an unknown format, and TypeError for
    a payload that JSON cannot hold.
    """
    if format == "json":
        return json_bytes(payload).decode()

    if format == "toon":
        # Imported only here: it takes a fifth of a second, which only TOON needs.
        import toon_format

        return toon_format.dumps(fill_tables(payload))

    raise ValueError(f"unknown format {format!r}: use 'json' or 'toon'")


def json_bytes(payload: object) -> bytes:
    """Return a payload as compact JSON in UTF-8, the form in which limits are counted."""
    return orjson.dumps(payload)


def json_size(payload: object) -> int:
    """Return the bytes of a payload as compact JSON."""
    return len(orjson.dumps(payload))
