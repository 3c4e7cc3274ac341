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

from abilities.declarations import limits
from abilities.declarations.memory import measure_depth
from abilities.declarations.values import JsonObject
from abilities.helpers.store.mending import HASH_MARK, hash_text, make_id, make_key, to_storable
from abilities.helpers.store.model import IncomingMemory, LinkRow, dump_sorted_json
from abilities.helpers.transfer.export_lines import UnusableLine, build_memory
from abilities.helpers.transfer.sources import ForeignMemory


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
    "link_types": f"A link's type is over {limits.MAX_LINK_TYPE_CHARS} characters; "
    "metadata.{} has it.",
    "link_terms": f"A link's term is over {limits.MAX_LINK_TERM_CHARS} characters; "
    "metadata.{} has it.",
    "link_weights": "A link's weight is not from 0 to 1; metadata.{} has it.",
    "links": "Links with the same target and type became one; metadata.{} has the others.",
}


class AdjustedMemory(NamedTuple):
    """An adjusted memory; each note is a sentence about one adjustment."""

    memory: IncomingMemory
    notes: list[str]


def adjust(foreign: ForeignMemory, namespace: str, now: str) -> AdjustedMemory:
    """Adjust a memory to our limits. Raises UnusableLine if the content is too long.

    Originals go into the metadata, and metadata that is too large goes to the end of the content.
    Only the times of a memory that has none depend on ``now``.
    """
    metadata = dict(foreign.metadata)
    notes: list[str] = []

    def shorten_text(name: str, text: str, limit: int) -> str:
        text = to_storable(text)
        if len(text) > limit:
            original = add_metadata(metadata, name, text)
            notes.append(f"Its {name} is over {limit} characters; metadata.{original} has it.")
        return shorten(text, limit)

    # In an answer, this name in the metadata is our own score.
    if "memory_score" in metadata:
        add_metadata(metadata, "original_memory_score", metadata.pop("memory_score"))

    key = make_key(foreign.name)
    if key != foreign.name:
        original = add_metadata(metadata, "name", foreign.name)
        notes.append(
            f"Its name is not a valid key: the key is {key}; "
            f"metadata.{original} and the content have the name."
        )

    content = _adjust_content(foreign, key, notes)
    category = shorten_text("category", foreign.category, limits.MAX_CATEGORY_CHARS)
    summary = shorten_text("summary", foreign.summary, limits.MAX_SUMMARY_CHARS)

    wanted = [tag for tag in dict.fromkeys(map(to_storable, foreign.tags)) if tag]
    tags = [shorten(tag, limits.MAX_TAG_CHARS) for tag in wanted[: limits.MAX_TAGS]]
    if tags != wanted:
        original = add_metadata(metadata, "tags", wanted)
        notes.append(f"Some tags are too many or too long; metadata.{original} has all.")

    links, originals = _limit_links(foreign, key)
    for name, value in originals.items():
        notes.append(_LINK_NOTES[name].format(add_metadata(metadata, name, value)))

    metadata = to_plain_json(metadata)
    text = dump_sorted_json(metadata)
    if len(text.encode()) > limits.MAX_METADATA_BYTES:
        notes.append("Its metadata is too large; the end of its content has it.")
        content = f"{content}\n\n{text}"
        metadata = {}

    if len(content) > limits.MAX_LONG_CONTENT_CHARS:
        raise UnusableLine(
            f"Its content has {len(content):,} characters; "
            f"a memory has {limits.MAX_LONG_CONTENT_CHARS:,} at most."
        )

    created_at = foreign.created_at or now
    fields: JsonObject = {
        "namespace": namespace,
        "key": key,
        "id": make_id(namespace, key),
        "type": foreign.type,
        "content": content,
        "summary": summary,
        "category": category,
        "tags": tags,
        "about": [],
        "importance": foreign.importance,
        "archived": foreign.archived,
        "memory_score": foreign.score,
        "metadata": metadata,
        "created_at": created_at,
        "updated_at": foreign.updated_at or created_at,
        "accessed_at": foreign.accessed_at or created_at,
        "expires_at": "",
        "access_count": foreign.access_count,
    }
    # If it is imported again, times from `now` must not replace the stored ones.
    is_provisional = foreign.created_at is None
    memory = IncomingMemory(build_memory(fields, links), is_provisional, foreign.growing)
    return AdjustedMemory(memory, notes)


def _adjust_content(foreign: ForeignMemory, key: str, notes: list[str]) -> str:
    """Replace characters that no store accepts, and add a name that is not a valid key."""
    name = to_storable(foreign.name)
    content = to_storable(foreign.content)
    if content != foreign.content:
        notes.append("Characters that cannot be stored were replaced.")

    if not content:
        notes.append("It had no content; its name became the content.")
        content = name or key

    if key != foreign.name and name not in content:  # a search should still find the name
        content = f"{name}\n{content}"

    return content


def _limit_links(foreign: ForeignMemory, key: str) -> tuple[list[LinkRow], JsonObject]:
    """Return links within our limits, and originals; the last of equal links counts."""
    rows: dict[tuple[str, str], LinkRow] = {}
    originals: defaultdict[str, JsonObject] = defaultdict(dict)
    replaced: list[JsonObject] = []

    for link in foreign.links:
        link_type = to_storable(link.type) or "association"
        term = to_storable(link.term)
        row = LinkRow(
            key,
            make_key(link.name),
            shorten(link_type, limits.MAX_LINK_TYPE_CHARS),
            clamp_weight(link.weight),
            shorten(term, limits.MAX_LINK_TERM_CHARS),
        )

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

    if replaced:
        return list(rows.values()), {**originals, "links": replaced}
    return list(rows.values()), dict(originals)


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


def to_plain_json(metadata: JsonObject) -> JsonObject:
    """Return metadata that our JSON can represent.

    If it has lone surrogates, integers of more than 64 bits or too many levels, all of it becomes
    an escaped text.
    """
    with suppress(TypeError):
        orjson.dumps(metadata)
        if measure_depth(metadata) <= limits.MAX_METADATA_DEPTH:
            return metadata

    return {"metadata": json.dumps(metadata, sort_keys=True)}
