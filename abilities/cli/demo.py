"""The demonstration: an agent's first minute on real files, in thirty lines.

Everything that is written goes into a temporary folder.

The commands of the first minute: an agent directory of one's own, and the demonstration.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.text import Text

from abilities.application import Abilities
from abilities.cli.errors import explain_errors
from abilities.cli.session import Session, pass_session
from abilities.cli.terminal import echo, escape_text, format_count
from abilities.declarations.values import JsonObject
from abilities.errors import format_install, is_installed
from abilities.helpers.reply.formats import render
from abilities.settings import Settings, find_settings_file

MAX_ITEMS = 25
"""Items of one call."""

_PATTERN = "**/*.{md,py,toml,txt,json,js,ts,c,h,rs,go,java}"
_SHOWN_PATHS = 3

_TOKEN_BYTES = 4
"""An estimate; tokenizers differ."""

_PROMPT_TOKENS = 1_000
"""Instructions and the user's question, which a model reads again in each round."""

_KINDS = {
    "ok": "green",
    "redacted": "green",
    "cut": "yellow",
    "later": "yellow",
    "missing": "red",
    "invalid": "red",
    "refused": "red",
}
"""The ways in which an item may end, in the order shown, and their colors."""

_NEXT = (
    ("abilities setup", "connect Claude Code, Cursor, VS Code and others"),
    ("abilities explore", "see in your browser what an agent remembers"),
    ("abilities doctor", "see what is configured, and what to look at"),
)


@dataclass
class Costs:
    """What was read so far, in bytes: of each call, and of each piece in them."""

    calls: list[int] = field(default_factory=list[int])
    pieces: list[int] = field(default_factory=list[int])

    def add(self, payload: JsonObject) -> None:
        """Count a call and its pieces; one that had no room is read, and counted, later."""
        self.calls.append(len(render(payload, "text").encode()))

        for record in payload["results"]:
            if _find_kind(record) != "later":
                self.pieces.append(len(_get_content(record).encode()))


async def run_demo(workspace: Path) -> None:
    """Find and read files of ``workspace`` and a sample agent, recall, walk, and compare surfaces.

    MCP must be installed.
    """
    console = Console(highlight=False)

    with tempfile.TemporaryDirectory() as scratch:
        agent = Path(scratch) / "agent"
        create_sample_agent(agent)
        # Everything else is at its default, so that the demonstration is the same for everybody.
        values: JsonObject = {}
        for name, field in Settings.model_fields.items():
            values[name] = field.get_default(call_default_factory=True)

        values["agent_dir"] = agent
        values["workspace_dir"] = workspace
        values["store_url"] = f"sqlite:///{scratch}/memory.db"
        settings = Settings(**values)
        _print(console, f"In {workspace}, with a sample agent; nothing of yours is changed.", "dim")

        async with Abilities.open(settings) as abilities:
            await _store_samples(abilities)
            await _show_all(abilities, console)

    _print(console, "\nNext:", "bold")
    for command, purpose in _NEXT:
        _print(console, f"  {command:<17}  {purpose}")


async def _show_all(abilities: Abilities, console: Console) -> None:
    """Print each step under its number."""
    costs = Costs()
    paths = await _show_finding(abilities, console)
    request: JsonObject = {"items": [*ITEMS, *paths][:MAX_ITEMS]}

    payload = await abilities.call("read", request)
    costs.add(payload)
    _show_outcomes(payload, console)

    await _show_the_rest(abilities, payload, costs, console)
    await _show_recall(abilities, console)
    await _show_walk(abilities, console)
    await _show_surfaces(abilities, request, console)
    _show_costs(costs, console)


async def _store_samples(abilities: Abilities) -> None:
    operations: list[JsonObject] = []
    for memory in MEMORIES:
        links = [{"key": key, "link_weight": weight} for key, weight in memory.links.items()]
        fields = {"type": "learning", "key": memory.key, "content": memory.content}
        operations.append({"op": "store", **fields, "links": links})

    await abilities.call("remember", {"operations": operations})


