"""The format of exports and imports: memories and their history as lines of JSON."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from abilities.declarations.limits import MAX_ACCESS_COUNT
from abilities.declarations.memory import (
    NAMESPACE,
    Action,
    Category,
    Id,
    Importance,
    Key,
    LinkTerm,
    LinkType,
    LongContent,
    Metadata,
    MetadataFields,
    Score,
    Summary,
    Tags,
    Text,
    Type,
)
from abilities.declarations.values import JsonObject, Model

FORMAT = "agent-abilities"
VERSION = 2
"""The version of the format. Version 1 had no `expires_at` and no lines of history."""

Time = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$")]
"""RFC 3339 UTC in milliseconds, for example ``2026-01-31T09:30:00.000Z``."""

Namespace = Annotated[str, Field(pattern=f"^{NAMESPACE}$")]


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
    """One line: a memory with its links. Fields that have their default are left out."""

    namespace: Namespace
    key: Key
    id: Id
    type: Type
    content: LongContent
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
    expires_at: Time | Literal[""] = ""
    access_count: Annotated[int, Field(ge=0, le=MAX_ACCESS_COUNT)] = 0
    links: list[ExportedLink] = Field(default=[])


@with_config(ConfigDict(extra="forbid"))
class PastColumns(TypedDict, total=False):
    """The former values of the columns that a change replaced; tags and metadata are JSON."""

    key: Key
    id: Id
    archived: Literal[0, 1]
    score: Score
    scored: Literal[0, 1]
    type: Type
    importance: Importance
    category: Category
    created_at: Time
    updated_at: Time
    tags: Tags
    summary: Summary
    metadata: Metadata
    content: LongContent
    expires_at: Time | Literal[""]


AbsentLink = tuple[Key, LinkType]
PastLink = tuple[Key, LinkType, Score, LinkTerm]


class Replaced(Model):
    """The values that a change replaced, in the form of `describe_before`.

    The row is null if the memory did not exist before.
    """

    row: PastColumns | None
    links: list[PastLink | AbsentLink] = Field(default=[])


class ExportedEntry(Model):
    """An entry of the history of a memory."""

    namespace: Namespace
    id: Id
    version: Annotated[int, Field(ge=1)]
    key: Key
    previous: Annotated[int, Field(ge=0)]
    action: Action
    made_at: Time
    caller: Annotated[str, Field(max_length=200), Text] = ""
    before: Replaced


class HistoryLine(Model):
    """A line with one entry of a history; the entries of a memory are consecutive."""

    history: ExportedEntry


_DEFAULTS = {
    name: field.default
    for name, field in ExportedMemory.model_fields.items()
    if not field.is_required()
}


def drop_defaults(values: JsonObject) -> JsonObject:
    """Return the fields of a memory without those that have their default."""
    return {
        name: value
        for name, value in values.items()
        if name not in _DEFAULTS or value != _DEFAULTS[name]
    }
