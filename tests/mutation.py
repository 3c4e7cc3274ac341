"""Whether the tests notice changes of the code: `make mutants`, which says which changes nobody noticed.

Each of cosmic-ray's mutants of a module runs against that module's own tests, in a copy of the tree. What was tried
is kept in `.mutation/`, so that a run that was stopped goes on; a module that changed begins anew.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".mutation"
TESTS = {
    "traversal": ["tests/test_traversal.py"],
    "budget": ["tests/test_properties.py"],
    "text": [
        "tests/test_properties.py",
        "tests/test_acceptance.py",
        "-k",
        "not mcp and not http and not stdio and not cli",
    ],
    "confine": ["tests/test_confinement.py", "tests/test_failures.py", "tests/test_acceptance.py", "-k", "python"],
}
LEFT_OUT = [
    r"core/ReplaceBinaryOperator_(?!Add_Sub|Sub_Add|Mul_Div|FloorDiv_Mul|Mod_Mul|BitOr_BitAnd|BitAnd_BitOr).*",
    r"core/ReplaceComparisonOperator_.*_(Is|IsNot)",
]
"""Further operators for the same sign, which tell nothing more."""
SIZES = {"ABILITIES_RACE_TRIES": "2000", "ABILITIES_EXAMPLES": "30"}


def mutate(module: str) -> list[str]:
    """Try what was not tried yet, and describe the mutants that lived."""
    source = ROOT / "helpers" / f"{module}.py"
    place = KEPT / f"{module}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    place.mkdir(parents=True, exist_ok=True)
    tree, session, settings = place / "tree", place / "session.sqlite", place / "settings.toml"
    shutil.rmtree(tree, ignore_errors=True)  # the last mutant may still be in it
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=ignored)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *TESTS[module]]
    settings.write_text(
        f'[cosmic-ray]\nmodule-path = "helpers/{module}.py"\ntimeout = 120.0\nexcluded-modules = []\n'
        f"test-command = {json.dumps(' '.join(json.dumps(part) for part in command))}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
        f"[cosmic-ray.filters.operators-filter]\nexclude-operators = {json.dumps(LEFT_OUT)}\n"
    )
    given = {**os.environ, **SIZES, "PYTHONPATH": str(tree)}

    def ray(program: str, *options: str | Path) -> str:
        run = [Path(sys.executable).parent / program, *options]
        return subprocess.run(run, cwd=tree, env=given, check=True, stdout=subprocess.PIPE).stdout.decode()

    ray("cosmic-ray", "baseline", settings)
    if not session.exists():
        ray("cosmic-ray", "init", settings, session)
        ray("cr-filter-operators", session, settings)
    ray("cosmic-ray", "exec", settings, session)
    pairs = [json.loads(line) for line in ray("cosmic-ray", "dump", session).splitlines()]
    tried = [pair for pair in pairs if pair[1] and pair[1]["worker_outcome"] == "normal"]
    print(f"{module}: {len(tried)} mutants", flush=True)
    assert tried, "nothing was mutated"
    return [_described(item, source) for item, result in tried if result["test_outcome"] == "survived"]


def _described(item: dict[str, Any], source: Path) -> str:
    (mutation,) = item["mutations"]
    line, column = mutation["start_pos"]
    text = source.read_text().splitlines()[line - 1].strip()
    return f"{line}:{column} {mutation['operator_name'].removeprefix('core/')}: {text}"


def main() -> None:
    """Mutate the modules that are named, or all."""
    console = Console()
    table = Table("module", "lived", "what")
    for module in sys.argv[1:] or TESTS:
        lived = mutate(module)
        table.add_row(module, str(len(lived)), "\n".join(lived))
    console.print(table)


if __name__ == "__main__":
    main()
