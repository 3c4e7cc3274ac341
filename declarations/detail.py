"""How much of each record an answer shows: an argument of many abilities, and a setting."""

from typing import Annotated, Literal

from pydantic import Field

Detail = Literal["full", "concise"]
"""All fields of a record, or what a model needs to go on."""

OptionalDetail = Annotated[
    Detail | None,
    Field(
        description="full, or concise: only the fields needed to go on, in fewer tokens; "
        "default full, unless the settings say concise."
    ),
]
"""The argument `detail`; None leaves it to the settings."""
