"""Check that the project can be released as a tag such as `v0.2.0` says: `make dist TAG=v0.2.0`.

Without a tag, nothing is checked.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> int:
    if not arguments:
        return 0

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    problems = list_problems(arguments[0], version, (ROOT / "CHANGELOG.md").read_text())

    for problem in problems:
        print(problem, file=sys.stderr)

    return 1 if problems else 0


def list_problems(tag: str, version: str, changelog: str) -> list[str]:
    """Return a sentence for each reason why a version cannot be released under a tag."""
    problems: list[str] = []
    released = re.findall(r"^## \[([^\]]+)\] - \d{4}-\d\d-\d\d$", changelog, flags=re.M)

    if tag != f"v{version}":
        problems.append(f"the tag is {tag}, and the version in pyproject.toml is {version}")

    if version not in released[:1]:
        problems.append(f"the latest release in CHANGELOG.md is not {version}, with its date")

    return problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
