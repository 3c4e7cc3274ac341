"""Records: the outcome of each requested item, and the reply that contains them."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from abilities.declarations.refusals import Fault
from abilities.declarations.values import Model, optional

T = TypeVar("T")
AnyRecord = TypeVar("AnyRecord")


class Truncation(Model):
    """The part of a record's content that is missing, and how to fetch it."""

    reason: Literal["max_chars", "budget"] = Field(
        description="max_chars: the item's own limit; budget: the room in the reply."
    )
    returned_chars: int = Field(description="Characters of content in this record.")
    total_chars: int | None = optional(
        "Characters of the whole requested part, if known without reading further."
    )
    next: str | dict[str, Any] = Field(description="The path or target to send for the rest.")


class Record(Model, Generic[T]):
    """The outcome of one requested item."""

    input: str = Field(description="The item as requested.")
    success: bool = Field(description="Whether data is present; if not, error says why.")
    data: T | None = optional("What was found, on success.")
    error: Fault | None = optional("Why it failed, on failure.")
    truncation: Truncation | None = optional("Present if a part of the content is missing.")


class Summary(Model):
    """Counts over all records of a reply."""

    requested: int = Field(description="Requested items, duplicates counted.")
    succeeded: int = Field(description="Records with data.")
    failed: int = Field(description="Records with an error.")
    truncated: int = Field(description="Successful records whose content was cut.")
    returned_chars: int = Field(description="Characters of content in the whole reply.")


class ReplyOf(Model, Generic[AnyRecord]):
    """One record per requested item, in the order requested; duplicates are kept."""

    results: list[AnyRecord] = Field(description="One record per item, in the order requested.")
    summary: Summary = Field(description="Counts over all records.")
    next_request: dict[str, Any] | None = optional(
        "Arguments that fetch the rest, ready to send to the same tool; absent if nothing is left."
    )
