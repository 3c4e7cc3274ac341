"""How long `recall` takes over a generated store: three kinds of questions, without and with links.

    python -m benchmarks.recall_speed                    # 100,000 memories in a folder for the run
    python -m benchmarks.recall_speed 1000000 --store m.db   # kept, and used again by the next run

Every memory has the words "memory" and "common", twenty of 2,000 others, and five links.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from abilities import Abilities, Settings
from benchmarks.generate import generate

COMMON = ("common", "memory")
WORDS = 2_000

KINDS: Mapping[str, tuple[int, int]] = {
    "4 rare": (0, 4),
    "1 common, 5 rare": (1, 5),
    "2 common, 10 rare": (2, 10),
    "2 common": (2, 0),
}
"""How many words of each kind a question has."""

HOPS = (0, 2)


class Times(NamedTuple):
    """Milliseconds per question."""

    median: float
    p95: float
    processor: float


def build_question(chance: random.Random, common: int, rare: int) -> str:
    """Return a question of so many common words and words that a hundredth of all memories hold."""
    words = [f"word{chance.randrange(WORDS)}" for _ in range(rare)]
    return " ".join([*COMMON[:common], *words])


async def measure(abilities: Abilities, questions: list[str], hops: int) -> Times:
    """Ask each question once, one after the other."""
    seconds: list[float] = []
    processor_began = time.process_time()

    for question in questions:
        began = time.perf_counter()
        await abilities.call("recall", {"queries": question, "hops": hops})
        seconds.append(time.perf_counter() - began)

    processor = time.process_time() - processor_began
    seconds.sort()
    milliseconds = [1_000 * one for one in seconds]
    return Times(
        milliseconds[len(milliseconds) // 2],
        milliseconds[len(milliseconds) * 95 // 100],
        1_000 * processor / len(questions),
    )


async def measure_all(path: Path, folder: Path, count: int) -> None:
    """Print one line per kind of question and number of links followed."""
    chance = random.Random(1)
    settings = Settings(store_url=f"sqlite:///{path}", workspace_dir=folder, agent_dir=folder)

    async with Abilities.open(settings) as abilities:
        await measure(abilities, [build_question(chance, 1, 5) for _ in range(3)], 2)

        for hops in HOPS:
            for name, (common, rare) in KINDS.items():
                questions = [build_question(chance, common, rare) for _ in range(count)]
                times = await measure(abilities, questions, hops)
                print(
                    f"{hops} hops, {name} words: median {times.median:.1f} ms,"
                    f" p95 {times.p95:.1f} ms, processor {times.processor:.1f} ms"
                )


def main() -> None:
    """Generate a store, unless there is one already, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("memories", type=int, nargs="?", default=100_000)
    parser.add_argument("--questions", type=int, default=40, help="questions of each kind")
    parser.add_argument("--store", type=Path, help="an SQLite file that is kept")
    arguments = parser.parse_args()

    with TemporaryDirectory() as name:
        folder = Path(name)
        path = (arguments.store or folder / "memories.db").absolute()
        if not path.exists():
            generate(path, arguments.memories)

        asyncio.run(measure_all(path, folder, arguments.questions))


if __name__ == "__main__":
    main()
