"""Count what a model reads to learn about a project: one thing at a time, in three calls, in one.

There are 25 files, 10 memories, today's notes, and a question. A model reads its whole conversation
again in every round, with the list of tools at its beginning. Tokens are estimated at four bytes
each. Single reads are given every advantage: their replies are the bare contents.
"""

import asyncio
import json
import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from abilities import Abilities, Settings, render
from abilities.definition import build_declaration

TOKEN_BYTES = 4

INSTRUCTIONS = 4_000
"""Bytes of instructions and of the user's question, before anything is read."""

OFFICIAL_TOOLS = 12_169
"""Bytes of the 23 tools of two official servers: filesystem 2026.8.31 and memory 2026.8.31."""

FILES = [f"src/file{number:02}.md" for number in range(25)]
MEMORIES = [f"project/note{number}" for number in range(10)]
QUESTION = "When does Aurora ship?"
SENTENCE = "one reply for every item its own outcome and nothing lost on the way"

Call = tuple[str, dict[str, Any]]


class Cost(NamedTuple):
    """What a conversation cost: rounds, tokens read over all of them, and tokens that were new."""

    rounds: int
    read: int
    new: int


def count_tokens(size: int) -> int:
    """Return the tokens of so many bytes."""
    return -(-size // TOKEN_BYTES)


def measure(text: str) -> int:
    """Return the bytes of a text."""
    return len(text.encode())


def format_json(value: object) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def count_cost(tools: int, rounds: list[list[str]]) -> Cost:
    """Return the cost of a conversation, from the texts that each round adds to it.

    One more round follows, in which the model answers the user.
    """
    context, read = count_tokens(INSTRUCTIONS + tools), 0

    for texts in rounds:
        read += context
        context += sum(count_tokens(measure(text)) for text in texts)

    return Cost(len(rounds) + 1, read + context, context)


def measure_tools(abilities: Abilities, names: list[str] | None = None) -> int:
    """Return the bytes of the tools as a model reads them: of all, or of those with some names."""
    offered = [ability for ability in abilities.offered if names is None or ability.name in names]
    return measure(format_json([build_declaration(ability)["anthropic"] for ability in offered]))


async def call_all(abilities: Abilities, calls: list[Call]) -> list[list[str]]:
    """Return the texts of each round: a call, and all of its reply."""
    rounds: list[list[str]] = []

    for name, arguments in calls:
        sent = format_json({"name": name, "arguments": arguments})
        answer = await abilities.call(name, {**arguments, "output_format": "text"})
        assert "next_request" not in answer
        rounds.append([sent, render(answer, "text")])

    return rounds


async def read_one_at_a_time(abilities: Abilities) -> list[list[str]]:
    """Return the texts of each round if each thing is read by a call of its own."""
    items = [*FILES, *({"memory": key} for key in MEMORIES), {"note": "today"}]
    rounds: list[list[str]] = []

    for item in items:
        answer = await abilities.call("read", {"items": [item]})
        call = format_json({"name": "read", "path": item})
        rounds.append([call, answer["results"][0]["data"]["content"]])

    answer = await abilities.call("recall", {"queries": [QUESTION]})
    contents = [memory["content"] for memory in answer["results"][0]["memories"]]
    call = format_json({"name": "search", "query": QUESTION})
    return [*rounds, [call, "\n".join(contents)]]


def list_three_calls() -> list[Call]:
    """Return the calls that read everything, each of one kind."""
    targets = [{"type": "stored", "key": key} for key in MEMORIES]
    notes = {"type": "short_term", "date": "today"}

    return [
        ("file_read_bulk", {"paths": FILES, "detail": "concise"}),
        ("memory_read_bulk", {"targets": [*targets, notes], "detail": "concise"}),
        ("recall", {"queries": [QUESTION]}),
    ]


def list_one_call() -> list[Call]:
    """Return the one call that reads everything."""
    memories = [{"memory": key} for key in MEMORIES]
    items = [{"glob": "src/*.md"}, *memories, {"note": "today"}, {"recall": QUESTION}]
    return [("read", {"items": items, "detail": "concise"})]


async def read_again(abilities: Abilities, workspace: Path) -> tuple[int, int]:
    """Return the bytes of a later session's call and reply: without versions, and with them."""
    first = await abilities.call("read", {"items": FILES, "detail": "concise"})
    items = [{"file": record["input"], "known": record["version"]} for record in first["results"]]
    workspace.joinpath(FILES[7]).write_text("changed")

    sizes: list[int] = []
    for sent in (FILES, items):
        ((call, reply),) = await call_all(
            abilities, [("read", {"items": sent, "detail": "concise"})]
        )
        sizes.append(measure(call) + measure(reply))

    assert reply.count('"unchanged":true') == 24 and "changed" in reply
    return sizes[0], sizes[1]


def write_words(generator: random.Random, count: int) -> str:
    """Return a text of so many words."""
    return " ".join(generator.choices(SENTENCE.split(), k=count))


async def prepare(abilities: Abilities, folder: Path) -> None:
    """Write the files and the notes, and store the memories: 40, of which three hold answers."""
    generator = random.Random(1)

    for path in FILES:
        (folder / "workspace" / path).write_text(write_words(generator, 350))

    today = datetime.now(UTC).date()
    (folder / "agent" / "memory" / f"{today}.md").write_text(write_words(generator, 200))

    others = [f"other/note{number}" for number in range(30)]
    for key in [*MEMORIES, *others]:
        content = write_words(generator, 60)
        if key in others[:3]:
            content = f"Aurora ships in May. {content}"
        await abilities.call("store_memory", {"type": "core", "key": key, "content": content})


async def main() -> list[Cost]:
    """Compare the ways, and return what each one costs."""
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        workspace = folder / "workspace"
        (workspace / "src").mkdir(parents=True)
        (folder / "agent" / "memory").mkdir(parents=True)
        settings = Settings(
            workspace_dir=workspace,
            agent_dir=folder / "agent",
            store_url=f"sqlite:///{folder}/memory.db",
            timezone="UTC",
        )
        async with Abilities.open(settings) as abilities:
            await prepare(abilities, folder)
            every_tool, read_alone = measure_tools(abilities), measure_tools(abilities, ["read"])
            one_call = await call_all(abilities, list_one_call())
            assert one_call == await call_all(abilities, list_one_call())
            three_calls = await call_all(abilities, list_three_calls())
            costs = {
                "one at a time": count_cost(OFFICIAL_TOOLS, await read_one_at_a_time(abilities)),
                "three calls": count_cost(every_tool, three_calls),
                "one call": count_cost(every_tool, one_call),
                "only read offered": count_cost(read_alone, one_call),
            }
            again = await read_again(abilities, workspace)

    show_costs(costs)
    print(f"tools: {OFFICIAL_TOOLS:,} bytes, {every_tool:,} bytes, read alone {read_alone:,} bytes")
    print(f"a later session: {again[0]:,} bytes, with versions {again[1]:,} bytes")
    assert [cost.rounds for cost in costs.values()] == [38, 4, 2, 2]
    assert again[1] < again[0] / 10
    return list(costs.values())


def show_costs(costs: dict[str, Cost]) -> None:
    """Print a table of all costs, and how the first one compares to one call."""
    print("                   rounds   tokens read   of which new")
    for name, cost in costs.items():
        print(f"{name:<18} {cost.rounds:>6} {cost.read:>13,} {cost.new:>14,}")

    single, one = costs["one at a time"], costs["one call"]
    fewer_rounds, fewer_tokens = single.rounds / one.rounds, single.read / one.read
    print(f"{fewer_rounds:.0f} times fewer rounds, {fewer_tokens:.1f} times fewer tokens read")


if __name__ == "__main__":
    asyncio.run(main())
