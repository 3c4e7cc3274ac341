"""Adjust memories of other systems to our limits: nothing is lost, and every change is reported."""

import json
import math
import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple
from uuid import uuid4

import orjson

from abilities.declarations.limits import (
    MAX_CATEGORY_CHARS,
    MAX_CONTENT_CHARS,
    MAX_KEY_CHARS,
    MAX_LINK_TYPE_CHARS,
    MAX_METADATA_BYTES,
    MAX_SUMMARY_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from abilities.declarations.memory import SCORES, is_key
from abilities.declarations.values import JsonObject, has_control_character
from abilities.helpers.stores.model import (
    IncomingMemory,
    LinkRow,
    Row,
    StoredMemory,
    dump_sorted_json,
)
from abilities.helpers.transfer.foreign import ForeignLink, ForeignMemory

_HASH_MARK = 9
"""Characters that mark a shortened text: '~' and eight hexadecimal digits of a hash."""

_WORD_WINDOW = 500
"""Content is cut after a line or a word if one ends in this many characters before the limit."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class AdjustedMemories(NamedTuple):
    """The memories that one foreign memory becomes; each note is a sentence on one adjustment."""

    memories: list[IncomingMemory]
    notes: list[str]


def adjust(foreign: ForeignMemory, namespace: str, now: str) -> AdjustedMemories:
    """Adjust a memory to our limits.

    What does not fit into one memory continues in linked ones. Originals of what is shortened go
    into the metadata. Except for ids the result is always the same, so importing a file again
    changes nothing.
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

    def adjust(self) -> AdjustedMemories:
        """Make every adjustment; the metadata comes last, when all originals are in it."""
        foreign = self._foreign

        key = self._replace_invalid_key(foreign.name)
        content = self._replace_unstorable_characters(foreign.content)
        content = self._fill_empty_content(content, key)
        category = self._shorten_text("category", foreign.category, MAX_CATEGORY_CHARS)
        summary = self._shorten_text("summary", foreign.summary, MAX_SUMMARY_CHARS)
        tags = self._limit_tags(foreign.tags)
        links = self._limit_links(key, foreign.links)
        pieces = self._split_long_content(content)
        metadata = self._move_large_metadata(pieces)

        row = self._build_row(key, category, summary, tags, metadata)
        return AdjustedMemories(_chain(row, links, pieces), self._notes)

    def _replace_invalid_key(self, name: str) -> str:
        """Return the key for a name."""
        key = make_key(name)
        if key != name:
            original = self._keep_original("name", name)
            self._notes.append(f"Its name is not a valid key; metadata.{original} has it.")

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

    def _limit_links(self, key: str, links: Sequence[ForeignLink]) -> list[LinkRow]:
        """Shorten link types and correct weights.

        If two links have the same target and type, the last one counts.
        """
        limited: dict[tuple[str, str], LinkRow] = {}
        long_types: dict[str, str] = {}
        wrong_weights: dict[str, str] = {}

        for link in links:
            target = make_key(link.name)
            wanted_type = to_storable(link.type) or "association"
            link_type = shorten(wanted_type, MAX_LINK_TYPE_CHARS)
            weight = clamp_weight(link.weight)

            if link_type != wanted_type:
                long_types[link_type] = wanted_type
            if weight != link.weight:
                wrong_weights[link.name] = str(link.weight)

            limited[target, link_type] = LinkRow(key, target, link_type, weight)

        if long_types:
            original = self._keep_original("link_types", long_types)
            self._notes.append(
                f"A link's type is over {MAX_LINK_TYPE_CHARS} characters; "
                f"metadata.{original} has it."
            )
        if wrong_weights:
            original = self._keep_original("link_weights", wrong_weights)
            self._notes.append(f"A link's weight is not from 0 to 1; metadata.{original} has it.")

        return list(limited.values())

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
        score = SCORES[foreign.importance] if foreign.score is None else foreign.score

        return Row(
            namespace=self._namespace,
            key=key,
            id=str(uuid4()),
            archived=int(foreign.archived),
            score=score,
            scored=int(foreign.score is not None),
            type=foreign.type,
            importance=foreign.importance,
            category=category,
            created_at=foreign.created_at or self._now,
            updated_at=foreign.created_at or self._now,
            tags=dump_sorted_json(tags),
            summary=summary,
            metadata=metadata,
            content="",
        )


def make_key(name: str) -> str:
    """Return the key for a name: the name itself if it is a valid key, else a shortened one."""
    if is_key(name):
        return name

    # The hash is of the name itself: two names whose characters are replaced alike stay apart.
    storable = to_storable(name).replace("\ufffd", " ")
    plain = "".join(" " if has_control_character(char) else char for char in storable)
    beginning = plain[: MAX_KEY_CHARS - _HASH_MARK].strip()
    return f"{beginning}~{_hash_text(name)}"


def shorten(text: str, limit: int) -> str:
    """Shorten a text if it is too long; a hash tells it from others with the same beginning."""
    if len(text) <= limit:
        return text

    return f"{text[: limit - _HASH_MARK]}~{_hash_text(text)}"


def split_text(text: str) -> list[str]:
    """Split a text into pieces that fit a memory, and which joined are the text again."""
    pieces: list[str] = []

    while len(text) > MAX_CONTENT_CHARS:
        window = (MAX_CONTENT_CHARS - _WORD_WINDOW, MAX_CONTENT_CHARS)
        last_space = max(text.rfind("\n", *window), text.rfind(" ", *window))
        cut = MAX_CONTENT_CHARS

        if last_space > 0:
            cut = last_space + 1  # the space stays with the piece before it, so nothing is lost

        pieces.append(text[:cut])
        text = text[cut:]

    return [*pieces, text]


def clamp_weight(weight: float) -> float:
    """Return the nearest weight from 0 to 1; the default of 0.5 for one that is not finite."""
    if not math.isfinite(weight):
        return 0.5

    return min(max(weight, 0.0), 1.0)


def add_metadata(metadata: JsonObject, name: str, value: object) -> str:
    """Add a value to the metadata, and return its name there.

    If another value has the name already, it becomes ``original_NAME``, so that neither is lost.
    """
    while name in metadata and metadata[name] != value:
        name = f"original_{name}"

    metadata[name] = value
    return name


def to_storable(text: str) -> str:
    """Replace NUL and lone surrogates with U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def to_json(metadata: JsonObject) -> str:
    """Return metadata as JSON.

    What our JSON cannot carry (lone surrogates, integers of more than 64 bits) makes all of it an
    escaped text within a JSON object.
    """
    try:
        return dump_sorted_json(metadata)
    except TypeError:
        return orjson.dumps({"metadata": json.dumps(metadata, sort_keys=True)}).decode()


def _chain(first_row: Row, links: Sequence[LinkRow], pieces: Sequence[str]) -> list[IncomingMemory]:
    """Return a memory for each piece, each linked to the next; the first has all other fields."""
    memories: list[IncomingMemory] = []
    row = first_row
    row_links = list(links)

    for number, piece in enumerate(pieces, 1):
        row = row._replace(key=_make_piece_key(first_row.key, number), content=piece)
        if number < len(pieces):
            next_key = _make_piece_key(first_row.key, number + 1)
            row_links.append(LinkRow(row.key, next_key, "continues", 1.0))

        # Ids and times are ours, so those that are stored already win when it is imported again.
        stored = StoredMemory(row, tuple(row_links), len(row_links), row.created_at)
        memories.append(IncomingMemory(stored, provisional=True))

        row = row._replace(id=str(uuid4()), summary="", metadata="{}")
        row_links = []

    return memories


def _make_piece_key(key: str, number: int) -> str:
    """Return the key of a piece, for example ``notes#2`` for the second one of ``notes``."""
    if number == 1:
        return key

    suffix = f"#{number}"
    if len(key) + len(suffix) > MAX_KEY_CHARS:
        beginning = key[: MAX_KEY_CHARS - _HASH_MARK - len(suffix)].strip()
        key = f"{beginning}~{_hash_text(key)}"

    return key + suffix


def _hash_text(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
