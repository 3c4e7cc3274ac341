"""Items of LangGraph as memories.

An item's value is the content of its memory, as JSON. Its namespace and key become the key and tags
of the memory: ("users", "ada"), "tea" is ``langgraph/users/ada//tea``, and has the tags
``langgraph``, ``langgraph/users`` and ``langgraph/users/ada``, by which searches find it. All other
details of the item are in the metadata.
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

from abilities.declarations import limits
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, Model, format_utc
from abilities.helpers.memory.helper import Write
from abilities.helpers.store.model import Row

ROOT = "langgraph"
"""The first label in the keys of all items' memories, and a tag of all of them."""

_BOUNDARY = "//"
"""Separates the namespace from the key. Labels are not empty, so it occurs only once."""

_MAX_PATH_CHARS = 190
"""The maximum length of an item's path as the key of its memory; a longer one is shortened."""

_KEPT_CHARS = 150
"""The length of the beginning of a longer path that is kept before its hash."""

_ESCAPED = re.compile(r"[^\w!$&'()*+,.:;=?@{}-]")
"""Characters that are percent-encoded: '/', '#', '%', '~' and others that are neither letters or
digits of any script nor harmless punctuation."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_ENCODING = "utf-8", "surrogatepass"

_SPARE_LIFE = 1.05
"""Expiry times are this much later, so that not every read of an item causes a write."""


class ItemName(NamedTuple):
    """The namespace and the key of an item."""

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
        """Whether the memory's key is shortened. The metadata has the full name then."""
        return len(self._path) > _MAX_PATH_CHARS

    @property
    def tags(self) -> list[str]:
        """The tags of the item's memory, one for each of the first levels of its namespace."""
        depth = min(len(self.namespace), limits.MAX_TAGS - 1)
        prefixes = [self.namespace[:level] for level in range(depth + 1)]
        return [find_tag(prefix) for prefix in prefixes]

    @property
    def _path(self) -> str:
        return _join(self.namespace) + _BOUNDARY + _escape(self.key)


def parse_memory_key(memory_key: str) -> ItemName | None:
    """Return the item that a memory's key names, or None if it names none or is shortened.

    >>> parse_memory_key("langgraph/users/ada//tea")
    ItemName(namespace=('users', 'ada'), key='tea')
    """
    path, boundary, key = memory_key.partition(_BOUNDARY)
    root, *labels = path.split("/")
    is_plain = "~" not in memory_key and "#" not in memory_key
    if root != ROOT or not labels or not boundary or not is_plain:
        return None

    try:
        return ItemName(tuple(map(_unescape, labels)), _unescape(key))
    except UnicodeDecodeError:  # only a person can have written such a key
        return None


def find_tag(prefix: Sequence[str]) -> str:
    """Return the tag of all items in a namespace and beneath it.

    A namespace deeper than nine levels has the tag of its first nine.

    >>> find_tag(("users", "ada"))
    'langgraph/users/ada'
    """
    path = _join(prefix[: limits.MAX_TAGS - 1])
    if len(path) <= limits.MAX_TAG_CHARS:
        return path

    return _shorten(path, limits.MAX_TAG_CHARS - 17, digest_size=8)


def find_beginning(prefix: Sequence[str]) -> str:
    """Return the common beginning of the memory keys of all items beneath a prefix.

    >>> find_beginning(("users",))
    'langgraph/users/'
    """
    return f"{_join(prefix)}/"[:_KEPT_CHARS]


def find_end(name: ItemName) -> str:
    """Return a key after those of all items in a namespace, or after the item's if it is long."""
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
    """Percent-encode a text as in URLs (RFC 3986), but keep letters of any script."""
    return _ESCAPED.sub(_encode, text)


def _encode(match: re.Match[str]) -> str:
    encoded = match[0].encode(*_ENCODING)
    return "".join(f"%{byte:02X}" for byte in encoded)


def _unescape(text: str) -> str:
    return unquote_to_bytes(text).decode(*_ENCODING)


