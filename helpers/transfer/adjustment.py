"""Adjust memories of other systems to our limits, without loss, and report every change.

The result is always the same, so that importing a file again changes nothing. Originals of all that
is shortened or corrected go into the metadata.
"""

import json
import math
from collections import defaultdict
from contextlib import suppress
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
from abilities.helpers.transfer.sources import ForeignMemory, SourceItem


def shorten(text: str, limit: int) -> str:
    """Shorten a text to a limit; a hash distinguishes it from others with the same beginning."""
    if len(text) <= limit:
        return text

    return f"{text[: limit - HASH_MARK]}~{hash_text(text)}"


def clamp_weight(weight: float) -> float:
    """Return the nearest weight from 0 to 1, or the default of 0.5 if it is not finite."""
    if not math.isfinite(weight):
        return 0.5

    return float(min(max(0.0, weight), 1.0))  # max() returns the first zero, so never -0.0


_LINK_NOTES = {
    "link_types": f"A link's type is over {MAX_LINK_TYPE_CHARS} characters; metadata.{{}} has it.",
    "link_terms": f"A link's term is over {MAX_LINK_TERM_CHARS} characters; metadata.{{}} has it.",
    "link_weights": "A link's weight is not from 0 to 1; metadata.{} has it.",
    "links": "Links with the same target and type became one; metadata.{} has the others.",
}
"""Notes on links, by the name of their originals in the metadata."""


class AdjustedMemory(NamedTuple):
    """An adjusted memory; each note is a sentence about one adjustment."""

    memory: IncomingMemory
    notes: list[str]


def adjust(foreign: ForeignMemory, namespace: str, now: str) -> AdjustedMemory:
    """Adjust a memory to our limits. Raises UnusableLine if the content is too long.

    Originals go into the metadata, and metadata that is too large goes to the end of the content.
    Only the times of a memory that has none depend on ``now``.
    """
    return Adjuster(foreign, namespace, now).adjust()


def adjust_item(
    place: str, position: int, foreign: ForeignMemory, namespace: str, now: str
) -> SourceItem:
    """Return the item of a source for a foreign memory, see `SourceItem`."""
    try:
        memory, notes = adjust(foreign, namespace, now)
    except UnusableLine as error:
        return SourceItem(place, position, [], [], str(error))

    return SourceItem(place, position, [memory], notes)


