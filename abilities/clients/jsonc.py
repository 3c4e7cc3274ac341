"""JSON with comments and trailing commas, parsed so that every part knows where it stands.

The grammar is RFC 8259 with the additions that VS Code reads in its own files: comments as in C
and C++, and a comma after the last member or element
(https://github.com/microsoft/node-jsonc-parser).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from abilities.clients.faults import Unparsable

BOM = "\ufeff"

_MAX_DEPTH = 100

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
    | (?P<comment>//[^\r\n]*|/\*.*?\*/)
    | (?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")
    | (?P<scalar>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)
    | (?P<mark>[{}\[\]:,])
    """,
    re.VERBOSE | re.DOTALL,
)


class JsonToken(NamedTuple):
    """A string, scalar or mark, and where the space before it begins, after any comment.

    ``needs_line_end`` says that the comment goes to the end of its line.
    """

    kind: str
    text: str
    gap: int
    needs_line_end: bool
    start: int
    end: int


@dataclass(frozen=True)
class Item:
    """A member of an object or an element of an array; an element has no key.

    ``gap`` is where the space before it begins, ``start`` where it begins itself, and ``comma``
    where the comma after it stands, if there is one. ``needs_line_end`` says that what is before
    the space is a comment that goes to the end of its line.
    """

    key: str | None
    gap: int
    needs_line_end: bool
    start: int
    value: "Value"
    comma: int | None


@dataclass(frozen=True)
class Value:
    """A value: its place in the text, what it is as Python knows it, and what it consists of.

    ``inner_end`` is where the space before the closing bracket begins, after any comment.
    """

    start: int
    end: int
    data: object
    items: tuple[Item, ...] = ()
    inner_end: int = 0

    @property
    def is_object(self) -> bool:
        """Whether this is an object."""
        return isinstance(self.data, dict)

    @property
    def is_container(self) -> bool:
        """Whether this is an object or an array."""
        return isinstance(self.data, dict | list)


def parse(text: str) -> Value:
    """Return the value that a text holds. Raises Unparsable, which names the line."""
    return _Parser(text).parse_document()


def find_line(text: str, position: int) -> int:
    r"""Return the number of the line on which a position is.

    >>> find_line("a\nb", 0), find_line("a\nb", 2)
    (1, 2)
    """
    return text.count("\n", 0, position) + 1


class _Parser:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._list_tokens()
        self._token = next(self._tokens)

    def parse_document(self) -> Value:
        """Parse all of the text."""
        value = self._parse_value(depth=0)

        if self._token.kind != "end":
            raise self._complain("expected nothing more")

        return value

    def _list_tokens(self) -> Iterator[JsonToken]:
        position = len(BOM) if self._text.startswith(BOM) else 0
        gap = position
        needs_line_end = False

        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                problem = f"{self._text[position]!r} is not expected here"
                raise Unparsable(find_line(self._text, position), problem)

            kind = str(match.lastgroup)
            position = match.end()

            if kind == "comment":
                gap = position
                needs_line_end = match[0].startswith("//")
            elif kind != "space":
                yield JsonToken(kind, match[0], gap, needs_line_end, match.start(), position)
                gap = position
                needs_line_end = False

        yield JsonToken("end", "", gap, needs_line_end, position, position)

    def _parse_value(self, depth: int) -> Value:
        token = self._token

        if depth > _MAX_DEPTH:
            raise self._complain(f"more than {_MAX_DEPTH} levels")

        if token.text == "{":
            return self._parse_container("}", depth, has_keys=True)
        if token.text == "[":
            return self._parse_container("]", depth, has_keys=False)

        if token.kind not in ("string", "scalar"):
            raise self._complain("expected a value")

        self._advance()
        return Value(token.start, token.end, json.loads(token.text))

    def _parse_container(self, closing: str, depth: int, *, has_keys: bool) -> Value:
        opening = self._advance()
        items: list[Item] = []

        while self._token.text != closing:
            if items and items[-1].comma is None:
                raise self._complain(f"expected ',' or '{closing}'")

            items.append(self._parse_item(depth, has_keys=has_keys))

        end = self._advance()
        data = _build_data(items, has_keys=has_keys)
        return Value(opening.start, end.end, data, tuple(items), end.gap)

    def _parse_item(self, depth: int, *, has_keys: bool) -> Item:
        first = self._token
        key = None

        if has_keys:
            key = self._parse_key()

        value = self._parse_value(depth + 1)
        comma = None

        if self._token.text == ",":
            comma = self._advance().start

        return Item(key, first.gap, first.needs_line_end, first.start, value, comma)

    def _parse_key(self) -> str:
        if self._token.kind != "string":
            raise self._complain("expected a name in double quotes")

        key = str(json.loads(self._advance().text))

        if self._token.text != ":":
            raise self._complain("expected ':'")

        self._advance()
        return key

    def _advance(self) -> JsonToken:
        """Return the token, and go on to the next."""
        token = self._token
        self._token = next(self._tokens)
        return token

    def _complain(self, problem: str) -> Unparsable:
        found = self._token.text or "the end of the file"
        return Unparsable(find_line(self._text, self._token.start), f"{problem}, found {found}")


def _build_data(items: list[Item], *, has_keys: bool) -> object:
    if has_keys:
        return {item.key: item.value.data for item in items}

    return [item.value.data for item in items]
