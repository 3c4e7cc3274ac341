"""Mending damaged memories and links: readable values stay, and defaults replace the others.

Also the report of a repair, and the file that keeps the damaged originals.
"""

import base64
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO

import orjson

from abilities.declarations.memory import ID_PATTERN, SCORES, USUAL_LINK_TYPE
from abilities.declarations.refusals import Refused
from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.durable import sync_folder
from abilities.helpers.store import model
from abilities.helpers.store.names import make_id, make_key, to_storable
from abilities.helpers.store.protocol import IntegrityFinding


@dataclass
class RepairReport:
    """The result of a repair, or the expected result of a dry run.

    ``damage`` lists the findings; if it is empty, nothing was repaired. ``originals`` is the file
    with the original damaged rows, and ``previous`` the file with the store before the repair; None
    if there is no such file.
    """

    damage: list[IntegrityFinding]
    restored_memories: int = 0
    """Memories restored exactly, because the store had their damaged values elsewhere too."""
    mended_memories: int = 0
    """Memories in which defaults replaced damaged values."""
    mended_links: int = 0
    lost_memories: int = 0
    """Memories of which nothing was readable."""
    lost_links: int = 0
    originals: Path | None = None
    previous: Path | None = None


class OriginalsFile:
    """A file of original damaged rows, one JSON object per line, created with the first row.

    A value that JSON cannot represent becomes an object: ``{"base64": "…"}`` with its bytes, or for
    example ``{"float": "nan"}``. Without a path, nothing is written. The file replaces no other.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    def add(self, table: str, columns: Mapping[str, object]) -> None:
        """Write a row. Raises FileExistsError, OSError."""
        if self.path is None:
            return

        if self._file is None:
            self._file = open(  # noqa: SIM115 - see close
                self.path, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)
            )

        values = {name: _to_json(value) for name, value in columns.items()}
        self._file.write(orjson.dumps({"table": table, **values}) + b"\n")

    def save(self) -> Path | None:
        """Sync the file to disk; return its path, or None if nothing was written."""
        if self._file is None or self.path is None:
            return None

        self._file.flush()
        os.fsync(self._file.fileno())
        sync_folder(self.path.parent)
        return self.path

    def close(self) -> None:
        """Close the file. Rows that were not saved may be lost."""
        if self._file is not None:
            self._file.close()


def name_originals(beside: Path) -> Path:
    """Return a name for a file of originals that is unique to this run."""
    run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    return beside.with_name(f"{beside.name}-damaged-{run}.jsonl")


def _to_json(value: object) -> object:
    """Return a value of a row in a form that JSON can represent without loss."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode(errors="surrogateescape")

    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}

    return value


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
