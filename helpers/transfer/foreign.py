"""Memories as other systems have them, before they are adjusted to our limits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from abilities.declarations.memory import Importance, Type
from abilities.declarations.values import JsonObject


class ForeignLink(NamedTuple):
    """A link as another system has it; ``weight`` may be any number, also NaN or infinite."""

    name: str
    type: str
    weight: float
    term: str = ""


@dataclass(frozen=True)
class ForeignMemory:
    """A memory as another system has it, with texts and values of any size.

    Times are RFC 3339 UTC in milliseconds. Without ``created_at`` it is a memory of a system that
    keeps neither times nor counters.
    """

    name: str
    content: str
    type: Type = "core"
    importance: Importance = "medium"
    score: float | None = None
    category: str = ""
    summary: str = ""
    tags: Sequence[str] = ()
    links: Sequence[ForeignLink] = ()
    metadata: JsonObject = field(default_factory=JsonObject)
    archived: bool = False
    created_at: str | None = None
    updated_at: str | None = None
    accessed_at: str | None = None
    access_count: int = 0
