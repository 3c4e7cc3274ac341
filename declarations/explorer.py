"""Inputs and answers of the internal abilities that only the explorer's page uses."""

from typing import Annotated, Any, Literal

from pydantic import Field

from abilities.declarations.faults import Fault
from abilities.declarations.fields import Arguments, Integer, Offset
from abilities.declarations.memory import Action, Id, Key, LinkData, Memory
from abilities.declarations.memory_history import ChangeEntry
from abilities.declarations.model import Model
from abilities.declarations.moments import Version

Scope = Literal["read", "write"]


class SessionInput(Arguments):
    """No arguments."""


class SessionAnswer(Model):
    """The caller's namespace and access."""

    version: str = Field(description="The version of agent-abilities that serves the page.")
    namespace: str = Field(description="The namespace whose memories and files are shown.")
    scope: Scope = Field(description="What the caller may do.")


class MemoryViewInput(Arguments):
    """The memory to show."""

    key: Key | None = Field(default=None, description="The memory's key; or send its id.")
    id: Id | None = Field(default=None, description="The memory's id.")
    links_offset: Offset = Field(default=0, description="Links to skip.")
    backlinks_offset: Offset = Field(default=0, description="Links from other memories to skip.")


class MemoryViewAnswer(Model):
    """A memory with its counters, a page of its links, and one of the links to it."""

    memory: Memory = Field(description="The memory; showing it counts no access.")
    backlinks: list[LinkData] = Field(
        description="Links from other memories, by their keys, 20 at most."
    )
    backlinks_total: int = Field(description="How many such links there are.")


class VersionInput(Arguments):
    """The version of a memory to show."""

    id: Id = Field(description="The memory's id.")
    version: Version = Field(description="A version of its history.")


class VersionAnswer(Model):
    """A memory in a version and before it, each with all its links."""

    memory: Memory | None = Field(
        default=None, description="The memory in that version; left out if this deleted it."
    )
    before: Memory | None = Field(
        default=None, description="What that version replaced; left out if there was none."
    )


class TimelineInput(Arguments):
    """Which changes to list."""

    by: str | None = Field(default=None, description="Only changes by this caller.")
    action: Action | Literal["purged"] | None = Field(
        default=None, description="Only changes of this kind."
    )
    before: Version | None = Field(default=None, description="Only changes before this version.")


class TimelineAnswer(Model):
    """Changes of all memories, newest first."""

    changes: list[ChangeEntry] = Field(description="The changes, 50 at most.")
    next_request: dict[str, Any] | None = Field(
        default=None, description="Arguments for older changes; absent if there are none."
    )


class DaysInput(Arguments):
    """The year whose daily notes to list."""

    year: Annotated[int, Field(ge=1000, le=9999), Integer] | None = Field(
        default=None, description="The year; default the current one."
    )


class Day(Model):
    """A day that has notes, or a file in their place that cannot be read."""

    date: str = Field(description="YYYY-MM-DD.")
    size_bytes: int | None = Field(default=None, description="Size in bytes.")
    error: Fault | None = Field(default=None, description="Why the file cannot be read.")


class DaysAnswer(Model):
    """The days of a year that have notes."""

    today: str = Field(description="Today in the configured time zone, YYYY-MM-DD.")
    year: int = Field(description="The year.")
    days: list[Day] = Field(description="The days, first to last.")


class HiddenFile(Model):
    """A file of the workspace that agents cannot read, because the agent directory has its path."""

    size_bytes: int = Field(description="Size in bytes.")
    modified_at: str = Field(description="Last modification, RFC 3339 UTC.")


class RootedFile(Model):
    """A path, the root that it is read from, and the workspace's file that this hides."""

    path: str = Field(description="The path as file_read_bulk takes it.")
    source: Literal["agent", "workspace"] | None = Field(
        default=None,
        description="The root it is read from; left out if the agent directory refuses the path.",
    )
    size_bytes: int | None = Field(default=None, description="Size in bytes of the file read.")
    modified_at: str | None = Field(
        default=None, description="Last modification of the file read, RFC 3339 UTC."
    )
    hides: HiddenFile | None = Field(
        default=None, description="The workspace's file of the same path, if it is hidden."
    )


class FilesAnswer(Model):
    """The files of both roots, sorted by path."""

    files: list[RootedFile] = Field(description="The files that match.")
    after: str | None = Field(
        default=None, description="What to send as 'after' for the next page; absent at the end."
    )
    skipped: int = Field(default=0, description="Folders and names that could not be listed.")
