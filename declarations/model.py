"""The frozen base of every declaration."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """The base of every declaration: it cannot be changed, and it refuses unknown fields.

    Its validator is built when it is first used, because most programs use few of the models.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
    )
