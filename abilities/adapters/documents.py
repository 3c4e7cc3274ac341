"""JSON as requests bring it, read so strictly that no two readers can take it for different values.

The standard library's parser, because faster ones do not report duplicate fields.
"""

import json
import re
import sys
from typing import Any

from abilities.declarations.limits import MAX_METADATA_DEPTH
from abilities.declarations.values import JsonObject

MAX_DEPTH = MAX_METADATA_DEPTH + 1
"""How deep the JSON of a call's arguments may be nested: metadata is one of them."""

_JSON = "application/json"

# A string matches as a whole, so that the brackets in it do not count. The closing quote is
# optional: without it, the search would start again at every quote of a string that never ends.
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[\]{}]', re.DOTALL)


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type header names JSON, with or without parameters."""
    media_type, _, _ = (content_type or "").partition(";")
    return media_type.strip().lower() == _JSON


def parse_document(body: bytes, max_depth: int = MAX_DEPTH) -> object:
    """Return the value of a JSON document.

    Integers with more digits than Python converts (4,300) become infinite. Raises ValueError for
    anything that is not JSON, including NaN, invalid UTF-8 and lone surrogates, for two fields of
    the same name, and for nesting deeper than ``max_depth``.
    """
    text = body.decode()
    _check_depth(text, max_depth)

    value: object = json.loads(
        text,
        object_pairs_hook=_refuse_duplicates,
        parse_constant=_refuse_constant,
        parse_int=_parse_integer,
    )

    # Only an escape can bring a lone surrogate; UTF-8 has none.
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()

    return value


def _check_depth(text: str, max_depth: int) -> None:
    """Raise ValueError for JSON that is nested too deep; the parser would raise RecursionError."""
    # Few brackets cannot be nested deep. Counting them is much faster than the loop below.
    if text.count("[") + text.count("{") <= max_depth:
        return

    depth = 0

    for match in _STRINGS_AND_BRACKETS.finditer(text):
        token = match[0]

        if token in ("[", "{"):
            depth += 1
            if depth > max_depth:
                raise ValueError("the JSON is nested too deep")
        elif token in ("]", "}"):
            depth -= 1


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Return the fields of an object. Raises ValueError if two have the same name."""
    fields = dict(pairs)

    if len(fields) != len(pairs):
        raise ValueError("two fields have the same name")

    return fields


def _refuse_constant(name: str) -> float:
    """Raise ValueError for NaN and infinities, which Python's parser takes but JSON has not."""
    raise ValueError(f"{name} is not JSON")


def _parse_integer(digits: str) -> int | float:
    limit = sys.get_int_max_str_digits()

    if limit and len(digits) > limit:
        return float(digits)

    return int(digits)
