"""`bulk_read_memory` and `memory_get`: one memory, and what it links to."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from abilities.declarations.faults import Fault
from abilities.declarations.fields import COUNT, Arguments, Boolean, Integer
from abilities.declarations.memory import Key, Memory
from abilities.declarations.model import Model
from abilities.declarations.records import Truncation

Format = Literal["json", "toon"]
Depth = Annotated[int, Field(ge=1, le=6), Integer]
Breadth = Annotated[int, Field(ge=1, le=20), Integer]
Total = Annotated[int, Field(ge=1, le=50), Integer]


class BulkReadMemoryInput(Arguments):
    """Arguments of `bulk_read_memory`."""

    other_names: ClassVar[dict[str, str]] = {"totalLimit": "total", "total_limit": "total"}

    key: Key = Field(description="The key of the memory to begin with.")
    depth: Depth = Field(
        default=3, description="Links followed one after another, 1 to 6; default 3."
    )
    breadth: Breadth = Field(
        default=5, description="New memories taken from each memory, 1 to 20; default 5."
    )
    total: Total = Field(
        default=20, description="Memories in all, the first included, 1 to 50; default 20."
    )
    output_format: Format = Field(
        default="json", description="json, or toon, which takes fewer tokens; default json."
    )


class MemoryGetInput(Arguments):
    """Arguments of `memory_get`."""

    other_names: ClassVar[dict[str, str]] = {
        "total": "totalLimit",
        "total_limit": "totalLimit",
        "bulk_read": "bulkRead",
    }

    key: Key = Field(description="The memory's key.")
    links_offset: Annotated[int, Field(ge=0, le=COUNT), Integer] = Field(
        default=0, description="Show links after so many; default 0."
    )
    output_format: Format = Field(default="json", description="json, or toon; default json.")
    bulkRead: Annotated[bool, Boolean] = Field(  # noqa: N815 - the name that clients know
        default=False, description="Follow its links too, as bulk_read_memory does; default false."
    )
    depth: Depth = Field(
        default=3, description="With bulkRead: links followed one after another, 1 to 6."
    )
    breadth: Breadth = Field(
        default=5, description="With bulkRead: new memories taken from each memory, 1 to 20."
    )
    totalLimit: Total = Field(  # noqa: N815 - the name that clients know
        default=20, description="With bulkRead: memories in all, the first included, 1 to 50."
    )


class Entry(Model):
    """One memory's own outcome."""

    key: str = Field(description="The memory's key.")
    success: bool = Field(description="Whether data is present; otherwise error says why not.")
    data: Memory | None = Field(default=None, description="The memory.")
    error: Fault | None = Field(default=None, description="Why it could not be read.")
    truncation: Truncation | None = Field(
        default=None, description="Present when its content was cut."
    )


class EntryLink(Model):
    """The link that an entry was reached by."""

    type: str = Field(default="association", description="The kind of link; default association.")
    link_weight: float = Field(description="How strong it is.")


class Associated(Entry):
    """A memory that the walk reached."""

    depth: int = Field(description="Links from the first memory, on the shortest way.")
    parent: str = Field(description="The memory before it on that way.")
    link: EntryLink = Field(description="The link between them.")
    combinedScore: float = Field(description="link_weight times the memory's score.")  # noqa: N815 - as specified


class FrontierEntry(Model):
    """A good memory that the limits left out."""

    key: str = Field(description="Its key.")
    source: str = Field(alias="from", description="The memory that links to it.")
    combinedScore: float = Field(description="link_weight times its score.")  # noqa: N815 - as specified
    cutBy: Literal["depth", "breadth", "total"] = Field(description="The limit that cut it.")  # noqa: N815


class WalkMetadata(Model):
    """What the walk met."""

    depthReached: int = Field(description="The largest depth of an entry.")  # noqa: N815 - as specified
    totalRetrieved: int = Field(description="Memories retrieved, the first included.")  # noqa: N815
    failed: int = Field(description="Entries that could not be read.")
    duplicatesSkipped: int = Field(description="Links to memories retrieved already.")  # noqa: N815
    missingLinks: int = Field(description="Links to missing or archived memories.")  # noqa: N815
    invalidLinks: int = Field(description="Links with a weight or score that cannot be.")  # noqa: N815
    limits: dict[str, int] = Field(description="The limits applied: depth, breadth, total.")
    limitsReached: list[str] = Field(description="The limits that left something out.")  # noqa: N815
    frontier: list[FrontierEntry] = Field(
        description="The best memories that were left out, 10 at most."
    )


class BulkReadMemoryAnswer(Model):
    """Answer of `bulk_read_memory`."""

    targetMemory: Entry = Field(description="The memory asked for.")  # noqa: N815 - as specified
    associatedMemories: list[Associated] = Field(
        description="What it links to, depth first, best first."
    )  # noqa: N815
    metadata: WalkMetadata = Field(description="What the walk met, and what its limits left out.")


class MemoryGetAnswer(Model):
    """Answer of `memory_get`: one memory's entry; with bulkRead the answer of `bulk_read_memory` instead."""

    key: str | None = Field(default=None, description="The memory's key.")
    success: bool | None = Field(default=None, description="True.")
    data: Memory | None = Field(default=None, description="The memory.")
    truncation: Truncation | None = Field(
        default=None, description="Present when its content was cut."
    )
    targetMemory: Entry | None = Field(
        default=None, description="With bulkRead: the memory asked for."
    )  # noqa: N815
    associatedMemories: list[Associated] | None = Field(  # noqa: N815 - as specified
        default=None, description="With bulkRead: what it links to, depth first, best first."
    )
    metadata: WalkMetadata | None = Field(
        default=None, description="With bulkRead: what the walk met."
    )
