"""Write a stored memory as a line of JSON, and read it back without loss."""

from typing import Any

import orjson
from pydantic import ValidationError

from abilities.declarations.faults import AbilitiesError
from abilities.declarations.memory import SCORES
from abilities.declarations.reasons import FAULTS
from abilities.declarations.transfer import FORMAT, VERSION, ExportedMemory, Heading, drop_defaults
from abilities.declarations.values import JsonObject, parse_json
from abilities.helpers.store.model import LinkRow, Row, StoredMemory, dump_sorted_json
from abilities.helpers.store.names import make_id

HEADING = orjson.dumps({"format": FORMAT, "version": VERSION}) + b"\n"


_RULES = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "model_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must match {pattern}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "must be at most {max_length} characters long",
    "too_long": "must have at most {max_length} items",
}
"""The rules that lines break, by the types of pydantic's errors."""


class UnusableLine(AbilitiesError):
    """A line or a file that holds no memory; its text is a sentence for the person importing it."""


def parse_heading(line: bytes) -> Heading | None:
    """Return the heading if the line is one, else None."""
    try:
        return Heading.model_validate(parse_json(line))
    except ValueError:
        return None


def format_line(stored: StoredMemory) -> bytes:
    """Return a memory as a line with its newline; the same memory always gives the same bytes."""
    row = stored.row
    values = {
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
        "expires_at": row.expires_at,
        "access_count": stored.access_count,
        # Stores return links best first, which depends on other memories: their order must not.
        "links": [link.to_data() for link in sorted(stored.links)],
    }

    return orjson.dumps(drop_defaults(values)) + b"\n"


def complete_fields(given: JsonObject, namespace: str, now: str) -> JsonObject:
    """Return the fields of a memory that has no id, with the others that such a line may lack.

    The id follows from the namespace and the key, so that the same line gives the same memory.
    """
    fields: JsonObject = {"namespace": namespace, "type": "core", "importance": "medium", **given}
    fields["id"] = make_id(str(fields["namespace"]), str(fields.get("key")))
    fields.setdefault("created_at", now)
    fields.setdefault("updated_at", fields["created_at"])
    fields.setdefault("accessed_at", fields["created_at"])
    return fields


def parse_line(line: bytes) -> StoredMemory:
    """Return the memory on a line. Raises UnusableLine."""
    return parse_fields(parse_line_json(line))


def parse_fields(value: object) -> StoredMemory:
    """Return the memory that the JSON of a line describes. Raises UnusableLine."""
    memory = _validate(value)

    # As in a change, the score may also come in the metadata.
    metadata: JsonObject = {**memory.metadata}
    metadata_score = metadata.pop("memory_score", None)
    given_score = memory.memory_score
    if given_score is None:
        given_score = metadata_score

    score = given_score
    if score is None:
        score = SCORES[memory.importance]

    row = Row(
        namespace=memory.namespace,
        key=memory.key,
        id=memory.id,
        archived=int(memory.archived),
        score=score,
        scored=int(given_score is not None),
        type=memory.type,
        importance=memory.importance,
        category=memory.category,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        tags=dump_sorted_json(list(dict.fromkeys(memory.tags))),
        summary=memory.summary,
        metadata=dump_sorted_json(metadata),
        content=memory.content,
        expires_at=memory.expires_at,
    )

    # Target and type identify a link; if a line has one twice, the last one counts.
    links: dict[tuple[str, str], LinkRow] = {}
    for link in memory.links:
        links[link.key, link.type] = LinkRow(
            row.key, link.key, link.type, link.link_weight, link.term
        )

    return StoredMemory(
        row,
        tuple(links.values()),
        links_total=len(links),
        accessed_at=memory.accessed_at,
        access_count=memory.access_count,
    )


def parse_line_json(line: bytes) -> Any:
    """Return the JSON value on a line. Raises UnusableLine."""
    try:
        return parse_json(line)
    except ValueError as error:
        raise UnusableLine(f"The line is not valid JSON: {error}.") from None


def _validate(value: object) -> ExportedMemory:
    try:
        return ExportedMemory.model_validate(value)
    except ValidationError as error:
        raise describe_mistake(error, "a memory") from None


def describe_mistake(error: ValidationError, kind: str) -> UnusableLine:
    """Return what is wrong first with a line that should hold something of a kind."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    context = first.get("ctx", {})

    if first["type"] == "refused":
        rule = f"is wrong: {FAULTS[context['reason']].message.rstrip('.')}"
    else:
        rule = _RULES.get(first["type"], "has a value that is not allowed").format(**context)

    if not field:
        return UnusableLine(f"The line is not {kind}: it {rule}.")
    return UnusableLine(f"The field {field} {rule}.")
