"""A memory as a store keeps it, its hash, and what makes a stored one wrong."""

import math
from collections.abc import Container
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.walk import WalkLink

TYPES = ("core", "learning", "task")
IMPORTANCES = ("low", "medium", "high")
"""In rising order; a store may keep the place in it."""


class Row(NamedTuple):
    """One memory. ``tags`` and ``metadata`` are JSON; ``scored`` says that the score was set, not derived."""

    namespace: str
    key: str
    id: str
    archived: int
    score: float
    scored: int
    type: str
    importance: str
    category: str
    created_at: str
    updated_at: str
    tags: str
    summary: str
    metadata: str
    content: str


class LinkRow(NamedTuple):
    """One link, by the key of the memory it belongs to."""

    source: str
    target: str
    type: str
    weight: float

    def to_data(self) -> dict[str, Any]:
        """The link as readers are told of it; the usual type is left out."""
        kind = {} if self.type == "association" else {"type": self.type}
        return {"key": self.target, "link_weight": self.weight, **kind}


class StoredMemory(NamedTuple):
    """A memory that was read: its row, its links (the best ones), how many there are, and its access counters."""

    row: Row
    links: tuple[LinkRow, ...] = ()
    links_total: int = 0
    accessed_at: str = ""
    access_count: int = 0


class IncomingMemory(NamedTuple):
    """A memory to be kept as it is; ``made_up`` says that its id and times were chosen by who brings it."""

    stored: StoredMemory
    provisional: bool = False


class DamagedMemory(NamedTuple):
    """What cannot be read of a stored memory: all of it, or a link of it."""

    namespace: str
    key: str
    reason: str


def sorted_json(value: Any) -> str:
    """JSON as a row keeps it, the same for the same value. Raises TypeError for what JSON cannot carry."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def hash_values(values: tuple[Any, ...]) -> int:
    """A 63-bit hash over every value of a row or link (BLAKE2b over its JSON)."""
    return int.from_bytes(blake2b(orjson.dumps(list(values)), digest_size=8).digest()) >> 1


def verify_row(row: Row, stored_hash: int) -> Row:
    """A row that is as it was written. Raises Refused: checksum_mismatch, invalid_stored_value."""
    try:
        same = hash_values(row) == stored_hash
    except TypeError:  # a damaged text need not be valid Unicode
        same = False
    if not same:
        raise Refused("checksum_mismatch")
    if not is_fraction(row.score) or row.type not in TYPES or row.importance not in IMPORTANCES:
        raise Refused("invalid_stored_value")
    return row


def is_fraction(value: object) -> bool:
    """Whether a stored weight or score is a number from 0 to 1."""
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1


def parse_link(found: tuple[Any, ...], invalid: Container[str]) -> WalkLink:
    """A link from its source, target, type, weight, rank and hash; ``invalid`` targets cannot be walked to."""
    _, target, kind, weight, rank, _ = found
    if not is_sound_link(found) or target in invalid:
        return WalkLink(str(target), 0.0, str(kind), -2.0, "invalid")
    return WalkLink(target, weight, kind, rank, "absent" if rank < 0 else "present")


def is_sound_link(found: tuple[Any, ...]) -> bool:
    """Whether a link is as it was written, and its weight can be."""
    try:
        return bool(hash_values(found[:5]) == found[5] and 0 <= found[3] <= 1)
    except TypeError:
        return False
