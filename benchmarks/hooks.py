"""How long a client waits for a hook: with a server of its session, and without one.

Both are measured in turns, each as a process of its own, with 2,000 memories, each event in a new
session, so that there is an answer::

    python -m benchmarks.hooks [REPETITIONS]
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from abilities import Abilities, Settings

MEMORIES = 2_000
COMMAND = [sys.executable, "-P", "-m", "abilities"]
EVENTS: dict[str, dict[str, object]] = {
    "UserPromptSubmit": {"prompt": "Which port does the service zephyr7 use?"},
    "PreToolUse": {"tool_input": {"file_path": "src/part7.py"}},
}


async def fill(home: Path) -> None:
    """Store memories, each of which is about a file."""
    settings = Settings(
        store_url=f"sqlite:///{home}/.abilities/memory.db", agent_dir=home, workspace_dir=home
    )
    async with Abilities.open(settings) as abilities:
        for first in range(0, MEMORIES, 50):
            operations = [
                {
                    "op": "store",
                    "key": f"services/{place}",
                    "type": "learning",
                    "content": f"The service zephyr{place} listens on port {8_000 + place}.",
                    "about": [f"src/part{place}.py"],
                }
                for place in range(first, first + 50)
            ]
            await abilities.call("remember", {"operations": operations})


def measure(event: str, project: Path, environment: dict[str, str], session: str) -> float:
    """Return the milliseconds until a hook has answered."""
    given = {"session_id": session, "cwd": str(project), **EVENTS[event]}
    began = time.perf_counter()
    done = subprocess.run(
        [*COMMAND, "hook", event],
        input=json.dumps(given).encode(),
        stdout=subprocess.PIPE,
        check=True,
        cwd=project,
        env=environment,
    )
    took = 1_000 * (time.perf_counter() - began)

    assert b"services/7" in done.stdout or took > 1_000, "the machine is too slow for its deadline"
    return took


def main(repetitions: int) -> None:
    """Measure both ways in turns, and print the median and the quartiles of each."""
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project").resolve()
        (home / ".abilities" / "hooks").mkdir(parents=True)
        project.mkdir()
        asyncio.run(fill(home))

        environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
        # Servers answer for hooks with the same settings, and this variable is one.
        alone = {**environment, "ABILITIES_DETAIL": "concise"}
        server = subprocess.Popen(
            [*COMMAND, "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=project,
            env=environment,
        )
        try:
            while not any((home / ".abilities" / "hooks").glob("*.*")):
                time.sleep(0.01)

            times: dict[tuple[str, str], list[float]] = defaultdict(list)
            for turn in range(repetitions):
                for event in EVENTS:
                    for way, variables in (("server", environment), ("alone", alone)):
                        session = f"{way} {event} {turn}"
                        took = measure(event, project, variables, session)
                        times[event, way].append(took)
        finally:
            server.kill()
            server.wait()

    for (event, way), values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{event:17} {way:7} median {middle:.0f} ms ({low:.0f} to {high:.0f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 30)
