"""Twelve tasks of an agent, by the descriptions of tools alone: rounds, and tokens that are read.

Each task is done with our tools, with the official filesystem and memory servers, and with the
official filesystem server and basic-memory, over MCP. Whoever does it knows the task and what
descriptions and earlier replies say. What can be called at the same time is one round. The others
are given every advantage: the best words to search for, and no reply is too long for their client.
In the end the replies hold what the task needs, whole, or the change is there.

A model reads its whole conversation in every round, with the tools at its beginning.
"""

import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject
from benchmarks.measure import Measured
from benchmarks.packages import count_tokens
from benchmarks.peers import (
    DEFAULT_BOUND,
    Peer,
    start_basic_memory,
    start_filesystem_server,
    start_memory_server,
    start_ours,
)
from benchmarks.task_ways import BASIC, OFFICIAL, OURS, Call, Known, Ways
from benchmarks.task_world import (
    CHAIN,
    DECISION,
    FINDINGS,
    OPEN_TASKS,
    ROUNDING,
    STAGING,
    STAGING_NOW,
    WINDOW,
    WINDOW_WRONG,
    World,
    list_contents,
    list_error_lines,
    list_memories,
    list_mentions,
    make_world,
)

BEFORE = 1_000
"""Tokens of instructions and of the user's question, before anything is read."""

PROFILES = ("all", "lean")


class Contender(NamedTuple):
    """Servers by the names that calls use, and the ways to do tasks with them.

    ``read_back`` returns a memory with its links, to see whether a change is there.
    """

    name: str
    servers: dict[str, Peer]
    ways: Ways
    read_back: Callable[[str], str]


class Cost(NamedTuple):
    """What a task cost: rounds, the last for the answer, and the tokens read over all of them."""

    rounds: int
    tokens: int


class Task(NamedTuple):
    """A task: the texts that must be read for it, and those that memories must hold after it."""

    name: str
    read: list[str]
    kept: dict[str, list[str]]


def list_tasks(world: World) -> list[Task]:
    """Return the tasks, by the names of the ways to do them."""
    files = world.files
    defined = [
        line
        for name in world.sources
        for line in files[name].splitlines()
        if line.startswith("class ")
    ]
    own = [content for name, content in files.items() if name not in world.sources]
    decided = [DECISION.content, files["src/tern/queue.py"], files["src/tern/worker.py"]]
    lasting, yesterday, today = map(str.splitlines, world.notes)
    found = {fact.key: [fact.content, *fact.links] for fact in FINDINGS}

    return [
        Task("find_and_fix", [files["src/tern/delays.py"], files["tests/test_delays.py"]], {}),
        Task("mentions", [*list_mentions(), *yesterday], {}),
        Task("recall_before_change", list_contents(ROUNDING), {}),
        Task("learn_project", own, {}),
        Task("classes", defined, {}),
        Task("error_in_log", list_error_lines(), {}),
        Task("decision_and_code", decided, {}),
        Task("begin_day", [*lasting, *yesterday, *today, *list_contents(OPEN_TASKS)], {}),
        Task("follow_links", list_contents(CHAIN), {}),
        Task("correct", [], {STAGING.key: [STAGING_NOW]}),
        Task("undo", [], {WINDOW.key: [WINDOW.content]}),
        Task("record_findings", [], found),
    ]


async def measure_tasks(base: Path, _: int) -> list[Measured]:
    """An agent's twelve tasks, beside other servers: rounds, and tokens (o200k_base)."""
    world = make_world(base)
    tasks = list_tasks(world)
    known = Known(str(world.workspace), str(world.agent), world.yesterday)
    await store_memories(base)

    with ExitStack() as stack:
        contenders = [
            *(stack.enter_context(open_ours(base, profile)) for profile in PROFILES),
            stack.enter_context(open_official(base)),
        ]
        if command := shutil.which("basic-memory"):
            contenders.append(stack.enter_context(open_basic_memory(base, command)))

        costs = {
            contender.name: {task.name: do_task(task, contender, known) for task in tasks}
            for contender in contenders
        }

    return [*compare_costs(costs)]


def do_task(task: Task, contender: Contender, known: Known) -> Cost | None:
    """Do a task and return its cost; None if there is no way to do it."""
    if task.name not in contender.ways:
        return None

    way = contender.ways[task.name](known)
    rounds: list[str] = []
    read = ""
    calls = next(way)
    while True:
        replies = [call_server(contender, call) for call in calls]
        rounds.append("\n".join([*map(format_call, calls), *replies]))
        read += "".join(replies)
        try:
            calls = way.send(replies)
        except StopIteration:
            break

    for text in task.read:
        assert holds(read, text), (contender.name, task.name, text, read[:2_000])
    for key, texts in task.kept.items():
        memory = contender.read_back(key)
        assert all(text in memory for text in texts), (contender.name, key, memory)
    return count_cost(list_tools(contender), rounds)


def call_server(contender: Contender, call: Call) -> str:
    """Return the reply of one of the contender's servers."""
    return contender.servers[call.server].call(call.tool, call.arguments)


def format_call(call: Call) -> str:
    """Return a call as a model writes it."""
    return orjson.dumps({"name": call.tool, "arguments": call.arguments}).decode()


def holds(read: str, text: str) -> bool:
    """Return whether a text was read, plain or inside of JSON."""
    return text in read or orjson.dumps(text.strip()).decode()[1:-1] in read


