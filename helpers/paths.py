"""What a requested path says, read from the string alone: no file is touched here.

Checks run in one fixed order and the first that fails names the reason (see `parse`).
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from abilities.declarations.base import Refused, has_control

MAX_PATH_CHARS = 1024
MAX_COMPONENT_BYTES = 255
MAX_COMPONENTS = 32

_NAME = r"\.?[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_PLAIN = re.compile(rf"(?:{_NAME}/){{0,{MAX_COMPONENTS - 1}}}{_NAME}")
_RANGE = re.compile(r"L(\d{1,18})(-(?:L?(\d{1,18}))?)?|byte=(\d{1,18})(?:-(\d{1,18}))?(?:@([0-9a-z]{1,32}))?", re.A)


@dataclass(frozen=True, slots=True)
class Range:
    """The part of a text that was asked for: lines (from 1, inclusive) or bytes (end exclusive)."""

    first_line: int | None = None
    last_line: int | None = None
    start: int = 0
    end: int | None = None
    version: str | None = None


WHOLE = Range()


class Request(NamedTuple):
    """A path taken apart: as it was sent, without its suffix, and as the plain names that it means."""

    asked: str
    path: str
    name: str
    parts: tuple[str, ...]
    range: Range


def parse(item: object) -> Request:
    """Take a requested path apart.

    Raises Refused with the first of: not_a_string, empty_path, path_too_long or path_too_deep,
    invalid_unicode, control_character, drive_path, backslash, absolute_path, parent_traversal,
    is_directory, trailing_slash, invalid_range.
    """
    if not isinstance(item, str):
        raise Refused("not_a_string")
    if len(item) <= 200 and _PLAIN.fullmatch(item):  # most paths, without a detour; no '#' is in them
        return Request(item, item, item, tuple(item.split("/")), WHOLE)
    path, suffix = split_suffix(item)
    _check_text(path)
    parts = _components(path)
    return Request(item, path, "/".join(parts), tuple(parts), parse_range(suffix) if suffix else WHOLE)


def split_suffix(item: str) -> tuple[str, str]:
    """Part a path from its last ``#`` suffix, where that is a range; else the suffix is empty."""
    path, mark, suffix = item.rpartition("#")
    return (path, suffix) if mark and _RANGE.fullmatch(suffix) else (item, "")


def parse_range(text: str) -> Range:
    """The range that a suffix such as ``L10-L40`` or ``byte=20480-40960@0f3a…`` names; Refused("invalid_range")."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise Refused("invalid_range")
    first, open_end, last, start, end, version = match.groups()
    if first is None:
        found = Range(start=int(start), end=int(end) if end else None, version=version)
        valid = found.end is None or found.start <= found.end
    else:
        stop = int(last) if last else None if open_end else int(first)
        found = Range(first_line=int(first), last_line=stop)
        valid = int(first) >= 1 and (stop is None or int(first) <= stop)
    if not valid:
        raise Refused("invalid_range")
    return found


def _check_text(path: str) -> None:
    if not path.strip(" "):
        raise Refused("empty_path")
    if len(path) > MAX_PATH_CHARS:
        raise Refused("path_too_long")
    if any("\ud800" <= c <= "\udfff" for c in path):
        raise Refused("invalid_unicode")
    if has_control(path):
        raise Refused("control_character")
    if re.match(r"[A-Za-z]:", path):
        raise Refused("drive_path")
    if "\\" in path:
        raise Refused("backslash")
    if path.startswith("/"):
        raise Refused("absolute_path")


def _components(path: str) -> list[str]:
    names = path.split("/")
    if ".." in names:
        raise Refused("parent_traversal")
    parts = [name for name in names if name not in ("", ".")]
    if not parts:
        raise Refused("is_directory")
    if names[-1] in ("", "."):
        raise Refused("trailing_slash")
    if len(parts) > MAX_COMPONENTS:
        raise Refused("path_too_deep")
    if any(len(part.encode()) > MAX_COMPONENT_BYTES for part in parts):
        raise Refused("path_too_long")
    return parts


class DenyList:
    """Names that are never shared with an agent, matched at any depth and in any case.

    A pattern names a component or several (``.docker/config.json``); ``*`` stays within a component, a
    trailing ``/**`` covers what lies beneath as well, as any match does. ``!name`` is an exception.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        chosen = list(patterns)
        refused = [_pattern(p) for p in chosen if not p.startswith("!")]
        spared = [_pattern(p[1:]) for p in chosen if p.startswith("!")]
        spare = rf"(?!(?:{'|'.join(spared)})(?:/|\Z))" if spared else ""
        self._refused = re.compile(rf"(?:\A|/){spare}(?:{'|'.join(refused)})(?:/|\Z)") if refused else None

    def refuses(self, path: str) -> bool:
        """Whether a path, relative to its root, is on the list."""
        return self._refused is not None and self._refused.search(_folded(path)) is not None


def _pattern(pattern: str) -> str:
    body = _folded(pattern.removesuffix("/**").strip("/"))
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in body)


def _folded(path: str) -> str:
    """One spelling for all that a file system may take for the same name: case, form, invisible characters."""
    if path.isascii():
        return path.lower()
    plain = unicodedata.normalize("NFKC", path).casefold()
    return "".join(c for c in plain if unicodedata.category(c) != "Cf")
