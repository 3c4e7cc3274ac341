"""Count what reading 25 files and 10 memories costs a model: one at a time, and in bulk.

A model reads its whole conversation again in every round. Tokens are estimated at four bytes each. The single reads are
given every advantage: their replies are the bare contents, without any envelope.
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


def cost_of(rounds: list[list[str]]) -> Cost:
    """The cost of a conversation, by what each round adds to it; the last round is the answer to the user."""
    context, read = BEGINNING, 0
    for added in rounds:
        read += context
        context += sum(len(text.encode()) // 4 + 1 for text in added)
    return Cost(len(rounds) + 1, read + context, context)


async def conversations(
    abilities: Abilities, paths: list[str], keys: list[str]
) -> tuple[Cost, Cost]:
    """One item a round, and all of them in two calls."""

    async def asked(name: str, arguments: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        answer = await abilities.call(name, arguments)
        return [json.dumps({"name": name, "arguments": arguments}), render(answer)], answer

    targets = [{"type": "stored", "key": key} for key in keys]
    single: list[list[str]] = []
    for path in paths:
        _, answer = await asked("file_read_bulk", {"paths": [path]})
        single.append(
            [json.dumps({"name": "read", "path": path}), answer["results"][0]["data"]["content"]]
        )
    for target in targets:
        _, answer = await asked("memory_read_bulk", {"targets": [target]})
        single.append(
            [json.dumps({"name": "recall", **target}), answer["results"][0]["data"]["content"]]
        )
    bulk = [(await asked("file_read_bulk", {"paths": paths}))[0]]
    bulk.append((await asked("memory_read_bulk", {"targets": targets}))[0])
    return cost_of(single), cost_of(bulk)


async def main() -> tuple[Cost, Cost]:
    """Compare them; returns what one at a time cost, and what bulk did."""
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
            single, bulk = await conversations(
                abilities, [f"file{n:02}.md" for n in range(25)], keys
            )
    print("                  rounds   tokens read   of which new")
    for name, cost in (("one at a time", single), ("in bulk", bulk)):
        print(f"{name:<17} {cost.rounds:>6} {cost.read:>13,} {cost.new:>14,}")
    print(
        f"{single.rounds / bulk.rounds:.0f} times fewer rounds, {single.read / bulk.read:.1f} times fewer tokens read"
    )
    assert single.rounds == 36 and bulk.rounds == 3
    return single, bulk


if __name__ == "__main__":
    asyncio.run(main())
