"""Abilities that other packages declare in the entry point group ``abilities``."""

import logging
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from abilities.definition import Ability
from abilities.registry import AbilityRegistry

GROUP = "abilities"
"""The entry point group; each entry point is an Ability or a list of them."""

_log = logging.getLogger("abilities")


def add_plugins(registry: AbilityRegistry) -> list[str]:
    """Add every declared ability whose name is free, in the order of entry point names.

    An entry point that cannot be loaded, or whose ability's name is taken, is logged and reported
    as a sentence in the returned list; the others are added all the same.
    """
    problems: list[str] = []

    # Sorted, so that the same plugin wins a name that two of them claim, on every machine.
    for point in sorted(entry_points(group=GROUP), key=_get_position):
        try:
            _add_abilities(registry, point)
        except Exception as error:  # a plugin may raise anything while it is imported
            _log.warning("plugin %s was not loaded", point.value, exc_info=error)
            problems.append(f"plugin {point.name} ({point.value}) was not loaded: {error}")

    return problems


def _get_position(point: EntryPoint) -> tuple[str, str]:
    return point.name, point.value


def _add_abilities(registry: AbilityRegistry, point: EntryPoint) -> None:
    """Add the abilities of an entry point one by one, up to the first that cannot be added.

    Raises TypeError for what is no Ability, ValueError for a name that is taken, and whatever the
    plugin raises.
    """
    loaded: object = point.load()
    values = [loaded]
    if isinstance(loaded, list | tuple):
        values = list(cast(Sequence[object], loaded))

    for value in values:
        if not isinstance(value, Ability):
            raise TypeError("an entry point must be an Ability or a list of them")

        registry.add(value)
