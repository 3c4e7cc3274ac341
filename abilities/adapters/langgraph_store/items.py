"""Items as memories: the value is the content as JSON, and the metadata has what else is known.

The names of items: a namespace and a key as the key and the tags of a memory, and back.

The item ("users", "ada"), "tea" is the memory ``langgraph/users/ada//tea``, with the tags
``langgraph``, ``langgraph/users`` and ``langgraph/users/ada``, by which searches find it.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple, cast
from urllib.parse import unquote_to_bytes

import orjson
from langgraph.store.base import Item, PutOp, SearchItem
from pydantic import Field, ValidationError

from abilities.declarations.limits import (
    MAX_LONG_CONTENT_CHARS,
    MAX_METADATA_BYTES,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, Model, format_utc
from abilities.helpers.memory.helper import Write
from abilities.helpers.store.model import Row

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


_SPARE_LIFE = 1.05
"""A life is written this much longer, so that not every read of an item is a write."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class ItemDetails(Model):
    """What the metadata of an item's memory says of it, beneath ``langgraph``."""

    index: bool = Field(default=True, description="Whether questions find it by its words.")
    ttl: float | None = Field(default=None, description="Minutes that it stays after each use.")
    written_at: str | None = Field(
        default=None, description="When it was written, if it was read since; RFC 3339 UTC."
    )
    name: tuple[str, ...] | None = Field(
        default=None, description="The namespace and the key, if the memory's key is shortened."
    )

    @classmethod
    def read(cls, row: Row) -> "ItemDetails":
        """Return the details of a memory; those of an ordinary item if it has none."""
        if row.metadata == "{}":
            return _ORDINARY

        try:
            return cls.model_validate(orjson.loads(row.metadata).get(ROOT, {}))
        except ValidationError:  # somebody has changed them
            return _ORDINARY

    def to_metadata(self) -> JsonObject:
        """Return the metadata of the item's memory."""
        changed = self.model_dump(exclude_defaults=True)
        return {ROOT: changed} if changed else {}


_ORDINARY = ItemDetails()


class StoredItem(NamedTuple):
    """An item as it was read."""

    name: ItemName
    value: JsonObject
    row: Row
    details: ItemDetails

    def to_item(self) -> Item:
        """Return the item as a get returns it."""
        return Item(
            value=self.value,
            key=self.name.key,
            namespace=self.name.namespace,
            created_at=datetime.fromisoformat(self.row.created_at),
            updated_at=datetime.fromisoformat(self.details.written_at or self.row.updated_at),
        )

    def to_search_item(self, score: float | None) -> SearchItem:
        """Return the item as a search returns it."""
        item = self.to_item()
        return SearchItem(
            item.namespace, item.key, item.value, item.created_at, item.updated_at, score
        )


def find_name(row: Row) -> ItemName | None:
    """Return the item that a memory holds, or None."""
    name = parse_memory_key(row.key)
    if name is not None or "~" not in row.key:
        return name

    told = ItemDetails.read(row).name
    if not told:
        return None

    name = ItemName(told[:-1], told[-1])
    return name if name.memory_key == row.key else None


def parse_item(row: Row) -> StoredItem:
    """Return the item of a memory.

    Raises Refused("invalid_stored_value") if the content is no JSON object any more.
    """
    name = find_name(row)
    try:
        value: object = json.loads(row.content)
    except (ValueError, RecursionError):
        value = None

    if name is None or not isinstance(value, dict):
        raise Refused("invalid_stored_value")

    return StoredItem(name, cast(JsonObject, value), row, ItemDetails.read(row))


def build_put(name: ItemName, op: PutOp) -> Write:
    """Return the write that puts an item.

    Raises ValueError for a value that is no JSON object or too long, for a name that is too long,
    and for a life that no time can tell.
    """
    text = dump_value(op.value)
    told: tuple[str, ...] | None = None
    if name.is_shortened:
        told = (*name.namespace, name.key)

    details = ItemDetails(index=op.index is not False, ttl=op.ttl, name=told)
    metadata = details.to_metadata()
    if len(orjson.dumps(metadata)) > MAX_METADATA_BYTES:
        raise ValueError("the namespace and the key together are longer than 4,000 bytes")

    arguments: JsonObject = {
        "key": name.memory_key,
        "type": "learning",
        "content": text,
        "tags": name.tags,
        "metadata": metadata,
        "expires_at": find_expiry(op.ttl),
    }
    return Write("store", arguments)


def build_refreshment(item: StoredItem) -> Write | None:
    """Return the write that lets an item that was read live on; None if none is needed."""
    minutes = item.details.ttl
    if minutes is None or item.row.expires_at >= _find_time(minutes):
        return None

    written_at = item.details.written_at or item.row.updated_at
    details = item.details.model_copy(update={"written_at": written_at})
    arguments: JsonObject = {
        "key": item.row.key,
        "metadata": details.to_metadata(),
        "expires_at": find_expiry(minutes),
        "if_version": item.row.version,  # whoever has put it meanwhile has renewed it too
    }
    return Write("update", arguments)


def find_expiry(minutes: float | None) -> str:
    """Return when an item expires that is written now; empty for one that stays.

    Raises ValueError for a life that no time can tell.
    """
    if minutes is None:
        return ""

    return _find_time(minutes * _SPARE_LIFE)


def _find_time(minutes: float) -> str:
    try:
        return format_utc(datetime.now(UTC) + timedelta(minutes=minutes))
    except (OverflowError, ValueError):
        raise ValueError(f"ttl must be a number of minutes, not {minutes}") from None


def dump_value(value: object) -> str:
    """Return a value as JSON that every store can hold.

    Raises ValueError if it is no JSON object, or too long.
    """
    if not isinstance(value, Mapping):
        raise ValueError("a value must be a mapping")

    try:
        text = json.dumps(
            dict(cast(Mapping[object, object], value)), ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"a value must be JSON: {error}") from None

    text = _SURROGATE.sub(_escape_surrogate, text)
    if len(text) > MAX_LONG_CONTENT_CHARS:
        raise ValueError(
            f"a value must have at most {MAX_LONG_CONTENT_CHARS:,} characters as JSON; "
            f"this one has {len(text):,}, and nothing was stored"
        )

    return text


def _escape_surrogate(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
