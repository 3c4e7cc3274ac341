"""Editing JSON with comments and trailing commas, without touching anything else in the text.

A parser returns the position of each value, by which edits replace, insert and remove single
members. The grammar is RFC 8259 with the additions that VS Code reads in its own files: comments as
in C and C++, and a comma after the last member or element
(https://github.com/microsoft/node-jsonc-parser).
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from abilities.clients.entry import Unparsable, Unusable

Path = Sequence[str]
"""The keys that lead from the outermost object to a member."""

BOM = "\ufeff"

_MAX_DEPTH = 100

_REST_OF_LINE_COMMENTS = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*.*?\*/))*", re.DOTALL)

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
    """A string, scalar or mark with its position.

    ``gap`` is the beginning of the space before it, after any comment. ``needs_line_end`` is True
    if this comment extends to the end of its line.
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

    ``start`` is its position, and ``comma`` is that of the comma after it, if there is one. ``gap``
    and ``needs_line_end`` are those of its first token.
    """

    key: str | None
    gap: int
    needs_line_end: bool
    start: int
    value: "Value"
    comma: int | None


@dataclass(frozen=True)
class Value:
    """A value: its position in the text, its Python data, and its items.

    ``inner_end`` is the beginning of the space before the closing bracket, after any comment.
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


def get(text: str, path: Path) -> object:
    """Return the value at a path, or None if there is none. Raises Unusable."""
    item = _find(text, path)
    return None if item is None else item.value.data


def put(text: str, path: Path, value: object) -> str:
    """Return the text with a value at a path, in place of any present value.

    Missing objects on the path are added, and an empty text becomes an object. Raises Unusable.

    >>> put('{"a": 1} // kept', ["b", "c"], 2)
    '{"a": 1, "b": {"c": 2}} // kept'
    """
    if not text.removeprefix(BOM).strip():
        return text + json.dumps(_nest(path, value), indent=2, ensure_ascii=False) + "\n"

    container = _require_object(text, parse(text), "the file")

    for depth, key in enumerate(path):
        item = _find_member(text, container, key)
        if item is None:
            return _insert(text, container, key, _nest(path[depth + 1 :], value))
        if depth < len(path) - 1:
            container = _require_object(text, item.value, json.dumps(key))
            continue

        old = item.value
        if old.data == value:
            return text

        is_inline = bool(old.items) and "\n" not in text[old.start : old.end]
        rendered = _render(text, value, _indent_of_line(text, item.start), is_inline=is_inline)
        return text[: old.start] + rendered + text[old.end :]

    raise ValueError("the path is empty")


def append(text: str, path: Path, value: object) -> str:
    """Return the text with a new element at the end of the array at a path.

    A missing array is added. Raises Unusable.
    """
    item = _find(text, path)
    if item is None:
        return put(text, path, [value])

    if not isinstance(item.value.data, list):
        raise Unparsable(find_line(text, item.start), f'"{item.key}" must be an array')

    return _insert(text, item.value, None, value)


def remove(text: str, path: Path, prune: int = 0, index: int | None = None) -> str:
    """Return the text without the member at a path, or without one element of its array.

    Up to ``prune`` containers that become empty are removed too, from the inside out. If there is
    nothing at the path, the text is unchanged. Raises Unusable.
    """
    if not text.removeprefix(BOM).strip():
        return text

    steps: list[tuple[Value, Item]] = []
    container = parse(text)

    for key in path:
        item = _find_member(text, container, key)
        if item is None:
            return text
        steps.append((container, item))
        container = item.value

    if index is not None:
        steps.append((container, container.items[index]))

    container, item = steps.pop()
    while prune and steps and len(container.items) == 1:
        container, item = steps.pop()
        prune -= 1

    return _remove_item(text, container, item)


def _find(text: str, path: Path) -> Item | None:
    if not text.removeprefix(BOM).strip():
        return None

    container = _require_object(text, parse(text), "the file")
    item = None

    for key in path:
        if item is not None:
            container = _require_object(text, item.value, json.dumps(item.key))

        item = _find_member(text, container, key)
        if item is None:
            return None

    return item


def _find_member(text: str, container: Value, key: str) -> Item | None:
    found = [item for item in container.items if item.key == key]

    # Programs differ in which of two members of the same name they use.
    if len(found) > 1:
        problem = f"{json.dumps(key)} appears here a second time"
        raise Unparsable(find_line(text, found[1].start), problem)

    return found[0] if found else None


def _require_object(text: str, value: Value, name: str) -> Value:
    if not value.is_object:
        raise Unparsable(find_line(text, value.start), f"{name} must be an object")

    return value


def _nest(path: Path, value: object) -> object:
    for key in reversed(path):
        value = {key: value}

    return value


