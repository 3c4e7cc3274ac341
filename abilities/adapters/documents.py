"""A strict parser for the JSON of requests, used over HTTP, MCP and by frameworks.

It is strict so that no two readers of a request can take it for different values. It is based on
the standard library's parser, because faster ones do not report duplicate fields. Most of its
users run without the packages of the HTTP server or of MCP, so it is part of neither's module.
"""

import json
import re
import sys
from typing import Any

from abilities.declarations.limits import MAX_METADATA_DEPTH
from abilities.declarations.values import JsonObject

MAX_DEPTH = MAX_METADATA_DEPTH + 1
"""Maximum nesting of a call's arguments. Metadata, which may itself be nested, is one of them."""

# Strings match as a whole, so brackets in them do not count. The closing quote is optional because
# the search would otherwise start again at every quote of an unterminated string.
_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[\]{}]', re.DOTALL)


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type header is JSON, with or without parameters."""
    media_type, _, _ = (content_type or "").partition(";")
    return media_type.strip().lower() == "application/json"


def parse_document(body: bytes, max_depth: int = MAX_DEPTH) -> object:
    """Parse a JSON document.

    Integers with more digits than Python converts (4,300) become infinite. Raises ValueError if the
    document is not JSON (which excludes NaN, invalid UTF-8 and lone surrogates), if an object has
    two fields of the same name, or if it is nested deeper than ``max_depth``.
    """
    text = body.decode()
    _check_depth(text, max_depth)

    value: object = json.loads(
        text,
        object_pairs_hook=_refuse_duplicates,
        parse_constant=_refuse_constant,
        parse_int=_parse_integer,
    )

    # Only an escape sequence can produce a lone surrogate; UTF-8 has none.
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()

    return value


def _check_depth(text: str, max_depth: int) -> None:
    """Raise ValueError if JSON is nested too deep; the parser would raise RecursionError."""
    # Counting brackets is much faster than the loop, and enough for most documents.
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
    """Raise ValueError for NaN and infinities, which Python accepts but JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _parse_integer(digits: str) -> int | float:
    limit = sys.get_int_max_str_digits()

    if limit and len(digits) > limit:
        return float(digits)

    return int(digits)
