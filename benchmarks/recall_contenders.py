"""What `make bench-recall` asks: ours, and the memory servers that it is compared with.

basic-memory (PyPI) needs Python 3.12, and many packages: it is asked if the command `basic-memory`
is in ``PATH``, as after ``uv tool install basic-memory``.
"""

import asyncio
import math
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import orjson

from abilities import Abilities, parse_text
from abilities.declarations.limits import DEFAULT_HOPS
from abilities.declarations.values import JsonObject
from abilities.helpers.search.terms import Language, MemoryTexts, count_terms, split_question
from benchmarks import peers
from benchmarks.recall_sets import World
from tests.support.recall_index import PlainMemory
from tests.support.recall_sample import Question

TOKEN_BYTES = 4
GROUP = 64
"""Memories that are stored at a time."""

MOST = 50
"""Memories of a page, where a server has pages: more than fit into the most tokens."""


class Contender(Protocol):
    """What is asked; ``name`` says how."""

    name: str

    async def store(self, number: int, world: World) -> None:
        """Store the memories of a world by its number."""
        ...

    async def ask(self, number: int, question: Question, tokens: int) -> set[str]:
        """Return the keys of the memories that the reply's first tokens show."""
        ...


class Recall:
    """Our `recall`, with some links followed or none."""

    def __init__(self, abilities: Abilities, hops: int = DEFAULT_HOPS) -> None:
        self._abilities = abilities
        self._hops = hops
        self.name = f"recall, text, concise, hops {hops}"

    async def store(self, number: int, world: World) -> None:
        """Store the memories, in order; the first of several contenders does it for all."""
        view = self._abilities.for_namespace(f"world-{number}")
        if self._hops == DEFAULT_HOPS:
            await store_memories(view, world)

    async def ask(self, number: int, question: Question, tokens: int) -> set[str]:
        """Ask for at most so many tokens."""
        arguments: JsonObject = {"queries": [question.text], "hops": self._hops}
        arguments |= {"max_tokens": tokens, "output_format": "text"}
        view = self._abilities.for_namespace(f"world-{number}")
        text = (await view.reply("recall", arguments)).text
        assert len(text.encode()) <= TOKEN_BYTES * tokens, "the reply keeps its bound"

        (record,) = parse_text(text)["results"]
        if question.is_quoted:
            answer = question.answer.casefold()
            shown = (one for one in record["memories"] if answer in one["content"].casefold())
            return {memory["key"] for memory in shown}

        return {memory["key"] for memory in record["memories"]}


class PlainBm25:
    """Textbook BM25 over the same terms, with k1 1.2 and b 0.75.

    Only contents take room, without keys, dates and scores.
    """

    name = "plain BM25, contents alone"

    def __init__(self, language: str) -> None:
        self._language = Language(language)
        self._worlds: list[tuple[World, dict[str, dict[str, int]], float]] = []

    async def store(self, number: int, world: World) -> None:
        """Count the terms."""
        counts: dict[str, dict[str, int]] = {}
        for memory in world.memories:
            texts = MemoryTexts(memory.key, memory.summary, memory.content)
            counts[memory.key] = dict(count_terms(texts, self._language)[0])

        lengths = [sum(terms.values()) for terms in counts.values()]
        self._worlds.append((world, counts, sum(lengths) / max(len(lengths), 1)))

    async def ask(self, number: int, question: Question, tokens: int) -> set[str]:
        """Rank all memories, and take whole contents as long as there is room."""
        world, counts, average = self._worlds[number]
        scores: dict[str, float] = dict.fromkeys(counts, 0.0)
        for term, _ in split_question(question.text, self._language):
            holders = [key for key, terms in counts.items() if term in terms]
            rarity = math.log(1 + (len(counts) - len(holders) + 0.5) / (len(holders) + 0.5))
            for key in holders:
                count, length = counts[key][term], sum(counts[key].values())
                norm = 1.2 * (0.25 + 0.75 * length / average)
                scores[key] += rarity * count * 2.2 / (count + norm)

        contents = {memory.key: memory.content for memory in world.memories}
        room = TOKEN_BYTES * tokens
        found: set[str] = set()
        for key in sorted(scores, key=lambda one: (-scores[one], one)):
            content = contents[key].encode()[: max(room, 0)].decode(errors="ignore")
            room -= len(contents[key].encode()) + 1
            if not scores[key] or not content:
                break
            if room >= 0 if not question.is_quoted else question.answer in content:
                found.add(key)

        return found


