"""Editing JSON with comments and trailing commas, without touching anything else in the text.

The grammar is RFC 8259 with the additions that VS Code reads in its own files: comments as in C and
C++, and a comma after the last member or element (https://github.com/microsoft/node-jsonc-parser).
Python's own parser reads the text with blanks in their place, so all positions stay the same.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from abilities.clients.entry import Unparsable

Path = Sequence[str]
"""The keys that lead from the outermost object to a member."""

BOM = "\ufeff"

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = r"//[^\r\n]*|/\*.*?\*/"
_STRING_OR_COMMENT = re.compile(f"{_STRING}|(?P<comment>{_COMMENT})", re.DOTALL)
_STRING_OR_COMMA = re.compile(rf"{_STRING}|(?P<comma>,)(?=\s*[}}\]])", re.DOTALL)
_COMMENTS = re.compile(_COMMENT, re.DOTALL)
_REST_OF_LINE_COMMENTS = re.compile(rf"(?:[ \t]*(?:{_COMMENT}))*", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Gap(NamedTuple):
    """The space before an item or a closing bracket, after any comment.

    ``needs_line_end`` is True if this comment extends to the end of its line.
    """

    start: int
    end: int
    needs_line_end: bool


class Item(NamedTuple):
    """A member of an object or an element of an array; an element has no key.

    ``gap`` ends where it begins, ``value`` and ``end`` are the positions of its value, and
    ``comma`` is that of the comma after it, if there is one.
    """

    key: str | None
    gap: Gap
    value: int
    end: int
    comma: int | None
    data: object


class Document:
    """A text with its data, and the positions of items in it. Raises Unparsable."""

    def __init__(self, text: str) -> None:
        self.text = text
        bare = text.replace(BOM, " ", 1) if text.startswith(BOM) else text
        self._bare = _STRING_OR_COMMENT.sub(_blank_comment, bare)
        self._plain = _STRING_OR_COMMA.sub(_blank_comma, self._bare)
        self.opening = _skip_space(self._plain, 0)

        try:
            self.data: object = json.loads(self._plain, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise Unparsable(error.lineno, error.msg) from None
        except (ValueError, RecursionError) as error:
            raise Unparsable(1, f"it cannot be read: {error}") from None

    def list_items(self, opening: int) -> tuple[list[Item], Gap]:
        """Return the items of a container, and the gap before its closing bracket."""
        items: list[Item] = []
        begin = opening + 1

        while True:
            end = _skip_space(self._plain, begin)
            gap = Gap(begin, end, False)
            comments = list(_COMMENTS.finditer(self.text, begin, end))
            if comments:
                gap = Gap(comments[-1].end(), end, comments[-1][0].startswith("//"))

            if self._plain[gap.end] in "}]":
                return items, gap

            key, value = None, gap.end
            if self._plain[opening] == "{":
                key, end = _DECODER.raw_decode(self._plain, gap.end)
                value = _skip_space(self._plain, self._plain.index(":", end) + 1)

            data, end = _DECODER.raw_decode(self._plain, value)
            place = _skip_space(self._bare, end)
            comma = place if self._bare[place] == "," else None
            items.append(Item(key, gap, value, end, comma, data))
            begin = end if comma is None else comma + 1

    def follow(self, path: Path) -> list[tuple[int, Item]]:
        """Return the members on a path that are there, each after the position of its object."""
        steps: list[tuple[int, Item]] = []
        opening, data, name = self.opening, self.data, "the file"

        for key in path:
            if not isinstance(data, dict):
                raise Unparsable(self.find_line(opening), f"{name} must be an object")

            found = [item for item in self.list_items(opening)[0] if item.key == key]
            # Programs differ in which of two members of the same name they use.
            if len(found) > 1:
                line = self.find_line(found[1].gap.end)
                raise Unparsable(line, f"{json.dumps(key)} appears here a second time")
            if not found:
                break

            steps.append((opening, found[0]))
            opening, data, name = found[0].value, found[0].data, json.dumps(key)

        return steps

    def find_line(self, position: int) -> int:
        """Return the number of the line at a position."""
        return self.text.count("\n", 0, position) + 1


def parse(text: str) -> Document:
    """Parse a text, which may be empty. Raises Unparsable, which names the line."""
    return Document("{}" if _is_empty(text) else text)


def get(text: str, path: Path) -> object:
    """Return the value at a path, or None if there is none. Raises Unusable."""
    steps = parse(text).follow(path)
    return steps[-1][1].data if len(steps) == len(path) else None


def put(text: str, path: Path, value: object) -> str:
    """Return the text with a value at a path, in place of any present value.

    Missing objects on the path are added, and an empty text becomes an object. Raises Unusable.

    >>> put('{"a": 1} // kept', ["b", "c"], 2)
    '{"a": 1, "b": {"c": 2}} // kept'
    """
    if _is_empty(text):
        return text + json.dumps(_nest(path, value), indent=2, ensure_ascii=False) + "\n"

    document = Document(text)
    steps = document.follow(path)
    if len(steps) < len(path):
        opening = steps[-1][1].value if steps else document.opening
        key, *inner = path[len(steps) :]
        return _insert(document, opening, key, _nest(inner, value))

    _, item = steps[-1]
    if item.data == value:
        return text

    has_items = item.data not in ({}, []) and isinstance(item.data, dict | list)
    is_inline = has_items and "\n" not in text[item.value : item.end]
    rendered = _render(text, value, _indent_of_line(text, item.gap.end), is_inline=is_inline)
    return text[: item.value] + rendered + text[item.end :]


def append(text: str, path: Path, value: object) -> str:
    """Return the text with a new element at the end of the array at a path.

    A missing array is added. Raises Unusable.
    """
    document = parse(text)
    steps = document.follow(path)
    if len(steps) < len(path):
        return put(text, path, [value])

    _, item = steps[-1]
    if not isinstance(item.data, list):
        raise Unparsable(document.find_line(item.gap.end), f'"{item.key}" must be an array')

    return _insert(document, item.value, None, value)


def remove(text: str, path: Path, prune: int = 0, index: int | None = None) -> str:
    """Return the text without the member at a path, or without one element of its array.

    Up to ``prune`` containers that become empty are removed too, from the inside out. If there is
    nothing at the path, the text is unchanged. Raises Unusable.
    """
    document = parse(text)
    steps = document.follow(path)
    if len(steps) < len(path):
        return text

    if index is not None:
        opening = steps[-1][1].value
        steps.append((opening, document.list_items(opening)[0][index]))

    opening, item = steps.pop()
    while prune and steps and len(document.list_items(opening)[0]) == 1:
        opening, item = steps.pop()
        prune -= 1

    items, closing = document.list_items(opening)
    beginning = text[: item.gap.start]
    rest = text[item.end if item.comma is None else item.comma + 1 :]

    if len(items) == 1:
        # The space is removed with it, but comments stay.
        inner_length = closing.end - (len(text) - len(rest))
        if not rest[:inner_length].strip():
            rest = rest[inner_length:]
    elif item.comma is None:
        # It is the last item, so the comma before it is removed.
        comma = items[-2].comma
        assert comma is not None
        beginning = text[:comma] + text[comma + 1 : item.gap.start]

    # No comment before it may swallow what follows.
    if item.gap.needs_line_end and not re.match(r"[ \t]*\r?\n", rest):
        rest = _find_newline(text) + rest

    return beginning + rest


def _insert(document: Document, opening: int, key: str | None, value: object) -> str:
    """Return the text with a new item at the end of a container."""
    text = document.text
    newline = _find_newline(text)
    items, closing = document.list_items(opening)

    if not items:
        outer = _indent_of_line(text, opening)
        is_inline = opening > len(BOM) and not set("\r\n") & set(text.strip())
        before, indent, after = "", "", ""
        if not is_inline:
            indent = outer + _find_unit(text)
            before, after = newline + indent, newline + outer

        addition = before + _render_item(text, key, value, indent, is_inline=is_inline) + after
        # The addition replaces the space after the comments in the container.
        return text[: closing.start] + addition + text[closing.end :]

    first, last = items[0], items[-1]
    is_inline = "\n" not in text[opening : first.gap.end]
    space, indent = " ", ""
    if not is_inline:
        indent = _indent_of_line(text, first.gap.end)
        space = newline + indent

    addition = space + _render_item(text, key, value, indent, is_inline=is_inline)
    place = last.end if last.comma is None else last.comma + 1

    # Comments on the line of the last item belong to it. A new line is not swallowed by them.
    comments = _REST_OF_LINE_COMMENTS.match(text, place)
    if comments and not is_inline:
        place = comments.end()
    if last.comma is not None:
        return text[:place] + addition + "," + text[place:]

    return text[: last.end] + "," + text[last.end : place] + addition + text[place:]


def _blank_comment(found: re.Match[str]) -> str:
    return re.sub(r"[^\r\n]", " ", found[0]) if found["comment"] else found[0]


def _blank_comma(found: re.Match[str]) -> str:
    before = found.string[: found.start()].rstrip()
    return " " if found["comma"] and before[-1:] not in "[{," else found[0]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _is_empty(text: str) -> bool:
    return not text.removeprefix(BOM).strip()


def _nest(path: Path, value: object) -> object:
    for key in reversed(path):
        value = {key: value}

    return value


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
