"""A memory as a line of JSON: what `abilities export` writes and `abilities import` reads."""

from typing import Annotated, Literal

from pydantic import Field

from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.declarations.memory import (
    NAMESPACE,
    Category,
    Content,
    Id,
    Importance,
    Key,
    LinkTerm,
    LinkType,
    Metadata,
    MetadataFields,
    Score,
    Summary,
    Tags,
    Type,
)
from abilities.declarations.model import Model
from abilities.declarations.values import JsonObject

FORMAT = "agent-abilities"
VERSION = 1

Time = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$")]
"""RFC 3339 UTC in milliseconds, for example ``2026-01-31T09:30:00.000Z``."""


class Heading(Model):
    """The first line of an export."""

    format: Literal["agent-abilities"]
    version: Annotated[int, Field(ge=1)]


class ExportedLink(Model):
    """A link of an exported memory."""

    key: Key
    link_weight: Score
    type: LinkType = "association"
    term: LinkTerm = ""


class ExportedMemory(Model):
    """One line: a memory with all that belongs to it. Fields at their default are left out."""

    namespace: Annotated[str, Field(pattern=f"^{NAMESPACE}$")]
    key: Key
    id: Id
    type: Type
    content: Content
    summary: Summary = ""
    category: Category = ""
    tags: Tags = Field(default=[])
    importance: Importance
    archived: bool = False
    memory_score: Score | None = None
    metadata: Metadata = Field(default=MetadataFields())
    created_at: Time
    updated_at: Time
    accessed_at: Time
    access_count: Annotated[int, Field(ge=0, le=MAX_ACCESS_COUNT)] = 0
    links: list[ExportedLink] = Field(default=[])


_DEFAULTS = {
    name: field.default
    for name, field in ExportedMemory.model_fields.items()
    if not field.is_required()
}
_MISSING = object()


def drop_defaults(values: JsonObject) -> JsonObject:
    """Return the fields of a memory that its line needs: those that are not at their default."""
    return {name: value for name, value in values.items() if value != _DEFAULTS.get(name, _MISSING)}
