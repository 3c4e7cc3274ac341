"""Run the conformance tool and the Inspector, and print one table of what they found."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from abilities import Settings
from tests.conformance.setups import Result, call_inspector, run_setups
from tests.support.catalog import BUILT_IN
from tests.support.serving import serving

HERE = Path(__file__).parent
TOOLS = HERE.parent.parent / ".conformance"
"""The folder into which npm installs the tools, and of their reports."""
MODULES = TOOLS / "node_modules" / "@modelcontextprotocol"
REVISIONS = ("2026-07-28", "2025-11-25")


def main() -> int:
    """Install and run the tools, and print their results; return 1 if one is unexpected."""
    console = Console()
    if sys.version_info < (3, 11) or not shutil.which("npm", path=_build_path()):
        console.print("npm is not in the environment; run: make conformance")
        return 2

    console.print("Installing the conformance tool and the Inspector ...")
    TOOLS.mkdir(exist_ok=True)
    shutil.copy(HERE / "package.json", TOOLS)
    install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"]
    install += ["--no-package-lock", "--silent"]
    subprocess.run(install, cwd=TOOLS, env=_build_environment(), check=True)

    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, server in (("abilities serve", _serve_product), ("fixtures", _serve_fixtures)):
            with server(Path(folder)) as address:
                for revision in REVISIONS:
                    console.print(f"Running {revision} against {name} ...")
                    results.append(_run_conformance(name, address, revision))
                if server is _serve_product:
                    console.print("Running the Inspector ...")
                    results += _run_inspector(address)

    console.print("Starting what abilities setup writes for each client ...")
    with tempfile.TemporaryDirectory() as folder:
        results += run_setups(Path(folder), TOOLS, _build_environment())

    table = Table("what", "", "found")
    for result in results:
        table.add_row(result.name, "passed" if result.passed else "FAILED", result.words)
    console.print(table)
    return 0 if all(result.passed for result in results) else 1


def _run_conformance(name: str, address: str, revision: str) -> Result:
    """Run all scenarios that a revision requires.

    Those that fail must be the ones that the file of expected failures names, each with a reason.
    """
    expected = HERE / f"expected-{name.split()[-1]}.yml"
    program = MODULES / "conformance" / "dist" / "index.js"
    command = ["node", str(program), "server", "--url", address]
    command += ["--requirements", revision, "--expected-failures", str(expected)]
    done = subprocess.run(
        command, env=_build_environment(), cwd=TOOLS, capture_output=True, timeout=900
    )
    report = done.stdout.decode() + done.stderr.decode()
    (TOOLS / f"{name.replace(' ', '-')}-{revision}.log").write_text(report)
    total = re.search(r"^Total: (.*)$", report, re.M)
    scenarios = re.findall(r"^([✓✗]) \S+: ", report, re.M)
    if total is None or not scenarios:
        return Result(f"{revision}, {name}", False, report[-500:])
    words = f"{scenarios.count('✓')} of {len(scenarios)} scenarios whole, checks {total[1]}"
    return Result(f"{revision}, {name}", done.returncode == 0, words)


def _run_inspector(address: str) -> Iterator[Result]:
    """List the tools strictly, call one, and list a resource's template."""

    def call(method: str, *options: str) -> dict[str, Any]:
        return call_inspector(TOOLS, _build_environment(), address, "--method", method, *options)

    names = [tool["name"] for tool in call("tools/list", "--strict").get("tools", [])]
    is_whole = names == [ability.name for ability in BUILT_IN]
    yield Result("Inspector, tools/list --strict", is_whole, f"{len(names)} tools")

    reply = call("tools/call", "--tool-name", "file_list", "--tool-arg", "pattern=*.txt")
    text = json.loads(reply["content"][0]["text"]) if reply.get("content") else {}
    paths = [file["path"] for file in text.get("files", [])]
    yield Result("Inspector, tools/call file_list", paths == ["a.txt"], ", ".join(paths))

    found = call("resources/templates/list").get("resourceTemplates", [])
    templates = [template["uriTemplate"] for template in found]
    is_whole = templates == ["memory://{key}"]
    yield Result("Inspector, templates", is_whole, ", ".join(templates))


@contextmanager
def _serve_product(folder: Path) -> Iterator[str]:
    """Run the server that users run, with a file to read."""
    roots = [folder / "agent", folder / "work"]
    for root in roots:
        root.mkdir()
    (roots[1] / "a.txt").write_text("read")
    store = f"sqlite:///{folder}/store/memory.db"
    settings = Settings(agent_dir=roots[0], workspace_dir=roots[1], store_url=store)
    with serving(settings, folder) as server:
        yield f"{server.address}/mcp"


@contextmanager
def _serve_fixtures(folder: Path) -> Iterator[str]:
    """Run a server of the abilities that the tool calls by name."""
    command = [sys.executable, "-m", "tests.conformance.fixtures"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE.parent.parent) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.terminate()


def _build_path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def _build_environment() -> dict[str, str]:
    return {**os.environ, "PATH": _build_path(), "HOME": str(TOOLS)}


if __name__ == "__main__":
    sys.exit(main())
