"""The door: arguments as clients send them become a validated model, or a fault that names the field."""

import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from abilities.declarations.base import Refused

_TOLD_APART = {"out_of_range", "wrong_type", "invalid_key", "invalid_id"}
"""Reasons that a declaration's own validators name; every other error is an invalid_parameter."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], arguments: object) -> M:
    """The arguments as their model.

    Raises Refused: invalid_parameter, out_of_range, wrong_type, invalid_key or invalid_id, with the argument's
    name as its field.
    """
    try:
        return model.model_validate({} if arguments is None else arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    reason = first["type"] if first["type"] in _TOLD_APART else "invalid_parameter"
    name = str(first["loc"][0]) if first["loc"] else ""
    raise Refused(reason, name if _PLAIN_NAME.fullmatch(name) else None)
