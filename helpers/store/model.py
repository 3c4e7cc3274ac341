"""Memories, links and queries as values, and the hashes that reveal damage to what is stored."""

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, TypeGuard, cast

import orjson

from abilities.declarations.memory import USUAL_LINK_TYPE
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.values import JsonObject, has_surrogate
from abilities.helpers.walk import State, WalkLink, compute_rank

TYPES = ("core", "learning", "task")
IMPORTANCES = ("low", "medium", "high")
"""In rising order. The memory index keeps an importance as its position in this tuple."""

_EMPTY_HASH = blake2b(digest_size=8)
"""Copied for each hash, because a copy takes half as long as a new object."""


class Row(NamedTuple):
    """The columns of one memory.

    ``tags`` and ``metadata`` are JSON. ``archived`` and ``scored`` are 0 or 1; ``scored`` is 0 if
    the score follows from the importance, and 1 if a caller set it. ``version`` is the number of
    the namespace's change that wrote the row, and 0 until a store has written it. The memory reads
    as archived from ``expires_at`` on; the field is empty if the memory never expires. ``about`` is
    JSON of the paths and patterns of its files.
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
    about: str = "[]"


def list_differing(before: Row, after: Row) -> list[str]:
    """Return the names of the columns in which two rows differ."""
    pairs = zip(Row._fields, before, after, strict=True)
    return [name for name, former, present in pairs if former != present]


REPLACED_BY = "replaced_by"
"""The type of the link from a memory to the one that replaced it; its term is the day, in UTC."""


class LinkRow(NamedTuple):
    """One link from the key ``source`` to the key ``target``."""

    source: str
    target: str
    type: str
    weight: float
    term: str = ""

    def to_data(self, *, incoming: bool = False) -> JsonObject:
        """Return the link for a reply, named by its target, or by its source if it is incoming.

        The default type "association" and an empty term are omitted.

        >>> LinkRow("a", "b", "association", 0.5).to_data()
        {'key': 'b', 'link_weight': 0.5}
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
"""The target and type of a link, which identify it among the links of its source."""

Links = Mapping[LinkName, LinkRow]
"""Links of one memory."""


def index_links(links: Iterable[LinkRow]) -> dict[LinkName, LinkRow]:
    """Return links of one memory by target and type."""
    return {(link.target, link.type): link for link in links}


class LinkChange(NamedTuple):
    """Links of a memory before and after a change; unchanged links may be left out of both."""

    before: Links
    after: Links


NO_LINKS = LinkChange({}, {})


class StoredMemory(NamedTuple):
    """A memory as read from a store: its row, some of its links, and its access counters.

    ``links_total`` counts all links of the memory, and ``backlinks_total`` all links to it. Of an
    archived memory, ``replaced_by`` is the key of the one that replaced it. ``since`` is the day on
    which the memory last replaced another one; only `recall` reads it. ``origin`` is its namespace
    if it is not the caller's own.
    """

    row: Row
    links: tuple[LinkRow, ...] = ()
    links_total: int = 0
    accessed_at: str = ""
    access_count: int = 0
    backlinks_total: int = 0
    replaced_by: str = ""
    since: str = ""
    origin: str = ""


class IncomingMemory(NamedTuple):
    """A memory to import as it is.

    ``provisional`` is True if its source has no id and times, so that the importer made them up.
    ``growing`` is True if it replaces a memory that was changed before it, without being asked to.
    """

    stored: StoredMemory
    provisional: bool = False
    growing: bool = False


class DamagedMemory(NamedTuple):
    """A memory that is damaged or has damaged links; ``reason`` says which."""

    namespace: str
    key: str
    reason: str
    origin: str = ""


def dump_sorted_json(value: object) -> str:
    """Return JSON with sorted keys, so that equal values give equal texts.

    Raises TypeError if JSON cannot represent the value.

    >>> dump_sorted_json({"b": 1, "a": [2]})
    '{"a":[2],"b":1}'
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def hash_values(values: Sequence[object]) -> int:
    """Return a 63-bit hash of the values of a row or link: BLAKE2b (RFC 7693) of their JSON.

    Raises TypeError if JSON cannot represent a value, such as a text with invalid UTF-8.
    """
    # orjson rejects named tuples, such as rows and links, but takes plain ones.
    serialized = orjson.dumps(tuple(values))
    hashed = _EMPTY_HASH.copy()
    hashed.update(serialized)

    # A bit less than the digest, so that the hash fits a signed 64-bit column.
    return int.from_bytes(hashed.digest()) >> 1


def hash_row(row: Row) -> int:
    """Return the hash of a memory's row. Raises TypeError as `hash_values` does."""
    if row.about != "[]":
        return hash_values(row)
    if row.expires_at:
        return hash_values(row[:-1])

    # Stores that are older than the last two columns keep hashes without them.
    return hash_values(row[:-2])