class QueryMemories:
    """Our `query_memories`, with the question as its search: each word must occur."""

    name = "query_memories, text, concise, search = the question"

    def __init__(self, abilities: Abilities) -> None:
        self._abilities = abilities
        self._keys: list[dict[str, str]] = []

    async def store(self, number: int, world: World) -> None:
        """Keep the contents; the memories were stored for `Recall`."""
        self._keys.append({memory.content: memory.key for memory in world.memories})

    async def ask(self, number: int, question: Question, tokens: int) -> set[str]:
        """Look at the first tokens of a page of the most memories."""
        arguments = {
            "search": question.text,
            "limit": MOST,
            "detail": "concise",
            "output_format": "text",
        }
        view = self._abilities.for_namespace(f"world-{number}")
        reply = await view.reply("query_memories", arguments)
        return find_whole(reply.text, self._keys[number], tokens)


class OfficialServer:
    """The official memory server over MCP: the question goes to its search."""

    name = "server-memory (npm) over MCP, search_nodes, query = the question"

    def __init__(self, folder: Path, servers: ExitStack) -> None:
        self._folder = folder
        self._servers = servers
        self._worlds: list[tuple[peers.Peer, dict[str, str]]] = []

    async def store(self, number: int, world: World) -> None:
        """Start a server of its own for the world, with a memory per entity."""
        file = self._folder / f"world-{number}.jsonl"
        server = self._servers.enter_context(peers.start_memory_server(file))

        entities = [
            {"name": memory.key, "entityType": "memory", "observations": [memory.content]}
            for memory in world.memories
        ]
        server.call("create_entities", {"entities": entities})

        shown = {encode_json(memory.content): memory.key for memory in world.memories}
        self._worlds.append((server, shown))

    async def ask(self, number: int, question: Question, tokens: int) -> set[str]:
        """Look at the first tokens of the answer."""
        server, shown = self._worlds[number]
        return find_whole(server.call("search_nodes", {"query": question.text}), shown, tokens)


class BasicMemory:
    """basic-memory over MCP: the question goes to its search, by words and not by vectors.

    Of the formats of its answers JSON is asked for, because the other one has no contents. The
    notes have no relations, which would take room, and which its search does not follow.
    """

    def __init__(self, folder: Path, servers: ExitStack, command: str) -> None:
        self._folder = folder
        self._servers = servers
        self._command = command
        self._worlds: list[tuple[peers.Peer, dict[str, str]]] = []
        self._answers: dict[tuple[int, str], str] = {}
        version = subprocess.check_output([command, "--version"], text=True).split()[-1]
        self.name = f"basic-memory (PyPI, {version}) over MCP, search_notes, text, JSON"

    async def store(self, number: int, world: World) -> None:
        """Start a server of its own for the world, with a note per memory."""
        home = self._folder / f"basic-memory-{number}"
        notes = home / "notes"
        notes.mkdir(parents=True)
        for place, memory in enumerate(world.memories):
            text = f"---\ntitle: {memory.key}\ntype: note\n---\n\n{memory.content}\n"
            (notes / f"{place}.md").write_text(text)

        server = self._servers.enter_context(peers.start_basic_memory(home, notes, self._command))
        shown = {encode_json(memory.content): memory.key for memory in world.memories}
        self._worlds.append((server, shown))

    async def ask(self, number: int, question: Question, tokens: int) -> set[str]:
        """Look at the first tokens of a page."""
        server, shown = self._worlds[number]
        asked = number, question.text
        if asked not in self._answers:
            arguments = {"query": question.text, "search_type": "text", "page_size": MOST}
            answer = server.call("search_notes", {**arguments, "output_format": "json"})
            self._answers[asked] = answer

        return find_whole(self._answers[asked], shown, tokens)


def find_basic_memory() -> str | None:
    """Return the command of basic-memory, if it is installed."""
    return shutil.which("basic-memory")


async def store_memories(view: Abilities, world: World) -> None:
    """Store memories with their links."""
    for start in range(0, len(world.memories), GROUP):
        group = world.memories[start : start + GROUP]
        await asyncio.gather(*(store_memory(view, memory) for memory in group))


async def store_memory(view: Abilities, memory: PlainMemory) -> None:
    """Store one memory with its links."""
    operation: JsonObject = {"op": "store", "type": "learning", "key": memory.key}
    operation["content"] = memory.content
    operation["links"] = [{"key": key, "link_weight": weight} for key, weight in memory.links]
    if memory.summary:
        operation["summary"] = memory.summary

    await view.call("remember", {"operations": [operation]})


def find_whole(text: str, shown: dict[str, str], tokens: int) -> set[str]:
    """Return the keys of the contents that stand whole in the first tokens of a text."""
    start = text.encode()[: TOKEN_BYTES * tokens].decode(errors="ignore")
    return {key for content, key in shown.items() if content in start}


def encode_json(text: str) -> str:
    """Return a text as it stands between the quotes of a JSON string."""
    return orjson.dumps(text).decode()[1:-1]
