"""Show which modules and functions a call enters: `python -m tools.ways`, with `-v` by name.

Counted are the package's own, on every thread that works for the call, after two calls that warm up
what is kept between calls.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from abilities import Abilities, Settings

CALLS: Mapping[str, dict[str, Any]] = {
    "file_read_bulk": {"paths": ["notes.txt"]},
    "bulk_read_memory": {"key": "memory 5", "total": 6},
    "recall": {"queries": ["what follows memory"]},
}
"""One file, six memories, one question."""


@dataclass
class Way:
    """What is entered: functions by their module, and how often a call moves between modules."""

    modules: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    moves: int = 0

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of a call; a profile function of `sys.setprofile`."""
        module: str = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("abilities"):
            return

        self.modules.setdefault(module, set()).add(frame.f_code.co_qualname)
        caller = frame.f_back
        self.moves += caller is None or caller.f_globals.get("__name__") != module


async def record(folder: Path) -> dict[str, Way]:
    """Return the way of each call."""
    way = Way()
    # Threads that are started from now on note what they enter on the way of that moment.
    threading.setprofile(lambda *entered: way.note(*entered))
    (folder / "notes.txt").write_text("a line\n")
    settings = Settings(
        agent_dir=folder, workspace_dir=folder, store_url=f"sqlite:///{folder}/memory.db"
    )

    ways: dict[str, Way] = {}
    async with Abilities.open(settings) as abilities:
        for n in range(6):
            memory = {"type": "core", "key": f"memory {n}", "content": f"memory {n} is followed"}
            links = [{"key": f"memory {n - 1}"}] if n else []
            await abilities.call("store_memory", {**memory, "links": links})

        for name, arguments in CALLS.items():
            for _ in range(2):
                await abilities.call(name, arguments)

            ways[name] = way = Way()
            sys.setprofile(way.note)
            await abilities.call(name, arguments)
            sys.setprofile(None)
            way = Way()

    threading.setprofile(None)
    return ways


def main() -> None:
    """Print the ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="name what is entered")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        ways = asyncio.run(record(Path(folder)))

    console = Console()
    table = Table("call", "modules", "functions", "moves between modules")
    for name, way in ways.items():
        functions = sum(map(len, way.modules.values()))
        table.add_row(name, str(len(way.modules)), str(functions), str(way.moves))
    console.print(table)

    if options.verbose:
        for name, way in ways.items():
            console.rule(name)
            for module, entered in sorted(way.modules.items()):
                console.print(f"{module}: {', '.join(sorted(entered))}", highlight=False)


if __name__ == "__main__":
    main()
