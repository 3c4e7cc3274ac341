"""What the generator of requests must know that no schema can say: the bounds of metadata."""

import json
from typing import Any

import schemathesis


@schemathesis.hook
def filter_body(context: Any, body: Any) -> bool:
    """Leave out metadata over 4 KiB or with integers over 64 bits, which other tests try."""
    if not isinstance(body, dict):
        return True

    metadata = body.get("metadata")
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    return size <= 4096 and not _has_large_integer(metadata)


def _has_large_integer(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_large_integer, value.values()))
    if isinstance(value, list):
        return any(map(_has_large_integer, value))

    return isinstance(value, int) and not -(2**63) <= value < 2**64
