"""Imports that take long, made shorter: a command's first answer waits for them."""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from typing import Any


@contextmanager
def pause_collection() -> Generator[None]:
    """Import in a block without searching for garbage, which takes a tenth of a short command.

    What was imported stays, so later searches leave it out.
    """
    gc.disable()

    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def defer_packages(*names: str) -> None:
    """Let installed packages run their ``__init__`` only when a name that it defines is asked for.

    Their modules can be imported before that. It is for packages whose ``__init__`` imports all of
    them, where a process needs a part. What is imported already stays as it is. A package must be
    named before those within it. Raises ModuleNotFoundError for one that is not installed.
    """
    for name in names:
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"no package {name!r}", name=name)

        if name not in sys.modules:
            _defer(spec)


def _defer(spec: ModuleSpec) -> None:
    package = module_from_spec(spec)
    fields = package.__dict__

    def get(name: str) -> Any:
        del fields["__getattr__"]
        assert spec.loader is not None
        spec.loader.exec_module(package)
        return getattr(package, name)

    fields["__getattr__"] = get  # Python asks it for names that the module lacks
    sys.modules[spec.name] = package

    parent, _, own_name = spec.name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own_name, package)
