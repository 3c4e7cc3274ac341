"""What the generator of requests must know that no schema can say: the bounds of metadata."""

import json
from typing import Any

import schemathesis


@schemathesis.hook
def filter_body(context: Any, body: Any) -> bool:
    """Leave out metadata over 4 KiB, or with integers over 64 bits; the suite has tests of their own for both."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return len(json.dumps(metadata, ensure_ascii=False).encode()) <= 4096 and not _has_large(
        metadata
    )


def _has_large(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_large, value.values()))
    if isinstance(value, list):
        return any(map(_has_large, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**64