async def _show_finding(abilities: Abilities, console: Console) -> list[str]:
    """Find text files as an agent would, and return their paths."""
    answer = await abilities.call("file_list", {"pattern": _PATTERN, "limit": MAX_ITEMS})
    samples = [item for item in ITEMS if isinstance(item, str)]
    # Once is enough for a sample that the listing names too.
    paths = [file["path"] for file in answer["files"] if file["path"] not in samples]

    more = ", and more behind next_request" if answer["has_more"] else ""
    _print_step(
        console, 1, "Find", f"{format_count(len(paths), 'file', 'files')} in one call{more}"
    )
    _print(console, f"   {', '.join(paths[:_SHOWN_PATHS])} …", "dim")
    return paths


def _show_outcomes(payload: JsonObject, console: Console) -> None:
    """Print a line for each way in which items ended, with the first of them."""
    records: list[JsonObject] = payload["results"]
    title = f"{len(records)} files, notes and memories in one call, each with an outcome"
    _print_step(console, 2, "Read", title)

    counts = Counter(map(_find_kind, records))
    for kind, style in _KINDS.items():
        for record in records:
            if _find_kind(record) == kind:
                line = Text(f"   {counts[kind]:>2} ")
                line.append(f"{kind:<8}", style)
                line.append(f" {escape_text(record['input']):<15.15} {_explain(record)}")
                console.print(line, no_wrap=True, overflow="ellipsis")
                break


def _find_kind(record: JsonObject) -> str:
    """Return the way in which an item ended, one of `_KINDS`."""
    if record["success"]:
        if "truncation" in record:
            return "cut"
        return "redacted" if record["data"].get("redacted") else "ok"

    error = record["error"]
    if error["reason"] == "response_budget":
        return "later"

    return {"NOT_FOUND": "missing", "PERMISSION_ERROR": "refused"}.get(error["code"], "invalid")


def _explain(record: JsonObject) -> str:
    kind = _find_kind(record)
    if kind == "later":
        return "no room in this reply"
    if not record["success"]:
        return str(record["error"]["message"])

    content = _get_content(record)
    if kind == "redacted":
        return content.strip()
    if kind == "cut":
        return f"the first {len(content):,} characters; the rest follows"

    return format_count(len(content), "character", "characters")


def _get_content(record: JsonObject) -> str:
    return str(record["data"]["content"]) if record["success"] else ""


async def _show_the_rest(
    abilities: Abilities, payload: JsonObject, costs: Costs, console: Console
) -> None:
    """Follow next_request to the end."""
    while "next_request" in payload:
        payload = await abilities.call("read", payload["next_request"])
        costs.add(payload)

    followed = format_count(len(costs.calls) - 1, "call", "calls")
    title = f"{followed} of next_request: all {sum(costs.pieces):,} bytes, each once"
    _print_step(console, 3, "The rest", title)


async def _show_recall(abilities: Abilities, console: Console) -> None:
    """Ask a question, and print the memories that answer it."""
    answer = await abilities.call("recall", {"queries": [QUESTION]})
    _print_step(console, 4, "Recall", f"{QUESTION} (no model, no embeddings)")

    for memory in answer["results"][0]["memories"][:3]:
        _print(console, f"   {memory['score']:.2f}  {memory['content']}")


async def _show_walk(abilities: Abilities, console: Console) -> None:
    """Print what belongs to a memory as a tree."""
    answer = await abilities.call("bulk_read_memory", {"key": "greeting", "depth": 2})
    cut = [memory["key"] for memory in answer["metadata"]["frontier"]]
    title = f"from 'greeting' along the best links, two deep; left out: {', '.join(cut)}"
    _print_step(console, 5, "Walk", title)

    for record in (answer["targetMemory"], *answer["associatedMemories"]):
        indent = "  " * record.get("depth", 0)
        _print(console, f"   {indent}{record['data']['content']}")


