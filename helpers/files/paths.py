"""Take a requested path apart. Only the string is looked at; no file is touched here.

The checks run in one fixed order, and the first that fails names the reason (see `parse_path`).
"""

import re
from contextlib import suppress
from typing import NamedTuple

from abilities.declarations.faults import Refused
from abilities.declarations.limits import MAX_PATH_CHARS
from abilities.declarations.values import has_control_character, has_surrogate
from abilities.helpers.text.ranges import WHOLE, Range, parse_range, split_suffix

MAX_COMPONENT_BYTES = 255
MAX_COMPONENTS = 32

_PLAIN_NAME = r"\.?[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_PLAIN_PATH = re.compile(rf"(?:{_PLAIN_NAME}/){{0,{MAX_COMPONENTS - 1}}}{_PLAIN_NAME}")
_MAX_PLAIN_CHARS = 200  # so short that no component can be too long

_DRIVE = re.compile(r"[A-Za-z]:")


class PathRequest(NamedTuple):
    """A requested path, taken apart.

    For ``./src//app.py#L10``: ``original`` is all of it, ``path`` is ``./src//app.py``, ``name`` is
    ``src/app.py``, and ``parts`` are ``src`` and ``app.py``.
    """

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

    # Most paths are plain: one match is faster than all checks. They have no '#', so no suffix.
    if len(item) <= _MAX_PLAIN_CHARS and _PLAIN_PATH.fullmatch(item):
        return PathRequest(item, item, item, tuple(item.split("/")), WHOLE)

    path, suffix = split_suffix(item)
    _check_text(path)
    parts = _split_components(path)

    requested = WHOLE
    if suffix:
        requested = parse_range(suffix)

    return PathRequest(item, path, "/".join(parts), tuple(parts), requested)


def express_path(name: str) -> str | None:
    """Return the path that requests a file by its name; None if no path can express it.

    If the name itself ends in a range, ``#L1-`` is appended, which stands for the whole file.
    """
    for path in (name, f"{name}#L1-"):
        with suppress(Refused):
            if parse_path(path).name == name:
                return path

    return None


def _check_text(path: str) -> None:
    if not path.strip(" "):
        raise Refused("empty_path")

    if len(path) > MAX_PATH_CHARS:
        raise Refused("path_too_long")

    if has_surrogate(path):
        raise Refused("invalid_unicode")

    if has_control_character(path):
        raise Refused("control_character")

    if _DRIVE.match(path):
        raise Refused("drive_path")

    if "\\" in path:
        raise Refused("backslash")

    if path.startswith("/"):
        raise Refused("absolute_path")


def _split_components(path: str) -> list[str]:
    """Return the path's names without empty ones and ``.``."""
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