class ItemDetails(Model):
    """Details of an item, in the metadata of its memory under ``langgraph``."""

    index: bool = Field(default=True, description="Whether searches find it by its words.")
    ttl: float | None = Field(default=None, description="Minutes that it stays after each use.")
    written_at: str | None = Field(
        default=None, description="When it was written, if reads renewed it since; RFC 3339 UTC."
    )
    name: tuple[str, ...] | None = Field(
        default=None, description="The namespace and the key, if the memory's key is shortened."
    )

    @classmethod
    def read(cls, row: Row) -> "ItemDetails":
        """Return the details in a memory's metadata, or the defaults if it has none."""
        if row.metadata == "{}":
            return _DEFAULT_DETAILS

        try:
            return cls.model_validate(orjson.loads(row.metadata).get(ROOT, {}))
        except ValidationError:  # the metadata was edited
            return _DEFAULT_DETAILS

    def to_metadata(self) -> JsonObject:
        """Return the metadata of the item's memory."""
        changed = self.model_dump(exclude_defaults=True)
        return {ROOT: changed} if changed else {}


_DEFAULT_DETAILS = ItemDetails()


class StoredItem(NamedTuple):
    """An item as it was read."""

    name: ItemName
    value: JsonObject
    row: Row
    details: ItemDetails

    def to_item(self) -> Item:
        """Return the result of a get."""
        return Item(
            value=self.value,
            key=self.name.key,
            namespace=self.name.namespace,
            created_at=datetime.fromisoformat(self.row.created_at),
            updated_at=datetime.fromisoformat(self.details.written_at or self.row.updated_at),
        )

    def to_search_item(self, score: float | None) -> SearchItem:
        """Return the result of a search."""
        item = self.to_item()
        return SearchItem(
            item.namespace, item.key, item.value, item.created_at, item.updated_at, score
        )


def find_name(row: Row) -> ItemName | None:
    """Return the name of the item in a memory, or None if it has no item."""
    name = parse_memory_key(row.key)
    if name is not None or "~" not in row.key:
        return name

    labels = ItemDetails.read(row).name
    if not labels:
        return None

    name = ItemName(labels[:-1], labels[-1])
    return name if name.memory_key == row.key else None


def parse_item(row: Row) -> StoredItem:
    """Return the item in a memory.

    Raises Refused("invalid_stored_value") if the content is not a JSON object.
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

    Raises ValueError if the value is not a JSON object, if the value or the name is too long, or if
    the time to live is out of range.
    """
    text = dump_value(op.value)
    labels: tuple[str, ...] | None = None
    if name.is_shortened:
        labels = (*name.namespace, name.key)

    details = ItemDetails(index=op.index is not False, ttl=op.ttl, name=labels)
    metadata = details.to_metadata()
    if len(orjson.dumps(metadata)) > limits.MAX_METADATA_BYTES:
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
    """Return the write that renews an item's time to live, or None if none is needed."""
    minutes = item.details.ttl
    if minutes is None or item.row.expires_at >= _find_time(minutes):
        return None

    written_at = item.details.written_at or item.row.updated_at
    details = item.details.model_copy(update={"written_at": written_at})
    arguments: JsonObject = {
        "key": item.row.key,
        "metadata": details.to_metadata(),
        "expires_at": find_expiry(minutes),
        "if_version": item.row.version,  # a put in the meantime has renewed it, too
    }
    return Write("update", arguments)


def find_expiry(minutes: float | None) -> str:
    """Return when an item that is written now expires, or an empty string if it never does.

    Raises ValueError if the time is out of range.
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
    """Return a value as JSON that every store accepts, with lone surrogates escaped.

    Raises ValueError if it is not a JSON object, or too long.
    """
    if not isinstance(value, Mapping):
        raise ValueError("a value must be a mapping")

    try:
        text = json.dumps(
            dict(cast(Mapping[object, object], value)), ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"a value must be JSON: {error}") from None

    text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if len(text) > limits.MAX_LONG_CONTENT_CHARS:
        raise ValueError(
            f"a value must have at most {limits.MAX_LONG_CONTENT_CHARS:,} characters as JSON; "
            f"this one has {len(text):,}, and nothing was stored"
        )

    return text
