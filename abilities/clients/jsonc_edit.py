"""Edit JSON with comments: put one value in or take it out, and touch nothing else.

Every function takes a whole text and returns a whole text. Whatever is not part of the value that
is put in or taken out stays byte for byte: comments, order, indentation and trailing commas.
"""

import json
import re
from collections.abc import Sequence

from abilities.clients.faults import Unparsable, Unusable
from abilities.clients.jsonc import BOM, Item, Value, find_line, parse

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
