"""The product's own modules, for tests that read its code."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent

_FOLDERS = {
    "abilities": "abilities",
    "helpers": "abilities.helpers",
    "declarations": "abilities.declarations",
}


class Module(NamedTuple):
    """A module by its import name, and where its source lies."""

    name: str
    path: Path

    def parse(self) -> ast.Module:
        """Return the module's syntax tree."""
        return ast.parse(self.path.read_text())


def modules() -> Iterator[Module]:
    """Yield every module of the product once, not through the links in ``abilities/``."""
    for folder, prefix in _FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT / folder)

            if folder == "abilities" and inside.parts[0] in ("helpers", "declarations"):
                continue

            name = ".".join([prefix, *inside.with_suffix("").parts])
            yield Module(name.removesuffix(".__init__"), path)
