"""A payload as compact JSON: the form in which replies are sent and limits are counted."""

import orjson


def json_bytes(payload: object) -> bytes:
    """Return a payload as compact JSON in UTF-8, the form in which limits are counted."""
    return orjson.dumps(payload)


def json_size(payload: object) -> int:
    """Return the bytes of a payload as compact JSON."""
    return len(orjson.dumps(payload))
