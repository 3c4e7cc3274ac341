"""Abilities as plain functions, for any framework that takes a name, a schema and a call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from abilities.adapters.documents import parse_document
from abilities.adapters.host import Host, Source
from abilities.declarations.values import JsonObject
from abilities.definition import Ability
from abilities.registry import Reply
from abilities.schemas import build_input_schema


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One ability as a function.

    ``schema`` is the JSON Schema of its arguments in the form for models, a dict of its own, and
    ``model`` is their pydantic model, for frameworks that take no schema. A function that is
    ``read_only`` changes nothing.
    """

    name: str
    description: str
    schema: JsonObject
    model: type[BaseModel]
    read_only: bool
    _host: Host = field(repr=False)

    @classmethod
    def from_ability(cls, ability: Ability, host: Host) -> "Function":
        """Create the function of an ability; ``host`` runs its calls."""
        return cls(
            ability.name,
            ability.description,
            build_input_schema(ability),
            ability.input,
            ability.read_only,
            host,
        )

    async def call(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        namespace: str | int | None = None,
    ) -> Reply:
        """Call the ability on any event loop.

        ``arguments`` are a mapping or its JSON; whatever is wrong with them is told in the reply.
        Without a namespace it is that of the settings. If the call failed as a whole, the reply is
        ``failed`` and its text is the fault. Raises ValueError for what cannot be a namespace.
        """
        return await self._host.call(self.name, _read_arguments(arguments), namespace)

    def call_sync(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        namespace: str | int | None = None,
    ) -> Reply:
        """Call the ability as `call` does, from synchronous code."""
        return self._host.call_sync(self.name, _read_arguments(arguments), namespace)


def load_functions(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
    caller: str = "functions",
    place: str = "pass namespace=… to call() or call_sync()",
) -> list[Function]:
    """Return the abilities as functions, for sync and async code on any event loop.

    ``source`` is an open application, or what `Abilities.open` returns, settings (by default those
    of the environment) or abilities of one's own, from which one is opened at the first call; it
    stays open, on one background loop, until the process ends.
    ``only`` names the functions to load, ``read_only`` leaves out those that change something.
    With ``require_namespace`` a call that names no namespace raises ValueError instead of using
    that of the settings; ``place`` says where to name one. ``caller`` is who the history, logs and
    metrics say made the calls.

    Raises KeyError for a name in ``only`` that is not offered, ValueError for a root that must not
    be shared or does not exist, and for tools in the settings that do not exist.
    """
    host = Host(source, caller, required=place if require_namespace else None)
    chosen = host.build_registry().only(*(only or ()), read_only=read_only)
    return [Function.from_ability(ability, host) for ability in chosen]


def _read_arguments(arguments: Mapping[str, Any] | str | None) -> object:
    """Return arguments as a dict if they can be one; the call refuses anything else."""
    if isinstance(arguments, Mapping):
        return dict(arguments)

    if arguments is None or not arguments.strip():
        return {}

    try:
        return parse_document(arguments.encode())
    except ValueError:
        return arguments