async def _show_surfaces(abilities: Abilities, request: JsonObject, console: Console) -> None:
    """Send the same request through LangChain and MCP, and compare what a model gets."""
    direct = (await abilities.reply("read", request, for_model=True)).text
    texts = [await _call_langchain(abilities, request), await _call_mcp(abilities, request)]

    same = all(text == direct for text in texts)
    title = f"Python, LangChain and MCP give a model the same {len(direct.encode()):,} bytes"
    if not same:
        title = "Python, LangChain and MCP gave different bytes, because a file changed meanwhile"
    _print_step(console, 6, "Anywhere", title)


def _show_costs(costs: Costs, console: Console) -> None:
    """Compare the rounds and tokens with those of reading each piece by a call of its own."""
    singly = _count_tokens(costs.pieces)
    at_once = _count_tokens(costs.calls)
    title = (
        f"{len(costs.calls) + 1} rounds instead of {len(costs.pieces) + 1}, "
        f"{at_once:,} tokens read instead of {singly:,}"
    )
    _print_step(console, 7, "Saved", title)


def _count_tokens(sizes: list[int]) -> int:
    """Return the tokens that a model reads if each round adds an answer to its conversation."""
    context = read = _PROMPT_TOKENS
    for size in sizes:
        context += -(-size // _TOKEN_BYTES)
        read += context

    return read


async def _call_langchain(abilities: Abilities, request: JsonObject) -> str:
    from abilities.adapters.langchain import load_tools

    (tool,) = load_tools(abilities, only=["read"])
    call = {"type": "tool_call", "id": "call-1", "name": tool.name, "args": request}
    return str((await tool.ainvoke(call)).content)


async def _call_mcp(abilities: Abilities, request: JsonObject) -> str:
    """Call the official client, which starts ``abilities mcp`` in a process of its own."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    # The demonstration's settings replace those of the person who runs it.
    settings = abilities.settings
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ABILITIES_")},
        "ABILITIES_AGENT_DIR": str(settings.agent_dir),
        "ABILITIES_WORKSPACE_DIR": str(settings.workspace_dir),
        "ABILITIES_STORE_URL": settings.store_url,
        "ABILITIES_CONFIG": os.devnull,
    }
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "abilities", "mcp"], env=environment
    )

    async with Client(stdio_client(server)) as client:
        result = await client.call_tool("read", request)
        return "".join(part.text for part in result.content if part.type == "text")


def _print_step(console: Console, number: int, name: str, title: str) -> None:
    line = Text(f"{number}. ")
    line.append(f"{name:<9}", "bold")
    line.append(escape_text(title))
    console.print(line, no_wrap=True, overflow="ellipsis")


def _print(console: Console, text: str, style: str = "") -> None:
    beginning = "\n" if text.startswith("\n") else ""
    line = Text(beginning + escape_text(text.removeprefix("\n")), style)
    console.print(line, no_wrap=True, overflow="ellipsis")


ITEMS: list[object] = [
    "persona.md",
    "notes.txt",
    "app.log",
    "app.log#L10-L19",
    "deploy.md",
    "photo.png",
    "escape.txt",  # a link that leads out of the directory
    "no-such-file.md",
    "../outside.txt",
    ".env",  # on the deny list
    {"note": "long_term"},
    {"note": "yesterday"},
    {"memory": "greeting"},
]
"""Items for `read`, with one for each way in which an item may end."""

QUESTION = "When do the compiler's tests start?"
"""What the sample memories answer, though no memory has all of its words."""


class SampleMemory(NamedTuple):
    """A memory to store; ``links`` are weights by key."""

    key: str
    content: str
    links: dict[str, float]


MEMORIES = [
    SampleMemory("greeting", "Greet Ada by her first name.", {"ada": 0.9, "tone": 0.5}),
    SampleMemory("ada", "Ada works on the compiler.", {"compiler": 0.8}),
    SampleMemory("compiler", "The compiler is tested every night.", {"nightly": 0.7}),
    SampleMemory("tone", "Answers are short and friendly.", {"ada": 0.2}),
    SampleMemory("nightly", "Nightly tests start at two.", {}),
]


def create_sample_agent(agent: Path) -> None:
    """Create an agent directory with good, huge, secret and hostile files."""
    today = date.today()
    yesterday = today - timedelta(days=1)
    log = [f"2026-01-01T00:00:00Z request {n} served in {n % 97} ms\n" for n in range(1_500)]

    files = {
        "MEMORY.md": "# Memory\n\n- Prefers short answers.\n- Works on agent-abilities.\n",
        f"memory/{today}.md": "- 09:00 started the demonstration\n",
        f"memory/{yesterday}.md": "- 17:00 wrote the last test\n",
        "persona.md": "You are a careful reader.\n",
        "app.log": "".join(log),  # too long for one reply
        "notes.txt": "Grüße, 世界 👩‍👩‍👧‍👦\n",
        "deploy.md": f"Token: ghp_{'aB3dE5fG7hJ9' * 3}.\n",
        "photo.png": "\x89PNG\r\n\x1a\n\0\0\0\rIHDR",  # binary
    }

    for name, text in files.items():
        path = agent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    (agent / "escape.txt").symlink_to("/etc/passwd")


_STARTER_NOTES = """\
# Memory

What this agent should always remember. One fact per line.
"""

_INIT_EXAMPLES = """\b
Examples:
  abilities init
  abilities init ~/agents/ada
"""

_DEMO_EXAMPLE = """\b
Example:
  abilities demo --workspace-dir ~/project
"""


@click.command(epilog=_INIT_EXAMPLES)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@pass_session
def init(session: Session, directory: Path | None) -> None:
    """Create an agent directory with a starter MEMORY.md.

    DIRECTORY defaults to the configured agent directory. Existing notes are never changed, nor
    hidden: if the workspace has a MEMORY.md, none is created.
    """
    if directory is not None:
        session = session.override({"agent_dir": directory})

    settings = session.settings
    agent = settings.agent_root.path
    names = settings.memory_files
    notes = agent / names.long_term
    # The name is a pattern, and its folders may hold the date as well.
    todays_notes = agent / names.name_day(datetime.now(settings.zone).date())

    workspace = settings.workspace_root
    with explain_errors():
        todays_notes.parent.mkdir(parents=True, exist_ok=True)
        if notes.exists():
            echo(f"{notes} already exists; nothing was changed.")
        # The agent directory comes first: empty notes there would hide those of the workspace.
        elif workspace is not None and (workspace.path / names.long_term).exists():
            echo(f"{workspace.path / names.long_term} is read as the notes; no others are created.")
        else:
            _create_notes(notes)
            echo(f"Created {notes}")

    echo(f"Daily notes go into one file per day, today's is {todays_notes}")
    if directory is not None:
        _explain_setting(settings.agent_dir)


@click.command(epilog=_DEMO_EXAMPLE)
@pass_session
def demo(session: Session) -> None:
    """Show an agent's first minute on your files, in thirty lines.

    Finds and reads files of the workspace, answers a question from sample memories, follows their
    links, and compares what LangChain and MCP give a model. Your own memories are neither read nor
    changed.
    """
    workspace = session.shareable_settings.workspace_root
    if workspace is None:
        raise click.UsageError(
            "the demonstration reads the files of a workspace; "
            "start in a project folder, or set --workspace-dir"
        )

    # The demonstration also acts as an MCP client, and MCP is an optional dependency.
    if not is_installed("mcp"):
        raise click.UsageError(f"the demonstration needs MCP; run: {format_install('mcp')}")

    # LangChain takes a second to import.
    asyncio.run(run_demo(workspace.path))


def _explain_setting(directory: Path) -> None:
    """Say how a directory becomes the agent directory, if the settings do not name it."""
    if Session({}).settings.agent_dir == directory:
        return

    line = f"agent_dir = {json.dumps(str(directory))}"
    echo(f"To use it, put {line} into {find_settings_file()}, or add --agent-dir to commands.")


def _create_notes(path: Path) -> None:
    """Write the starter notes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_STARTER_NOTES, encoding="utf-8")


COMMANDS = (init, demo)
