"""Evidence recall at N tokens, as sent: `make bench-recall DATA=path/to/locomo.json`.

For each question the data names the memories that hold its evidence. Measured is the mean share of
them that stands whole in a reply of at most N tokens, at four bytes per token of the reply as it is
sent. That is not the accuracy of answers: no model answers anything here.

``DATA`` is a file in the form of LoCoMo (Maharana et al., 2024), whose conversations are not part
of this package. Each turn becomes a memory, ``[date] speaker: text``, linked to the next and the
previous one of its session; each conversation has a namespace of its own. LoCoMo's questions repeat
words of the turns that answer them, which flatters any search by words.

Without ``DATA`` only the sets of this package are measured: a small world, and chains of memories
whose answers only links lead to.
"""

import argparse
import asyncio
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject
from benchmarks.recall_contenders import (
    BasicMemory,
    Contender,
    OfficialServer,
    QueryMemories,
    Recall,
    World,
    find_basic_memory,
)
from tests.support.recall_index import PlainMemory
from tests.support.recall_sample import MEMORIES, QUESTIONS, Question, make_chains

TOKENS = (500, 1_000, 2_000, 4_000)
CHAINS = 300

_TURN = re.compile(r"D\d+:\d+")


def load_worlds(file: Path) -> list[World]:
    """Return the conversations of a file in the form of LoCoMo."""
    return [load_conversation(entry) for entry in orjson.loads(file.read_bytes())]


def load_conversation(entry: JsonObject) -> World:
    """Return the turns of a conversation as memories, and its questions."""
    memories: list[PlainMemory] = []
    keys: dict[str, str] = {}

    for number, turns in list_sessions(entry["conversation"]):
        date = entry["conversation"][f"session_{number}_date_time"].partition(" on ")[2]
        names = [f"s{number}/{place}" for place in range(1, len(turns) + 1)]

        for place, turn in enumerate(turns):
            content = f"[{date}] {turn['speaker']}: {turn['text']}"
            if turn.get("blip_caption"):
                content += f" [shares {turn['blip_caption']}]"

            beside = names[max(0, place - 1) : place] + names[place + 1 : place + 2]
            links = [(name, 0.5) for name in beside]
            memories.append(PlainMemory(names[place], content, links=links))
            keys[turn["dia_id"]] = names[place]

    questions: list[Question] = []
    for asked in entry["questions"]:
        named = _TURN.findall(" ".join(asked["evidence"]))
        evidence = tuple(dict.fromkeys(keys[turn] for turn in named if turn in keys))
        if evidence:
            questions.append(Question(asked["question"], evidence, str(asked["category"])))

    return World(memories, questions)


def list_sessions(conversation: JsonObject) -> Iterator[tuple[int, list[JsonObject]]]:
    """Yield the number and the turns of each session, in order."""
    number = 1
    while f"session_{number}_date_time" in conversation:
        yield number, conversation.get(f"session_{number}", [])
        number += 1


Shares = dict[str, dict[int, list[float]]]
"""The share of evidence found for each question, by category and tokens."""


async def measure(contender: Contender, worlds: Sequence[World]) -> Shares:
    """Ask every question of every world at every size."""
    shares: Shares = defaultdict(lambda: defaultdict(list))

    for number, world in enumerate(worlds):
        await contender.store(number, world)

        for question in world.questions:
            for tokens in TOKENS:
                found = await contender.ask(number, question.text, tokens)
                share = len(found & set(question.evidence)) / len(question.evidence)
                shares[question.category][tokens].append(share)

    return shares


def add_rows(table: Table, name: str, shares: Shares, groups: Iterable[tuple[str, ...]]) -> None:
    """Add a row per group of categories, with the mean over all their questions."""
    for group in groups:
        row: list[str] = []
        count = 0
        for tokens in TOKENS:
            values = [share for category in group for share in shares[category][tokens]]
            count = len(values)
            row.append(f"{100 * sum(values) / len(values):.1f}")

        label = f"{group[0]} to {group[-1]}" if len(group) > 1 else group[0]
        table.add_row(name, label, str(count), *row)


def list_groups(shares: Shares) -> list[tuple[str, ...]]:
    """Return the categories alone, and those of LoCoMo without and with its last one together."""
    categories = sorted(shares)
    groups: list[tuple[str, ...]] = [(category,) for category in categories]
    if categories == ["1", "2", "3", "4", "5"]:
        groups += [("1", "2", "3", "4"), ("1", "2", "3", "4", "5")]

    return groups


async def measure_set(title: str, worlds: Sequence[World], console: Console) -> None:
    """Measure all contenders on one set, and print a table."""
    table = Table("asked", "category", "questions", *map(str, TOKENS), title=title)

    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        base = Path(folder)
        for name in ("agent", "workspace"):
            (base / name).mkdir()

        settings = Settings(
            agent_dir=base / "agent",
            workspace_dir=base / "workspace",
            store_url=f"sqlite:///{base / 'memory.db'}",
        )
        async with Abilities.open(settings) as abilities:
            contenders: list[Contender] = [
                Recall(abilities),
                QueryMemories(abilities),
                OfficialServer(base, servers),
            ]
            if command := find_basic_memory():
                contenders.append(BasicMemory(base, servers, command))

            for contender in contenders:
                shares = await measure(contender, worlds)
                add_rows(table, contender.name, shares, list_groups(shares))

    console.print(table)


async def measure_all(data: Path | None, console: Console) -> None:
    """Measure the sets of this package, and the data if it is given."""
    if find_basic_memory() is None:
        console.print("basic-memory: not measured, because no such command is in PATH")

    chains = World(*make_chains(CHAINS))
    await measure_set("A small world", [World(MEMORIES, QUESTIONS)], console)
    await measure_set("Answers that only links lead to", [chains], console)

    if data is not None:
        title = f"{data.name}: evidence recall in % at N tokens, as sent"
        await measure_set(title, load_worlds(data), console)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="a file in the form of LoCoMo")
    arguments = parser.parse_args()

    asyncio.run(measure_all(arguments.data, Console(width=150)))


if __name__ == "__main__":
    main()
