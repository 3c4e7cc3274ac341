"""The demonstration: the main job on real files, once as a LangChain agent and once as an MCP client."""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.text import Text

from abilities.cli.table import print_payload
from abilities.settings import Settings

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

MEMORIES = [
    {"type": "long_term"},
    {"type": "short_term"},
    {"type": "short_term", "date": "yesterday"},
    {"type": "short_term", "date": "2001-01-01"},
    {"type": "short_term", "date": "2025-02-30"},
    {"type": "stored", "key": "greeting"},
]

STORED: list[tuple[str, str, dict[str, float]]] = [
    ("greeting", "Greet Ada by her first name.", {"ada": 0.9, "tone": 0.5}),
    ("ada", "Ada works on the compiler.", {"compiler": 0.8}),
    ("compiler", "The compiler is tested every night.", {"nightly": 0.7}),
    ("tone", "Answers are short and friendly.", {"ada": 0.2}),
    ("nightly", "Nightly tests start at two.", {}),
]


async def run_demo(workspace: Path) -> None:
    """Read 25 files of ``workspace`` and a sample agent directory, and 6 memories, and print what came back."""
    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        agent = Path(scratch) / "agent"
        samples = _sample_agent(agent)
        settings = Settings(
            agent_dir=agent, workspace_dir=workspace, store_url=f"sqlite:///{scratch}/memory.db"
        )
        console.print(
            f"[bold]Workspace[/] {workspace}\n[bold]Agent directory[/] a sample made for this demonstration"
        )
        for title, surface in (
            ("LangChain agent", langchain_calls),
            ("MCP client over stdio", mcp_calls),
        ):
            console.rule(f"[bold]{title}")
            async with surface(settings) as call:
                await _recall(call, console)
                paths = [
                    *samples,
                    *(path for path in await _find(call, console) if path not in samples),
                ]
                await _read_all(call, paths[:25], console)


async def _find(call: Call, console: Console) -> list[str]:
    """Find text files as an agent would, in one call."""
    asked = {"pattern": "**/*.{md,py,toml,txt,json,js,ts,c,h,rs,go,java}", "limit": 25}
    payload = await call("file_list", asked)
    paths: list[str] = [file["path"] for file in payload["files"]]
    more = ", and more behind next_request" if payload["has_more"] else ""
    console.print(
        f"\n[bold]file_list[/] {len(paths)} paths for file_read_bulk{more}: ",
        Text(", ".join(paths[:5])),
        "…",
    )
    return paths


async def _read_all(call: Call, paths: list[str], console: Console) -> None:
    calls, pieces = 0, 0
    for name, arguments in (
        ("file_read_bulk", {"paths": paths}),
        ("memory_read_bulk", {"targets": MEMORIES}),
    ):
        payload = await call(name, arguments)
        console.print(f"\n[bold]{name}[/]")
        print_payload(payload, console)
        calls, pieces = calls + 1, pieces + len(payload["results"])
        rest = 0
        while (following := payload.get("next_request")) is not None:
            payload = await call(name, following)
            rest, pieces = rest + 1, pieces + len(payload["results"])
        if rest:
            console.print(f"Following next_request {rest} times fetched all the rest.")
        calls += rest
    console.print(
        f"\n[bold green]{calls} calls[/] did what {pieces} calls of one item each would have done.\n"
    )


async def _recall(call: Call, console: Console) -> None:
    """Store memories that link to each other, and read them back in one call."""
    for key, content, linked in STORED:
        links = [{"key": other, "link_weight": weight} for other, weight in linked.items()]
        await call(
            "store_memory", {"type": "learning", "key": key, "content": content, "links": links}
        )
    payload = await call("bulk_read_memory", {"key": "greeting", "depth": 2})
    console.print("\n[bold]bulk_read_memory[/] from 'greeting', two links deep")
    for record in (payload["targetMemory"], *payload["associatedMemories"]):
        way = (
            f"linked from {record['parent']}, score {record['combinedScore']:.2f}"
            if "parent" in record
            else ""
        )
        console.print(
            Text(f"  {'  ' * record.get('depth', 0)}{record['data']['content']}  "),
            Text(way, style="dim"),
        )
    left = ", ".join(f"{cut['key']} ({cut['cutBy']})" for cut in payload["metadata"]["frontier"])
    console.print(f"Left out by the limits: {left or 'nothing'}.\n")


@asynccontextmanager
async def langchain_calls(settings: Settings) -> AsyncGenerator[Call]:
    """Calls made by a LangChain agent loop, whose model follows a script instead of thinking."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

    from abilities.adapters.langchain import load_tools

    tools = {tool.name: tool for tool in load_tools(settings)}

    async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        wish = {"id": "call-1", "name": name, "args": arguments}
        model = GenericFakeChatModel(
            messages=iter([AIMessage("", tool_calls=[wish]), AIMessage("Done.")])
        )
        messages: list[AnyMessage] = [HumanMessage("Read what you need.")]
        while (answer := await model.ainvoke(messages)).tool_calls:
            messages.append(answer)
            for wanted in answer.tool_calls:
                messages.append(
                    await tools[wanted["name"]].ainvoke({**wanted, "type": "tool_call"})
                )
        return _decoded(str(messages[-1].content))

    yield call


@asynccontextmanager
async def mcp_calls(settings: Settings) -> AsyncGenerator[Call]:
    """Calls made by the official MCP client to ``abilities mcp`` in a process of its own."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

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

        async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            return _decoded("".join(part.text for part in result.content if part.type == "text"))

        yield call


def _decoded(text: str) -> dict[str, Any]:
    payload: dict[str, Any] = orjson.loads(text)
    return payload


def _sample_agent(agent: Path) -> list[str]:
    """Make an agent directory with good, missing, huge and hostile files; the paths to ask for."""
    today = date.today()
    files = {
        "MEMORY.md": "# Memory\n\n- Prefers short answers.\n- Works on agent-abilities.\n",
        f"memory/{today}.md": "- 09:00 started the demonstration\n",
        f"memory/{today - timedelta(days=1)}.md": "- 17:00 wrote the last test\n",
        "persona.md": "You are a careful reader.\n",
        "server.log": "".join(
            f"2026-01-01T00:00:00Z request {n} served in {n % 97} ms\n" for n in range(4_000)
        ),
        "notes.txt": "Grüße, 世界 👩‍👩‍👧‍👦\n",
        "photo.png": "\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    }
    for name, text in files.items():
        path = agent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (agent / "escape.txt").symlink_to("/etc/passwd")
    named = [
        "persona.md",
        "notes.txt",
        "server.log",
        "server.log#L100-L110",
        "photo.png",
        "escape.txt",
    ]
    return [*named, "no-such-file.md", "../outside.txt", "/etc/passwd", ".env"]
