"""`memory_history`, `memory_restore` and `memory_changes`: past versions, and how to undo."""

from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.declarations.fields import (
    PAGE_SIZE,
    UNOFFERED,
    Arguments,
    IfVersion,
    Integer,
    RestoredVersion,
    UnofferedDetail,
    UnofferedFormat,
    Unsaid,
    Version,
)
from abilities.declarations.limits import (
    DEFAULT_CHANGES,
    DEFAULT_ENTRIES,
    MAX_CHANGES,
    MAX_ENTRIES,
)
from abilities.declarations.memories import WriteAnswer
from abilities.declarations.memory import Action, Id, Key, Memory, Namespace, Origin
from abilities.declarations.records import Truncation
from abilities.declarations.values import Model

HistoryKey = Annotated[
    Key | None,
    Field(description="The memory's current or former key; or send its id."),
    Unsaid("description"),
]
HistoryId = Annotated[Id | None, Field(description="The memory's id."), Unsaid("description")]


class MemoryHistoryInput(Arguments):
    """Arguments of `memory_history`."""

    key: HistoryKey = None
    id: HistoryId = None
    before: Version | None = Field(default=None, description="Only changes before this version.")
    limit: Annotated[int, Field(ge=1, le=MAX_ENTRIES), PAGE_SIZE, Integer] = Field(
        default=DEFAULT_ENTRIES, description="Most changes to return."
    )
    output_format: UnofferedFormat = None


class HistoryEntry(Model):
    """One change of a memory."""

    version: int = Field(description="The version it made.")
    at: str = Field(description="RFC 3339 UTC.")
    by: str = Field(description="Who made it: a token's label, or a surface such as mcp.")
    action: Action = Field(description="What happened to the memory.")
    changed: list[str] | None = Field(default=None, description="The fields it replaced.")
    size: int = Field(description="Bytes kept of the former values.")


class MemoryHistoryAnswer(Model):
    """Answer of `memory_history`."""

    id: str | None = Field(
        default=None, description="The memory's UUID; left out past the end of a deleted one."
    )
    key: str | None = Field(
        default=None, description="The memory's key, or the last one of a deleted memory."
    )
    origin: Origin = None
    version: int | None = Field(
        default=None, description="The memory's version now; left out if it was deleted."
    )
    deleted: bool = Field(default=False, description="True if it was deleted; default false.")
    earliest: int | None = Field(
        default=None, description="The oldest version that can be restored, if any can."
    )
    entries: list[HistoryEntry] = Field(description="The changes, newest first.")
    next_request: dict[str, Any] | None = Field(
        default=None, description="Arguments for older changes; absent if there are none."
    )


class MemoryRestoreInput(Arguments):
    """Arguments of `memory_restore`."""

    key: HistoryKey = None
    id: HistoryId = None
    version: RestoredVersion | None = Field(
        default=None,
        description="The version to restore, from the memory's history; by default the one before "
        "the last change.",
    )
    if_version: IfVersion = None
    detail: UnofferedDetail = None


class MemoryRestoreAnswer(WriteAnswer):
    """Answer of `memory_restore`."""

    id: str = Field(description="The memory's UUID.")
    memory: Memory | None = Field(
        default=None, description="The memory as it is stored now; left out if concise."
    )
    updated_fields: list[str] | None = Field(
        default=None, description="The fields whose values changed; left out if concise."
    )
    truncation: Truncation | None = Field(
        default=None, description="Present if the content was cut to fit the answer."
    )


class MemoryChangesInput(Arguments):
    """Arguments of `memory_changes`."""

    since: Annotated[Version, Unsaid("default", "description")] = Field(
        default=0, description="The version to continue from: 'next' of the last answer."
    )
    since_others: Annotated[dict[Namespace, Version] | None, Unsaid("description")] = Field(
        default=None,
        description="The same of other namespaces: 'next_others' of the last answer.",
        json_schema_extra={UNOFFERED: True},
    )
    limit: Annotated[int, Field(ge=1, le=MAX_CHANGES), PAGE_SIZE, Integer] = Field(
        default=DEFAULT_CHANGES, description="Most changes to return."
    )
    output_format: UnofferedFormat = None


class ChangeEntry(Model):
    """The last change of one memory."""

    version: int = Field(description="The version it made.")
    id: str = Field(description="The memory's UUID.")
    key: str | None = Field(
        default=None, description="The memory's current or last key; unknown if purged."
    )
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
    next_others: dict[str, int] | None = Field(
        default=None, description="The 'since_others' of the next call, if you read others."
    )
    complete: bool = Field(
        default=True,
        description="False if older changes since then were dropped: list all memories again; "
        "default true.",
    )
    next_request: dict[str, Any] | None = Field(
        default=None, description="Arguments for the next page; absent if none yet."
    )
