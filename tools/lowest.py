"""Print the lowest versions that this package allows, as constraints (`make test-lowest`).

Only its own requirements are held low; what those need may be any version that resolves.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).with_name("uv")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def list_names() -> set[str]:
    """Return the names of all packages that this one requires, with its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names: set[str] = set()

    for requirements in [project["dependencies"], *project["optional-dependencies"].values()]:
        for requirement in requirements:
            found = _NAME.match(requirement)
            assert found is not None, requirement
            names.add(found[0])

    return names


def resolve_lowest() -> list[str]:
    """Return a line ``name==version`` for each package and what it needs."""
    command = [str(UV), "pip", "compile", "--quiet", "--resolution", "lowest-direct"]
    command += ["--no-annotate", "--no-header", "--extra", "all", "--python", sys.executable]

    done = subprocess.run(
        [*command, str(ROOT / "pyproject.toml")], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()


def main() -> None:
    names = list_names()

    for line in resolve_lowest():
        if line.partition("==")[0] in names:
            print(line)


if __name__ == "__main__":
    main()
