"""The demonstration: the main job on real files, as a LangChain agent and as an MCP client."""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from abilities.cli.pretty.page import AnsweredCall
from abilities.cli.pretty.printing import print_answer
from abilities.cli.text import escape_text
from abilities.declarations.values import JsonObject
from abilities.helpers.reply.text import parse_text
from abilities.settings import Settings

Call = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Calls an ability by its name, with arguments, and returns the payload."""

Surface = Callable[[Settings], AbstractAsyncContextManager[Call]]

MAX_FILES = 25

TARGETS = [
    {"type": "long_term"},
    {"type": "short_term"},
    {"type": "short_term", "date": "yesterday"},
    {"type": "short_term", "date": "2001-01-01"},
    {"type": "short_term", "date": "2025-02-30"},
    {"type": "stored", "key": "greeting"},
]
"""What the demonstration reads of the agent's memory.

A missing day and an impossible one are there to show failed records.
"""


class SampleMemory(NamedTuple):
    """A memory to store; ``links`` are weights by key."""

    key: str
    content: str
    links: dict[str, float]


SAMPLE_MEMORIES = [
    SampleMemory("greeting", "Greet Ada by her first name.", {"ada": 0.9, "tone": 0.5}),
    SampleMemory("ada", "Ada works on the compiler.", {"compiler": 0.8}),
    SampleMemory("compiler", "The compiler is tested every night.", {"nightly": 0.7}),
    SampleMemory("tone", "Answers are short and friendly.", {"ada": 0.2}),
    SampleMemory("nightly", "Nightly tests start at two.", {}),
]


class ReadCount(NamedTuple):
    """How many calls it took to read how many items; an item that was cut counts once per piece."""

    calls: int
    items: int


async def run_demo(workspace: Path) -> None:
    """Read 25 files of ``workspace`` and a sample agent, and 6 memories, and print the answers.

    Everything that is written goes into a temporary folder.
    """
    console = Console()

    with tempfile.TemporaryDirectory() as scratch:
        agent = Path(scratch) / "agent"
        samples = _create_sample_agent(agent)
        settings = Settings(
            agent_dir=agent,
            workspace_dir=workspace,
            store_url=f"sqlite:///{scratch}/memory.db",
            detail="full",
        )
        console.print("[bold]Workspace[/]", Text(escape_text(str(workspace))))
        console.print("[bold]Agent directory[/] a sample made for this demonstration")

        console.rule("[bold]LangChain agent")
        await _demonstrate(open_langchain, settings, samples, console)

        console.rule("[bold]MCP client over stdio")
        await _demonstrate(open_mcp, settings, samples, console)


async def _demonstrate(
    surface: Surface, settings: Settings, samples: list[str], console: Console
) -> None:
    async with surface(settings) as call:
        await _show_walk(call, console)
        paths = [*samples]

        # Once is enough for a sample that the listing names too.
        for path in await _list_files(call, console):
            if path not in samples:
                paths.append(path)

        await _read_everything(call, paths[:MAX_FILES], console)


async def _show_walk(call: Call, console: Console) -> None:
    """Store memories that link to each other, and read them in one call."""
    for memory in SAMPLE_MEMORIES:
        links = [{"key": key, "link_weight": weight} for key, weight in memory.links.items()]
        arguments = {"type": "learning", "key": memory.key, "content": memory.content}
        await call("store_memory", {**arguments, "links": links})

    payload = await call("bulk_read_memory", {"key": "greeting", "depth": 2})
    console.print("\n[bold]bulk_read_memory[/] from 'greeting', two links deep")

    for record in (payload["targetMemory"], *payload["associatedMemories"]):
        indent = "  " * record.get("depth", 0)
        reached = ""

        if "parent" in record:
            score = f"{record['combinedScore']:.2f}"
            reached = f"linked from {record['parent']}, score {score}"

        content = Text(f"  {indent}{record['data']['content']}  ")
        console.print(content, Text(reached, style="dim"))

    frontier = [f"{cut['key']} ({cut['cutBy']})" for cut in payload["metadata"]["frontier"]]
    console.print(f"Left out by the limits: {', '.join(frontier) or 'nothing'}.\n")


async def _list_files(call: Call, console: Console) -> list[str]:
    """Find text files as an agent would, in one call."""
    pattern = "**/*.{md,py,toml,txt,json,js,ts,c,h,rs,go,java}"
    payload = await call("file_list", {"pattern": pattern, "limit": MAX_FILES})
    paths: list[str] = [file["path"] for file in payload["files"]]
    more = ", and more behind next_request" if payload["has_more"] else ""

    console.print(
        f"\n[bold]file_list[/] {len(paths)} paths for file_read_bulk{more}: ",
        Text(escape_text(", ".join(paths[:5]))),
        "…",
    )
    return paths


async def _read_everything(call: Call, paths: list[str], console: Console) -> None:
    files = await _read_in_full(call, "file_read_bulk", {"paths": paths}, console)
    memories = await _read_in_full(call, "memory_read_bulk", {"targets": TARGETS}, console)

    calls = files.calls + memories.calls
    items = files.items + memories.items
    console.print(
        f"\n[bold green]{calls} calls[/] did what {items} calls of one item each would have done.\n"
    )


async def _read_in_full(
    call: Call, name: str, arguments: JsonObject, console: Console
) -> ReadCount:
    """Print the first reply, and follow next_request until there is none."""
    payload = await call(name, arguments)
    console.print(f"\n[bold]{name}[/]")
    print_answer(AnsweredCall(name, arguments, payload), console)

    calls = 1
    items = len(payload["results"])

    while "next_request" in payload:
        payload = await call(name, payload["next_request"])
        calls += 1
        items += len(payload["results"])

    if calls > 1:
        console.print(f"Following next_request {calls - 1} times fetched all the rest.")

    return ReadCount(calls, items)


@asynccontextmanager
async def open_langchain(settings: Settings) -> AsyncGenerator[Call]:
    """Open the way of a LangChain agent loop, whose model follows a script instead of thinking."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

    from abilities.adapters.langchain import load_tools

    tools = {tool.name: tool for tool in load_tools(settings)}

    async def call(name: str, arguments: JsonObject) -> JsonObject:
        planned = {"id": "call-1", "name": name, "args": arguments}
        # The model asks for the planned call, reads the result, and is done.
        script = [AIMessage("", tool_calls=[planned]), AIMessage("Done.")]
        model = GenericFakeChatModel(messages=iter(script))
        messages: list[AnyMessage] = [HumanMessage("Read what you need.")]
        answer = await model.ainvoke(messages)

        while answer.tool_calls:
            messages.append(answer)

            for requested in answer.tool_calls:
                tool = tools[requested["name"]]
                messages.append(await tool.ainvoke({**requested, "type": "tool_call"}))

            answer = await model.ainvoke(messages)

        return parse_text(str(messages[-1].content))

    yield call


