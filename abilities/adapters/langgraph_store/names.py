"""The names of items: a namespace and a key as the key and the tags of a memory, and back.

The item ("users", "ada"), "tea" is the memory ``langgraph/users/ada//tea``, with the tags
``langgraph``, ``langgraph/users`` and ``langgraph/users/ada``, by which searches find it.
"""

import re
import sys
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from abilities.declarations.limits import MAX_TAG_CHARS, MAX_TAGS

ROOT = "langgraph"
"""What the key of every item's memory begins with, and a tag that all of them have."""

_BOUNDARY = "//"
"""Stands between a namespace and a key; no label is empty, so it stands nowhere before."""

_MAX_PATH_CHARS = 190
"""A memory's key has 200; the rest is for the number of a part."""

_KEPT_CHARS = 150
"""What is kept of a longer name, before its hash."""

_ESCAPED = re.compile(r"[^\w!$&'()*+,.:;=?@{}-]")
"""All but letters and digits of every script and some signs; '/', '#', '%' and '~' have meanings"""

_ENCODING = "utf-8", "surrogatepass"


class ItemName(NamedTuple):
    """What names an item."""

    namespace: tuple[str, ...]
    key: str

    @property
    def memory_key(self) -> str:
        """The key of the item's memory."""
        path = self._path
        if len(path) <= _MAX_PATH_CHARS:
            return path

        return _shorten(path, _KEPT_CHARS, digest_size=16)

    @property
    def is_shortened(self) -> bool:
        """Whether the memory's key does not tell the name, which is kept beside the value then."""
        return len(self._path) > _MAX_PATH_CHARS

    @property
    def tags(self) -> list[str]:
        """The tags of the item's memory: one for each of the first levels of its namespace."""
        depth = min(len(self.namespace), MAX_TAGS - 1)
        return [find_tag(self.namespace[:level]) for level in range(depth + 1)]

    @property
    def _path(self) -> str:
        return _join(self.namespace) + _BOUNDARY + _escape(self.key)


def parse_memory_key(memory_key: str) -> ItemName | None:
    """Return the item that a memory's key tells; None if it tells none, or was shortened."""
    path, boundary, key = memory_key.partition(_BOUNDARY)
    root, *labels = path.split("/")
    is_plain = "~" not in memory_key and "#" not in memory_key
    if root != ROOT or not labels or not boundary or not is_plain:
        return None

    try:
        return ItemName(tuple(map(_unescape, labels)), _unescape(key))
    except UnicodeDecodeError:  # nobody but a person has written such a key
        return None


def find_first_part(memory_key: str) -> str:
    """Return the key of the memory that a long value begins in, for any part of it.

    >>> find_first_part("langgraph/a//b#2")
    'langgraph/a//b'
    """
    return memory_key.partition("#")[0]


def find_tag(prefix: Sequence[str]) -> str:
    """Return the tag that all items in a namespace and beneath have, if it is not too deep.

    Beneath nine levels it is that of the first nine.
    """
    path = _join(prefix[: MAX_TAGS - 1])
    if len(path) <= MAX_TAG_CHARS:
        return path

    return _shorten(path, MAX_TAG_CHARS - 17, digest_size=8)


def find_beginning(prefix: Sequence[str]) -> str:
    """Return what the keys of the memories of all items begin with that lie beneath a prefix."""
    return f"{_join(prefix)}/"[:_KEPT_CHARS]


def find_end(name: ItemName) -> str:
    """Return a key behind those of all items of a namespace; of a long one, behind the item's."""
    beginning = _join(name.namespace) + _BOUNDARY
    if name.memory_key.startswith(beginning):
        return beginning + chr(sys.maxunicode)

    return name.memory_key


def _join(labels: Sequence[str]) -> str:
    return "/".join([ROOT, *map(_escape, labels)])


def _shorten(path: str, kept: int, *, digest_size: int) -> str:
    digest = blake2b(path.encode(), digest_size=digest_size).hexdigest()
    return f"{path[:kept]}~{digest}"


def _escape(text: str) -> str:
    """Percent-encode a text as in URLs (RFC 3986), except for letters of any script."""
    return _ESCAPED.sub(_encode, text)


def _encode(match: re.Match[str]) -> str:
    encoded = match[0].encode(*_ENCODING)
    return "".join(f"%{byte:02X}" for byte in encoded)


def _unescape(text: str) -> str:
    return unquote_to_bytes(text).decode(*_ENCODING)
