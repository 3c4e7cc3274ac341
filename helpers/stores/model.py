"""A memory as a store keeps it, its hash, and what makes a stored one wrong."""

import math
from collections.abc import Container
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.walk import State, WalkLink

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


class LinkRecord(NamedTuple):
    """A link as a store keeps it: the link itself, its rank, and a hash over all of that.

    ``rank`` is the weight times the target's score, or negative if the target is missing or archived.
    """

    source: str
    target: str
    type: str
    weight: float
    rank: float
    hash: int

    @property
    def row(self) -> LinkRow:
        """The link without what a store derives from it."""
        return LinkRow(self.source, self.target, self.type, self.weight)

    @property
    def is_sound(self) -> bool:
        """Whether the link is as it was written, and its weight is possible."""
        try:
            return hash_values(self[:5]) == self.hash and 0 <= self.weight <= 1
        except TypeError:  # damage can turn any value into one of another type
            return False

    def to_walk_link(self, invalid: Container[str]) -> WalkLink:
        """Return the link as a walk sees it; ``invalid`` are targets that cannot be walked to."""
        if not self.is_sound or self.target in invalid:
            return WalkLink(str(self.target), 0.0, str(self.type), -2.0, "invalid")

        state: State = "absent" if self.rank < 0 else "present"
        return WalkLink(self.target, self.weight, self.type, self.rank, state)
