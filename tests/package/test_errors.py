"""The exceptions of the package: all beneath one root, as they are drawn."""

import ast
import builtins

import pytest

from abilities import errors
from tests.support.sources import list_modules

ROOTS = {errors.AbilitiesError.__name__, "ClickException", "UsageError"}
"""Ours, and those by which the command line's library ends a command."""


def list_exceptions() -> dict[str, list[str]]:
    """Return the exceptions that the package defines, and their bases."""
    classes: dict[str, list[str]] = {}
    for module in list_modules():
        for node in ast.walk(module.parse()):
            if isinstance(node, ast.ClassDef):
                classes[node.name] = [ast.unparse(base).rpartition(".")[2] for base in node.bases]

    return {name: bases for name, bases in classes.items() if is_exception(name, classes)}


def is_exception(name: str, classes: dict[str, list[str]]) -> bool:
    """Return whether a class is an exception by one of its bases."""
    known = getattr(builtins, name, None)
    if name in ROOTS or (isinstance(known, type) and issubclass(known, BaseException)):
        return True

    return any(is_exception(base, classes) for base in classes.get(name, ()))


EXCEPTIONS = list_exceptions()


@pytest.mark.parametrize("name", [name for name in EXCEPTIONS if not name.startswith("_")])
def test_an_exception_is_beneath_the_root_and_drawn(name: str) -> None:
    base = name
    while base in EXCEPTIONS and base not in ROOTS:
        base = EXCEPTIONS[base][0]

    assert base in ROOTS
    assert base != errors.AbilitiesError.__name__ or name in (errors.__doc__ or "").split()
