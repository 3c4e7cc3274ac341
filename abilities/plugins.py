"""Abilities that other packages declare in the entry point group ``abilities``."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from traceback import format_exception
from typing import cast

from abilities.declarations.values import has_control_character
from abilities.definition import Ability
from abilities.registry import AbilityRegistry
from abilities.schemas import check_schemas

GROUP = "abilities"
"""The entry point group; each entry point is an Ability or a list of them."""

MAX_ABILITIES = 100
"""Abilities of one entry point."""

_MAX_PROBLEM = 300
"""Characters of a problem; what a plugin says of itself is cut."""

_MAX_TRACE = 10_000
"""Characters of a traceback in the log; its last ones say most."""

_log = logging.getLogger("abilities")


def add_plugins(registry: AbilityRegistry) -> list[str]:
    """Add every declared ability whose name is free, in the order of entry point names.

    An entry point that cannot be loaded, or whose ability cannot be offered, is logged and reported
    as a sentence in the returned list; the others are added all the same. The sentences hold what
    a plugin said, and are for operators alone.
    """
    problems: list[str] = []

    # Sorted, so that the same plugin wins a name that two of them claim, on every machine.
    for point in sorted(entry_points(group=GROUP), key=_get_position):
        try:
            _add_abilities(registry, point)
        except BaseException as error:  # a plugin may raise anything, SystemExit too
            _log.warning("plugin %s was not loaded\n%s", point.value, _format_trace(error))
            problems.append(_describe_problem(point, error))

    return problems


def _get_position(point: EntryPoint) -> tuple[str, str]:
    return point.name, point.value


def _add_abilities(registry: AbilityRegistry, point: EntryPoint) -> None:
    """Add the abilities of an entry point one by one, up to the first that cannot be added.

    Raises TypeError for what is no Ability, ValueError for a name that is taken or a schema that
    cannot be published, and whatever the plugin raises.
    """
    loaded: object = point.load()
    values = [loaded]
    if isinstance(loaded, list | tuple):
        values = list(cast(Sequence[object], loaded))

    if len(values) > MAX_ABILITIES:
        raise ValueError(f"an entry point has at most {MAX_ABILITIES} abilities")

    for value in values:
        if not isinstance(value, Ability):
            raise TypeError("an entry point must be an Ability or a list of them")

        add_ability(registry, value)


def add_ability(registry: AbilityRegistry, ability: object) -> None:
    """Add an ability that is not built in.

    Raises TypeError for what is no Ability, and ValueError for a name that is taken or a schema
    that cannot be published.
    """
    if not isinstance(ability, Ability):
        name = getattr(ability, "__name__", repr(ability)[:100])
        raise TypeError(f"{name} is no ability; write @ability above its function")

    ability = _copy(ability)
    check_schemas(ability)
    registry.add(ability)


def _copy(value: Ability) -> Ability:
    """Return a plain ability with the same fields, checked; a subclass may have changed them."""
    names = [field.name for field in fields(Ability) if field.init]
    return Ability(**{name: getattr(value, name) for name in names})


def _format_trace(error: BaseException) -> str:
    """Return where an error comes from, as text that every log can hold."""
    trace = "".join(format_exception(error))[-_MAX_TRACE:]
    return trace.encode(errors="backslashreplace").decode()


def _describe_problem(point: EntryPoint, error: BaseException) -> str:
    """Return a sentence about a plugin that was not loaded, in one line."""
    try:
        reason = str(error) or type(error).__name__
    except BaseException:  # exceptions of plugins are code of plugins
        reason = type(error).__name__

    # ImportError and others say enough themselves; an exit says "1".
    if not isinstance(error, Exception):
        reason = f"it raised {type(error).__name__}"

    text = f"plugin {point.name} ({point.value}) was not loaded: {reason}"
    shown = "".join(" " if has_control_character(char) else char for char in text)
    return shown.encode("utf-8", "replace").decode()[:_MAX_PROBLEM]
