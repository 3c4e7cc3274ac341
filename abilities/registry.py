"""The registry: which abilities there are, in a fixed order, and the one way to call them."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from abilities.ability import Ability, Context
from abilities.declarations.base import Fault, Refused
from abilities.door import validated
from abilities.errors import AbilityError
from abilities.helpers.envelope import fault_of
from abilities.helpers.render import json_bytes


class Answer(NamedTuple):
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
        chosen = [a for a in self if (not names or a.name in names) and (a.read_only or not read_only)]
        return AbilityRegistry(chosen, read_only=True)

    async def call(self, name: str, arguments: object, context: Context) -> dict[str, Any]:
        """Validate the arguments, run the ability and return its answer as a JSON-able dict.

        Raises AbilityError, and nothing else but cancellation.
        """
        return (await self.answer(name, arguments, context)).payload

    async def answer(self, name: str, arguments: object, context: Context) -> "Answer":
        """As `call`, with the answer's JSON, which had to be made to know its size."""
        ability = self.get(name)
        if ability is None:
            raise AbilityError(Fault.of("unknown_ability"))
        if context.read_only and not ability.read_only:
            raise AbilityError(Fault.of("scope"))
        try:
            answer = await ability.run(context, validated(ability.input, arguments))
            payload = answer.model_dump(mode="json", exclude_none=True) if isinstance(answer, BaseModel) else answer
            encoded = json_bytes(payload)
            if len(encoded) > context.max_response_bytes:
                raise Refused("response_too_large")
            return Answer(payload, encoded.decode())
        except AbilityError:
            raise
        except Exception as error:
            raise AbilityError(fault_of(error)) from None

    def __iter__(self) -> Iterator[Ability]:
        return iter(self._abilities.values())

    def __len__(self) -> int:
        return len(self._abilities)

    def __contains__(self, name: object) -> bool:
        return name in self._abilities
