"""The door: arguments as clients send them become a validated model, or a fault that names the field."""

import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from abilities.declarations.base import Refused

_RANGES = {"greater_than_equal", "less_than_equal", "greater_than", "less_than", "out_of_range"}
_TYPES = {"int_type", "bool_type", "float_type", "finite_number", "wrong_type"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], arguments: object) -> M:
    """The arguments as their model.

    Raises Refused: out_of_range, wrong_type or invalid_parameter, with the argument's name as its field.
    """
    try:
        return model.model_validate({} if arguments is None else arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    kind = first["type"]
    reason = "out_of_range" if kind in _RANGES else "wrong_type" if kind in _TYPES else "invalid_parameter"
    name = str(first["loc"][0]) if first["loc"] else ""
    raise Refused(reason, name if _PLAIN_NAME.fullmatch(name) else None)
