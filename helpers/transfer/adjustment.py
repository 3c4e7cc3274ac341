"""Adjust memories of other systems to our limits: nothing is lost, and every change is reported.

Texts and weights of other systems, made to fit our limits; always in the same way.

Links of other systems, adjusted to our limits.
"""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from abilities.declarations.limits import (
    MAX_CATEGORY_CHARS,
    MAX_LINK_TERM_CHARS,
    MAX_LINK_TYPE_CHARS,
    MAX_LONG_CONTENT_CHARS,
    MAX_METADATA_BYTES,
    MAX_METADATA_DEPTH,
    MAX_SUMMARY_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from abilities.declarations.memory import SCORES, measure_depth
from abilities.declarations.values import JsonObject
from abilities.helpers.store.model import (
    IncomingMemory,
    LinkRow,
    Row,
    StoredMemory,
    dump_sorted_json,
)
from abilities.helpers.store.names import HASH_MARK, hash_text, make_id, make_key, to_storable
from abilities.helpers.transfer.export_lines import UnusableLine
from abilities.helpers.transfer.sources import ForeignLink, ForeignMemory, SourceItem


def shorten(text: str, limit: int) -> str:
    """Shorten a text if it is too long; a hash tells it from others with the same beginning."""
    if len(text) <= limit:
        return text

    return f"{text[: limit - HASH_MARK]}~{hash_text(text)}"


def clamp_weight(weight: float) -> float:
    """Return the nearest weight from 0 to 1; the default of 0.5 for one that is not finite."""
    if not math.isfinite(weight):
        return 0.5

    return float(min(max(0.0, weight), 1.0))  # of two zeros the first stays, which is not -0.0


REASONS = {
    "link_types": f"A link's type is over {MAX_LINK_TYPE_CHARS} characters; metadata.{{}} has it.",
    "link_terms": f"A link's term is over {MAX_LINK_TERM_CHARS} characters; metadata.{{}} has it.",
    "link_weights": "A link's weight is not from 0 to 1; metadata.{} has it.",
    "links": "Links with the same target and type became one; metadata.{} has the others.",
}
"""Why the metadata holds originals of links, by the name that they have there."""


class LimitedLinks(NamedTuple):
    """Links as they can be stored, and the originals of what was changed, by name of `REASONS`."""

    rows: list[LinkRow]
    originals: JsonObject


def limit_links(key: str, links: Sequence[ForeignLink]) -> LimitedLinks:
    """Shorten types and terms, and correct weights.

    If links have the same target and type, the last one counts.
    """
    rows: dict[tuple[str, str], LinkRow] = {}
    originals: defaultdict[str, JsonObject] = defaultdict(dict)
    replaced: list[JsonObject] = []

    for link in links:
        row = _limit_link(key, link, originals)
        existing = rows.get((row.target, row.type), row)
        if existing != row:
            replaced.append(existing.to_data())

        rows[row.target, row.type] = row

    changed: JsonObject = dict(originals)
    if replaced:
        changed["links"] = replaced

    return LimitedLinks(list(rows.values()), changed)


def _limit_link(key: str, link: ForeignLink, originals: defaultdict[str, JsonObject]) -> LinkRow:
    link_type = to_storable(link.type) or "association"
    term = to_storable(link.term)

    row = LinkRow(
        key,
        make_key(link.name),
        shorten(link_type, MAX_LINK_TYPE_CHARS),
        clamp_weight(link.weight),
        shorten(term, MAX_LINK_TERM_CHARS),
    )

    if row.type != link_type:
        originals["link_types"][row.type] = link_type
    if row.term != term:
        originals["link_terms"][row.term] = term
    if row.weight != link.weight:
        originals["link_weights"][link.name] = str(link.weight)

    return row


class AdjustedMemory(NamedTuple):
    """The memory that a foreign one becomes; each note is a sentence on one adjustment."""

    memory: IncomingMemory
    notes: list[str]


def adjust(foreign: ForeignMemory, namespace: str, now: str) -> AdjustedMemory:
    """Adjust a memory to our limits.

    Originals of what is shortened go into the metadata, and metadata that is too large to the end
    of the content. The result is always the same, except for the times of a memory that has none,
    so importing a file again changes nothing. Raises UnusableLine if the content is too long.
    """
    return Adjuster(foreign, namespace, now).adjust()


def adjust_item(
    place: str, position: int, foreign: ForeignMemory, namespace: str, now: str
) -> SourceItem:
    """Return the item of a source that a foreign memory is, see `SourceItem`."""
    try:
        memory, notes = adjust(foreign, namespace, now)
    except UnusableLine as error:
        return SourceItem(place, position, [], [], str(error))

    return SourceItem(place, position, [memory], notes)


class Adjuster:
    """Adjusts one memory: each method makes one adjustment, and keeps what it changes."""

    def __init__(self, foreign: ForeignMemory, namespace: str, now: str) -> None:
        self._foreign = foreign
        self._namespace = namespace
        self._now = now
        self._metadata = dict(foreign.metadata)
        self._notes: list[str] = []

        # Shown metadata has our own score under this name.
        if "memory_score" in self._metadata:
            value = self._metadata.pop("memory_score")
            add_metadata(self._metadata, "original_memory_score", value)

    def adjust(self) -> AdjustedMemory:
        """Make every adjustment; the metadata comes last, when all originals are in it."""
        foreign = self._foreign

        key = self._replace_invalid_key(foreign.name)
        content = self._replace_unstorable_characters(foreign.content)
        content = self._fill_empty_content(content, key)
        content = self._add_invalid_name(content, key)
        category = self._shorten_text("category", foreign.category, MAX_CATEGORY_CHARS)
        summary = self._shorten_text("summary", foreign.summary, MAX_SUMMARY_CHARS)
        tags = self._limit_tags(foreign.tags)
        links = self._limit_links(key)
        content, metadata = self._move_large_metadata(content)
        if len(content) > MAX_LONG_CONTENT_CHARS:
            raise UnusableLine(
                f"Its content has {len(content):,} characters; "
                f"a memory has {MAX_LONG_CONTENT_CHARS:,} at most."
            )

        row = self._build_row(key, content, category, summary, tags, metadata)
        return AdjustedMemory(self._build_memory(row, links), self._notes)

    def _replace_invalid_key(self, name: str) -> str:
        """Return the key for a name."""
        key = make_key(name)
        if key != name:
            original = self._keep_original("name", name)
            self._notes.append(
                f"Its name is not a valid key: the key is {key}; "
                f"metadata.{original} and the content have the name."
            )

        return key

    def _replace_unstorable_characters(self, content: str) -> str:
        """Replace NUL and lone surrogates, which no store can hold."""
        storable = to_storable(content)
        if storable != content:
            self._notes.append("Characters that cannot be stored were replaced.")

        return storable

    def _fill_empty_content(self, content: str, key: str) -> str:
        """Put the name in the place of content that is empty."""
        if content:
            return content

        self._notes.append("It had no content; its name became the content.")
        return to_storable(self._foreign.name) or key

    def _add_invalid_name(self, content: str, key: str) -> str:
        """Put a name that is not a valid key above the content, where a search finds it."""
        name = to_storable(self._foreign.name)
        if key == self._foreign.name or name in content:
            return content

        return f"{name}\n{content}"

    def _shorten_text(self, name: str, text: str, limit: int) -> str:
        """Shorten a field to a number of characters."""
        text = to_storable(text)
        if len(text) <= limit:
            return text

        original = self._keep_original(name, text)
        self._notes.append(f"Its {name} is over {limit} characters; metadata.{original} has it.")
        return shorten(text, limit)

    def _limit_tags(self, tags: Sequence[str]) -> list[str]:
        """Keep the first tags, each of them short enough."""
        unique = dict.fromkeys(map(to_storable, tags))
        wanted = [tag for tag in unique if tag]
        limited = [shorten(tag, MAX_TAG_CHARS) for tag in wanted[:MAX_TAGS]]

        if limited != wanted:
            original = self._keep_original("tags", wanted)
            self._notes.append(f"Some tags are too many or too long; metadata.{original} has all.")

        return limited

    def _limit_links(self, key: str) -> list[LinkRow]:
        """Limit the links, and keep what that changes."""
        limited = limit_links(key, self._foreign.links)

        for name, value in limited.originals.items():
            original = self._keep_original(name, value)
            self._notes.append(REASONS[name].format(original))

        return limited.rows

    def _move_large_metadata(self, content: str) -> tuple[str, str]:
        """Return the content, and the metadata as JSON; if that is too large, in the content."""
        metadata = to_json(self._metadata)
        if len(metadata.encode()) <= MAX_METADATA_BYTES:
            return content, metadata

        self._notes.append("Its metadata is too large; the end of its content has it.")
        return f"{content}\n\n{metadata}", "{}"

    def _keep_original(self, name: str, value: object) -> str:
        """Put an original into the metadata, and return the name it has there."""
        return add_metadata(self._metadata, name, value)

    def _build_row(
        self,
        key: str,
        content: str,
        category: str,
        summary: str,
        tags: list[str],
        metadata: str,
    ) -> Row:
        foreign = self._foreign
        score = SCORES[foreign.importance]
        if foreign.score is not None:
            score = foreign.score

        created_at = foreign.created_at or self._now

        return Row(
            namespace=self._namespace,
            key=key,
            id=make_id(self._namespace, key),
            archived=int(foreign.archived),
            score=score,
            scored=int(foreign.score is not None),
            type=foreign.type,
            importance=foreign.importance,
            category=category,
            created_at=created_at,
            updated_at=foreign.updated_at or created_at,
            tags=dump_sorted_json(tags),
            summary=summary,
            metadata=metadata,
            content=content,
        )

    def _build_memory(self, row: Row, links: Sequence[LinkRow]) -> IncomingMemory:
        stored = StoredMemory(
            row,
            tuple(links),
            links_total=len(links),
            accessed_at=self._foreign.accessed_at or row.created_at,
            access_count=self._foreign.access_count,
        )
        # Times that are ours give way to those that are stored when it is imported again.
        return IncomingMemory(stored, provisional=self._foreign.created_at is None)


def add_metadata(metadata: JsonObject, name: str, value: object) -> str:
    """Add a value to the metadata, and return its name there.

    If another value has the name already, it becomes ``original_NAME``, so that neither is lost.
    """
    while name in metadata and metadata[name] != value:
        name = f"original_{name}"

    metadata[name] = value
    return name


def to_json(metadata: JsonObject) -> str:
    """Return metadata as JSON.

    What ours cannot be (lone surrogates, integers of more than 64 bits, too many levels) makes all
    of it an escaped text within a JSON object.
    """
    try:
        text = dump_sorted_json(metadata)
    except TypeError:
        return _escape_json(metadata)

    if measure_depth(metadata) > MAX_METADATA_DEPTH:
        return _escape_json(metadata)

    return text


def _escape_json(metadata: JsonObject) -> str:
    return orjson.dumps({"metadata": json.dumps(metadata, sort_keys=True)}).decode()
