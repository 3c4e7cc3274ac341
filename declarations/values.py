"""Checks and conversions of plain values."""

import re
import unicodedata
from datetime import UTC, datetime
from typing import Any, cast

from pydantic_core import from_json

JsonObject = dict[str, Any]
"""A JSON object whose fields are not known to the type checker."""

BIDI_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Controls of the direction of text, which can make one text look like another (UAX #9)."""

_CONTROL_CATEGORIES = frozenset({"Cc", "Zl", "Zp"})

_SURROGATE = re.compile("[\ud800-\udfff]")


def has_control_character(text: str) -> bool:
    """Return whether a text holds a control, a line or paragraph separator, or a bidi control."""
    return any(c in BIDI_CONTROLS or unicodedata.category(c) in _CONTROL_CATEGORIES for c in text)


def has_surrogate(text: str) -> bool:
    """Return whether a text holds a lone surrogate, which UTF-8 cannot carry."""
    return _SURROGATE.search(text) is not None


def as_object(value: object) -> JsonObject | None:
    """Return a value that is a JSON object, typed as one; None for anything else."""
    if isinstance(value, dict):
        return cast(JsonObject, value)

    return None


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Integers may have any size. Raises ValueError for anything that is not JSON, including NaN,
    infinities, invalid UTF-8 and lone surrogates.
    """
    return from_json(text, allow_inf_nan=False)


def utc_now() -> str:
    """Return the time in RFC 3339 UTC with milliseconds: '2026-02-03T04:05:06.789Z'."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
