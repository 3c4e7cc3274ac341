"""The frozen base of every declaration."""

from pydantic import (
    BaseModel,
    ConfigDict,
)


class Model(BaseModel):
    """The frozen base of every declaration; unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True
    )  # built when first used
