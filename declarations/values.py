"""Checks and conversions of plain values, and the base model of all declarations."""

import json
import re
import sys
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from abilities.declarations.limits import MAX_METADATA_DEPTH

UNSAID = "x-unsaid"
"""The schema key for the names of keywords that schemas for models leave out."""

JsonObject = dict[str, Any]
"""A JSON object, whose fields the type checker does not know."""

BIDI_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Controls of text direction (UAX #9), which can make one text look like another."""

# The categories Cc, Zl and Zp, and the bidi controls.
_CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{''.join(BIDI_CONTROLS)}]")

MAX_ALTERNATIVES = 32
"""The most patterns that the braces of one pattern may expand to."""

BRACES_FORM = f"braces that expand to at most {MAX_ALTERNATIVES} patterns"

_INNERMOST_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

_SURROGATE = re.compile("[\ud800-\udfff]")

# Controls, separators, bidi controls, characters without width, fillers, tags, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def has_control_character(text: str) -> bool:
    """Return whether a text has a control, a line or paragraph separator, or a bidi control."""
    return _CONTROL.search(text) is not None


def has_surrogate(text: str) -> bool:
    """Return whether a text has a lone surrogate, which UTF-8 cannot encode."""
    return _SURROGATE.search(text) is not None


def find_path_fault(
    path: str,
) -> Literal["control_character", "backslash", "absolute_path", "parent_traversal"] | None:
    """Return the reason why no file has a path or pattern; None if one may have it.

    >>> find_path_fault("src/../app.py")
    'parent_traversal'
    """
    if has_control_character(path) or has_surrogate(path):
        return "control_character"
    if "\\" in path:
        return "backslash"
    if path.startswith("/"):
        return "absolute_path"
    if ".." in path.split("/"):
        return "parent_traversal"

    return None


def expand_braces(pattern: str) -> list[str] | None:
    """Return the patterns that a pattern's braces expand to; None if there are too many.

    >>> expand_braces("a.{py,md}")
    ['a.md', 'a.py']
    """
    expanded: list[str] = []
    pending = [pattern]

    while pending:
        text = pending.pop()
        braces = _INNERMOST_BRACES.search(text)

        if braces is None:
            expanded.append(text)
        else:
            before, after = text[: braces.start()], text[braces.end() :]
            for choice in braces[1].split(","):
                pending.append(before + choice + after)

        if len(pending) + len(expanded) > MAX_ALTERNATIVES:
            return None

    return expanded


def escape_unseen(text: str, keep: str = "") -> str:
    r"""Return text with an escape for each character that a terminal would obey or hide.

    These are controls, line separators, bidi controls and characters without width. The escapes
    are those of JSON, so the meaning of a JSON document does not change. Characters in ``keep``
    are not escaped.

    >>> print(escape_unseen("a\x1b[31m\u202egpj.exe 名"))
    a\u001b[31m\u202egpj.exe 名
    """

    def escape(match: re.Match[str]) -> str:
        char = match[0]
        if char in keep:
            return char

        return json.dumps(char)[1:-1]

    return _UNSEEN.sub(escape, text)


def as_object(value: object) -> JsonObject | None:
    """Return a value that is a JSON object, typed as one; None for anything else."""
    if isinstance(value, dict):
        return cast(JsonObject, value)

    return None


def drop_empty(fields: JsonObject) -> JsonObject:
    """Return the fields that have a value: not None, false, 0, nor anything empty.

    >>> drop_empty({"key": "plan", "summary": "", "archived": False})
    {'key': 'plan'}
    """
    return {name: value for name, value in fields.items() if value}


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Integers may have any size. Raises ValueError for anything that is not JSON, including NaN,
    infinities, invalid UTF-8 and lone surrogates.
    """
    if isinstance(text, str):
        text = text.encode()  # pydantic raises TypeError for a string with a lone surrogate

    return from_json(text, allow_inf_nan=False)


def unwrap_json(value: object) -> object:
    """Return the value of a string of JSON, and anything else unchanged.

    Some clients encode nested arguments twice.

    >>> unwrap_json('["a"]'), unwrap_json("a")
    (['a'], 'a')
    """
    if not isinstance(value, str):
        return value

    try:
        return cast(object, parse_json(value))
    except ValueError:
        return value


def utc_now() -> str:
    """Return the current time in RFC 3339 UTC with milliseconds: '2026-02-03T04:05:06.789Z'."""
    return format_utc(datetime.now(UTC))


def format_utc(time: datetime) -> str:
    """Return a UTC time in RFC 3339 with milliseconds, the form in which times are stored."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_bytes(payload: object) -> bytes:
    """Return a payload as compact JSON in UTF-8, the form in which limits are counted."""
    return orjson.dumps(payload)


def json_size(payload: object) -> int:
    """Return the size in bytes of a payload as compact JSON."""
    return len(orjson.dumps(payload))


def text_size(text: str) -> int:
    """Return the size in bytes of a text in UTF-8."""
    # Encoding a long text makes a copy, which ASCII does not need.
    return len(text) if text.isascii() else len(text.encode())


class Model(BaseModel):
    """The base of all declarations, which is immutable and refuses unknown fields."""

    # Validators are built at their first use, because most programs use only a few models.
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def optional(
    description: str, *unsaid: str, default: object = None, extra: JsonObject | None = None
) -> Any:
    """Return a field that may be left out, with ``extra`` keywords in its schema.

    Schemas for models leave out the ``unsaid`` keywords, as with `fields.Unsaid`.
    """

    def complete(schema: JsonObject) -> None:
        schema.update(extra or {})
        if unsaid:
            schema[UNSAID] = [*schema.get(UNSAID, ()), *unsaid]

    return Field(default=default, description=description, json_schema_extra=complete)


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
    """Parse the JSON document of a request, over HTTP, MCP or by a framework.

    It is strict so that no two readers of a request can take it for different values. It is based
    on the standard library's parser, because faster ones do not report duplicate fields.

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
