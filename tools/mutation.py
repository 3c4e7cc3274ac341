"""Whether the tests notice changes of the code: `make mutants`, which says which changes nobody noticed.

Each of cosmic-ray's mutants of a module runs against that module's own tests, in a copy of the tree. What was tried
is kept in `.mutation/`, so that a run that was stopped goes on; a module begins anew when it or its tests changed.
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
    "traversal": ["tests/memories/test_walk.py"],
    "budget": ["tests/files/test_properties.py", "-k", "budget or share or fits or bound"],
    "text": [
        "tests/files/test_properties.py",
        "tests/surfaces/test_acceptance.py",
        "-k",
        "not mcp and not http and not stdio and not cli",
    ],
    "confine": [
        "tests/files/test_confinement.py",
        "tests/files/test_failures.py",
        "tests/surfaces/test_acceptance.py",
        "-k",
        "python or confinement or failures",
    ],
}
LEFT_OUT = [
    r"core/ReplaceBinaryOperator_(?!Add_Sub|Sub_Add|Mul_Div|FloorDiv_Mul|Mod_Mul|BitOr_BitAnd|BitAnd_BitOr).*",
    r"core/ReplaceComparisonOperator_.*_(Is|IsNot)",
]
"""Further operators for the same sign, which tell nothing more."""
_FAST = "return len(text) if text.isascii() and encoding.unit == 1 else len(text.encode(encoding.codec))"
_UNITS = "(int.from_bytes(around[i : i + 2], order) for i in (max(at - 2, 0), at))  # type: ignore[arg-type]"
_LENGTH = "length = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 1"
_RUN = 'while run < at and run < 2 * BACK_OFF and "\\U0001f1e6" <= text[at - 1 - run] <= "\\U0001f1ff":'
_WINDOW = "window = self.text[max(chars - VERSION_WINDOW, 0) : chars].encode(self.encoding.codec)[-VERSION_WINDOW:]"
_QUICK = "descriptor = os.open(parts[0], _FILE, dir_fd=root) if len(parts) == 1 else _open_plain(root, parts)"
EXPLAINED = {
    "slots only save memory, and nothing is assigned to": [
        "ReplaceTrueWithFalse: @dataclass(slots=True)",
        "ReplaceTrueWithFalse: @dataclass(frozen=True, slots=True)",
    ],
    "it is '*' or '/' in a signature: how an argument must be named": [
        "ReplaceBinaryOperator_Mul_Div: def _level(costs: Sequence[Cost], room: int, *, last: bool) -> list[int | None] | None:",
        "ReplaceBinaryOperator_Mul_Div: def _link_target(self, name: str, *, inside: bool) -> str | None:",
        "ReplaceBinaryOperator_Mul_Div: def decode(raw: bytes, encoding: Encoding, *, final: bool) -> tuple[str, bool]:",
    ],
    "a unit is one byte or two, and the slower way counts the same": [
        f"ReplaceComparisonOperator_Eq_{other}: {_FAST}" for other in ("Lt", "LtE")
    ]
    + [
        f"NumberReplacer: {_FAST}",
        'ReplaceComparisonOperator_Eq_LtE: return "utf-8" if self.unit == 1 else self.name',
    ],
    "a unit is two bytes at most; of the names this one sorts last": [
        "ReplaceComparisonOperator_Eq_GtE: if encoding.unit == 2:",
        'ReplaceComparisonOperator_Eq_GtE: order = "little" if encoding.name == "utf-16-le" else "big"',
        'ReplaceComparisonOperator_Eq_GtE: return Encoding(name, bom=len(bom), unit=1 if name == "utf-8-sig" else 2)',
    ],
    "positions are whole units, and the first one is inside of nothing": [
        f"NumberReplacer: before, after = {_UNITS}",
        "NumberReplacer: return at >= 2 and 0xD800 <= before < 0xDC00 and 0xDC00 <= after < 0xE000",
    ],
    "what begins with such a byte, or is of such a length, does not decode to one character": [
        "NumberReplacer: for back in range(1, min(3, at) + 1):",
        f"NumberReplacer: {_LENGTH}",
        f"ReplaceComparisonOperator_Lt_LtE: {_LENGTH}",
        f"ReplaceComparisonOperator_Lt_NotEq: {_LENGTH}",
        *(
            f"ReplaceComparisonOperator_Eq_{o}: return len(raw) == length and len(raw.decode()) == 1"
            for o in ("LtE", "GtE")
        ),
    ],
    "a marker stands for three bytes at most, and the next one is free": [
        "NumberReplacer: _MARK = 0xDC80"
    ],
    "the count grows by one from none, and only whether it is odd counts": [
        "NumberReplacer: run = 0",
        f"ReplaceComparisonOperator_Lt_NotEq: {_RUN}",
        'ReplaceComparisonOperator_Eq_GtE: return run % 2 == 1 and "\\U0001f1e6" <= text[at] <= "\\U0001f1ff"',
    ],
    "the version looks at the last 4 KiB of it alone": [
        f"ReplaceUnaryOperator_USub_{other}: {_WINDOW}" for other in ("Invert", "Not")
    ],
    "how often a race is tried again is only met in one": [
        "NumberReplacer: _MAX_RETRIES = 64  # a component that keeps changing its kind under us",
        "NumberReplacer: self._retries = 0",
        "NumberReplacer: self._retries += 1",
        "ReplaceComparisonOperator_Gt_Eq: if self._retries > _MAX_RETRIES:",
        "ReplaceComparisonOperator_Gt_GtE: if self._retries > _MAX_RETRIES:",
        "ReplaceComparisonOperator_Gt_NotEq: if self._retries > _MAX_RETRIES:",
    ],
    "the careful way opens what the quick one does; a path has a part, the stack a root, a file a name": [
        f"ReplaceComparisonOperator_Eq_LtE: {_QUICK}",
        f"ReplaceComparisonOperator_Eq_Lt: {_QUICK}",
        f"NumberReplacer: {_QUICK}",
        "ReplaceComparisonOperator_Eq_LtE: if len(self._stack) == 1:",
        "ReplaceComparisonOperator_Gt_NotEq: if stat.S_ISREG(found.st_mode) and not "
        "(policy.deny_hardlinks and found.st_nlink > 1):",
    ],
    "the system always gives a number": [
        'NumberReplacer: reason = _REASONS.get(error.errno or 0, "root_unavailable")',
        'NumberReplacer: return Refused(_REASONS.get(error.errno or 0, "io_error"))',
    ],
    "it is counted up one by one": [
        "ReplaceComparisonOperator_Gt_Eq: if len(self._stack) > _MAX_DEPTH:",
        "ReplaceComparisonOperator_Gt_Eq: if self.links > _MAX_LINKS:",
    ],
    "it is assigned before it is read": ["NumberReplacer: level, taken = 0, 0"],
    "one is the least there is": [
        "ReplaceComparisonOperator_Eq_LtE: grants = _level(costs[:kept], room - left_out, last=kept == 1)",
    ],
    "the list has one step then": [
        "NumberReplacer: self._by_key = {target: self._walked.steps[0]}",
        "NumberReplacer: yield from self._expand(self._walked.steps[0])",
    ],
    "it grows by one, and so is equal before it is greater": [
        "ReplaceComparisonOperator_GtE_Eq: if step.depth >= self._limits.depth:",
        "ReplaceComparisonOperator_Lt_NotEq: while step.taken < self._limits.breadth and not self._stopped:",
        "ReplaceComparisonOperator_GtE_Eq: if len(self._walked.steps) >= self._limits.total:",
        "ReplaceComparisonOperator_Lt_NotEq: return step.known[step.looked] if step.looked < len(step.known) else None",
        "ReplaceComparisonOperator_GtE_Eq: while place >= len(step.known) and not step.exhausted:",
        "ReplaceComparisonOperator_GtE_Eq: if step.expanded and step.taken >= self._limits.breadth:",
        'ReplaceComparisonOperator_GtE_Eq: return "depth" if step.depth >= self._limits.depth else "total"',
        "ReplaceComparisonOperator_Lt_NotEq: while len(left) < FRONTIER:",
        'ReplaceComparisonOperator_GtE_Eq: if place >= len(step.known) or step.known[place].state == "absent":',
    ],
    "of the three states 'absent' is the first by name, and 'present' the last": [
        'ReplaceComparisonOperator_Eq_GtE: if link.state == "present" and link.key not in self._by_key:',
        'ReplaceComparisonOperator_NotEq_Lt: elif link.state != "present":',
        'ReplaceComparisonOperator_Eq_LtE: if place >= len(step.known) or step.known[place].state == "absent":',
    ],
    "it goes on over links that are no candidates": [
        'ReplaceComparisonOperator_Eq_Lt: if place >= len(step.known) or step.known[place].state == "absent":',
    ],
    "it finds one candidate more, which is not among the best ten": [
        "ReplaceComparisonOperator_Lt_LtE: while len(left) < FRONTIER:",
    ],
}
"""Why a mutant does what the code does."""
SIZES = {"ABILITIES_RACE_TRIES": "2000", "ABILITIES_EXAMPLES": "30"}


def mutate(module: str) -> list[str]:
    """Try what was not tried yet, and describe the mutants that lived."""
    source = ROOT / "helpers" / f"{module}.py"
    tests = [ROOT / name for name in TESTS[module] if name.endswith(".py")]
    state = hashlib.sha256(b"".join(path.read_bytes() for path in (source, *tests))).hexdigest()
    place = KEPT / f"{module}-{state[:12]}"
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
        return subprocess.run(
            run, cwd=tree, env=given, check=True, stdout=subprocess.PIPE
        ).stdout.decode()

    ray("cosmic-ray", "baseline", settings)
    if not session.exists():
        ray("cosmic-ray", "init", settings, session)
        ray("cr-filter-operators", session, settings)
    ray("cosmic-ray", "exec", settings, session)
    pairs = [json.loads(line) for line in ray("cosmic-ray", "dump", session).splitlines()]
    tried = [pair for pair in pairs if pair[1] and pair[1]["worker_outcome"] == "normal"]
    print(f"{module}: {len(tried)} mutants", flush=True)
    assert tried, "nothing was mutated"
    return [
        _described(item, source) for item, result in tried if result["test_outcome"] == "survived"
    ]


def _described(item: dict[str, Any], source: Path) -> str:
    (mutation,) = item["mutations"]
    text = source.read_text().splitlines()[mutation["start_pos"][0] - 1].strip()
    return f"{mutation['operator_name'].removeprefix('core/')}: {text}"


def main() -> int:
    """Mutate the modules that are named, or all; 1 when a mutant lived that nobody explained."""
    console = Console()
    table = Table("module", "lived, explained", "lived", "what")
    explained = {mutant for mutants in EXPLAINED.values() for mutant in mutants}
    unexplained = 0
    for module in sys.argv[1:] or TESTS:
        lived = mutate(module)
        new = [mutant for mutant in lived if mutant not in explained]
        table.add_row(module, str(len(lived) - len(new)), str(len(new)), "\n".join(new))
        unexplained += len(new)
    console.print(table)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
