"""`memory_list`: which memories there are, without their contents."""

from typing import Annotated, Any

from pydantic import Field

from abilities.declarations.fields import (
    Arguments,
    AskedFormat,
    Boolean,
    FailureReason,
    Integer,
    Unsaid,
)
from abilities.declarations.limits import (
    DEFAULT_LISTED_MEMORIES,
    MAX_KEY_CHARS,
    MAX_LISTED_MEMORIES,
)
from abilities.declarations.memory import IsArchived, Text
from abilities.declarations.model import Model

KeyPart = Annotated[str, Field(max_length=MAX_KEY_CHARS), Text, Unsaid("maxLength", "default")]


class MemoryListInput(Arguments):
    """Arguments of `memory_list`."""

    prefix: KeyPart = Field(default="", description="Of the keys, such as 'project/'.")
    after: Annotated[KeyPart, Unsaid("description")] = Field(
        default="", description="From next_request."
    )
    limit: Annotated[
        int,
        Field(ge=1, le=MAX_LISTED_MEMORIES),
        Unsaid("minimum", "default", "description"),
        Integer,
    ] = Field(default=DEFAULT_LISTED_MEMORIES, description="Most memories to return.")
    archived: Annotated[bool, Boolean, Unsaid("description")] = Field(
        default=False, description="Archived ones too."
    )
    output_format: AskedFormat = None


class ListedMemory(Model):
    """A memory without its content."""

    key: str = Field(description="The memory's key.")
    type: str | None = Field(default=None, description="core, learning or task.")
    size: int | None = Field(default=None, description="Bytes of its content.")
    version: int | None = Field(default=None, description="Grows with every change.")
    summary: str | None = Field(default=None, description="In short.")
    archived: IsArchived = False
    reason: FailureReason = None


class MemoryListAnswer(Model):
    """Answer of `memory_list`."""

    memories: list[ListedMemory] = Field(description="By key.")
    next_request: dict[str, Any] | None = Field(
        default=None, description="Arguments for what follows; absent if nothing does."
    )
