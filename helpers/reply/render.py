"""Turn a payload into the text that a caller reads: compact JSON, or TOON."""

from typing import Any, Literal

import orjson

Format = Literal["json", "toon"]


def render(payload: Any, format: Format = "json") -> str:
    """A payload as text: compact JSON (UTF-8, not escaped to ASCII), or the same payload as TOON.

    Raises ValueError for an unknown format, TypeError for a payload that JSON cannot hold.
    """
    if format == "json":
        return json_bytes(payload).decode()
    if format == "toon":
        import toon_format  # a fifth of a second that only TOON needs

        return toon_format.dumps(payload)
    raise ValueError(f"unknown format {format!r}: use 'json' or 'toon'")


def json_bytes(payload: Any) -> bytes:
    """A payload as compact JSON in UTF-8, the form that limits are counted in."""
    return orjson.dumps(payload)


def json_size(payload: Any) -> int:
    """Bytes of a payload as compact JSON."""
    return len(orjson.dumps(payload))
