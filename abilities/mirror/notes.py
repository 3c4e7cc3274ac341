"""Markdown notes: what the text of a file says of a memory, and the text for a memory.

The front matter is read as the part of YAML that people and editors write: texts, numbers, lists,
and lists of objects without nesting. All other lines are kept as they are. If a file is rewritten,
so is every line whose value is right already, and every field of other programs.
"""

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, cast

import orjson

from abilities.declarations.memory import LinkInput
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, as_object
from abilities.definition import validate_arguments
from abilities.helpers.store.model import IMPORTANCES, TYPES, LinkRow, StoredMemory, index_links

MENTIONS = "mentions"
"""The type of the links that a body's ``[[name]]`` are."""

FindKey = Callable[[str], str]
"""Returns the key that a link's name means."""

LinkIndex = dict[tuple[str, str], LinkRow]
"""Links without their source, by target and type."""

_WEIGHT = 0.5

_HEAD = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)(\r?\n)?", re.S | re.M)

_NAME = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?=\s|\Z)")

_FIELD = re.compile(r"^(?=[A-Za-z_][\w-]*[ \t]*:\s)", re.M)

_FOLDED = re.compile(r"[|>][+-]?")
"""The beginning of a text that stands on the following lines."""

_PLAIN = re.compile(r"[A-Za-z][\w/.-]*(?: [\w/.-]+)*", re.ASCII)
"""Texts that YAML needs no quotes for, but for `_WORDS`."""

_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.S | re.M)

_LINK = re.compile(r"(?<!!)\[\[([^\[\]|#\n]{1,200})(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")

_LISTS = ("tags", "about")
_TEXTS = ("key", "summary", "category", "expires_at")

_FIELDS = (
    "key", "type", "importance", "tags", "about", "summary", "category", "score", "expires_at",
    "links", "metadata",
)  # fmt: skip
"""Our fields, in the order in which a new file has them."""


class Note(NamedTuple):
    """A file taken apart: the names and lines of its front matter's fields, and the content.

    Lines before the first field have no name.
    """

    fields: list[tuple[str, str]]
    content: str


def parse_note(text: str) -> Note:
    """Take the text of a file apart. A content ends before the file's last line feed."""
    head = _HEAD.match(text)
    if head is None:
        return Note([], text.removesuffix("\n"))

    fields: list[tuple[str, str]] = []
    for lines in _FIELD.split(head[1]):
        named = _NAME.match(lines)
        fields.append((named[1] if named else "", lines))

    return Note(fields, text[head.end() :].removesuffix("\n"))


def is_unmerged(text: str) -> bool:
    """Return whether a text has the marks that git leaves where it could not merge."""
    marks = re.findall(r"^(<{7} |={7}\r?$|>{7} )", text, re.M)
    return "<=>" in "".join(mark[0] for mark in marks)


def read_key(note: Note) -> str:
    """Return the key that a file says, or an empty text. Raises Refused as `read_values` does."""
    keys = [_parse_field(name, lines) for name, lines in note.fields if name == "key"]
    return _to_text(keys[0]) if keys else ""


def read_values(note: Note, find_key: FindKey) -> JsonObject:
    """Return what a file says, by the names of arguments, not validated but for the links.

    Fields without a value are at their defaults, and so is a type or importance of another
    program. Links of the content are left out.

    Raises Refused("invalid_format") for YAML that is not understood.
    """
    said: JsonObject = {}
    for name, lines in note.fields:
        if name in _FIELDS and name not in said:
            said[name] = _parse_field(name, lines)

    values: JsonObject = {"content": note.content}
    if said.get("score") is not None:
        values["memory_score"] = said["score"]
    for name in _TEXTS:
        values[name] = _to_text(said.get(name))
    for name in _LISTS:
        items = said.get(name)
        if not isinstance(items, list):
            items = _to_text(items).split(",")

        texts = [_to_text(item).strip() for item in cast(list[object], items)]
        values[name] = list(dict.fromkeys(text.removeprefix("#") for text in texts if text))
    for name, known, default in (("type", TYPES, "core"), ("importance", IMPORTANCES, "medium")):
        values[name] = said.get(name) if said.get(name) in known else default

    values["metadata"] = as_object(said.get("metadata")) or {}
    said_links = said.get("links")
    links: list[LinkRow] = []
    for item in cast(list[object], said_links) if isinstance(said_links, list) else ():
        # A text such as "[[Ada]]" is a link too.
        given = as_object(item) or {"key": find_key(_to_text(item).strip("[]"))}
        link = validate_arguments(LinkInput, given)
        links.append(LinkRow("", link.key, link.type, link.link_weight, link.term or ""))

    values["links"] = index_links(links)
    return values


