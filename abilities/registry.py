"""The registry: which abilities there are, in a fixed order, and the one way to call them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from abilities.declarations.faults import Fault, Reason, Refused
from abilities.definition import Ability, Context
from abilities.errors import AbilityError
from abilities.helpers.reply.render import json_bytes


class AbilityAnswer(NamedTuple):
    """An answer as a JSON-able dict, and as JSON."""

    payload: dict[str, Any]
    json: str


class AbilityRegistry:
    """Abilities by name, iterated in the order they were added.

    >>> registry = AbilityRegistry()
    >>> len(registry), "file_read_bulk" in registry
    (0, False)
    """

    def __init__(self, abilities: Iterable[Ability] = (), *, read_only: bool = False) -> None:
        self._abilities: dict[str, Ability] = {}
        self._sealed = False
        for ability in abilities:
            self.add(ability)
        self._sealed = read_only

    def add(self, ability: Ability) -> None:
        """Add an ability. Raises ValueError when its name is taken, TypeError on a read-only view."""
        if self._sealed:
            raise TypeError("this view of a registry is read-only")
        if ability.name in self._abilities:
            raise ValueError(f"there is already an ability named {ability.name}")
        self._abilities[ability.name] = ability

    def get(self, name: str) -> Ability | None:
        """The ability of a name, or None."""
        return self._abilities.get(name)

    def only(self, *names: str, read_only: bool = False) -> "AbilityRegistry":
        """A read-only view with the named abilities (all, where none is named), or only those that change nothing.

        Raises KeyError for a name that is not there.
        """
        for name in names:
            if name not in self._abilities:
                raise KeyError(name)
        chosen = [
            a for a in self if (not names or a.name in names) and (a.read_only or not read_only)
        ]
        return AbilityRegistry(chosen, read_only=True)

    async def call(self, name: str, arguments: object, context: Context) -> dict[str, Any]:
        """Validate the arguments, run the ability and return its answer as a JSON-able dict.

        Raises AbilityError, and nothing else but cancellation.
        """
        return (await self.run_ability(name, arguments, context)).payload

    async def run_ability(self, name: str, arguments: object, context: Context) -> "AbilityAnswer":
        """As `call`, with the answer's JSON, which had to be made to know its size."""
        ability = self.get(name)
        if ability is None:
            raise AbilityError(Fault.from_reason("unknown_ability"))
        if context.read_only and not ability.read_only:
            raise AbilityError(Fault.from_reason("scope"))
        try:
            answer = await ability.run(context, validate_arguments(ability.input, arguments))
            payload = (
                answer.model_dump(mode="json", exclude_none=True)
                if isinstance(answer, BaseModel)
                else answer
            )
            encoded = json_bytes(payload)
            if len(encoded) > context.max_response_bytes:
                raise Refused("response_too_large")
            return AbilityAnswer(payload, encoded.decode())
        except AbilityError:
            raise
        except Exception as error:
            raise AbilityError(Fault.from_exception(error)) from None

    def __iter__(self) -> Iterator[Ability]:
        return iter(self._abilities.values())

    def __len__(self) -> int:
        return len(self._abilities)

    def __contains__(self, name: object) -> bool:
        return name in self._abilities


_VALIDATOR_REASONS: dict[str, Reason] = {
    "out_of_range": "out_of_range",
    "wrong_type": "wrong_type",
    "invalid_key": "invalid_key",
    "invalid_id": "invalid_id",
}
"""Reasons that a declaration's own validators name; every other error is an invalid_parameter."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

M = TypeVar("M", bound=BaseModel)


def validate_arguments(model: type[M], arguments: object) -> M:
    """The arguments as their model.

    Raises Refused: invalid_parameter, out_of_range, wrong_type, invalid_key or invalid_id, with the argument's
    name as its field.
    """
    try:
        return model.model_validate({} if arguments is None else arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]

    reason = _VALIDATOR_REASONS.get(first["type"], "invalid_parameter")
    name = str(first["loc"][0]) if first["loc"] else ""
    raise Refused(reason, name if _PLAIN_NAME.fullmatch(name) else None)
