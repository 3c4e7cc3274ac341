"""Evidence recall at N tokens, as sent: `make bench-recall DATA=path`.

For each question the data names the memories that hold its evidence. Measured is the mean share of
them that a reply of at most N tokens shows, at four bytes per token of the reply as it is sent; of
memories that were joined to long ones, that the answer is in the text that is shown. That is not
the accuracy of answers: no model answers anything here. Of each set, some questions are also asked
in a world that they are not about: these should not be answered.

``DATA`` is a file or folder of sets that are not part of this package, see `load_sets`. Without it
only the sets of this package are measured: a small world, and chains of memories whose answers only
links lead to.
"""

import argparse
import asyncio
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from abilities import Abilities, Settings
from benchmarks.recall_contenders import (
    BasicMemory,
    Contender,
    OfficialServer,
    PlainBm25,
    QueryMemories,
    Recall,
    find_basic_memory,
)
from benchmarks.recall_sets import RecallSet, World, load_sets
from tests.support.recall_sample import (
    FOREIGN_QUESTIONS,
    MEMORIES,
    QUESTIONS,
    Question,
    make_chains,
)

TOKENS = (500, 1_000, 2_000, 4_000)
CHAINS = 300
MOST_QUESTIONS = 400
"""Questions that are asked of a world."""

FOREIGN = 300
"""Questions that are asked where nothing answers them."""

Shares = dict[str, dict[int, list[float]]]
"""The share of evidence found for each question, by category and tokens."""


async def measure(contender: Contender, worlds: Sequence[World]) -> Shares:
    """Ask every question of every world at every size."""
    shares: Shares = defaultdict(lambda: defaultdict(list))

    for number, world in enumerate(worlds):
        await contender.store(number, world)

        for question in choose(world.questions, MOST_QUESTIONS):
            for tokens in TOKENS:
                found = await contender.ask(number, question, tokens)
                share = len(found & set(question.evidence)) / len(question.evidence)
                shares[question.category][tokens].append(share)

    return shares


def choose(questions: Sequence[Question], count: int) -> Sequence[Question]:
    """Return so many questions, the same in every run."""
    if len(questions) <= count:
        return questions

    return random.Random(1).sample(list(questions), count)


async def count_answered(
    abilities: Abilities, number: int, questions: Iterable[str]
) -> tuple[int, int]:
    """Return how many questions a world answers at all, and how many were asked."""
    view = abilities.for_namespace(f"world-{number}")
    answered = asked = 0
    for text in questions:
        (record,) = (await view.call("recall", {"queries": [text]}))["results"]
        answered += record["confidence"] != "none"
        asked += 1

    return answered, asked


def add_rows(table: Table, name: str, shares: Shares, groups: Iterable[tuple[str, ...]]) -> None:
    """Add a row per group of categories, with the mean over all their questions."""
    for group in groups:
        row: list[str] = []
        count = 0
        for tokens in TOKENS:
            values = [share for category in group for share in shares[category][tokens]]
            count = len(values)
            row.append(f"{100 * sum(values) / len(values):.1f}")

        label = " to ".join(dict.fromkeys((*group[:1], *group[-1:])))
        table.add_row(name, label, str(count), *row)


def list_groups(shares: Shares) -> list[tuple[str, ...]]:
    """Return the categories alone, and those of LoCoMo without and with its last one together."""
    categories = sorted(shares)
    groups: list[tuple[str, ...]] = [(category,) for category in categories]
    if categories == ["1", "2", "3", "4", "5"]:
        groups += [("1", "2", "3", "4"), ("1", "2", "3", "4", "5")]

    return groups


async def measure_set(
    one: RecallSet, strangers: Sequence[str], console: Console, *, beside_others: bool
) -> None:
    """Measure all contenders on one set, and print a table."""
    title = f"{one.name}: evidence recall in % at N tokens, as sent"
    table = Table("asked", "category", "questions", *map(str, TOKENS), title=title)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        base = Path(folder)
        for name in ("agent", "workspace"):
            (base / name).mkdir()

        settings = Settings(
            agent_dir=base / "agent",
            workspace_dir=base / "workspace",
            store_url=f"sqlite:///{base / 'memory.db'}",
            recall_language=one.language,
        )
        async with Abilities.open(settings) as abilities:
            contenders: list[Contender] = [
                Recall(abilities),
                Recall(abilities, hops=0),
                PlainBm25(one.language),
            ]
            if beside_others:
                contenders += [QueryMemories(abilities), OfficialServer(base, servers)]
                if command := find_basic_memory():
                    contenders.append(BasicMemory(base, servers, command))

            for contender in contenders:
                shares = await measure(contender, one.worlds)
                add_rows(table, contender.name, shares, list_groups(shares))

            own: tuple[int, int] = (0, 0)
            foreign: tuple[int, int] = (0, 0)
            for number, world in enumerate(one.worlds):
                texts = [question.text for question in choose(world.questions, FOREIGN)]
                count = max(1, FOREIGN // len(one.worlds))
                others = random.Random(number).sample(strangers, min(count, len(strangers)))
                own = add(own, await count_answered(abilities, number, texts))
                foreign = add(foreign, await count_answered(abilities, number, others))

    console.print(table)
    told = f"own questions answered: {own[0]} of {own[1]}; foreign: {foreign[0]} of {foreign[1]}"
    console.print(told)


def add(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Return the sums of two pairs."""
    return first[0] + second[0], first[1] + second[1]


async def measure_all(data: Path | None, console: Console) -> None:
    """Measure the sets of this package, and the data if it is given."""
    if find_basic_memory() is None:
        console.print("basic-memory: not measured, because no such command is in PATH")

    sets = [
        RecallSet("A small world", [World(MEMORIES, QUESTIONS)]),
        RecallSet("Answers that only links lead to", [World(*make_chains(CHAINS))]),
    ]
    if data is not None:
        sets += load_sets(data)

    for one in sets:
        # Each set is asked the questions of the others in its language.
        strangers = list(FOREIGN_QUESTIONS)
        for other in sets:
            if other.name.partition(",")[0] != one.name.partition(",")[0]:
                strangers += [asked.text for world in other.worlds for asked in world.questions]

        await measure_set(one, strangers, console, beside_others=one.language == "english")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="a file or a folder of sets")
    arguments = parser.parse_args()

    asyncio.run(measure_all(arguments.data, Console(width=150)))


if __name__ == "__main__":
    main()