def find_damage(row: Row, stored_hash: int) -> Reason | None:
    """Return the reason for which readers refuse a row: its hash or a value is wrong; else None."""
    try:
        is_unchanged = hash_row(row) == stored_hash
    except TypeError:  # damaged text may not be valid Unicode
        is_unchanged = False

    if not is_unchanged:
        return "checksum_mismatch"
    if not is_fraction(row.score) or row.type not in TYPES or row.importance not in IMPORTANCES:
        return "invalid_stored_value"

    return None


def verify_saved(row: Row, stored_hash: int) -> None:
    """Verify a row that was read back after it was written.

    A change is acknowledged only after this check, so every acknowledged memory can be read.
    Raises Refused("invalid_stored_value") if the row is not sound, or its JSON is invalid.
    """
    parsed: list[object] = []
    if find_damage(row, stored_hash) is None:
        with suppress(ValueError):
            parsed = [orjson.loads(text) for text in (row.tags, row.about, row.metadata)]

    if not parsed or not is_tags(parsed[0]) or not is_tags(parsed[1]):
        raise Refused("invalid_stored_value")
    if not isinstance(parsed[2], dict):
        raise Refused("invalid_stored_value")


def is_tags(value: object) -> TypeGuard[list[str]]:
    """Return whether a parsed JSON value is a list of strings."""
    if not isinstance(value, list):
        return False

    return all(isinstance(tag, str) for tag in cast(list[object], value))


def is_fraction(value: object) -> bool:
    """Return whether a stored weight or score is a number from 0 to 1."""
    return isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1


class LinkRecord(NamedTuple):
    """A link as a store keeps it: with its two ranks and a hash of all other columns.

    ``rank`` orders the links of the source by the scores of their targets; it is -1 if the target
    is missing or archived. ``back_rank`` orders the links to the target by the scores of their
    sources; it is -1 if the source is archived.
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

        Raises Refused("invalid_stored_value") if the weight is not a number from 0 to 1.
        """
        if not is_fraction(link.weight):
            raise Refused("invalid_stored_value")

        rank = rank_link(link.weight, target_score)
        back_rank = rank_link(link.weight, source_score)
        values = (*link, rank, back_rank)
        return cls._make((*values, hash_values(values)))

    @property
    def row(self) -> LinkRow:
        """The link without ranks and hash."""
        return LinkRow(self.source, self.target, self.type, self.weight, self.term)

    @property
    def is_sound(self) -> bool:
        """Whether the link matches its hash and its weight is from 0 to 1."""
        return is_sound_link(self)


def is_sound_link(columns: Sequence[Any]) -> bool:
    """Return whether the columns of a `LinkRecord` match their hash, with a weight from 0 to 1."""
    try:
        return bool(hash_values(columns[:-1]) == columns[-1] and 0 <= columns[3] <= 1)
    except TypeError:  # damage can change the type of a value
        return False


def build_walk_link(columns: Sequence[Any], invalid: Container[str], incoming: bool) -> WalkLink:
    """Return a link for a walk from its source, or from its target if ``incoming``.

    A damaged link is "invalid", and so is a link to a key in ``invalid``. ``columns`` are those of
    a `LinkRecord`, which is not made because a walk sees hundreds of links.
    """
    source, key, type_, weight, _, rank, back_rank, _ = columns
    if incoming:
        key, rank = source, back_rank

    if not is_sound_link(columns) or key in invalid:
        # Damage can change types. The rank -2 is below that of absent memories.
        return WalkLink(str(key), 0.0, str(type_), -2, "invalid", incoming)

    state: State = "present"
    if rank < 0:
        state = "absent"

    return WalkLink(key, weight, type_, rank, state, incoming)


