"""Count what reading 25 files and 10 memories costs a model: one at a time, and in bulk.

A model reads its whole conversation again in every round. A token is estimated at four bytes. The
single reads get every advantage: their replies are the bare contents, without any envelope.
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


def estimate_cost(rounds: list[list[str]]) -> Cost:
    """Return the cost of a conversation, given what each round adds to it.

    The last round is the answer to the user.
    """
    context, read = BEGINNING, 0
    for added in rounds:
        read += context
        context += sum(len(text.encode()) // 4 + 1 for text in added)
    return Cost(len(rounds) + 1, read + context, context)


async def compare_costs(
    abilities: Abilities, paths: list[str], keys: list[str]
) -> tuple[Cost, Cost]:
    """Return the cost of reading one item per round, and of reading all items in two calls."""

    async def call(name: str, arguments: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        answer = await abilities.call(name, arguments)
        return [json.dumps({"name": name, "arguments": arguments}), render(answer)], answer

    targets = [{"type": "stored", "key": key} for key in keys]
    single: list[list[str]] = []
    for path in paths:
        _, answer = await call("file_read_bulk", {"paths": [path]})
        single.append(
            [json.dumps({"name": "read", "path": path}), answer["results"][0]["data"]["content"]]
        )
    for target in targets:
        _, answer = await call("memory_read_bulk", {"targets": [target]})
        single.append(
            [json.dumps({"name": "recall", **target}), answer["results"][0]["data"]["content"]]
        )
    bulk = [(await call("file_read_bulk", {"paths": paths}))[0]]
    bulk.append((await call("memory_read_bulk", {"targets": targets}))[0])
    return estimate_cost(single), estimate_cost(bulk)


async def main() -> tuple[Cost, Cost]:
    """Compare both, and return the cost of single reads and of bulk reads."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        for n in range(25):
            Path(folder, f"file{n:02}.md").write_text(" ".join(chance.choices(WORDS, k=350)))
        settings = Settings(workspace_dir=Path(folder), store_url=f"sqlite:///{folder}/memory.db")
        async with Abilities.open(settings) as abilities:
            keys = [f"project/note{n}" for n in range(10)]
            for key in keys:
                content = " ".join(chance.choices(WORDS, k=60))
                await abilities.call(
                    "store_memory", {"type": "core", "key": key, "content": content}
                )
            single, bulk = await compare_costs(
                abilities, [f"file{n:02}.md" for n in range(25)], keys
            )
    print("                  rounds   tokens read   of which new")
    for name, cost in (("one at a time", single), ("in bulk", bulk)):
        print(f"{name:<17} {cost.rounds:>6} {cost.read:>13,} {cost.new:>14,}")
    rounds, read = single.rounds / bulk.rounds, single.read / bulk.read
    print(f"{rounds:.0f} times fewer rounds, {read:.1f} times fewer tokens read")
    assert single.rounds == 36 and bulk.rounds == 3
    return single, bulk


if __name__ == "__main__":
    asyncio.run(main())
