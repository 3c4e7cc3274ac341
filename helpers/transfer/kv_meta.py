"""The values of one kv-memory memory: its ``meta`` object, score, times, counts and weights."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, cast

from abilities.declarations.values import JsonObject, as_object
from abilities.helpers.transfer.adjustment import add_metadata
from abilities.helpers.transfer.foreign import ForeignLink
from abilities.helpers.transfer.remarks import MEMORIES, RemarkCounter

_DERIVED_FIELDS = (
    "last_linked_at",
    "in_degree",
    "out_degree",
    "traverse_count",
    "version",
    "migrated_at",
)
"""Fields that kv-memory computes for its own use; they are counted, and not kept."""

_DEFAULT_SCORE = 0.5
"""What kv-memory ranks a memory by that has no score."""

_DEFAULT_WEIGHT = 0.5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TIME = "1970-01-01T00:00:00.000Z"
"""The creation of a memory without any time: the same one whenever it is imported."""

_MAX_INTEGER_DIGITS = 18
"""Integers up to this length fit 64 bits."""


class Times(NamedTuple):
    """When a memory was made, changed and read, as RFC 3339 UTC in milliseconds."""

    created_at: str
    updated_at: str
    accessed_at: str


class MetaReader:
    """Reads the values of one memory; each method takes some of ``meta``, the last one the rest.

    ``metadata`` collects what has no place of its own, and values that cannot be used.
    """

    def __init__(self, meta: object, remarks: RemarkCounter) -> None:
        self.metadata: JsonObject = {}
        self._remarks = remarks
        self._meta = self._parse_meta(meta)

    def _parse_meta(self, value: object) -> JsonObject:
        text = to_text(value)
        meta = as_object(_parse_json(text))
        if meta is None:
            self._keep("meta", text, "meta is not a JSON object; it became metadata.")

        return meta or {}

    def take_score(self, column_score: object) -> float:
        """Return the score as one from 0 to 1; in kv-memory it is from 0 to 100.

        kv-memory ranks by the score in ``meta``. Its column has the one that a memory began with,
        which counts only if there is no other.
        """
        score = self._meta.pop("score", None)
        if score is None:
            score = column_score

        if score is None:
            words = "Without a score, kv-memory ranks a memory by 50; that became its score."
            self._remarks.add(MEMORIES, words)
            return _DEFAULT_SCORE

        number = _to_number(score)
        if number is None or not 0 <= number <= 100:
            self._keep_unusable("score", score)
        if number is None:
            return _DEFAULT_SCORE

        return min(max(0, number), 100) / 100

    def take_times(self, column_time: object) -> Times:
        """Return the times, which kv-memory has in milliseconds since 1970.

        It writes its column ``created_at`` anew when it changes a score, but not the one in
        ``meta``: the earlier one is the creation, the later one the last change.
        """
        made = (
            self._take_time("created_at", column_time),
            self._take_time("created_at", self._meta.pop("created_at", None)),
        )
        accessed_at = self._take_time("last_accessed_at", self._meta.pop("last_accessed_at", None))

        known = [time for time in made if time is not None]
        if not known:
            known.append(accessed_at or _EPOCH_TIME)

        created_at, updated_at = min(known), max(known)
        return Times(created_at, updated_at, accessed_at or created_at)

    def take_access_count(self) -> int:
        """Return how often the memory was read."""
        value = self._meta.pop("access_count", None)
        if value is None:
            return 0

        number = _to_number(value)
        if number is None or number != int(number) or not 0 <= number <= 2**53:
            self._keep_unusable("access_count", value)
            return 0

        return int(number)

    def take_archived(self) -> bool:
        """Return whether the status says that the memory is archived or deleted."""
        status = self._meta.pop("status", None)

        if status not in (None, "active", "archived"):
            words = "A status other than active and archived became metadata."
            self._keep("status", status, words)

        return status in ("archived", "deleted")

    def take_other_fields(self, key: str) -> None:
        """Count derived fields, and put all others into the metadata."""
        if self._meta.get("id") == key:
            del self._meta["id"]

        for name in _DERIVED_FIELDS:
            if self._meta.pop(name, None) is not None:
                self._remarks.add(MEMORIES, f"meta.{name} is not kept.")

        for name, value in self._meta.items():
            add_metadata(self.metadata, name, value)

        if self._meta:
            self._remarks.add(MEMORIES, "Further fields of meta became metadata.")

    def add_column(self, name: str, value: object) -> None:
        """Put the value of a column that kv-memory does not have into the metadata."""
        if value is not None:
            self._keep(name, value, f"The column {name} became metadata.")

    def parse_links(self, value: object) -> list[ForeignLink]:
        """Return the links that a JSON column holds; those without a key go into the metadata."""
        items = _parse_json(to_text(value))
        if not isinstance(items, list):
            self._keep_unusable("links", value)
            return []

        links: list[ForeignLink] = []
        others: list[object] = []

        for item in cast(list[object], items):
            fields = as_object(item) or {}
            key = fields.get("key")
            if isinstance(key, str) and key:
                links.append(self._parse_link(key, fields))
            else:
                others.append(item)

        if others:
            self._keep("links", others, "Links that lead to no key became metadata.")

        return links

    def merge_links(
        self, links: list[ForeignLink], older_links: list[ForeignLink]
    ) -> list[ForeignLink]:
        """Return links with the terms that only older ones have; older ones alone are kept aside.

        Until version 1.2 kv-memory had the terms in its JSON links, and did not move them.
        """
        older = {(link.name, link.type): link for link in older_links}
        merged: list[ForeignLink] = []

        for link in links:
            same = older.pop((link.name, link.type), link)
            merged.append(link._replace(term=link.term or same.term))

        if older:
            others = [_format_link(link) for link in older.values()]
            self._keep("links", others, "Links in the column links alone became metadata.")

        return merged

    def convert_weight(self, value: object, target: str) -> float:
        """Return a weight, which is from 0 to 1 there too; the default if it is no number."""
        if value is None:
            return _DEFAULT_WEIGHT

        number = _to_number(value)
        if number is None:
            self._keep_unusable("link_weights", {target: _to_json_value(value)})
            return _DEFAULT_WEIGHT

        return number

    def _parse_link(self, key: str, fields: JsonObject) -> ForeignLink:
        link_type = to_text(fields.get("type"))
        weight = self.convert_weight(fields.get("weight"), key)
        term = to_text(fields.get("term"))

        return ForeignLink(key, link_type, weight, term)

    def _take_time(self, name: str, value: object) -> str | None:
        if value is None:
            return None

        time = _format_time(value)
        if time is None:
            self._keep_unusable(name, value)

        return time

    def _keep_unusable(self, name: str, value: object) -> None:
        self._keep(name, value, f"{name} cannot be used as it is; it became metadata.")

    def _keep(self, name: str, value: object, words: str) -> None:
        """Put a value into the metadata, and count that."""
        add_metadata(self.metadata, name, _to_json_value(value))
        self._remarks.add(MEMORIES, words)


def to_text(value: object) -> str:
    """Return a value of a column or of JSON as text; bytes that are not UTF-8 as surrogates."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")

    return str(value)


def _format_link(link: ForeignLink) -> JsonObject:
    """Return a link as kv-memory writes it in JSON."""
    return {"key": link.name, "type": link.type, "term": link.term, "weight": link.weight}


def _parse_json(text: str) -> object:
    """Return the value of a JSON text, or None; what our JSON cannot carry becomes text."""
    try:
        return json.loads(text, parse_constant=str, parse_int=_parse_integer)
    except (ValueError, RecursionError):
        return None


def _parse_integer(digits: str) -> int | str:
    if len(digits) > _MAX_INTEGER_DIGITS:
        return digits

    return int(digits)


def _to_json_value(value: object) -> object:
    """Return a value of a column as one that JSON can carry; one of JSON as it is."""
    if isinstance(value, bytes):
        return to_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)

    return value


def _to_number(value: object) -> int | float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None

    return value


def _format_time(value: object) -> str | None:
    """Return milliseconds since 1970 as RFC 3339 UTC, or None if they are no time."""
    number = _to_number(value)
    if number is None:
        return None

    try:
        time = _EPOCH + timedelta(milliseconds=int(number))
    except OverflowError:
        return None

    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