def _insert(text: str, container: Value, key: str | None, value: object) -> str:
    """Return the text with a new item at the end of a container."""
    newline = _find_newline(text)

    if not container.items:
        outer = _indent_of_line(text, container.start)
        is_inline = container.start > len(BOM) and not set("\r\n") & set(text.strip())
        before, indent, after = "", "", ""
        if not is_inline:
            indent = outer + _find_unit(text)
            before, after = newline + indent, newline + outer

        addition = before + _render_item(text, key, value, indent, is_inline=is_inline) + after
        # The addition replaces the space after the comments in the container.
        return text[: container.inner_end] + addition + text[container.end - 1 :]

    first, last = container.items[0], container.items[-1]
    is_inline = "\n" not in text[container.start : first.start]
    space, indent = " ", ""
    if not is_inline:
        indent = _indent_of_line(text, first.start)
        space = newline + indent

    addition = space + _render_item(text, key, value, indent, is_inline=is_inline)
    end = last.value.end if last.comma is None else last.comma + 1

    # Comments on the line of the last item belong to it. A new line is not swallowed by them.
    place = end
    if not is_inline:
        comments = _REST_OF_LINE_COMMENTS.match(text, end)
        place = comments.end() if comments else end

    if last.comma is not None:
        return text[:place] + addition + "," + text[place:]

    return text[: last.value.end] + "," + text[last.value.end : place] + addition + text[place:]


def _remove_item(text: str, container: Value, item: Item) -> str:
    if len(container.items) == 1:
        end = item.value.end if item.comma is None else item.comma + 1
        # The space is removed with it, but comments stay.
        rest = text[end : container.end - 1]
        if not rest.strip():
            rest = ""

        rest += text[container.end - 1 :]
        return text[: item.gap] + _keep_line_end(text, item, rest)

    if item.comma is not None:
        return text[: item.gap] + _keep_line_end(text, item, text[item.comma + 1 :])

    # Without a comma it is the last item, so the comma before it is removed.
    previous = container.items[container.items.index(item) - 1]
    if previous.comma is None:
        raise Unusable("a comma is missing")

    before = text[: previous.comma] + text[previous.comma + 1 : item.gap]
    return before + _keep_line_end(text, item, text[item.value.end :])


def _keep_line_end(text: str, item: Item, rest: str) -> str:
    """Return the text after a removed item, so that no comment before it swallows the text."""
    if not item.needs_line_end or re.match(r"[ \t]*\r?\n", rest):
        return rest

    return _find_newline(text) + rest


def _render_item(text: str, key: str | None, value: object, indent: str, *, is_inline: bool) -> str:
    rendered = _render(text, value, indent, is_inline=is_inline)
    return rendered if key is None else f"{json.dumps(key, ensure_ascii=False)}: {rendered}"


def _render(text: str, value: object, indent: str, *, is_inline: bool) -> str:
    if is_inline:
        return json.dumps(value, ensure_ascii=False)

    lines = json.dumps(value, indent=_find_unit(text), ensure_ascii=False)
    return lines.replace("\n", _find_newline(text) + indent)


def _find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _find_unit(text: str) -> str:
    """Return the indentation of one level, which is that of the first indented line."""
    match = re.search(r"\n([ \t]+)[\"{\[]", text)
    return match[1] if match else "  "


def _indent_of_line(text: str, position: int) -> str:
    """Return the indentation of the line at a position."""
    line = text[:position].rpartition("\n")[2]
    indent_length = len(line) - len(line.lstrip(" \t"))
    return line[:indent_length]


def parse(text: str) -> Value:
    """Parse a text. Raises Unparsable, which names the line."""
    return _Parser(text).parse_document()


def find_line(text: str, position: int) -> int:
    r"""Return the number of the line at a position.

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

            first = self._token
            key = None

            if has_keys:
                if first.kind != "string":
                    raise self._complain("expected a name in double quotes")
                key = str(json.loads(self._advance().text))
                if self._token.text != ":":
                    raise self._complain("expected ':'")
                self._advance()

            value = self._parse_value(depth + 1)
            comma = self._advance().start if self._token.text == "," else None
            items.append(Item(key, first.gap, first.needs_line_end, first.start, value, comma))

        end = self._advance()
        data: object = [item.value.data for item in items]
        if has_keys:
            data = {item.key: item.value.data for item in items}

        return Value(opening.start, end.end, data, tuple(items), end.gap)

    def _advance(self) -> JsonToken:
        """Return the current token, and move on to the next."""
        token = self._token
        self._token = next(self._tokens)
        return token

    def _complain(self, problem: str) -> Unparsable:
        found = self._token.text or "the end of the file"
        return Unparsable(find_line(self._text, self._token.start), f"{problem}, found {found}")
