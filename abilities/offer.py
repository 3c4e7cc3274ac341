"""What is offered: the abilities of a caller, out of those that are registered."""

from collections.abc import Iterable
from typing import NamedTuple

from abilities.builtin.index import list_built_in
from abilities.builtin.profiles import (
    explain_unknown_names,
    explain_unknown_tools,
    find_implied,
    select_names,
)
from abilities.plugins import add_plugins
from abilities.registry import AbilityRegistry
from abilities.settings import Settings


class Offer(NamedTuple):
    """The abilities of a caller.

    ``withheld`` names those that are registered and not among them, except what one that is does as
    well.
    """

    registry: AbilityRegistry
    withheld: tuple[str, ...] = ()

    def narrow(self, tools: Iterable[str]) -> "Offer":
        """Return those that profiles and names select too; a name that is unknown selects none."""
        tools = tuple(tools)
        names = self.registry.names
        selected = select_names(tools, names)
        allowed = selected | find_implied(selected)
        withheld = [name for name in names if name not in allowed]

        return Offer(self.registry.select(selected), (*self.withheld, *withheld))


def build_registry(settings: Settings) -> tuple[AbilityRegistry, list[str]]:
    """Return all registered abilities, built-in ones first, and problems with plugins.

    A problem is a sentence for each plugin that could not be loaded.
    """
    registry = AbilityRegistry(list_built_in(for_kv_memory=settings.compat == "kv-memory"))
    problems: list[str] = []
    if settings.plugins:
        problems = add_plugins(registry)

    return registry, problems


def build_offer(settings: Settings) -> tuple[Offer, list[str]]:
    """Return what the settings offer, and problems as `build_registry` does.

    A name in ``disabled`` that is no ability is a problem too: somebody believes it to be off. It
    is no error, because the package that declares it may not be installed here.

    Raises ValueError if ``tools`` names what is no profile and no ability.
    """
    registry, problems = build_registry(settings)
    names = registry.names
    mistake = explain_unknown_tools(settings.tools, names)
    if mistake is not None:
        raise ValueError(f"tools: {mistake}")

    problems += explain_unknown_names(settings.disabled, names)
    enabled = [name for name in names if name not in settings.disabled]
    disabled = tuple(name for name in names if name in settings.disabled)
    return Offer(registry.select(enabled), disabled).narrow(settings.tools), problems
