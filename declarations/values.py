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

_CONTROL_CATEGORIES = frozenset({"Cc", "Zl", "Zp"})

_SURROGATE = re.compile("[\ud800-\udfff]")


def has_control_character(text: str) -> bool:
    """Whether a text holds a control, a line or paragraph separator, or a bidirectional control."""
    return any(c in BIDI_CONTROLS or unicodedata.category(c) in _CONTROL_CATEGORIES for c in text)


def has_surrogate(text: str) -> bool:
    """Return whether a text holds a lone surrogate, which no encoding of Unicode can carry."""
    return _SURROGATE.search(text) is not None


def as_object(value: object) -> dict[str, Any] | None:
    """A value that is a JSON object, as such; None for anything else."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def parse_json(text: str | bytes) -> Any:
    """A JSON document's value: strict about NaN, UTF-8 and lone surrogates, any size of integer. Raises ValueError."""
    return from_json(text, allow_inf_nan=False)


def utc_now() -> str:
    """This moment: RFC 3339 UTC in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
