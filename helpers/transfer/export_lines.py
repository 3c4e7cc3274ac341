"""A stored memory as a line of JSON and back, without loss."""

from typing import Any

import orjson
from pydantic import ValidationError

from abilities.declarations.faults import AbilitiesError
from abilities.declarations.memory import SCORES
from abilities.declarations.transfer import FORMAT, VERSION, ExportedMemory, Heading, drop_defaults
from abilities.declarations.values import parse_json
from abilities.helpers.stores.model import LinkRow, Row, StoredMemory, sorted_json

HEADING = orjson.dumps({"format": FORMAT, "version": VERSION}) + b"\n"


class UnusableLine(AbilitiesError):
    """A line that is no memory; its text says why, in words for whoever runs the import."""


def parse_heading(line: bytes) -> Heading | None:
    """The heading that a line is, or None."""
    try:
        return Heading.model_validate(parse_json(line))
    except ValueError:
        return None


def format_line(stored: StoredMemory) -> bytes:
    """A memory as a line; the same memory always gives the same bytes."""
    row = stored.row
    values: dict[str, Any] = {
        "namespace": row.namespace,
        "key": row.key,
        "id": row.id,
        "type": row.type,
        "content": row.content,
        "summary": row.summary,
        "category": row.category,
        "tags": orjson.loads(row.tags),
        "importance": row.importance,
        "archived": bool(row.archived),
        "memory_score": row.score if row.scored else None,
        "metadata": orjson.loads(row.metadata),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "accessed_at": stored.accessed_at,
        "access_count": stored.access_count,
        "links": [link.to_data() for link in sorted(stored.links)],
    }
    return orjson.dumps(drop_defaults(values)) + b"\n"


def parse_line(line: bytes) -> StoredMemory:
    """The memory that a line says. Raises Unusable."""
    try:
        told = ExportedMemory.model_validate(parse_json(line))
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UnusableLine(
            f"{'.'.join(map(str, wrong['loc'])) or 'the line'}: {wrong['msg']}"
        ) from None
    except ValueError as error:
        raise UnusableLine(f"not JSON: {error}") from None
    row = Row(
        namespace=told.namespace,
        key=told.key,
        id=told.id,
        archived=int(told.archived),
        score=SCORES[told.importance] if told.memory_score is None else told.memory_score,
        scored=int(told.memory_score is not None),
        type=told.type,
        importance=told.importance,
        category=told.category,
        created_at=told.created_at,
        updated_at=told.updated_at,
        tags=sorted_json(told.tags),
        summary=told.summary,
        metadata=sorted_json(told.metadata),
        content=told.content,
    )
    links = {
        (link.key, link.type): LinkRow(row.key, link.key, link.type, link.link_weight)
        for link in told.links
    }
    return StoredMemory(row, tuple(links.values()), len(links), told.accessed_at, told.access_count)
