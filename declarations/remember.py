"""`remember`: many writes in one call."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.declarations import fields, memory
from abilities.declarations.limits import MAX_OPERATIONS
from abilities.declarations.refusals import Fault
from abilities.declarations.refusals import Summary as Counts
from abilities.declarations.values import UNSAID, JsonObject, Model, optional

OperationName = Literal[
    "store", "update", "append", "supersede", "link", "unlink", "rename", "archive", "delete",
    "restore",
]  # fmt: skip


class Operation(fields.Arguments):
    """The fields of every operation: the memory's name, and the version that it must have."""

    key: memory.Key | None = None
    id: memory.Id | None = None
    if_version: fields.Version | None = None


class ValuesOperation(Operation):
    """The values of a memory that several operations may set."""

    summary: memory.Summary | None = None
    category: memory.Category | None = None
    tags: memory.Tags | None = None
    about: memory.About | None = None
    importance: memory.Importance | None = None
    links: memory.Links | None = None
    memory_score: memory.Score | None = None
    metadata: memory.Metadata | None = None
    expires_at: fields.Expiry | None = None


class StoreOperation(ValuesOperation):
    """Create a memory, or change the one with that key or id, as `store_memory` does."""

    op: Literal["store"]
    type: memory.Type
    content: memory.LongContent


class UpdateOperation(ValuesOperation):
    """Change some values of a memory, as `update_memory` does."""

    op: Literal["update"]
    content: memory.LongContent | None = None
    archived: fields.Flag | None = None
    remove_links: memory.LinkNames | None = None


class SupersedeOperation(ValuesOperation):
    """Store the memory that replaces another one, and archive that with a link to it."""

    op: Literal["supersede"]
    new_key: memory.Key | None = None
    type: memory.Type | None = None
    content: memory.LongContent | None = None


class AppendOperation(Operation):
    """Append to a content."""

    op: Literal["append"]
    content: memory.LongContent


class LinkOperation(Operation):
    """Add or change links."""

    op: Literal["link"]
    links: memory.Links


class UnlinkOperation(Operation):
    """Remove links."""

    op: Literal["unlink"]
    remove_links: memory.LinkNames


class RenameOperation(Operation):
    """Give a memory another key; links to it follow."""

    op: Literal["rename"]
    to: memory.Key


class ArchiveOperation(Operation):
    """Archive a memory."""

    op: Literal["archive"]


class DeleteOperation(Operation):
    """Archive or delete a memory, as `delete_memory` does."""

    op: Literal["delete"]
    permanent: fields.Flag = False


class RestoreOperation(Operation):
    """Restore a version of a memory, as `memory_restore` does."""

    op: Literal["restore"]
    version: fields.RestoredVersion | None = None


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
        "expires_at": {"type": "string", "description": fields.EXPIRY},
        "if_version": _describe("integer", fields.IF_VERSION),
    },
    "required": ["op"],
    "additionalProperties": False,
}
"""The published schema of one operation, without the bounds that its model checks."""

Operations = Annotated[
    list[Any],
    Field(min_length=1, max_length=MAX_OPERATIONS),
    fields.Array,
    fields.items_schema(OPERATION_SCHEMA, MAX_OPERATIONS),
]
"""Objects in the published schema; any element is accepted, and a wrong one fails alone."""


class RememberInput(fields.Arguments):
    """Arguments of `remember`."""

    operations: Operations = Field(
        description="The operations, in order, 200000 bytes in all.",
        json_schema_extra={UNSAID: ["description"]},
    )
    atomic: fields.Flag = optional("All or none.", default=False)
    output_format: fields.UnofferedFormat = None
    detail: fields.Detail = optional(
        "full: also what each one changed.", default="concise", extra={fields.UNOFFERED: True}
    )


IsDeleted = Annotated[bool, Field(description="Whether it is deleted; default false.")]


class Applied(Model):
    """The effect of an operation."""

    id: str = Field(description="The memory's UUID.")
    key: str | None = optional("The memory's key; left out if the operation named it.")
    version: int = Field(description="The memory's version now.")
    archived: memory.IsArchived = False
    deleted: IsDeleted = False
    created: bool = optional("True for a new memory; default false.", default=False)
    replaced: fields.ReplacedVersion = None
    similar: memory.Similar = None
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
    archived: memory.IsArchived = False
    deleted: IsDeleted = False
    created: bool | None = optional("Whether it is new.")
    replaced: fields.ReplacedVersion = None
    similar: memory.Similar = None
    reason: fields.FailureReason = None
    field: str | None = optional("The field at fault.")
    message: str | None = optional("The rule that it breaks.")
    did_you_mean: fields.Suggestion = None


class RememberAnswer(Model):
    """Answer of `remember`: one record per operation, in order."""

    results: list[OperationRecord | ConciseOperation] = Field(
        description="One record per operation, in order."
    )
    summary: Counts = Field(description="Counts over all records.")
