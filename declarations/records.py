"""The envelope every ability speaks: records, faults, truncation, and the bounded fields of a request.

A fault's ``reason`` decides everything else about it: its code, its sentence and whether asking again
can help. The table `FAULTS` is closed; nothing outside it ever reaches a caller.
"""

from typing import Any, Generic, Literal, TypeVar

from pydantic import (
    Field,
)

from abilities.declarations.faults import Fault
from abilities.declarations.model import Model

T = TypeVar("T")


class Truncation(Model):
    """What is missing from a record's content, and how to fetch it."""

    reason: Literal["max_chars", "budget"] = Field(
        description="max_chars: the item's own limit; budget: its share of the reply."
    )
    returned_chars: int = Field(description="Characters of content in this record.")
    total_chars: int | None = Field(
        default=None,
        description="Characters of the whole part asked for, where known without reading further.",
    )
    next: str | dict[str, Any] = Field(description="The path or target to send for the rest.")


class Record(Model, Generic[T]):
    """One requested item's own outcome."""

    input: str = Field(description="The item as it was asked for.")
    success: bool = Field(description="Whether data is present; otherwise error says why not.")
    data: T | None = Field(default=None, description="What was found, on success.")
    error: Fault | None = Field(default=None, description="Why not, on failure.")
    truncation: Truncation | None = Field(
        default=None, description="Present when a part of the content is missing."
    )


class Summary(Model):
    """Counts over all records of a reply."""

    requested: int = Field(description="Items asked for, duplicates counted.")
    succeeded: int = Field(description="Records with data.")
    failed: int = Field(description="Records with an error.")
    truncated: int = Field(description="Successful records whose content was cut.")
    returned_chars: int = Field(description="Characters of content in the whole reply.")


class BulkReply(Model, Generic[T]):
    """One record per requested item, in the order asked, duplicates kept."""

    results: list[Record[T]] = Field(description="One record per item, in the order asked.")
    summary: Summary = Field(description="Counts over all records.")
    next_request: dict[str, Any] | None = Field(
        default=None,
        description="Arguments that fetch all that is left, ready to send to the same tool; absent when nothing is.",
    )