class Adjuster:
    """Adjusts one memory: collects originals in the metadata, and a note on each adjustment."""

    def __init__(self, foreign: ForeignMemory, namespace: str, now: str) -> None:
        self._foreign = foreign
        self._namespace = namespace
        self._now = now
        self._metadata = dict(foreign.metadata)
        self._notes: list[str] = []

        # In an answer, this name in the metadata is our own score.
        if "memory_score" in self._metadata:
            value = self._metadata.pop("memory_score")
            add_metadata(self._metadata, "original_memory_score", value)

    def adjust(self) -> AdjustedMemory:
        """Make every adjustment; the metadata comes last, when it has all originals."""
        foreign = self._foreign

        key = make_key(foreign.name)
        if key != foreign.name:
            original = add_metadata(self._metadata, "name", foreign.name)
            self._notes.append(
                f"Its name is not a valid key: the key is {key}; "
                f"metadata.{original} and the content have the name."
            )

        content = self._adjust_content(key)
        category = self._shorten_text("category", foreign.category, MAX_CATEGORY_CHARS)
        summary = self._shorten_text("summary", foreign.summary, MAX_SUMMARY_CHARS)

        unique_tags = dict.fromkeys(map(to_storable, foreign.tags))
        wanted = [tag for tag in unique_tags if tag]
        tags = [shorten(tag, MAX_TAG_CHARS) for tag in wanted[:MAX_TAGS]]
        if tags != wanted:
            original = add_metadata(self._metadata, "tags", wanted)
            self._notes.append(f"Some tags are too many or too long; metadata.{original} has all.")

        links = self._limit_links(key)

        metadata = to_json(self._metadata)
        if len(metadata.encode()) > MAX_METADATA_BYTES:
            self._notes.append("Its metadata is too large; the end of its content has it.")
            content = f"{content}\n\n{metadata}"
            metadata = "{}"

        if len(content) > MAX_LONG_CONTENT_CHARS:
            raise UnusableLine(
                f"Its content has {len(content):,} characters; "
                f"a memory has {MAX_LONG_CONTENT_CHARS:,} at most."
            )

        memory = self._build_memory(key, content, category, summary, tags, metadata, links)
        return AdjustedMemory(memory, self._notes)

    def _adjust_content(self, key: str) -> str:
        """Replace characters that no store accepts, and add a name that is not a valid key."""
        foreign = self._foreign
        name = to_storable(foreign.name)
        content = to_storable(foreign.content)
        if content != foreign.content:
            self._notes.append("Characters that cannot be stored were replaced.")

        if not content:
            self._notes.append("It had no content; its name became the content.")
            content = name or key

        if key != foreign.name and name not in content:  # a search should still find the name
            content = f"{name}\n{content}"

        return content

    def _shorten_text(self, name: str, text: str, limit: int) -> str:
        """Shorten a field to a number of characters."""
        text = to_storable(text)
        if len(text) <= limit:
            return text

        original = add_metadata(self._metadata, name, text)
        self._notes.append(f"Its {name} is over {limit} characters; metadata.{original} has it.")
        return shorten(text, limit)

    def _limit_links(self, key: str) -> list[LinkRow]:
        """Shorten types and terms, and correct weights.

        If links have the same target and type, the last one counts.
        """
        rows: dict[tuple[str, str], LinkRow] = {}
        originals: defaultdict[str, JsonObject] = defaultdict(dict)
        replaced: list[JsonObject] = []

        for link in self._foreign.links:
            target = make_key(link.name)
            link_type = to_storable(link.type) or "association"
            short_type = shorten(link_type, MAX_LINK_TYPE_CHARS)
            term = to_storable(link.term)
            short_term = shorten(term, MAX_LINK_TERM_CHARS)
            row = LinkRow(key, target, short_type, clamp_weight(link.weight), short_term)

            if row.type != link_type:
                originals["link_types"][row.type] = link_type
            if row.term != term:
                originals["link_terms"][row.term] = term
            if row.weight != link.weight:
                originals["link_weights"][link.name] = str(link.weight)

            existing = rows.get((row.target, row.type), row)
            if existing != row:
                replaced.append(existing.to_data())
            rows[row.target, row.type] = row

        changed: JsonObject = dict(originals)
        if replaced:
            changed["links"] = replaced

        for name, value in changed.items():
            original = add_metadata(self._metadata, name, value)
            self._notes.append(_LINK_NOTES[name].format(original))

        return list(rows.values())

    def _build_memory(
        self,
        key: str,
        content: str,
        category: str,
        summary: str,
        tags: list[str],
        metadata: str,
        links: list[LinkRow],
    ) -> IncomingMemory:
        foreign = self._foreign
        score = SCORES[foreign.importance]
        if foreign.score is not None:
            score = foreign.score

        created_at = foreign.created_at or self._now
        row = Row(
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
        stored = StoredMemory(
            row,
            tuple(links),
            links_total=len(links),
            accessed_at=foreign.accessed_at or created_at,
            access_count=foreign.access_count,
        )
        # If it is imported again, times from `now` must not replace the stored ones.
        return IncomingMemory(
            stored, provisional=foreign.created_at is None, growing=foreign.growing
        )


def add_metadata(metadata: JsonObject, name: str, value: object) -> str:
    """Add a value to the metadata, and return its name there.

    If the name already has another value, it becomes ``original_NAME``, so that neither is lost.

    >>> metadata = {"tags": 1}
    >>> add_metadata(metadata, "tags", 2)
    'original_tags'
    """
    while name in metadata and metadata[name] != value:
        name = f"original_{name}"

    metadata[name] = value
    return name


def to_json(metadata: JsonObject) -> str:
    """Return metadata as JSON.

    If our JSON cannot represent it (lone surrogates, integers of more than 64 bits, too many
    levels), all of it becomes an escaped text within a JSON object.
    """
    text: str | None = None
    with suppress(TypeError):
        text = dump_sorted_json(metadata)

    if text is None or measure_depth(metadata) > MAX_METADATA_DEPTH:
        return orjson.dumps({"metadata": json.dumps(metadata, sort_keys=True)}).decode()

    return text
