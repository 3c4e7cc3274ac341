"""What a requested path says, read from the string alone: no file is touched here.

Checks run in one fixed order and the first that fails names the reason (see `parse`).
"""

import re
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.values import has_control_character
from abilities.helpers.text.ranges import WHOLE, Range, parse_range, split_suffix

MAX_PATH_CHARS = 1024
MAX_COMPONENT_BYTES = 255
MAX_COMPONENTS = 32

_NAME = r"\.?[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_PLAIN = re.compile(rf"(?:{_NAME}/){{0,{MAX_COMPONENTS - 1}}}{_NAME}")


class PathRequest(NamedTuple):
    """A path taken apart: as it was sent, without its suffix, and as the plain names that it means."""

    original: str
    path: str
    name: str
    parts: tuple[str, ...]
    range: Range


def parse_path(item: object) -> PathRequest:
    """Take a requested path apart.

    Raises Refused with the first of: not_a_string, empty_path, path_too_long or path_too_deep,
    invalid_unicode, control_character, drive_path, backslash, absolute_path, parent_traversal,
    is_directory, trailing_slash, invalid_range.
    """
    if not isinstance(item, str):
        raise Refused("not_a_string")
    if len(item) <= 200 and _PLAIN.fullmatch(
        item
    ):  # most paths, without a detour; no '#' is in them
        return PathRequest(item, item, item, tuple(item.split("/")), WHOLE)
    path, suffix = split_suffix(item)
    _check_text(path)
    parts = _components(path)
    return PathRequest(
        item, path, "/".join(parts), tuple(parts), parse_range(suffix) if suffix else WHOLE
    )


def _check_text(path: str) -> None:
    if not path.strip(" "):
        raise Refused("empty_path")
    if len(path) > MAX_PATH_CHARS:
        raise Refused("path_too_long")
    if any("\ud800" <= c <= "\udfff" for c in path):
        raise Refused("invalid_unicode")
    if has_control_character(path):
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
