"""What is installed in the environment of the tests, read once per run."""

import sys
from functools import cache
from importlib import metadata

INSTALLED = tuple(sys.path)
"""Where modules are searched for before a test installs any of its own."""


def find_entry_points(*, group: str) -> metadata.EntryPoints:
    """Return the entry points of a group, as importlib.metadata does.

    It reads the files of every distribution each time, which takes longer than all else that
    opens an application. What a test installs is not remembered.
    """
    if tuple(sys.path) != INSTALLED:
        return metadata.entry_points(group=group)
    return _remember(group)


@cache
def find_version(name: str) -> str:
    return metadata.version(name)


@cache
def _remember(group: str) -> metadata.EntryPoints:
    return metadata.entry_points(group=group)
