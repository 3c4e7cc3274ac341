"""How long a search of files takes: ours in process, ripgrep, and the official filesystem server.

    python -m benchmarks.search_speed                 # 2,000 files, 20 MB, in a folder for the run
    python -m benchmarks.search_speed --tree PATH     # a folder of your own, with --rare and so on

Ours and ripgrep show two lines around each match; ours stops at 100 hits. The official server has
no search of contents: its client lists the files, reads all of them, and looks through the texts.
"""

import argparse
import asyncio
import random
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from abilities import Abilities, Settings
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.searcher import SearchRequest
from benchmarks import packages, peers
from benchmarks.measure import Timings, Work, run_shuffled

FILES = 2_000
FOLDERS = 80
LINES = 250
RARE = "needle_in_the_haystack"
RARE_FILES = 5

FILES_PER_READ = 50
"""Files that the official server is asked for at once."""


class Search(NamedTuple):
    """A text or a pattern that is searched for."""

    text: str
    is_regex: bool


SEARCHES: Mapping[str, Search] = {
    "literal, rare": Search(RARE, False),
    "literal, common": Search("return", False),
    "regex": Search(r"def \w+_haystack\(", True),
    "no match": Search("nowhere to be found", False),
}


def write_tree(root: Path) -> None:
    """Write files that look like a program's sources, always the same."""
    chance = random.Random(1)
    words = [f"{first}_{second}" for first in ("read", "send", "user", "page") for second in WORDS]

    for n in range(FILES):
        folder = root / f"package{n % FOLDERS}"
        folder.mkdir(exist_ok=True)

        lines = [write_line(chance, words) for _ in range(LINES)]
        if n % (FILES // RARE_FILES) == FILES // RARE_FILES - 1:
            lines[LINES // 2] = f"def {RARE}():"

        (folder / f"module{n}.py").write_text("\n".join(lines) + "\n")


WORDS = ("value", "result", "items", "name", "state", "event", "buffer", "count", "index", "token")


def write_line(chance: random.Random, words: list[str]) -> str:
    """Return a line of about forty characters."""
    kind = chance.randrange(5)
    first, second, third = chance.choices(words, k=3)

    if kind == 0:
        return f"def {first}({second}, {third}):"
    if kind == 1:
        return f"    return {first}({second}) + {third}"
    if kind == 2:
        return f"    # The {first} of a {second}."

    return f"    {first} = {second}[{third}]"


def find_ripgrep() -> str | None:
    """Return a `rg` that is on the path, or that npm has installed with the official servers."""
    installed = list(packages.NPM.glob("node_modules/@vscode/ripgrep-*/bin/rg"))
    if installed:
        return str(installed[0])

    return shutil.which("rg")


async def search_all(abilities: Abilities, search: Search) -> None:
    """Search to the end of the tree, or to the limit."""
    after: tuple[str, int] | None = ("", 0)
    while after is not None:
        request = SearchRequest(search.text, search.is_regex, Glob("**/*"), 2, 100, after)
        result = await abilities.context.files.search(request)

        after = None
        if result.is_over_time:
            after = result.after


def run_ripgrep(command: str, tree: Path, search: Search) -> None:
    """Run `rg`, which finds all matches."""
    kind = "-e" if search.is_regex else "-Fe"
    subprocess.run(
        [command, "--no-config", "--no-ignore", "-n", "-C2", kind, search.text, str(tree)],
        stdout=subprocess.PIPE,
        check=False,  # it fails if nothing matches
    )


def search_through_server(server: peers.Peer, tree: Path, search: Search) -> int:
    """List files, read each, and return the number of matching lines."""
    pattern = re.compile(search.text if search.is_regex else re.escape(search.text))
    arguments = {"path": str(tree), "pattern": "**/*"}
    paths = [line for line in server.call("search_files", arguments).splitlines() if "." in line]
    count = 0

    for start in range(0, len(paths), FILES_PER_READ):
        batch = paths[start : start + FILES_PER_READ]
        text = server.call("read_multiple_files", {"paths": batch})
        count += sum(1 for line in text.splitlines() if pattern.search(line))

    return count


async def measure(tree: Path, agent: Path, rounds: int) -> dict[str, Timings]:
    """Return the timings of each kind of search, for all that are at hand."""
    timings: dict[str, Timings] = {}
    ripgrep = find_ripgrep()
    settings = Settings(
        agent_dir=agent, workspace_dir=tree, store_url=f"sqlite:///{agent}/memory.db"
    )

    with peers.start_filesystem_server(tree) as server:
        async with Abilities.open(settings) as abilities:
            for name, search in SEARCHES.items():
                variants: dict[str, Work] = {
                    "ours": partial(search_all, abilities, search),
                    "server": partial(search_through_server, server, tree, search),
                }
                if ripgrep is not None:
                    variants["ripgrep"] = partial(run_ripgrep, ripgrep, tree, search)

                timings[name] = await run_shuffled(variants, rounds, warmup_rounds=1)

    return timings


def main() -> None:
    """Generate a tree, unless there is one, and print medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tree", type=Path, help="the folder to search")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()

    with TemporaryDirectory() as name:
        tree, agent = arguments.tree, Path(name) / "agent"
        agent.mkdir()
        if tree is None:
            tree = Path(name) / "tree"
            tree.mkdir()
            write_tree(tree)

        if find_ripgrep() is None:
            print("There is no ripgrep at hand; ours is compared with the official server alone.")

        for kind, timings in asyncio.run(measure(tree.resolve(), agent, arguments.rounds)).items():
            print_timings(kind, timings)


def print_timings(kind: str, timings: Timings) -> None:
    """Print one line: our median in milliseconds, and how the others compare with it."""
    line = f"{kind}: ours {1_000 * timings['ours']:.1f} ms"
    line += f", the official server {timings['server'] / timings['ours']:.1f} times as long"
    if "ripgrep" in timings:
        line += f", ours {timings['ours'] / timings['ripgrep']:.2g} times as long as ripgrep"

    print(line)


if __name__ == "__main__":
    main()
