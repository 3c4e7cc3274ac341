"""JSON with comments and trailing commas, parsed so that every part knows where it stands.

The grammar is RFC 8259 with the additions that VS Code reads in its own files: comments as in C
and C++, and a comma after the last member or element
(https://github.com/microsoft/node-jsonc-parser).
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from abilities.clients.entry import Unparsable, Unusable

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


Path = Sequence[str]
"""The keys that lead from the outermost object to a member."""

_REST_OF_LINE_COMMENTS = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*.*?\*/))*", re.DOTALL)


def get(text: str, path: Path) -> object:
    """Return the value at a path, None if there is none. Raises Unusable."""
    item = _find(text, path)
    return None if item is None else item.value.data


def put(text: str, path: Path, value: object) -> str:
    """Return the text with a value at a path, instead of the one that is there, if any.

    Objects on the way there are made if need be; an empty text becomes an object. Raises Unusable.
    """
    if not text.removeprefix(BOM).strip():
        return text + json.dumps(_nest(path, value), indent=2, ensure_ascii=False) + "\n"

    container = _require_object(text, parse(text), "the file")

    for depth, key in enumerate(path):
        item = _find_member(text, container, key)
        if item is None:
            return _insert(text, container, key, _nest(path[depth + 1 :], value))
        if depth == len(path) - 1:
            return _replace(text, item, value)

        container = _require_object(text, item.value, json.dumps(key))

    raise ValueError("the path is empty")


def append(text: str, path: Path, value: object) -> str:
    """Return the text with one more element in the array at a path, which is made if need be.

    Raises Unusable.
    """
    item = _find(text, path)
    if item is None:
        return put(text, path, [value])

    if not isinstance(item.value.data, list):
        raise Unparsable(find_line(text, item.start), f'"{item.key}" must be an array')

    return _insert(text, item.value, None, value)


def remove(text: str, path: Path, prune: int = 0, index: int | None = None) -> str:
    """Return the text without the member at a path, or without one element of the array there.

    Containers that become empty go too, up to ``prune`` of them, from the inside out. A path that
    leads nowhere changes nothing. Raises Unusable.
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

    return _cut(text, container, item)


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

    # Programs differ in which of the two they take.
    if len(found) > 1:
        problem = f"{json.dumps(key)} stands here for the second time"
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


def _replace(text: str, item: Item, value: object) -> str:
    if item.value.data == value:
        return text

    old = item.value
    is_inline = old.is_container and "\n" not in text[old.start : old.end]
    is_inline = is_inline and bool(old.items)
    rendered = _render(text, value, _indent_of_line(text, item.start), is_inline=is_inline)

    return text[: old.start] + rendered + text[old.end :]


def _insert(text: str, container: Value, key: str | None, value: object) -> str:
    if container.items:
        return _insert_after_last(text, container, key, value)

    return _insert_into_empty(text, container, key, value)


def _insert_after_last(text: str, container: Value, key: str | None, value: object) -> str:
    first, last = container.items[0], container.items[-1]
    is_inline = "\n" not in text[container.start : first.start]

    if is_inline:
        space, indent = " ", ""
    else:
        indent = _indent_of_line(text, first.start)
        space = _find_newline(text) + indent

    addition = space + _render_item(text, key, value, indent, is_inline=is_inline)

    end = last.value.end if last.comma is None else last.comma + 1
    # Comments on the line are about what stands there. On a line of its own they do not swallow
    # what follows.
    place = end if is_inline else _skip_comments_of_line(text, end)

    if last.comma is not None:
        return text[:place] + addition + "," + text[place:]

    return text[: last.value.end] + "," + text[last.value.end : place] + addition + text[place:]


def _insert_into_empty(text: str, container: Value, key: str | None, value: object) -> str:
    outer = _indent_of_line(text, container.start)
    newline = _find_newline(text)
    is_inline = container.start > len(BOM) and not set("\r\n") & set(text.strip())

    if is_inline:
        before, indent, after = "", "", ""
    else:
        indent = outer + _find_unit(text)
        before, after = newline + indent, newline + outer

    addition = before + _render_item(text, key, value, indent, is_inline=is_inline) + after
    # Comments in the container stay; the space after them makes room.
    return text[: container.inner_end] + addition + text[container.end - 1 :]


def _cut(text: str, container: Value, item: Item) -> str:
    if len(container.items) == 1:
        end = item.value.end if item.comma is None else item.comma + 1
        # Space goes with it, comments stay.
        rest = text[end : container.end - 1]
        if not rest.strip():
            rest = ""

        rest += text[container.end - 1 :]
        return text[: item.gap] + _keep_line_end(text, item, rest)

    if item.comma is not None:
        return text[: item.gap] + _keep_line_end(text, item, text[item.comma + 1 :])

    # The last one has no comma, so the one before it loses its own.
    previous = container.items[container.items.index(item) - 1]
    if previous.comma is None:
        raise Unusable("a comma is missing")

    before = text[: previous.comma] + text[previous.comma + 1 : item.gap]
    return before + _keep_line_end(text, item, text[item.value.end :])


def _keep_line_end(text: str, item: Item, rest: str) -> str:
    """Return what follows an item that goes, so that no comment before it swallows that."""
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
    """Return the indentation of one level: that of the first indented line of the file."""
    match = re.search(r"\n([ \t]+)[\"{\[]", text)
    return match[1] if match else "  "


def _indent_of_line(text: str, position: int) -> str:
    """Return the space at the beginning of the line on which a position is."""
    begin = text.rfind("\n", 0, position) + 1
    line = text[begin:position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip_comments_of_line(text: str, position: int) -> int:
    """Return where the comments end that follow a position on its line."""
    match = _REST_OF_LINE_COMMENTS.match(text, position)
    return match.end() if match else position
