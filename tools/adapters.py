"""Test each adapter beside its framework, in an environment of its own: `make adapters`.

The frameworks do not resolve together. Each is installed in its newest version that resolves with
this package; what is installed is kept, and installed again when pyproject.toml changes. A line for
each shows which versions resolved, and whether the adapter's tests and its example passed. One that
cannot be installed has failed, and so has one that resolves only in a version from before the
adapter. Names of frameworks as arguments run only those.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from abilities.errors import FRAMEWORKS as ADAPTED

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".adapters"
SHARED = ("aiofiles", "mcp", "pydantic")
"""Packages that this package and the frameworks need, in versions that may exclude each other."""

WITHOUT_TELEMETRY = {
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}


class Framework(NamedTuple):
    """A framework with an adapter of its name.

    ``extras`` are those of this package that are installed beside it.
    """

    name: str
    extras: str = "[mcp]"

    @property
    def requirement(self) -> str:
        return ADAPTED.get(self.name, "model2vec")

    @property
    def package(self) -> str:
        return self.requirement.partition(">=")[0]

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def tests(self) -> Path:
        return ROOT / "tests" / "adapters" / f"test_{self.name}.py"

    @property
    def example(self) -> Path:
        return ROOT / "examples" / "frameworks" / f"with_{self.name}.py"


FRAMEWORKS = (
    Framework("openai_agents"),
    Framework("pydantic_ai"),
    Framework("llama_index"),
    Framework("google_adk"),
    Framework("agent_framework"),
    Framework("crewai", extras=""),  # it needs mcp 1
)
EMBEDDERS = Framework("embedders", "[fastembed,semantic]")
"""The embedders, which are tested in the same way; they have no example."""

TESTED = (*FRAMEWORKS, EMBEDDERS)


class Outcome(NamedTuple):
    """What is shown of a framework; ``output`` is that of the command that failed."""

    versions: dict[str, str]
    verdict: str
    output: str = ""


def main() -> int:
    """Try the frameworks that the arguments name, by default all; return the exit status."""
    chosen = [framework for framework in TESTED if framework.name in sys.argv[1:]]
    unknown = set(sys.argv[1:]) - {framework.name for framework in chosen}
    if unknown:
        names = ", ".join(framework.name for framework in TESTED)
        print(f"There is no adapter for {', '.join(sorted(unknown))}. There are: {names}.")
        return 2

    console = Console()
    outcomes: dict[Framework, Outcome] = {}
    for framework in chosen or TESTED:
        with console.status(f"{framework.name} ..."):
            outcomes[framework] = try_framework(framework, console)

    show(outcomes, console)
    return 1 if any(outcome.output for outcome in outcomes.values()) else 0


def try_framework(framework: Framework, console: Console) -> Outcome:
    """Install a framework, and run the tests and the example of its adapter."""
    output = install(framework)
    if output:
        return Outcome({}, f"{framework.requirement} could not be installed.", output)

    versions = find_versions(framework)
    console.print(f"{framework.package} {versions[framework.package]} is installed.")

    # The fixtures of the other tests need what is not installed here, and a framework may warn.
    command = ["-m", "pytest", "-W", "default", "-p", "no:cacheprovider", "--disable-warnings"]
    command += ["--confcutdir", str(framework.tests.parent)]
    failed, output = run(framework, [framework.python, *command, framework.tests])
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", output.rpartition("\n\n")[2])
    passed = ", ".join(counts) or "no test ran"
    if failed:
        return Outcome(versions, passed, output)
    if framework == EMBEDDERS:
        return Outcome(versions, passed)

    failed, output = run(framework, [framework.python, framework.example])
    if failed:
        return Outcome(versions, f"{passed}, and its example failed", output)

    return Outcome(versions, f"{passed}, and its example")


def install(framework: Framework) -> str:
    """Install this package, a framework and pytest, unless they are; return an error's output."""
    mark = framework.folder / "installed"
    wanted = f"{framework}\n{(ROOT / 'pyproject.toml').read_text()}"
    if mark.is_file() and mark.read_text() == wanted:
        return ""

    if not framework.python.exists():
        failed, output = run(framework, [sys.executable, "-m", "venv", framework.folder])
        if failed:
            return output

    options = ["--quiet", "--disable-pip-version-check", "--upgrade"]
    packages = [framework.requirement, "pytest", "pytest-asyncio"]
    command = ["-m", "pip", "install", *options, "--editable", f"{ROOT}{framework.extras}"]
    failed, output = run(framework, [framework.python, *command, *packages])
    if failed:
        return output

    mark.write_text(wanted)
    return ""


def find_versions(framework: Framework) -> dict[str, str]:
    """Return the versions of the framework and of the shared packages that are installed."""
    code = """
import json, sys
from importlib.metadata import distributions
versions = {found.name.lower(): found.version for found in distributions()}
print(json.dumps({name: versions[name] for name in sys.argv[1:] if name in versions}))
"""
    command = [str(framework.python), "-c", code, framework.package, *SHARED]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    versions: dict[str, str] = json.loads(found.stdout)
    return versions


def run(framework: Framework, command: Sequence[str | Path]) -> tuple[bool, str]:
    """Run a command at home in a framework's folder; return whether it failed, and its output."""
    home = framework.folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    # Python finds the package by its installation, and the tests and tools here.
    variables = {**os.environ, **WITHOUT_TELEMETRY, "PYTHONPATH": str(ROOT)}
    if "pip" not in command:
        variables["HOME"] = str(home)

    done = subprocess.run(
        command,
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode != 0, done.stdout or f"exit status {done.returncode}"


def show(outcomes: dict[Framework, Outcome], console: Console) -> None:
    """Print the output of what failed, and a line for each framework."""
    for framework, outcome in outcomes.items():
        if outcome.output:
            console.rule(framework.name)
            console.print(outcome.output, markup=False, highlight=False, soft_wrap=True)

    for framework, (versions, verdict, output) in outcomes.items():
        verdict = f"FAILED: {verdict}" if output else verdict
        shown = ", ".join(f"{name} {version}" for name, version in versions.items())
        line = f"{framework.name:16} {verdict:36} {shown}".rstrip()
        console.print(line, style="red" if output else "", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