@asynccontextmanager
async def open_mcp(settings: Settings) -> AsyncGenerator[Call]:
    """Open the way of the official MCP client, to ``abilities mcp`` in a process of its own."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    # The demonstration's settings replace those of the person who runs it.
    environment = {
        **os.environ,
        "ABILITIES_AGENT_DIR": str(settings.agent_dir),
        "ABILITIES_WORKSPACE_DIR": str(settings.workspace_dir),
        "ABILITIES_STORE_URL": settings.store_url,
    }
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "abilities", "mcp"], env=environment
    )

    async with Client(stdio_client(server)) as client:

        async def call(name: str, arguments: JsonObject) -> JsonObject:
            result = await client.call_tool(name, arguments)
            texts = [part.text for part in result.content if part.type == "text"]
            return parse_text("".join(texts))

        yield call


def _create_sample_agent(agent: Path) -> list[str]:
    """Create an agent directory with good, huge and hostile files, and return paths to ask for."""
    today = date.today()
    yesterday = today - timedelta(days=1)
    log = [f"2026-01-01T00:00:00Z request {n} served in {n % 97} ms\n" for n in range(4_000)]

    files = {
        "MEMORY.md": "# Memory\n\n- Prefers short answers.\n- Works on agent-abilities.\n",
        f"memory/{today}.md": "- 09:00 started the demonstration\n",
        f"memory/{yesterday}.md": "- 17:00 wrote the last test\n",
        "persona.md": "You are a careful reader.\n",
        "server.log": "".join(log),  # too long for one reply
        "notes.txt": "Grüße, 世界 👩‍👩‍👧‍👦\n",
        "photo.png": "\x89PNG\r\n\x1a\n\0\0\0\rIHDR",  # binary
    }

    for name, text in files.items():
        path = agent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    (agent / "escape.txt").symlink_to("/etc/passwd")

    return [
        "persona.md",
        "notes.txt",
        "server.log",
        "server.log#L100-L110",
        "photo.png",
        "escape.txt",  # a link that leads out of the directory
        "no-such-file.md",
        "../outside.txt",
        "/etc/passwd",
        ".env",  # on the deny list
    ]
