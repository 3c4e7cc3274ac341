"""Readers of documents: those of the extra ``documents``, and those of other packages."""

from importlib.metadata import EntryPoint
from typing import Any

from abilities.errors import is_installed
from abilities.helpers.documents.converter import load_reader
from abilities.helpers.documents.documents import Documents, InstalledReader
from abilities.plugins import list_points, report_problem

GROUP = "abilities.readers"
"""The entry point group; each entry point is a reader, as `helpers.documents.reader` describes."""

_NOTEBOOK = "abilities.helpers.documents.reader:NOTEBOOK"
_BUILT_IN = (
    "abilities.helpers.documents.reader:PDF",
    "abilities.helpers.documents.office:WORD",
    "abilities.helpers.documents.office:SHEETS",
    "abilities.helpers.documents.office:SLIDES",
    _NOTEBOOK,
)


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
        for point in list_points(GROUP):
            try:
                readers.append(_load_point(point))
            except BaseException as error:  # a plugin may raise anything, even SystemExit
                problems.append(report_problem(point, error))

    return Documents(readers), problems


def _load_point(point: EntryPoint) -> InstalledReader:
    """Return the reader of an entry point. Raises TypeError and the plugin's exceptions."""
    reader: Any = point.load()
    names = [*reader.suffixes, *reader.imports]
    is_named = all(isinstance(name, str) and name for name in names)
    if not (is_named and isinstance(reader.magic, bytes) and callable(reader.convert)):
        raise TypeError("a reader has 'suffixes', 'magic', 'imports' and a method 'convert'")

    return InstalledReader(reader, f"{point.module}:{point.attr}")
