"""`memory_history`, `memory_restore` and `memory_changes`: past versions, and how to undo."""

from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.declarations import fields, limits
from abilities.declarations.memories import WriteAnswer
from abilities.declarations.memory import Action, Id, Key, Memory, Namespace, Origin
from abilities.declarations.records import Truncation
from abilities.declarations.values import Model, optional

HistoryKey = Annotated[
    Key | None,
    Field(description="The memory's current or former key; or send its id."),
    fields.Unsaid("description"),
]
HistoryId = Annotated[
    Id | None, Field(description="The memory's id."), fields.Unsaid("description")
]


class MemoryHistoryInput(fields.Arguments):
    """Arguments of `memory_history`."""

    key: HistoryKey = None
    id: HistoryId = None
    before: fields.Version | None = optional("Only changes before this version.")
    limit: Annotated[int, Field(ge=1, le=limits.MAX_ENTRIES), fields.Integer] = optional(
        "Most changes to return.", *fields.PAGE_SIZE, default=limits.DEFAULT_ENTRIES
    )
    output_format: fields.UnofferedFormat = None


class HistoryEntry(Model):
    """One change of a memory."""

    version: int = Field(description="The version it made.")
    at: str = Field(description="RFC 3339 UTC.")
    by: str = Field(description="Who made it: a token's label, or a surface such as mcp.")
    action: Action = Field(description="What happened to the memory.")
    changed: list[str] | None = optional("The fields it replaced.")
    size: int = Field(description="Bytes kept of the former values.")


class MemoryHistoryAnswer(Model):
    """Answer of `memory_history`."""

    id: str | None = optional("The memory's UUID; left out past the end of a deleted one.")
    key: str | None = optional("The memory's key, or the last one of a deleted memory.")
    origin: Origin = None
    version: int | None = optional("The memory's version now; left out if it was deleted.")
    deleted: bool = optional("True if it was deleted; default false.", default=False)
    earliest: int | None = optional("The oldest version that can be restored, if any can.")
    entries: list[HistoryEntry] = Field(description="The changes, newest first.")
    next_request: dict[str, Any] | None = optional(
        "Arguments for older changes; absent if there are none."
    )


class MemoryRestoreInput(fields.Arguments):
    """Arguments of `memory_restore`."""

    key: HistoryKey = None
    id: HistoryId = None
    version: fields.RestoredVersion | None = optional(
        "The version to restore, from the memory's history; by default the one before "
        "the last change."
    )
    if_version: fields.IfVersion = None
    detail: fields.UnofferedDetail = None


class MemoryRestoreAnswer(WriteAnswer):
    """Answer of `memory_restore`."""

    id: str = Field(description="The memory's UUID.")
    memory: Memory | None = optional("The memory as it is stored now; left out if concise.")
    updated_fields: list[str] | None = optional(
        "The fields whose values changed; left out if concise."
    )
    truncation: Truncation | None = optional("Present if the content was cut to fit the answer.")


class MemoryChangesInput(fields.Arguments):
    """Arguments of `memory_changes`."""

    since: fields.Version = optional(
        "The version to continue from: 'next' of the last answer.",
        "default",
        "description",
        default=0,
    )
    since_others: dict[Namespace, fields.Version] | None = optional(
        "The same of other namespaces: 'next_others' of the last answer.",
        "description",
        extra={fields.UNOFFERED: True},
    )
    limit: Annotated[int, Field(ge=1, le=limits.MAX_CHANGES), fields.Integer] = optional(
        "Most changes to return.", *fields.PAGE_SIZE, default=limits.DEFAULT_CHANGES
    )
    output_format: fields.UnofferedFormat = None


class ChangeEntry(Model):
    """The last change of one memory."""

    version: int = Field(description="The version it made.")
    id: str = Field(description="The memory's UUID.")
    key: str | None = optional("The memory's current or last key; unknown if purged.")
    origin: Origin = None
    action: Action | Literal["purged"] = Field(description="What happened to the memory.")
    at: str = Field(description="RFC 3339 UTC.")
    by: str = Field(description="Who made it: a token's label, or a surface such as mcp.")


class MemoryChangesAnswer(Model):
    """Answer of `memory_changes`."""

    changes: list[ChangeEntry] = Field(
        description="By namespace, your own first, and rising version; only the last change of "
        "each memory on this page."
    )
    next: int = Field(description="The 'since' of the next call, now or later.")
    next_others: dict[str, int] | None = optional(
        "The 'since_others' of the next call, if you read others."
    )
    complete: bool = optional(
        "False if older changes since then were dropped: list all memories again; default true.",
        default=True,
    )
    next_request: dict[str, Any] | None = optional(
        "Arguments for the next page; absent if none yet."
    )