def describe_memory(stored: StoredMemory) -> JsonObject:
    """Return the values of a memory in the form of `read_values`, with all its links."""
    row = stored.row
    values: JsonObject = {name: getattr(row, name) for name in (*_TEXTS, "type", "importance")}
    values |= {name: orjson.loads(getattr(row, name)) for name in (*_LISTS, "metadata")}
    values["content"] = row.content
    if row.scored:
        values["memory_score"] = row.score
    values["links"] = index_links(link._replace(source="") for link in stored.links)
    return values


def list_names(content: str) -> list[str]:
    """Return the names that a content links to; code and embedded files do not count."""
    prose = _CODE.sub("", content)
    # In a table, the bar after a name is escaped.
    return [match[1].rstrip("\\").strip() for match in _LINK.finditer(prose)]


def list_mentions(content: str, find_key: FindKey) -> LinkIndex:
    """Return the links of a content."""
    return _index_mentions(map(find_key, list_names(content)))


def _index_mentions(keys: Iterable[str]) -> LinkIndex:
    return index_links(LinkRow("", key, MENTIONS, _WEIGHT) for key in keys)


def write_note(
    stored: StoredMemory, text: str, find_key: FindKey, former: Iterable[str] = ()
) -> str:
    """Return the text of a memory's file; ``text`` is the file's present text, or empty.

    The links of the content are left out, and so are those that a ``former`` one had to keys.
    """
    note = parse_note(text)
    values = describe_memory(stored)
    values["score"] = values.get("memory_score")
    implied = (list_mentions(stored.row.content, find_key) | _index_mentions(former)).items()
    values["links"] = dict(sorted(values["links"].items() - implied))

    said: JsonObject = {}
    with suppress(Refused):  # what is not understood is replaced
        said = read_values(note, find_key)
        said["score"] = said.get("memory_score")

    lines: list[str] = []
    missing: dict[str, None] = dict.fromkeys(_FIELDS)
    for name, kept in note.fields:
        if name not in _FIELDS or (name in said and said[name] == values[name]):
            lines.append(kept)
        elif name in missing:
            lines.append(_format_field(name, values[name]))
        missing.pop(name, None)

    lines += [_format_field(name, values[name]) for name in missing]
    return f"---\n{''.join(lines)}---\n\n{stored.row.content}\n"


def _format_field(name: str, value: Any) -> str:
    """Return the line of a field; an empty text if the value is the default."""
    if value in (None, "", [], {}) or (name == "importance" and value == "medium"):
        return ""

    if name == "links":
        value = [link.to_data() for link in value.values()]
    shown = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        shown = value

    return f"{name}: {shown}\n"


def _parse_field(name: str, lines: str) -> object:
    r"""Return the value of a field: a scalar, a list, or an object or list of objects of scalars.

    >>> _parse_field("tags", "tags: [a, 'b c']")
    ['a', 'b c']
    >>> _parse_field("links", "links:\n  - key: tea\n    type: drinks")
    [{'key': 'tea', 'type': 'drinks'}]
    >>> _parse_field("summary", "summary: >\n  one\n  two\n")
    'one two'
    """
    first, *others = [line.strip() for line in lines.partition(":")[2].strip().split("\n")]
    if _FOLDED.fullmatch(first):
        return (" " if first.startswith(">") else "\n").join(others)
    if not others and not first.startswith("- ") and not _NAME.match(first):
        return _parse_scalar(first)

    items: list[object] = []
    for line in filter(None, (first, *others)):
        named = _NAME.match(line)
        last = as_object(items[-1]) if items else None
        if line == "-" or line.startswith("- "):
            items.append(_parse_item(line[1:].strip()))
        elif named and last is not None:
            last.update(cast(JsonObject, _parse_item(line)))
        elif named and not items:
            items.append(_parse_item(line))
        elif not line.startswith("#"):
            raise Refused("invalid_format", name, expected={"format": "JSON in one line"})

    is_list = (first or others[0]).startswith("-")
    return items if is_list or not items else items[0]


def _parse_item(text: str) -> object:
    named = _NAME.match(text)
    if named is None:
        return _parse_scalar(text)

    return {named[1]: _parse_scalar(text[named.end() :].strip())}


def _parse_scalar(text: str) -> object:
    with suppress(ValueError):
        return cast(object, orjson.loads(text))
    if text.startswith("[") and text.endswith("]"):
        items = [item.strip() for item in text[1:-1].split(",")]
        return [item if item.startswith("[") else _parse_scalar(item) for item in items if item]
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")

    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()


def _to_text(value: object) -> str:
    """Return a value as its text; that of None is empty."""
    if value is None:
        return ""

    return value if isinstance(value, str) else json.dumps(value)
