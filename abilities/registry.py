"""The registry: which abilities there are, in a fixed order, and how to call them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from abilities.declarations.faults import Fault, Reason, Refused
from abilities.declarations.values import JsonObject, as_object
from abilities.definition import Ability, Context
from abilities.errors import AbilityError
from abilities.helpers.reply.render import json_bytes, render
from abilities.replies import Reply, build_failed_reply

_LEAST_STEP = 1_000
"""Bytes by which an answer's room shrinks at least before it is rendered again."""


class AbilityRegistry:
    """Abilities by name, iterated in the order in which they were added.

    >>> registry = AbilityRegistry()
    >>> len(registry), "file_read_bulk" in registry
    (0, False)
    """

    def __init__(self, abilities: Iterable[Ability] = (), *, read_only: bool = False) -> None:
        self._abilities: dict[str, Ability] = {}
        self._sealed = False
        for ability in abilities:
            self.add(ability)

        # Sealed last, because a view is filled like any other registry.
        self._sealed = read_only

    def add(self, ability: Ability) -> None:
        """Add an ability.

        Raises ValueError if its name is taken, and TypeError if this registry is a read-only view.
        """
        if self._sealed:
            raise TypeError("this view of a registry is read-only")

        if ability.name in self._abilities:
            raise ValueError(f"there is already an ability named {ability.name}")

        self._abilities[ability.name] = ability

    def get(self, name: str) -> Ability | None:
        """Return the ability of a name, or None."""
        return self._abilities.get(name)

    def only(self, *names: str, read_only: bool = False) -> "AbilityRegistry":
        """Return a read-only view of the named abilities, or of all if no name is given.

        With ``read_only`` the view leaves out abilities that change something. Raises KeyError for
        a name that is not in the registry.
        """
        for name in names:
            if name not in self._abilities:
                raise KeyError(name)

        chosen: Iterable[Ability] = self
        if names:
            chosen = [ability for ability in chosen if ability.name in names]
        if read_only:
            chosen = [ability for ability in chosen if ability.read_only]

        return AbilityRegistry(chosen, read_only=True)

    async def call(self, name: str, arguments: object, context: Context) -> JsonObject:
        """Call an ability and return its answer as a JSON-able dict.

        Raises AbilityError, and nothing else but cancellation.
        """
        reply = await self._run(name, arguments, context)
        return reply.payload

    async def reply(self, name: str, arguments: object, context: Context) -> Reply:
        """Call an ability for a surface.

        The reply's text is TOON if the arguments ask for it, otherwise JSON. If the call fails as a
        whole, the reply holds the fault.
        """
        try:
            if _is_toon_requested(arguments):
                return await self._run_for_toon(name, arguments, context)

            return await self._run(name, arguments, context)
        except AbilityError as error:
            return build_failed_reply(error.fault)

    async def _run(self, name: str, arguments: object, context: Context) -> Reply:
        """Validate the arguments, run the ability, and return its answer with its text as JSON.

        The JSON has to be made anyway, to hold the answer against its bound.
        """
        ability = self._abilities.get(name)
        if ability is None:
            raise AbilityError(Fault.from_reason("unknown_ability"))

        if context.read_only and not ability.read_only:
            raise AbilityError(Fault.from_reason("scope"))

        try:
            answer = await ability.run(context, validate_arguments(ability.input, arguments))
            if isinstance(answer, BaseModel):
                answer = answer.model_dump(mode="json", exclude_none=True)

            encoded = json_bytes(answer)
            if len(encoded) > context.max_response_bytes:
                raise Refused("response_too_large")

            return Reply(answer, encoded.decode(), failed=False)
        except AbilityError:
            raise
        except Exception as error:
            # The fault says nothing of the error itself, which could hold paths or contents.
            raise AbilityError(Fault.from_exception(error)) from None

    async def _run_for_toon(self, name: str, arguments: object, context: Context) -> Reply:
        """Run an ability until its answer as TOON fits into the bound.

        An answer keeps its bound as JSON, and now and then TOON is longer than that. Then the
        ability runs again with as much less room as the TOON was too long.
        """
        limit = room = context.max_response_bytes
        while True:
            reply = await self._run(name, arguments, replace(context, max_response_bytes=room))
            text = render(reply.payload, "toon")
            size = len(text.encode())
            if size <= limit:
                return replace(reply, text=text)

            # The step guarantees an end: with too little room the ability itself is refused.
            room = min(room * limit // size, room - _LEAST_STEP)

    def __iter__(self) -> Iterator[Ability]:
        return iter(self._abilities.values())

    def __len__(self) -> int:
        return len(self._abilities)

    def __contains__(self, name: object) -> bool:
        return name in self._abilities

    def __repr__(self) -> str:
        return f"<AbilityRegistry: {', '.join(self._abilities) or 'empty'}>"


def _is_toon_requested(arguments: object) -> bool:
    # Read before the arguments are validated: whatever is wrong with them is answered as JSON.
    named = as_object(arguments)
    return named is not None and named.get("output_format") == "toon"


_VALIDATOR_REASONS: dict[str, Reason] = {
    "out_of_range": "out_of_range",
    "wrong_type": "wrong_type",
    "invalid_key": "invalid_key",
    "invalid_id": "invalid_id",
}
"""Reasons that a declaration's own validators name; every other error is an invalid_parameter."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
"""Names of unknown arguments that are repeated to the caller; others could be instructions."""

M = TypeVar("M", bound=BaseModel)


def validate_arguments(model: type[M], arguments: object) -> M:
    """Return the arguments as their model; None stands for no arguments.

    Raises Refused for the first argument that is wrong, with its name as the field:
    invalid_parameter, out_of_range, wrong_type, invalid_key, invalid_id.
    """
    if arguments is None:
        arguments = {}

    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)

    first = errors[0]
    reason = _VALIDATOR_REASONS.get(first["type"], "invalid_parameter")
    location = first["loc"]
    if location and _PLAIN_NAME.fullmatch(str(location[0])):
        raise Refused(reason, str(location[0]))

    raise Refused(reason)
