"""Adjust memories of other systems to our limits: nothing is lost, and every change is reported."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from abilities.declarations.limits import (
    MAX_CATEGORY_CHARS,
    MAX_METADATA_BYTES,
    MAX_METADATA_DEPTH,
    MAX_SUMMARY_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from abilities.declarations.memory import SCORES, measure_depth
from abilities.declarations.values import JsonObject
from abilities.helpers.stores.model import (
    IncomingMemory,
    LinkRow,
    Row,
    StoredMemory,
    dump_sorted_json,
)
from abilities.helpers.stores.names import make_id, make_key, to_storable
from abilities.helpers.stores.parts import CONTINUES, make_part_key, split_text
from abilities.helpers.transfer.fitting import shorten
from abilities.helpers.transfer.foreign import ForeignMemory
from abilities.helpers.transfer.links import REASONS, limit_links


class AdjustedMemories(NamedTuple):
    """The memories that one foreign memory becomes; each note is a sentence on one adjustment."""

    memories: list[IncomingMemory]
    notes: list[str]


def adjust(foreign: ForeignMemory, namespace: str, now: str) -> AdjustedMemories:
    """Adjust a memory to our limits.

    What does not fit into one memory continues in linked ones. Originals of what is shortened go
    into the metadata. The result is always the same, except for the times of a memory that has
    none, so importing a file again changes nothing.
    """
    return Adjuster(foreign, namespace, now).adjust()


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

    def adjust(self) -> AdjustedMemories:
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
        pieces = self._split_long_content(content)
        metadata = self._move_large_metadata(pieces)

        row = self._build_row(key, category, summary, tags, metadata)
        return AdjustedMemories(self._chain(row, links, pieces), self._notes)

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

    def _split_long_content(self, content: str) -> list[str]:
        """Return the pieces that the content becomes; each will be a memory."""
        pieces = split_text(content)
        if len(pieces) > 1:
            self._notes.append(f"Its content became {len(pieces)} linked memories.")

        return pieces

    def _move_large_metadata(self, pieces: list[str]) -> str:
        """Return the metadata as JSON; if it is too large, append it to the pieces instead."""
        metadata = to_json(self._metadata)
        if len(metadata.encode()) <= MAX_METADATA_BYTES:
            return metadata

        self._notes.append("Its metadata became linked memories.")
        pieces += split_text(metadata)
        return "{}"

    def _keep_original(self, name: str, value: object) -> str:
        """Put an original into the metadata, and return the name it has there."""
        return add_metadata(self._metadata, name, value)

    def _build_row(
        self, key: str, category: str, summary: str, tags: list[str], metadata: str
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
            content="",
        )

    def _chain(
        self, first_row: Row, links: Sequence[LinkRow], pieces: Sequence[str]
    ) -> list[IncomingMemory]:
        """Return a memory for each piece, each linked to the next; the first has all else."""
        memories: list[IncomingMemory] = []
        row = first_row
        row_links = list(links)
        access_count = self._foreign.access_count

        for number, piece in enumerate(pieces, 1):
            row = row._replace(content=piece)
            next_key = make_part_key(first_row.key, number + 1)
            if number < len(pieces):
                row_links.append(LinkRow(row.key, next_key, CONTINUES, 1.0))

            stored = StoredMemory(
                row,
                tuple(row_links),
                links_total=len(row_links),
                accessed_at=self._foreign.accessed_at or row.created_at,
                access_count=access_count,
            )
            # Times that are ours give way to those that are stored when it is imported again.
            memories.append(IncomingMemory(stored, provisional=self._foreign.created_at is None))

            next_id = make_id(self._namespace, next_key)
            row = row._replace(key=next_key, id=next_id, summary="", metadata="{}")
            row_links = []
            access_count = 0

        return memories


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