def rank_link(weight: float, score: float | None) -> int:
    """Return the rank of a link by a memory's score, or -1 if the memory has none.

    A memory that is missing or archived has no score.
    """
    if score is None:
        return -1

    return compute_rank(weight, score)


def check_values(*values: object) -> None:
    """Check that values consist of storable texts, numbers, and nothing else.

    Raises Refused: wrong_type, or invalid_format for a text with NUL or a lone surrogate.
    """
    for value in values:
        if isinstance(value, str):
            if "\0" in value or has_surrogate(value):
                raise Refused("invalid_format")
        elif isinstance(value, Mapping):
            mapping = cast(Mapping[object, object], value)
            check_values(*mapping.keys(), *mapping.values())
        elif isinstance(value, list | tuple):
            check_values(*cast(Sequence[object], value))
        elif not isinstance(value, int | float | None):
            raise Refused("wrong_type")


def check_names(*names: object) -> None:
    """Check that namespaces and keys are texts. Raises Refused as `check_values` does."""
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) < len(names):
        raise Refused("wrong_type")

    check_values("".join(texts))


class Position(NamedTuple):
    """The position of a memory in an order: its value in the sort column, and its id.

    ``place`` is that of its namespace among those that are read, if there are several.
    """

    value: str | int
    id: str
    place: int = 0


@dataclass(frozen=True, slots=True)
class Query:
    """A selection of memories, with an order and a page.

    A filter that is None matches every memory. A memory must have all ``tags``, and its searchable
    text must contain all terms of ``search``, which are case-folded; see `split_search`. It must be
    about the file with the path ``about``; the store puts the ``ids`` of these in place of it.
    ``archived`` includes archived memories. ``sort_by`` is created_at, updated_at, accessed_at,
    importance or access_count; ties are broken by id.
    The page starts after the position ``after``, and then skips ``offset`` memories.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    about: str | None = None
    ids: tuple[str, ...] | None = None
    search: tuple[str, ...] = ()
    importance: str | None = None
    category: str | None = None
    archived: bool = False
    limit: int = 10
    offset: int = 0
    after: Position | None = None
    sort_by: str = "accessed_at"
    descending: bool = True

    @property
    def filters(self) -> list[tuple[str, str | int]]:
        """The columns that must have a value, with importance as its index in `IMPORTANCES`."""
        filters: list[tuple[str, str | int]] = []

        if self.type is not None:
            filters.append(("type", self.type))
        if self.importance is not None:
            filters.append(("importance", IMPORTANCES.index(self.importance)))
        if self.category is not None:
            filters.append(("category", self.category))

        return filters

    @property
    def counter(self) -> tuple[str, str] | None:
        """The name and value of the counter of all matches, or None if there is none.

        Counters count memories by one type, importance or tag, but not by combinations of these.
        """
        if self.search or self.category is not None or self.about is not None:
            return None

        filters = self.filters
        for tag in self.tags:
            filters.append(("tag", tag))

        if not filters:
            return "all", ""
        if len(filters) > 1:
            return None

        ((name, value),) = filters
        return name, str(value)


class MemoryPage(NamedTuple):
    """A page of matching memories, and the total number of matches.

    ``positions`` has one item per memory, readable or not. ``has_more`` is True if others follow.
    """

    memories: tuple[StoredMemory | Exception, ...]
    total: int
    positions: tuple[Position, ...]
    has_more: bool


class MemoryLine(NamedTuple):
    """A memory in a list, without its content; ``size`` is the content's length in UTF-8 bytes."""

    key: str
    summary: str
    type: str
    size: int
    version: int
    updated_at: str
    archived: bool
    origin: str = ""


_TERM = re.compile(r'"([^"]*)"(?= |\Z)|([^ ]+)')


def split_search(text: str) -> tuple[str, ...]:
    """Return the terms of a search, case-folded and without duplicates.

    Terms are separated by spaces. A phrase in double quotes is one term. An unpaired quote is an
    ordinary character.

    >>> split_search('"Ada Lovelace" ADR-007 5"')
    ('ada lovelace', 'adr-007', '5"')
    """
    terms: list[str] = []
    for phrase, word in _TERM.findall(text):
        term = (phrase or word).casefold()
        if term:
            terms.append(term)

    return tuple(dict.fromkeys(terms))
