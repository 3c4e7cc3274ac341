"""Bytes of a reply: its payload as compact JSON, and its text in UTF-8."""

import orjson


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
