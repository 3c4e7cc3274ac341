"""A memory and its links as stores keep them, and the hashes that reveal damage to them."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, cast

import orjson

from abilities.declarations.memory import USUAL_LINK_TYPE
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject
from abilities.helpers.walk import State, WalkLink, compute_rank

TYPES = ("core", "learning", "task")
IMPORTANCES = ("low", "medium", "high")
"""In rising order; a store may keep a value as its index in this tuple."""

_NOTHING_HASHED = blake2b(digest_size=8)
"""Copied for each hash, which takes half as long as making one."""


class Row(NamedTuple):
    """One memory's columns.

    ``tags`` and ``metadata`` are JSON. ``archived`` and ``scored`` are 0 or 1; ``scored`` is 1 if
    somebody set the score, and 0 if it follows from the importance. ``version`` is the number of
    the namespace's change that made the row, and 0 before a store has written it. From
    ``expires_at`` on, which is empty for a memory that stays, it reads as archived.
    """

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
    version: int = 0
    expires_at: str = ""


class LinkRow(NamedTuple):
    """One link, from the memory with the key ``source`` to the key ``target``."""

    source: str
    target: str
    type: str
    weight: float
    term: str = ""

    def to_data(self, *, incoming: bool = False) -> JsonObject:
        """Return the link as replies show it: by its target, or by its source if it is incoming.

        The default type "association" and an empty term are left out.
        """
        key = self.target
        if incoming:
            key = self.source

        data: JsonObject = {"key": key, "link_weight": self.weight}
        if self.type != USUAL_LINK_TYPE:
            data["type"] = self.type
        if self.term:
            data["term"] = self.term

        return data


LinkName = tuple[str, str]
"""The target and the type of a link, which name it in its memory."""

Links = Mapping[LinkName, LinkRow]
"""Links of one memory."""


def index_links(links: Iterable[LinkRow]) -> dict[LinkName, LinkRow]:
    """Return links of one memory by what names them."""
    return {(link.target, link.type): link for link in links}


class LinkChange(NamedTuple):
    """Links of a memory before and after a change; those that it left alone may be missing."""

    before: Links
    after: Links


NO_LINKS = LinkChange({}, {})


class StoredMemory(NamedTuple):
    """A memory that was read: its row, some of its links, and its access counters.

    ``links_total`` is how many links it has in all, ``backlinks_total`` how many lead to it.
    """

    row: Row
    links: tuple[LinkRow, ...] = ()
    links_total: int = 0
    accessed_at: str = ""
    access_count: int = 0
    backlinks_total: int = 0


class AccessCounters(NamedTuple):
    """When a memory was last accessed, and how often; outside of its row and hash."""

    accessed_at: str
    access_count: int


class IncomingMemory(NamedTuple):
    """A memory to import as it is.

    ``provisional`` says that the importer generated its id and times, because its source has none.
    """

    stored: StoredMemory
    provisional: bool = False


class DamagedMemory(NamedTuple):
    """A memory that cannot be read, or whose damaged links cannot; ``reason`` says which."""

    namespace: str
    key: str
    reason: str


def dump_sorted_json(value: object) -> str:
    """Return JSON with sorted keys, so that equal values give equal texts.

    Raises TypeError for a value that JSON cannot carry.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def hash_values(values: Sequence[object]) -> int:
    """Return a 63-bit hash over all values of a row or link: BLAKE2b over their JSON.

    Raises TypeError for a value that JSON cannot carry, such as a damaged text.
    """
    # A plain tuple, because orjson takes no subclasses of it, which rows and links are.
    serialized = orjson.dumps(tuple(values))
    hashed = _NOTHING_HASHED.copy()
    hashed.update(serialized)

    # One bit less than the digest has, so that the hash fits a signed 64-bit column.
    return int.from_bytes(hashed.digest()) >> 1


def hash_row(row: Row) -> int:
    """Return the hash of a memory's row.

    One that never expires has the hash that it had before there was an ``expires_at``, so that no
    row had to be written anew when that came. Raises TypeError as `hash_values`.
    """
    if row.expires_at:
        return hash_values(row)

    return hash_values(row[:-1])


