"""What the memory explorer asks beside the abilities: what people look at, and agents need not."""

from typing import Annotated, Literal

from pydantic import Field

from abilities.declarations.faults import Fault
from abilities.declarations.fields import Arguments, Integer
from abilities.declarations.limits import MAX_SAFE_INTEGER
from abilities.declarations.memory import Key, LinkData, Memory
from abilities.declarations.model import Model

Offset = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER), Integer]


class SessionInput(Arguments):
    """The session takes no arguments."""


class SessionAnswer(Model):
    """Who is looking, and what they may do."""

    version: str = Field(description="The version that serves.")
    namespace: str = Field(description="Whose memories and files these are.")
    scope: Literal["read", "write"] = Field(description="What the caller may do.")


class MemoryViewInput(Arguments):
    """A memory to look at."""

    key: Key = Field(description="The memory's key.")
    links_offset: Offset = Field(default=0, description="Show links after so many; default 0.")
    backlinks_offset: Offset = Field(
        default=0, description="Show links from others after so many; default 0."
    )


class MemoryViewAnswer(Model):
    """A memory with its counters, and some of the links from it and to it."""

    memory: Memory = Field(description="The memory; looking at it counts no access.")
    backlinks: list[LinkData] = Field(
        description="Links from other memories, by their keys, 20 at most."
    )
    backlinks_total: int = Field(description="How many there are.")


class DaysInput(Arguments):
    """A year of daily notes."""

    year: Annotated[int, Field(ge=1000, le=9999), Integer] | None = Field(
        default=None, description="The year; by default the one that today is in."
    )


class Day(Model):
    """A day that has notes, or a file in their place that cannot be read."""

    date: str = Field(description="YYYY-MM-DD.")
    size_bytes: int | None = Field(default=None, description="Size in bytes.")
    error: Fault | None = Field(default=None, description="Why the file cannot be read.")


class DaysAnswer(Model):
    """The days of a year that have notes."""

    today: str = Field(description="What 'today' means, YYYY-MM-DD.")
    year: int = Field(description="The year.")
    days: list[Day] = Field(description="The days, first to last.")


class HiddenFile(Model):
    """A file of the workspace that no agent reads, because the agent directory has something by its name."""

    size_bytes: int = Field(description="Size in bytes.")
    modified_at: str = Field(description="Last modification, RFC 3339 UTC.")


class RootedFile(Model):
    """A path, which root answers for it, and what that hides."""

    path: str = Field(description="Send it to file_read_bulk as it is.")
    source: Literal["agent", "workspace"] | None = Field(
        default=None, description="The root that answers; none where the agent directory refuses."
    )
    size_bytes: int | None = Field(default=None, description="Size in bytes of what is read.")
    modified_at: str | None = Field(
        default=None, description="Its last modification, RFC 3339 UTC."
    )
    hides: HiddenFile | None = Field(
        default=None, description="The workspace's file that is hidden."
    )


class FilesAnswer(Model):
    """The files of both roots, sorted by path."""

    files: list[RootedFile] = Field(description="The files that match.")
    after: str | None = Field(default=None, description="Where to go on; absent at the end.")
    skipped: int = Field(default=0, description="Folders and names that could not be listed.")
