"""Abilities that other packages declare in the entry point group ``abilities``.

Embedders that other packages declare in the entry point group ``abilities.plugins``.
"""

import logging
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from traceback import format_exception
from typing import cast

from abilities.declarations.values import has_control_character
from abilities.definition import Ability
from abilities.helpers.embedder import EMBED_SECONDS, Embedder, EmbedderThread
from abilities.helpers.memory.meaning import RankingByMeaning
from abilities.registry import AbilityRegistry
from abilities.schemas import check_schemas

EMBEDDER_GROUP = "abilities.plugins"
"""The entry point group; each entry point is an embedder, or makes one without arguments."""


def open_ranking(embedder: Embedder | str) -> RankingByMeaning:
    """Return the ranking by an embedder, or by that of an entry point.

    Raises ValueError if no entry point has this name, and TypeError for what is no embedder.
    """
    if isinstance(embedder, str):
        return RankingByMeaning(open_embedder(embedder))

    _check(embedder)
    return RankingByMeaning(EmbedderThread(lambda: embedder))


def open_embedder(name: str, seconds: float = EMBED_SECONDS) -> EmbedderThread:
    """Return an embedder by the name of its entry point, with the seconds that it has for a call.

    It is loaded when it is first used. Raises ValueError if none has this name.
    """
    # Sorted, so that the same one is used on every machine if two packages claim a name.
    points = sorted(entry_points(group=EMBEDDER_GROUP), key=_get_position)
    for point in points:
        if point.name == name:
            return EmbedderThread(partial(_load, point), seconds)

    installed = ", ".join(dict.fromkeys(point.name for point in points)) or "none"
    raise ValueError(f"embedder {name!r} is not installed; installed are: {installed}")


def _get_position(point: EntryPoint) -> tuple[str, str]:
    return point.name, point.value


def _load(point: EntryPoint) -> Embedder:
    """Return the embedder of an entry point. Raises TypeError, and whatever foreign code raises."""
    loaded: object = point.load()

    # A class has the attribute too, but is called to make an embedder.
    if isinstance(loaded, type) or (callable(loaded) and not hasattr(loaded, "embed")):
        loaded = loaded()

    _check(loaded)
    return cast(Embedder, loaded)


def _check(embedder: object) -> None:
    if not callable(getattr(embedder, "embed", None)):
        raise TypeError("an embedder must have a method 'embed'")


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
