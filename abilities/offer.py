"""What is offered: the abilities of a caller, out of those that are registered."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from abilities.builtin.index import list_built_in
from abilities.builtin.profiles import (
    NEED_HISTORY,
    explain_unknown_names,
    explain_unknown_tools,
    find_implied,
    select_names,
)
from abilities.definition import Ability
from abilities.plugins import add_ability, add_plugins
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


def build_registry(
    settings: Settings, own: Sequence[Ability] = ()
) -> tuple[AbilityRegistry, list[str]]:
    """Return all registered abilities, and problems with plugins.

    Built-in ones come first, then the application's own. A problem is a sentence for each plugin
    that could not be loaded. Raises ValueError, TypeError as `add_ability` does for its own.
    """
    registry = AbilityRegistry(list_built_in(for_kv_memory=settings.compat == "kv-memory"))
    for ability in own:
        add_ability(registry, ability)

    problems: list[str] = []
    if settings.plugins:
        problems = add_plugins(registry)

    return registry, problems


def build_offer(
    settings: Settings, own: Sequence[Ability] = (), *, keeps_history: bool = True
) -> tuple[Offer, list[str]]:
    """Return what the settings offer, and problems as `build_registry` does.

    The application's own abilities are offered whatever ``tools`` names, unless they are disabled.
    If the store keeps no history, abilities that need one are left out.

    A name in ``disabled`` that is no ability is a problem too: somebody believes it to be off. It
    is no error, because the package that declares it may not be installed here.

    Raises ValueError if ``tools`` names what is no profile and no ability; and what
    `build_registry` raises.
    """
    registry, problems = build_registry(settings, own)
    names = registry.names
    mistake = explain_unknown_tools(settings.tools, names)
    if mistake is not None:
        raise ValueError(f"tools: {mistake}")

    problems += explain_unknown_names(settings.disabled, names)
    off = settings.disabled if keeps_history else (*settings.disabled, *NEED_HISTORY)
    enabled = [name for name in names if name not in off]
    disabled = tuple(name for name in names if name in off)
    tools = [*settings.tools, *(ability.name for ability in own)]
    return Offer(registry.select(enabled), disabled).narrow(tools), problems
