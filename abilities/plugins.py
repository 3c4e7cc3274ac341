"""Plugins: abilities and readers of documents that other packages declare as entry points."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from traceback import format_exception
from typing import Any, cast

from abilities.declarations.values import has_control_character
from abilities.definition import Ability, check_schemas
from abilities.errors import is_installed
from abilities.helpers.documents.converter import load_reader
from abilities.helpers.documents.documents import Documents, InstalledReader
from abilities.registry import AbilityRegistry

GROUP = "abilities"
"""The entry point group; each entry point is an Ability or a list of them."""

READERS = "abilities.readers"
"""The entry point group of readers, as `helpers.documents.reader` describes them."""

_NOTEBOOK = "abilities.helpers.documents.reader:NOTEBOOK"
_BUILT_IN = (
    "abilities.helpers.documents.reader:PDF",
    "abilities.helpers.documents.office:WORD",
    "abilities.helpers.documents.office:SHEETS",
    "abilities.helpers.documents.office:SLIDES",
    _NOTEBOOK,
)

MAX_ABILITIES = 100
"""Abilities of one entry point."""

_MAX_PROBLEM = 300
"""Characters of a problem; the message of a plugin's exception may be long."""

_MAX_TRACE = 10_000
"""Characters of a traceback in the log; the last ones are the most useful."""

_log = logging.getLogger("abilities")


def add_plugins(registry: AbilityRegistry) -> list[str]:
    """Add every declared ability whose name is free, in the order of entry point names.

    The abilities of an entry point are added up to the first that cannot be offered. Such an entry
    point, or one that cannot be loaded, is logged and reported as a sentence in the returned list;
    the others are added nevertheless. The sentences contain messages of plugins, and are only for
    operators.
    """
    problems: list[str] = []

    for point in list_points(GROUP):
        try:
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
        except BaseException as error:  # a plugin may raise anything, even SystemExit
            problems.append(report_problem(point, error))

    return problems


def list_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, in an order that is the same on every machine.

    If two packages claim a name, the first one gets it everywhere.
    """
    points = _find_points(group, tuple(sys.path))
    return sorted(points, key=lambda point: (point.name, point.value))


@cache
def _find_points(group: str, _path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points on a search path; finding them reads a file of each distribution."""
    return entry_points(group=group)


def report_problem(point: EntryPoint, error: BaseException) -> str:
    """Log why a plugin was not loaded, and return a sentence in one line about it."""
    trace = "".join(format_exception(error))[-_MAX_TRACE:]
    # Lone surrogates are escaped, so that every log can hold the text.
    logged = trace.encode(errors="backslashreplace").decode()
    _log.warning("plugin %s was not loaded\n%s", point.value, logged)

    try:
        reason = str(error) or type(error).__name__
    except BaseException:  # a plugin's exception runs the plugin's code
        reason = type(error).__name__

    # The message of an exit is its status, such as "1".
    if not isinstance(error, Exception):
        reason = f"it raised {type(error).__name__}"

    text = f"plugin {point.name} ({point.value}) was not loaded: {reason}"
    shown = "".join(" " if has_control_character(char) else char for char in text)
    return shown.encode("utf-8", "replace").decode()[:_MAX_PROBLEM]


def add_ability(registry: AbilityRegistry, ability: object) -> None:
    """Add an ability that is not built in.

    Raises TypeError if the object is no Ability, and ValueError if its name is taken or its schemas
    cannot be published.
    """
    if not isinstance(ability, Ability):
        name = getattr(ability, "__name__", repr(ability)[:100])
        raise TypeError(f"{name} is no ability; write @ability above its function")

    # A plain copy is checked: a subclass may have changed the fields after its own check.
    names = [field.name for field in fields(Ability) if field.init]
    plain = Ability(**{name: getattr(ability, name) for name in names})
    check_schemas(plain)
    registry.add(plain)


def open_documents(*, plugins: bool) -> tuple[Documents, list[str]]:
    """Return the documents that can be read, and a sentence for each reader that cannot be loaded.

    If several readers are for a file, that of the extra reads it, and then the first by name.
    Without the extra, only notebooks are read as the text files that they are.
    """
    readers: list[InstalledReader] = []
    has_extra = is_installed("documents")
    for place in _BUILT_IN:
        if has_extra:
            readers.append(InstalledReader(load_reader(place), place))
        elif place != _NOTEBOOK:
            readers.append(InstalledReader(load_reader(place), ""))

    problems: list[str] = []
    if plugins:
        for point in list_points(READERS):
            try:
                reader: Any = point.load()
                names = [*reader.suffixes, *reader.imports]
                is_named = all(isinstance(name, str) and name for name in names)
                if not (is_named and isinstance(reader.magic, bytes) and callable(reader.convert)):
                    raise TypeError(
                        "a reader has 'suffixes', 'magic', 'imports' and a method 'convert'"
                    )

                readers.append(InstalledReader(reader, f"{point.module}:{point.attr}"))
            except BaseException as error:  # a plugin may raise anything, even SystemExit
                problems.append(report_problem(point, error))

    return Documents(readers), problems
