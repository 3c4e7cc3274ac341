"""Faster imports, because the first answer of a command waits for them."""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


@contextmanager
def pause_collection() -> Generator[None]:
    """Pause garbage collection while a block imports modules.

    Collection takes a tenth of the time of a short command. Modules live until the process ends, so
    they are frozen: later collections skip them.
    """
    gc.disable()

    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _DeferredPackage(ModuleType):
    """A package that runs its ``__init__`` when a name that it lacks is first used."""

    def __getattr__(self, name: str) -> Any:
        object.__setattr__(self, "__class__", ModuleType)  # so this runs once
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def defer_packages(*names: str) -> None:
    """Run the ``__init__`` of installed packages only when one of its names is first used.

    Use it if an ``__init__`` imports the whole package and a process needs a part. Modules of the
    package can be imported before its ``__init__`` runs, and packages that are already imported are
    left alone. Name a package before its subpackages. Raises ModuleNotFoundError if one is not
    installed.
    """
    for name in names:
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"no package {name!r}", name=name)

        if name in sys.modules:
            continue

        package = module_from_spec(spec)
        package.__class__ = _DeferredPackage
        sys.modules[name] = package

        parent, _, own_name = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own_name, package)