def verify_row(row: Row, stored_hash: int) -> None:
    """Check that a row is as it was written, and that its values are possible.

    Raises Refused: checksum_mismatch, invalid_stored_value.
    """
    try:
        is_unchanged = hash_row(row) == stored_hash
    except TypeError:  # a damaged text need not be valid Unicode
        is_unchanged = False

    if not is_unchanged:
        raise Refused("checksum_mismatch")
    if not is_fraction(row.score) or row.type not in TYPES or row.importance not in IMPORTANCES:
        raise Refused("invalid_stored_value")


def find_damage(row: Row, stored_hash: int) -> Reason | None:
    """Return why readers refuse a row, None if it is sound; as `verify_row` raises it."""
    try:
        verify_row(row, stored_hash)
    except Refused as error:
        return error.reason

    return None


def verify_saved(row: Row, stored_hash: int) -> None:
    """Verify a row that was just written, as it came back from the store.

    A change is acknowledged only after that, so that whatever is acknowledged can be read. Raises
    Refused: invalid_stored_value.
    """
    try:
        verify_row(row, stored_hash)
        tags = orjson.loads(row.tags)
        metadata = orjson.loads(row.metadata)
    except (Refused, ValueError):
        raise Refused("invalid_stored_value") from None

    if not is_tags(tags) or not isinstance(metadata, dict):
        raise Refused("invalid_stored_value")


def is_tags(value: object) -> bool:
    """Return whether a value of JSON is a list of texts."""
    if not isinstance(value, list):
        return False

    return all(isinstance(tag, str) for tag in cast(list[object], value))


def is_fraction(value: object) -> bool:
    """Return whether a stored weight or score is a number from 0 to 1."""
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1


class LinkRecord(NamedTuple):
    """A link as a store keeps it: the link itself, its ranks, and a hash over all of that.

    ``rank`` ranks it among the links of its source, by the score of the target; it is -1 if the
    target is missing or archived. ``back_rank`` ranks it among the links to its target, by the
    score of the source; it is -1 if the source is archived.
    """

    source: str
    target: str
    type: str
    weight: float
    term: str
    rank: int
    back_rank: int
    hash: int

    @classmethod
    def build(
        cls, link: LinkRow, target_score: float | None, source_score: float | None
    ) -> "LinkRecord":
        """Return the record of a link; a score is None if that memory is missing or archived.

        Raises Refused("invalid_stored_value") for a weight that no reader would accept.
        """
        if not is_fraction(link.weight):
            raise Refused("invalid_stored_value")

        rank = rank_link(link.weight, target_score)
        back_rank = rank_link(link.weight, source_score)
        values = (*link, rank, back_rank)
        return cls._make((*values, hash_values(values)))

    @property
    def row(self) -> LinkRow:
        """The link without its derived columns."""
        return LinkRow(self.source, self.target, self.type, self.weight, self.term)

    @property
    def is_sound(self) -> bool:
        """Whether the link is as it was written and its weight is from 0 to 1."""
        try:
            return hash_values(self[:-1]) == self.hash and 0 <= self.weight <= 1
        except TypeError:  # damage can turn any value into one of another type
            return False

    def to_walk_link(self, invalid: Container[str], *, incoming: bool = False) -> WalkLink:
        """Return the link as a walk sees it from its source, or from its target if ``incoming``.

        ``invalid`` holds memories not to be entered.
        """
        key, rank = self.target, self.rank
        if incoming:
            key, rank = self.source, self.back_rank

        if not self.is_sound or key in invalid:
            # Damage can give a value any type; the rank is below that of absent targets.
            return WalkLink(str(key), 0.0, str(self.type), -2, "invalid", incoming=incoming)

        state: State = "present"
        if rank < 0:
            state = "absent"

        return WalkLink(key, self.weight, self.type, rank, state, incoming)


def rank_link(weight: float, score: float | None) -> int:
    """Return a link's rank by a memory's score; -1 if that memory is missing or archived."""
    if score is None:
        return -1

    return compute_rank(weight, score)
