"""The product's own modules, for tests that read its code."""

import ast
import subprocess
from functools import cache
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
        """Return the module's syntax tree; do not change it, because other tests share it."""
        return _parse(self.path)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def list_modules() -> tuple[Module, ...]:
    """Return every module of the product once, without the links in ``abilities/``."""
    modules: list[Module] = []
    for folder, prefix in _FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT / folder)
            if folder == "abilities" and inside.parts[0] in ("helpers", "declarations"):
                continue
            name = ".".join([prefix, *inside.with_suffix("").parts])
            modules.append(Module(name.removesuffix(".__init__"), path))
    return tuple(modules)


def list_sources() -> set[str]:
    """The files of this tree: what git carries, or what the source distribution says it holds."""
    if not (ROOT / ".git").exists():
        (sources,) = ROOT.glob("*.egg-info/SOURCES.txt")
        return set(sources.read_text().split())
    listing = ["git", "ls-files", "-co", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True)
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}
