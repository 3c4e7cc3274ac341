"""`remember`: many writes in one call."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.declarations.fields import (
    EXPIRY,
    IF_VERSION,
    UNOFFERED,
    UNSAID,
    Arguments,
    Array,
    Detail,
    Expiry,
    FailureReason,
    Flag,
    ReplacedVersion,
    RestoredVersion,
    Suggestion,
    UnofferedFormat,
    Version,
    items_schema,
    optional,
)
from abilities.declarations.limits import MAX_OPERATIONS
from abilities.declarations.memory import (
    About,
    Category,
    Id,
    Importance,
    IsArchived,
    Key,
    LinkNames,
    Links,
    LongContent,
    Metadata,
    Score,
    Similar,
    Summary,
    Tags,
    Type,
)
from abilities.declarations.records import Summary as Counts
from abilities.declarations.refusals import Fault
from abilities.declarations.values import JsonObject, Model

OperationName = Literal[
    "store",
    "update",
    "append",
    "supersede",
    "link",
    "unlink",
    "rename",
    "archive",
    "delete",
    "restore",
]


class Operation(Arguments):
    """The fields of every operation: the memory's name, and the version that it must have."""

    key: Key | None = None
    id: Id | None = None
    if_version: Version | None = None


class ValuesOperation(Operation):
    """The values of a memory that several operations may set."""

    summary: Summary | None = None
    category: Category | None = None
    tags: Tags | None = None
    about: About | None = None
    importance: Importance | None = None
    links: Links | None = None
    memory_score: Score | None = None
    metadata: Metadata | None = None
    expires_at: Expiry | None = None


class StoreOperation(ValuesOperation):
    """Create a memory, or change the one with that key or id, as `store_memory` does."""

    op: Literal["store"]
    type: Type
    content: LongContent


class UpdateOperation(ValuesOperation):
    """Change some values of a memory, as `update_memory` does."""

    op: Literal["update"]
    content: LongContent | None = None
    archived: Flag | None = None
    remove_links: LinkNames | None = None


class SupersedeOperation(ValuesOperation):
    """Store the memory that replaces another one, and archive that with a link to it."""

    op: Literal["supersede"]
    new_key: Key | None = None
    type: Type | None = None
    content: LongContent | None = None


class AppendOperation(Operation):
    """Append to a content."""

    op: Literal["append"]
    content: LongContent


class LinkOperation(Operation):
    """Add or change links."""

    op: Literal["link"]
    links: Links


class UnlinkOperation(Operation):
    """Remove links."""

    op: Literal["unlink"]
    remove_links: LinkNames


class RenameOperation(Operation):
    """Give a memory another key; links to it follow."""

    op: Literal["rename"]
    to: Key


class ArchiveOperation(Operation):
    """Archive a memory."""

    op: Literal["archive"]


class DeleteOperation(Operation):
    """Archive or delete a memory, as `delete_memory` does."""

    op: Literal["delete"]
    permanent: Flag = False


class RestoreOperation(Operation):
    """Restore a version of a memory, as `memory_restore` does."""

    op: Literal["restore"]
    version: RestoredVersion | None = None


OPERATIONS: Mapping[OperationName, type[Operation]] = {
    "store": StoreOperation,
    "update": UpdateOperation,
    "append": AppendOperation,
    "supersede": SupersedeOperation,
    "link": LinkOperation,
    "unlink": UnlinkOperation,
    "rename": RenameOperation,
    "archive": ArchiveOperation,
    "delete": DeleteOperation,
    "restore": RestoreOperation,
}


def _describe(kind: str, description: str) -> JsonObject:
    """Return the schema of a field that the ability's own description explains to models."""
    return {"type": kind, "description": description, UNSAID: ["description"]}


