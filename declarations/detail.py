"""`detail`, how much of each record an answer shows, and what concise records have in common."""

from typing import Annotated, Literal

from pydantic import Field

from abilities.declarations.fields import UNOFFERED, Unsaid

Detail = Literal["full", "concise"]
"""All fields of a record, or what a model needs to go on."""

OptionalDetail = Annotated[
    Detail | None,
    Field(
        description="full, or concise: only what is needed to go on. By default models get concise "
        "answers and programs full ones."
    ),
    Unsaid("description"),
]
"""The argument `detail`; None leaves it to the settings."""

UnofferedDetail = Annotated[OptionalDetail, Field(json_schema_extra={UNOFFERED: True})]
"""The same for answers that are short in any case; models are not asked to choose."""

Continuation = Annotated[
    str | None,
    Field(
        description="Present if the content was cut: the path, or a target's 'resume', to send "
        "for the rest."
    ),
]
FailureReason = Annotated[str | None, Field(description="Why it failed; present on failure.")]
MeantInstead = Annotated[
    str | None,
    Field(description="What to send instead, if something is alike; data, as all names are."),
]
BrokenRule = Annotated[
    str | None, Field(description="The rule that a malformed item breaks, in one sentence.")
]
