"""Valid names and values in place of impossible ones; readable values stay.

Names that are not valid get keys and ids that are always the same.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from uuid import UUID

import orjson

from abilities.declarations.limits import MAX_KEY_CHARS
from abilities.declarations.memory import ID_PATTERN, SCORES, USUAL_LINK_TYPE, is_key
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, as_object, has_control_character
from abilities.helpers.store import model

HASH_MARK = 9
"""Length of the mark of a shortened text: '~' and eight hexadecimal digits of a hash."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def make_key(name: str) -> str:
    r"""Return a name if it is a valid key, else its readable beginning and a hash of all of it.

    >>> make_key("two\nlines")
    'two lines~9744aefe'
    """
    if is_key(name):
        return name

    # The hash covers the original name, so names that look alike after replacement stay distinct.
    storable = to_storable(name).replace("\ufffd", " ")
    plain = "".join(" " if has_control_character(char) else char for char in storable)
    beginning = plain[: MAX_KEY_CHARS - HASH_MARK].strip()
    return f"{beginning}~{hash_text(name)}"


def make_id(namespace: str, key: str) -> str:
    """Return an id for a memory that came without a valid one, always the same for its key.

    It is a hash in the form of a version 4 UUID (RFC 9562), like every id of a memory.
    """
    name = f"{namespace}\0{key}".encode("utf-8", "surrogatepass")
    digest = blake2b(name, digest_size=16).digest()
    return str(UUID(bytes=digest, version=4))


def to_storable(text: str) -> str:
    """Replace NUL and lone surrogates with U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def hash_text(text: str) -> str:
    """Return a hash of a text as eight hexadecimal digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
_INVALID_NAMESPACE_CHAR = re.compile("[^A-Za-z0-9_.@:+=-]")
_MAX_NAMESPACE_CHARS = 128
_LOST = "\ufffd"
"""Replaces an unreadable content, because a content must not be empty."""


def restore_row(row: model.Row, stored_hash: int, known: JsonObject) -> model.Row | None:
    """Return a damaged row exactly as it was written, or None if it cannot be restored.

    ``known`` are columns that the store keeps elsewhere too. If the row with these matches the
    hash, it is the original.
    """
    restored = row._replace(**known)
    try:
        model.verify_saved(restored, stored_hash)
    except (Refused, TypeError):
        return None

    return restored


def mend_row(row: model.Row, now: str) -> model.Row:
    """Return a damaged row with each impossible value replaced; readable values stay.

    Damage can give a column any type. ``now`` replaces damaged times. Namespace, key and id are
    left to `propose_names`.
    """
    type_, importance = row.type, row.importance
    if type_ not in model.TYPES:
        type_ = "core"
    if importance not in model.IMPORTANCES:
        importance = "medium"

    score, scored = row.score, int(row.scored == 1)
    if not model.is_fraction(score):
        score, scored = SCORES[importance], 0

    lists: dict[str, str] = {}
    for name in ("tags", "about"):
        parsed = _parse_json(getattr(row, name))
        lists[name] = model.dump_sorted_json(parsed) if model.is_tags(parsed) else "[]"

    return row._replace(
        type=type_,
        importance=importance,
        score=score,
        scored=scored,
        archived=int(row.archived == 1),
        content=_mend_text(row.content) or _LOST,
        summary=_mend_text(row.summary),
        category=_mend_text(row.category),
        tags=lists["tags"],
        about=lists["about"],
        metadata=model.dump_sorted_json(as_object(_parse_json(row.metadata)) or {}),
        created_at=mend_time(row.created_at, now),
        updated_at=mend_time(row.updated_at, now),
        expires_at=mend_time(row.expires_at, ""),
    )


def propose_names(row: model.Row) -> Iterator[model.Row]:
    """Yield a damaged row with a valid namespace, key and id, without end.

    Take the first row whose key and id no other memory has: damage can give two memories the same
    name.
    """
    namespace = mend_namespace(row.namespace)
    key = make_key(_to_text(row.key))
    memory_id = _mend_text(row.id)
    if not re.fullmatch(ID_PATTERN[1:-1], memory_id):
        memory_id = make_id(namespace, key)

    mended = row._replace(namespace=namespace, key=key, id=memory_id)
    yield mended

    for number in count(2):
        other_key = make_key(f"{key}\ufffd{number}")
        other_id = make_id(namespace, other_key)
        yield mended._replace(key=other_key)
        yield mended._replace(key=other_key, id=other_id)


def mend_namespace(namespace: object) -> str:
    """Return a valid namespace, made from the readable characters of a damaged one.

    >>> mend_namespace("my notes")
    'my_notes'
    """
    mended = _INVALID_NAMESPACE_CHAR.sub("_", _to_text(namespace))
    return mended[:_MAX_NAMESPACE_CHARS] or "default"


def mend_link(link: model.LinkRow) -> model.LinkRow:
    """Return a damaged link with each impossible value replaced; readable values stay."""
    weight = link.weight
    if not model.is_fraction(weight):
        weight = 0.5

    return model.LinkRow(
        make_key(_to_text(link.source)),
        make_key(_to_text(link.target)),
        _mend_text(link.type) or USUAL_LINK_TYPE,
        weight,
        _mend_text(link.term),
    )


def mend_time(time: object, now: str) -> str:
    """Return a time if it is valid, and ``now`` otherwise."""
    if isinstance(time, str) and _TIME.fullmatch(time):
        return time

    return now


def _to_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")

    return ""


def _mend_text(value: object) -> str:
    """Return a text in which U+FFFD replaces invalid UTF-8, or "" for any other value."""
    return to_storable(_to_text(value))


def _parse_json(text: object) -> object:
    try:
        value: object = orjson.loads(_mend_text(text))
    except ValueError:
        return None

    return value