OPERATION_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "op": {"type": "string", "enum": list(OPERATIONS)},
        "key": _describe("string", "The memory's key; all but store need it or id."),
        "id": {"type": "string"},
        "type": {"type": "string", "enum": ["core", "learning", "task"]},
        "content": _describe("string", "store, update, append, supersede: the text."),
        "summary": {"type": "string"},
        "category": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "about": {"type": "array", "items": {"type": "string"}},
        "importance": {"type": "string", "enum": ["high", "medium", "low"]},
        "archived": _describe("boolean", "update: false revives."),
        "links": {
            **_describe("array", "store, update, link, supersede: links to add or change."),
            "items": {
                "type": "object",
                "properties": {
                    "key": {"type": "string"},
                    "link_weight": {"type": "number", "maximum": 1},
                    "type": {"type": "string"},
                    "term": {"type": "string"},
                },
            },
        },
        "remove_links": {
            **_describe("array", "update, unlink: links to remove."),
            "items": {
                "type": "object",
                "properties": {"key": {"type": "string"}, "type": {"type": "string"}},
            },
        },
        "memory_score": {"type": "number"},
        "metadata": {"type": "object"},
        "to": _describe("string", "rename: the new key."),
        "new_key": _describe("string", "supersede: the key of the memory that replaces it."),
        "permanent": _describe("boolean", "delete: delete instead of archiving."),
        "version": _describe("integer", "restore: the version to restore; left out: undo."),
        "expires_at": {"type": "string", "description": EXPIRY},
        "if_version": _describe("integer", IF_VERSION),
    },
    "required": ["op"],
    "additionalProperties": False,
}
"""The published schema of one operation, without the bounds that its model checks."""

Operations = Annotated[
    list[Any],
    Field(min_length=1, max_length=MAX_OPERATIONS),
    Array,
    items_schema(OPERATION_SCHEMA, MAX_OPERATIONS),
]
"""Objects in the published schema; any element is accepted, and a wrong one fails alone."""


class RememberInput(Arguments):
    """Arguments of `remember`."""

    operations: Operations = Field(
        description="The operations, in order, 200000 bytes in all.",
        json_schema_extra={UNSAID: ["description"]},
    )
    atomic: Flag = Field(default=False, description="All or none.")
    output_format: UnofferedFormat = None
    detail: Detail = optional(
        "full: also what each one changed.", default="concise", extra={UNOFFERED: True}
    )


IsDeleted = Annotated[bool, Field(description="Whether it is deleted; default false.")]


class Applied(Model):
    """The effect of an operation."""

    id: str = Field(description="The memory's UUID.")
    key: str | None = optional("The memory's key; left out if the operation named it.")
    version: int = Field(description="The memory's version now.")
    archived: IsArchived = False
    deleted: IsDeleted = False
    created: bool = Field(default=False, description="True for a new memory; default false.")
    replaced: ReplacedVersion = None
    similar: Similar = None
    updated_fields: list[str] | None = optional("The fields whose values changed.")
    mended: list[str] | None = optional("Fields that were damaged and now have defaults.")


class OperationRecord(Model):
    """The outcome of one operation."""

    input: int = Field(description="The operation's index, from 0.")
    success: bool = Field(description="Whether it was applied; if not, error says why.")
    data: Applied | None = optional("Its effect.")
    error: Fault | None = optional("Why it failed; nothing was changed.")


class ConciseOperation(Model):
    """The concise record of one operation."""

    input: int = Field(description="The operation's index, from 0.")
    id: str | None = optional("The memory's UUID.")
    key: str | None = optional("The memory's key.")
    version: int | None = optional("Its version now; also with the reason version_conflict.")
    archived: IsArchived = False
    deleted: IsDeleted = False
    created: bool | None = optional("Whether it is new.")
    replaced: ReplacedVersion = None
    similar: Similar = None
    reason: FailureReason = None
    field: str | None = optional("The field at fault.")
    message: str | None = optional("The rule that it breaks.")
    did_you_mean: Suggestion = None


class RememberAnswer(Model):
    """Answer of `remember`: one record per operation, in order."""

    results: list[OperationRecord | ConciseOperation] = Field(
        description="One record per operation, in order."
    )
    summary: Counts = Field(description="Counts over all records.")
