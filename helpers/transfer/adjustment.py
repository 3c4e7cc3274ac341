"""Memories of other systems, brought within our bounds: nothing is lost, and what was changed is said."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from uuid import uuid4

import orjson

from abilities.declarations.memory import SCORES, Importance, Type, is_key
from abilities.declarations.values import has_control_character
from abilities.helpers.stores.model import IncomingMemory, LinkRow, Row, StoredMemory

MAX_CONTENT = 5_000
MAX_METADATA = 4_096
_MAX_KEY, _MAX_CATEGORY, _MAX_SUMMARY, _MAX_TAG, _MAX_TAGS, _MAX_LINK_TYPE = (
    200,
    50,
    500,
    30,
    10,
    50,
)
_MARK = 9  # '~' and eight characters of a hash


@dataclass
class ForeignMemory:
    """A memory as another system has it; ``links`` are (name, type, weight)."""

    name: str
    content: str
    type: Type = "core"
    importance: Importance = "medium"
    score: float | None = None
    category: str = ""
    summary: str = ""
    tags: Sequence[str] = ()
    links: Sequence[tuple[str, str, float]] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    archived: bool = False
    created_at: str | None = None


@dataclass
class AdjustedMemories:
    """The memories that one memory of another system becomes, and what was changed, in plain words."""

    memories: list[IncomingMemory]
    notes: list[str]


def make_key(name: str) -> str:
    """The key for a name: the name where it can be one, else as much of it as can, and a hash of it."""
    if is_key(name):
        return name
    plain = "".join(
        " " if has_control_character(c) or "\ud800" <= c <= "\udfff" or c == "\ufffd" else c
        for c in name
    )
    return f"{plain[: _MAX_KEY - _MARK].strip()}~{_hash(name)}"


def adjust(foreign: ForeignMemory, namespace: str, now: str) -> AdjustedMemories:
    """Bring a memory within the bounds. Originals of what had to be shortened go into ``metadata``."""
    notes: list[str] = []
    kept = dict(foreign.metadata)
    key = make_key(foreign.name)
    if key != foreign.name:
        notes.append("its name cannot be a key")
        kept["name"] = foreign.name
    content = _storable(foreign.content)
    if content != foreign.content:
        notes.append("characters that cannot be stored were replaced")
    if not content:
        notes.append("it had no content; its name stands there")
        content = _storable(foreign.name) or key
    fields = {
        "category": _short(foreign.category, _MAX_CATEGORY, "category", kept, notes),
        "summary": _short(foreign.summary, _MAX_SUMMARY, "summary", kept, notes),
        "tags": orjson.dumps(_tags(foreign.tags, kept, notes)).decode(),
    }
    links = _links(key, foreign.links, kept, notes)
    pieces = list(_split(content))
    if len(pieces) > 1:
        notes.append(f"its content became {len(pieces)} linked memories")
    metadata = _json(kept)
    if len(metadata) > MAX_METADATA:
        notes.append("its metadata became linked memories")
        pieces += _split(metadata.decode())
        metadata = b"{}"
    score = SCORES[foreign.importance] if foreign.score is None else foreign.score
    first = Row(
        namespace=namespace,
        key=key,
        id=str(uuid4()),
        archived=int(foreign.archived),
        score=score,
        scored=int(foreign.score is not None),
        type=foreign.type,
        importance=foreign.importance,
        created_at=foreign.created_at or now,
        updated_at=foreign.created_at or now,
        metadata=metadata.decode(),
        content="",
        **fields,
    )
    return AdjustedMemories(list(_parts(first, pieces, links)), notes)


def _parts(first: Row, pieces: Sequence[str], links: Sequence[LinkRow]) -> Iterator[IncomingMemory]:
    """A memory for each piece, each linked to the next."""
    keys = [first.key, *(_part_key(first.key, n) for n in range(2, len(pieces) + 1))]
    for n, (key, piece) in enumerate(zip(keys, pieces, strict=True)):
        row = first if not n else first._replace(id=str(uuid4()), summary="", metadata="{}")
        on = [LinkRow(key, keys[n + 1], "continues", 1.0)] if n + 1 < len(keys) else []
        mine = (*(links if not n else ()), *on)
        yield IncomingMemory(
            StoredMemory(row._replace(key=key, content=piece), mine, len(mine), row.created_at),
            provisional=True,
        )


def _part_key(key: str, number: int) -> str:
    suffix = f"#{number}"
    if len(key) + len(suffix) > _MAX_KEY:
        key = f"{key[: _MAX_KEY - _MARK - len(suffix)].strip()}~{_hash(key)}"
    return key + suffix


def _split(content: str) -> Iterator[str]:
    """Pieces that fit, and join to the whole; cut after a line or a word where one ends near the bound."""
    while len(content) > MAX_CONTENT:
        near = max(content.rfind(mark, MAX_CONTENT - 500, MAX_CONTENT) for mark in ("\n", " "))
        cut = near + 1 if near > 0 else MAX_CONTENT
        yield content[:cut]
        content = content[cut:]
    yield content


def _short(text: str, limit: int, name: str, kept: dict[str, Any], notes: list[str]) -> str:
    text = _storable(text)
    if len(text) <= limit:
        return text
    notes.append(f"its {name} is over {limit} characters")
    kept[name] = text
    return _marked(text, limit)


def _marked(text: str, limit: int) -> str:
    """A text shortened, and told from others that begin alike."""
    return f"{text[: limit - _MARK]}~{_hash(text)}"


def _tags(tags: Sequence[str], kept: dict[str, Any], notes: list[str]) -> list[str]:
    wanted = list(dict.fromkeys(tag for tag in map(_storable, tags) if tag))
    short = [tag if len(tag) <= _MAX_TAG else _marked(tag, _MAX_TAG) for tag in wanted][:_MAX_TAGS]
    if short != wanted:
        notes.append("some tags are too many or too long")
        kept["tags"] = wanted
    return short


def _links(
    key: str, links: Sequence[tuple[str, str, float]], kept: dict[str, Any], notes: list[str]
) -> list[LinkRow]:
    found: dict[tuple[str, str], LinkRow] = {}
    for name, kind, weight in links:
        text = _storable(kind) or "association"
        if len(text) > _MAX_LINK_TYPE:
            notes.append(f"a link's type is over {_MAX_LINK_TYPE} characters")
            short = _marked(text, _MAX_LINK_TYPE)
            kept.setdefault("link_types", {})[short] = text
            text = short
        if not 0 <= weight <= 1:
            notes.append("a link's weight is not between 0 and 1")
            kept.setdefault("link_weights", {})[name] = str(weight)
            weight = min(max(weight, 0.0), 1.0) if math.isfinite(weight) else 0.5
        found[make_key(name), text] = LinkRow(key, make_key(name), text, weight)
    return list(found.values())


def _storable(text: str) -> str:
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


def _json(metadata: dict[str, Any]) -> bytes:
    """Metadata as JSON; what our JSON cannot carry (lone surrogates, integers over 64 bits) as escaped text in it."""
    try:
        return orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return orjson.dumps({"metadata": json.dumps(metadata, sort_keys=True)})


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
