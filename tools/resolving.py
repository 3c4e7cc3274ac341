"""Write the table of `docs/install.md`: which versions install together.

Nothing is installed: uv resolves this package and a neighbor for the Python that runs this.
"""

import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "install.md"
UV = Path(sys.executable).with_name("uv")

EXTRAS = ("", "http", "mcp", "postgres", "all")
"""What is installed of this package, "" for no extra."""

NEIGHBORS = (
    "crewai",
    "langchain-mcp-adapters",
    "openai-agents",
    "pydantic-ai",
    "llama-index-core",
    "google-adk",
    "agent-framework",
    "deepagents",
    "langgraph",
    "mcp<2",
)

_BEGIN = "<!-- resolved by tools.resolving -->\n"
_END = "<!-- end of what was resolved -->"
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)", re.M)
_NEED = re.compile(r"(\S+) depends on (\S+),? (?:and|we)")


class Outcome(NamedTuple):
    """The version of a neighbor that was picked, None if there is none, and what uv said."""

    version: str | None
    words: str


def resolve(requirements: list[str], name: str) -> Outcome:
    """Resolve requirements, and look up the version of one package."""
    command = [str(UV), "pip", "compile", "--quiet", "--no-annotate", "--no-header"]
    command += ["--python", sys.executable, "-"]

    done = subprocess.run(
        command, input="\n".join(requirements), capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        return Outcome(None, " ".join(done.stderr.split()))

    versions = dict(_PIN.findall(done.stdout))
    return Outcome(versions[name], "")


def name_package(extra: str) -> str:
    """Return what pip is told to install."""
    return f"agent-abilities[{extra}]" if extra else "agent-abilities"


def explain(words: str) -> str:
    """Return the requirements that contradict each other, from what uv said."""
    needs: list[str] = []

    for package, needed in _NEED.findall(words):
        ours = package.startswith("agent-abilities")
        name = "this package" if ours else f"`{package}`"
        needs.append(f"{name} needs `{needed.rstrip(',')}`")

    return ", and ".join(dict.fromkeys(needs)) or words


def try_neighbor(neighbor: str) -> tuple[list[str], list[str]]:
    """Return the cells of a neighbor's row, and a line per conflict."""
    name = neighbor.partition("<")[0]
    alone = resolve([neighbor], name)
    if alone.version is None:
        raise SystemExit(f"{neighbor} cannot be resolved alone: {alone.words}")

    cells = [f"`{neighbor}`", alone.version]
    conflicts: dict[str, list[str]] = {}

    for extra in EXTRAS:
        package = f"{name_package(extra)} @ {ROOT.as_uri()}"
        together = resolve([f"{name}=={alone.version}", package], name)
        if together.version is not None:
            cells.append("yes")
            continue

        cells.append("no")
        reason = explain(together.words)
        older = resolve([neighbor, package], name).version
        instead = f"a resolver left to choose takes {name} {older}" if older else "nothing resolves"
        conflicts.setdefault(f"{reason}; {instead}.", []).append(extra)

    lines = [
        f"- {neighbor} with {', '.join(f'`{name_package(extra)}`' for extra in extras)}: {reason}"
        for reason, extras in conflicts.items()
    ]
    return cells, lines


def format_page() -> str:
    """Resolve everything, and return the text between the marks of the page.

    Neighbors that install beside every extra are one sentence, and the others a table.
    """
    heads = ["neighbor", "its version", *(f"`[{e}]`" if e else "no extra" for e in EXTRAS)]
    rows = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    compatible: list[str] = []

    for neighbor in NEIGHBORS:
        cells, lines = try_neighbor(neighbor)
        print(*cells)
        print(*lines, sep="\n", flush=True)

        if lines:
            rows.append(f"| {' | '.join(cells)} |")
        else:
            compatible.append(" ".join(cells[:2]))

    today = datetime.now(UTC).date().isoformat()
    python = ".".join(platform.python_version_tuple()[:2])
    system = f"Python {python} on {platform.system()}"
    intro = f"Resolved on {today} for {system}, each neighbor at the newest version that resolves."
    rest = f"With every extra: {', '.join(compatible)}."
    return f"{intro}\n\n" + "\n".join(rows) + f"\n\n{rest}\n"


def main() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)

    PAGE.write_text(f"{before}{_BEGIN}\n{format_page()}\n{_END}{after}")


if __name__ == "__main__":
    main()
