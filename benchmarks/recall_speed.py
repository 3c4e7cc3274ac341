"""How long `recall` takes over a generated store: kinds of questions, without and with links.

    python -m benchmarks.recall_speed                    # 100,000 memories in a folder for the run
    python -m benchmarks.recall_speed 1000000 --store m.db   # kept, and used again by the next run

Every memory has the words "memory" and "common", twenty of 2,000 others, and five links. Four more
words that half of all memories hold stand in the index only, so that other benchmarks can use the
same stores.
"""

import argparse
import asyncio
import random
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from abilities import Abilities, Settings
from abilities.helpers.search import postings
from benchmarks.generate import generate

COMMON = ("common", "memory")
HALF = ("half0", "half1", "half2", "half3")
WORDS = 2_000

KINDS: Mapping[str, tuple[int, int, int]] = {
    "4 rare": (0, 0, 4),
    "1 common, 5 rare": (1, 0, 5),
    "2 common, 10 rare": (2, 0, 10),
    "2 common": (2, 0, 0),
    "2 half, 4 rare": (0, 2, 4),
    "4 half": (0, 4, 0),
}
"""How many words of each kind a question has."""

HOPS = (0, 2)


class Times(NamedTuple):
    """Milliseconds per question."""

    median: float
    p95: float
    processor: float


def add_words_of_half(path: Path) -> None:
    """Let the index of a store have the words that half of all memories hold, chosen at random."""
    chance = random.Random(2)

    with closing(sqlite3.connect(path)) as connection, connection:
        blocks = connection.execute(
            "SELECT DISTINCT namespace, part, block FROM recall_terms"
        ).fetchall()
        for namespace, part, block in blocks:
            for word in HALF:
                numbers = [n for n in range(postings.BLOCK_DOCS) if chance.random() < 0.5]
                first = block * postings.BLOCK_DOCS
                docs = [postings.pack(first + n, chance.randrange(8, 24)) for n in numbers]
                connection.execute(
                    "INSERT OR REPLACE INTO recall_terms VALUES (?, ?, 0, ?, ?, ?)",
                    (namespace, part, word, block, b"".join(docs)),
                )


def build_question(chance: random.Random, common: int, half: int, rare: int) -> str:
    """Return a question of so many words of each kind; a hundredth of all hold a rare one."""
    words = [f"word{chance.randrange(WORDS)}" for _ in range(rare)]
    return " ".join([*COMMON[:common], *HALF[:half], *words])


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
        await measure(abilities, [build_question(chance, 1, 0, 5) for _ in range(3)], 2)

        for hops in HOPS:
            for name, counts in KINDS.items():
                questions = [build_question(chance, *counts) for _ in range(count)]
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

        add_words_of_half(path)
        asyncio.run(measure_all(path, folder, arguments.questions))


if __name__ == "__main__":
    main()
