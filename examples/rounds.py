"""Count what reading 25 files and 10 memories costs a model: one at a time, and in bulk.

A model reads its whole conversation again in every round. Tokens are estimated at four bytes each.
The single reads are given every advantage: their replies are the bare contents, without any
envelope.
"""

import asyncio
import json
import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from abilities import Abilities, Settings, render

BEGINNING = 3_000
"""Tokens of instructions, tools and the question, before anything is read."""
WORDS = [
    "one",
    "reply",
    "for",
    "every",
    "item",
    "its",
    "own",
    "outcome",
    "and",
    "nothing",
    "lost",
    "on",
    "the",
    "way",
]


class Cost(NamedTuple):
    """What a conversation cost: rounds, tokens read over all of them, and tokens that were new."""

    rounds: int
    read: int
    new: int


def count_cost(rounds: list[list[str]]) -> Cost:
    """Return the cost of a conversation, from the texts that each round adds to it.

    One more round follows, in which the model answers the user.
    """
    context, read = BEGINNING, 0

    for texts in rounds:
        read += context
        context += sum(len(text.encode()) // 4 + 1 for text in texts)

    return Cost(len(rounds) + 1, read + context, context)


async def read_one_at_a_time(
    abilities: Abilities, paths: list[str], targets: list[dict[str, str]]
) -> list[list[str]]:
    """Return the texts of each round if every item is read by a call of its own."""
    rounds: list[list[str]] = []

    for path in paths:
        answer = await abilities.call("file_read_bulk", {"paths": [path]})
        call = json.dumps({"name": "read", "path": path})
        rounds.append([call, answer["results"][0]["data"]["content"]])

    for target in targets:
        answer = await abilities.call("memory_read_bulk", {"targets": [target]})
        call = json.dumps({"name": "recall", **target})
        rounds.append([call, answer["results"][0]["data"]["content"]])

    return rounds


async def read_in_bulk(
    abilities: Abilities, paths: list[str], targets: list[dict[str, str]]
) -> list[list[str]]:
    """Return the texts of each round if two calls read everything."""
    rounds: list[list[str]] = []
    calls: list[tuple[str, dict[str, Any]]] = [
        ("file_read_bulk", {"paths": paths}),
        ("memory_read_bulk", {"targets": targets}),
    ]

    for name, arguments in calls:
        answer = await abilities.call(name, arguments)
        rounds.append([json.dumps({"name": name, "arguments": arguments}), render(answer)])

    return rounds


async def main() -> tuple[Cost, Cost]:
    """Compare both ways; returns the cost of one item at a time, and of bulk reads."""
    generator = random.Random(1)
    paths = [f"file{n:02}.md" for n in range(25)]
    keys = [f"project/note{n}" for n in range(10)]
    targets = [{"type": "stored", "key": key} for key in keys]

    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            Path(folder, path).write_text(" ".join(generator.choices(WORDS, k=350)))

        settings = Settings(workspace_dir=Path(folder), store_url=f"sqlite:///{folder}/memory.db")
        async with Abilities.open(settings) as abilities:
            for key in keys:
                memory = {"type": "core", "key": key}
                content = " ".join(generator.choices(WORDS, k=60))
                await abilities.call("store_memory", {**memory, "content": content})

            single = count_cost(await read_one_at_a_time(abilities, paths, targets))
            bulk = count_cost(await read_in_bulk(abilities, paths, targets))

    show_costs(single, bulk)
    assert single.rounds == 36 and bulk.rounds == 3
    return single, bulk


def show_costs(single: Cost, bulk: Cost) -> None:
    """Print a table of both costs, and how they compare."""
    print("                  rounds   tokens read   of which new")
    for name, cost in (("one at a time", single), ("in bulk", bulk)):
        print(f"{name:<17} {cost.rounds:>6} {cost.read:>13,} {cost.new:>14,}")

    fewer_rounds = single.rounds / bulk.rounds
    fewer_tokens = single.read / bulk.read
    print(f"{fewer_rounds:.0f} times fewer rounds, {fewer_tokens:.1f} times fewer tokens read")


if __name__ == "__main__":
    asyncio.run(main())
