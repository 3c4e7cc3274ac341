"""Abilities that other packages declare in the entry point group ``abilities``."""

import logging
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from abilities.definition import Ability
from abilities.registry import AbilityRegistry

GROUP = "abilities"

_log = logging.getLogger("abilities")


def add_plugins(registry: AbilityRegistry) -> list[str]:
    """Add every declared ability whose name is free, in the order of entry point names.

    An entry point is an Ability or a list of them. One that cannot be loaded, or whose name is taken, is
    logged and reported as a sentence in the returned list; the others are added all the same.
    """
    problems: list[str] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            for ability in _declared(point):
                registry.add(ability)
        except Exception as error:
            _log.warning("plugin %s was not loaded", point.value, exc_info=error)
            problems.append(f"plugin {point.name} ({point.value}) was not loaded: {error}")
    return problems


def _declared(point: EntryPoint) -> Iterator[Ability]:
    loaded = point.load()
    several = (
        cast(Sequence[object], loaded)
        if isinstance(loaded, list | tuple)
        else (cast(object, loaded),)
    )
    for ability in several:
        if not isinstance(ability, Ability):
            raise TypeError("an entry point must be an Ability or a list of them")
        yield ability