def list_tools(contender: Contender) -> str:
    """Return the tools of all servers as a model reads them."""
    tools: list[JsonObject] = []
    for server in contender.servers.values():
        tools += server.request("tools/list", {})["tools"]

    names = ("name", "description", "inputSchema")
    return orjson.dumps([{name: tool[name] for name in names} for tool in tools]).decode()


def count_cost(tools: str, rounds: list[str]) -> Cost:
    """Return the cost of a conversation, from the texts that each round adds to it."""
    first, *added = count_tokens([tools, *rounds])
    context = BEFORE + first
    tokens = context

    for more in added:
        context += more
        tokens += context

    return Cost(len(rounds) + 1, tokens)


def compare_costs(costs: dict[str, dict[str, Cost | None]]) -> Iterator[Measured]:
    """Return the median ratio of each profile, and how many tasks nobody does in fewer rounds."""
    others = [tasks for name, tasks in costs.items() if name not in PROFILES]

    for profile in PROFILES:
        ratios: dict[str, float] = {}
        rounds: dict[str, str] = {}
        fewest = 0
        for task, ours in costs[profile].items():
            assert ours is not None
            theirs = [cost for cost in (tasks[task] for tasks in others) if cost is not None]
            rounds[task] = "/".join(str(cost.rounds) for cost in (ours, *theirs))
            fewest += all(ours.rounds <= cost.rounds for cost in theirs)
            if theirs:
                ratios[task] = ours.tokens / min(cost.tokens for cost in theirs)

        yield Measured(
            "23",
            f"tokens of {len(ratios)} tasks with the tools {profile}, against the best pair",
            "<= 0.5x",
            statistics.median(ratios.values()),
            bound=DEFAULT_BOUND,
            note=", ".join(f"{task} {ratio:.2f}" for task, ratio in ratios.items()),
        )
        yield Measured(
            "23",
            f"tasks of {len(rounds)} that neither pair does in fewer rounds, tools {profile}",
            f">= {len(rounds)}",
            fewest,
            bound=DEFAULT_BOUND,
            note=", ".join(f"{task} {counts}" for task, counts in rounds.items()),
        )


async def store_memories(base: Path) -> None:
    """Store the memories in our store, where one of them is changed for the worse."""
    settings = Settings(store_url=f"sqlite:///{base / 'ours.db'}")
    stored = [
        {
            "op": "store",
            "type": fact.type,
            "key": fact.key,
            "content": fact.content,
            "links": [{"key": key} for key in fact.links],
        }
        for fact in list_memories()
    ]
    changed = {"op": "update", "key": WINDOW.key, "content": WINDOW_WRONG}
    operations = [*stored, changed]

    async with Abilities.open(settings) as abilities:
        for start in range(0, len(operations), 50):
            group = operations[start : start + 50]
            answer = await abilities.call("remember", {"operations": group})
            assert not any("error" in result for result in answer["results"]), answer


@contextmanager
def open_ours(base: Path, profile: str) -> Iterator[Contender]:
    """Start our server with a profile of tools and a store of its own, at the default bound."""
    store = base / f"ours-{profile}.db"
    shutil.copy(base / "ours.db", store)

    with start_ours(base, base / "workspace", store, bound=DEFAULT_BOUND, tools=profile) as server:

        def read_back(key: str) -> str:
            return server.call("read", {"items": [{"memory": key, "depth": 1}]})

        yield Contender(profile, {"abilities": server}, OURS, read_back)


@contextmanager
def open_official(base: Path) -> Iterator[Contender]:
    """Start the official servers, with an entity per memory."""
    file = base / "graph.jsonl"
    lines: list[JsonObject] = []
    for fact in list_memories():
        content = WINDOW_WRONG if fact == WINDOW else fact.content
        entity = {"name": fact.key, "entityType": fact.type, "observations": [content]}
        lines.append({"type": "entity", **entity})
        for key in fact.links:
            lines.append({"type": "relation", "from": fact.key, "to": key, "relationType": "has"})
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))

    folders = [base / "workspace", base / "agent"]
    with start_filesystem_server(*folders) as files, start_memory_server(file) as memory:

        def read_back(key: str) -> str:
            return memory.call("open_nodes", {"names": [key]})

        servers = {"filesystem": files, "memory": memory}
        yield Contender("official servers", servers, OFFICIAL, read_back)


@contextmanager
def open_basic_memory(base: Path, command: str) -> Iterator[Contender]:
    """Start basic-memory with a note per memory, beside the official filesystem server."""
    home = base / "basic-memory"
    for fact in list_memories():
        content = WINDOW_WRONG if fact == WINDOW else fact.content
        lines = [content, "", *(f"- has [[{key}]]" for key in fact.links)]
        path = home / "notes" / f"{fact.key}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"---\ntitle: {fact.key}\ntype: {fact.type}\n---\n\n"
        path.write_text(head + "\n".join(lines))

    folders = [base / "workspace", base / "agent"]
    with (
        start_basic_memory(home, home / "notes", command) as notes,
        start_filesystem_server(*folders) as files,
    ):

        def read_back(key: str) -> str:
            return notes.call("read_note", {"identifier": key})

        servers = {"filesystem": files, "basic-memory": notes}
        yield Contender("basic-memory and filesystem", servers, BASIC, read_back)
