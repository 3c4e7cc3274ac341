"""The commands of the first minute: init, and a demonstration on your own files.

The demonstration writes everything into a temporary folder.
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

import click
from rich.console import Console
from rich.text import Text

from abilities.application import Abilities
from abilities.cli.session import Session, define_command
from abilities.cli.terminal import echo, escape_text, format_count
from abilities.declarations.limits import MAX_ITEMS, TOKEN_BYTES
from abilities.declarations.values import JsonObject
from abilities.errors import format_install, is_installed
from abilities.helpers.reply.formats import render
from abilities.settings import Settings, find_settings_file

_PATTERN = "**/*.{md,py,toml,txt,json,js,ts,c,h,rs,go,java}"
_SHOWN_PATHS = 3

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
"""The outcomes of an item, in the order shown, and their colors."""

_NEXT = (
    ("abilities setup", "connect Claude Code, Cursor, VS Code and others"),
    ("abilities explore", "see in your browser what an agent remembers"),
    ("abilities doctor", "see what is configured, and what to look at"),
)

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
"""Items for `read`, with at least one for each outcome."""

QUESTION = "When do the compiler's tests start?"
"""A question that the sample memories answer, though no memory has all of its words."""

_STARTER_NOTES = """\
# Memory

What this agent should always remember. One fact per line.
"""


def _store(key: str, content: str, **weights: float) -> JsonObject:
    """Return the operation that stores a sample memory with links to others, by their keys."""
    links = [{"key": target, "link_weight": weight} for target, weight in weights.items()]
    return {"op": "store", "type": "learning", "key": key, "content": content, "links": links}


OPERATIONS = [
    _store("greeting", "Greet Ada by her first name.", ada=0.9, tone=0.5),
    _store("ada", "Ada works on the compiler.", compiler=0.8),
    _store("compiler", "The compiler is tested every night.", nightly=0.7),
    _store("tone", "Answers are short and friendly.", ada=0.2),
    _store("nightly", "Nightly tests start at two."),
]


@define_command("abilities init", "abilities init ~/agents/ada")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
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
    # The name is a pattern, and its folders may depend on the date too.
    todays_notes = agent / names.name_day(datetime.now(settings.zone).date())

    workspace = settings.workspace_root
    todays_notes.parent.mkdir(parents=True, exist_ok=True)
    if notes.exists():
        echo(f"{notes} already exists; nothing was changed.")
    # The agent directory comes first: empty notes there would hide those of the workspace.
    elif workspace is not None and (workspace.path / names.long_term).exists():
        echo(f"{workspace.path / names.long_term} is read as the notes; no others are created.")
    else:
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.write_text(_STARTER_NOTES, encoding="utf-8")
        echo(f"Created {notes}")

    echo(f"Daily notes go into one file per day, today's is {todays_notes}")

    # Say how the directory becomes the agent directory, unless it is that already.
    if directory is not None and Session({}).settings.agent_dir != settings.agent_dir:
        line = f"agent_dir = {json.dumps(str(settings.agent_dir))}"
        echo(f"To use it, put {line} into {find_settings_file()}, or add --agent-dir to commands.")


@define_command("abilities demo --workspace-dir ~/project")
def demo(session: Session) -> None:
    """Show an agent's first minute on your files, in thirty lines.

    Finds and reads files of the workspace, answers a question from sample memories, follows their
    links, and compares the replies that LangChain and MCP give a model. Your own memories are
    neither read nor changed.
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

    asyncio.run(run_demo(workspace.path))


@dataclass
class Costs:
    """The bytes read so far: of each call, and of each piece in them."""

    calls: list[int] = field(default_factory=list[int])
    pieces: list[int] = field(default_factory=list[int])

    def add(self, payload: JsonObject) -> None:
        """Count a call and its pieces; a piece without room in it is counted by a later call."""
        self.calls.append(len(render(payload, "text").encode()))

        for record in payload["results"]:
            if _describe_outcome(record)[0] != "later":
                content = str(record["data"]["content"]) if record["success"] else ""
                self.pieces.append(len(content.encode()))


async def run_demo(workspace: Path) -> None:
    """Find and read files of ``workspace`` and a sample agent, recall, walk, and compare surfaces.

    MCP must be installed.
    """
    console = Console(highlight=False)

    with tempfile.TemporaryDirectory() as scratch:
        agent = Path(scratch) / "agent"
        create_sample_agent(agent)
        # All other settings have their defaults, so the demonstration is the same for everybody.
        values: JsonObject = {}
        for name, setting in Settings.model_fields.items():
            values[name] = setting.get_default(call_default_factory=True)

        values["agent_dir"] = agent
        values["workspace_dir"] = workspace
        values["store_url"] = f"sqlite:///{scratch}/memory.db"
        _print(console, f"In {workspace}, with a sample agent; nothing of yours is changed.", "dim")

        async with Abilities.open(Settings(**values)) as abilities:
            await abilities.call("remember", {"operations": OPERATIONS})
            request, costs = await _show_reading(abilities, console)
            await _show_memories(abilities, console)
            await _show_surfaces(abilities, request, console)

    rounds = f"{len(costs.calls) + 1} rounds instead of {len(costs.pieces) + 1}"
    at_once, singly = _count_tokens(costs.calls), _count_tokens(costs.pieces)
    title = f"{rounds}, {at_once:,} tokens read instead of {singly:,}"
    _print_step(console, 7, "Saved", title)

    console.print()
    _print(console, "Next:", "bold")
    for command, purpose in _NEXT:
        _print(console, f"  {command:<17}  {purpose}")


async def _show_reading(abilities: Abilities, console: Console) -> tuple[JsonObject, Costs]:
    """Find text files as an agent would, and read them and the samples; print each outcome."""
    answer = await abilities.call("file_list", {"pattern": _PATTERN, "limit": MAX_ITEMS})
    # A file of the workspace may have the name of a sample, which is read once.
    paths = [file["path"] for file in answer["files"] if file["path"] not in ITEMS]

    more = ", and more behind next_request" if answer["has_more"] else ""
    _print_step(console, 1, "Find", f"{format_count(len(paths), 'file')} in one call{more}")
    _print(console, f"   {', '.join(paths[:_SHOWN_PATHS])} …", "dim")

    costs = Costs()
    request: JsonObject = {"items": [*ITEMS, *paths][:MAX_ITEMS]}
    payload = await abilities.call("read", request)
    costs.add(payload)

    records: list[JsonObject] = payload["results"]
    title = f"{len(records)} files, notes and memories in one call, each with an outcome"
    _print_step(console, 2, "Read", title)

    outcomes = [_describe_outcome(record) for record in records]
    counts = Counter(kind for kind, _ in outcomes)
    for shown, style in _KINDS.items():
        for record, (kind, words) in zip(records, outcomes, strict=True):
            if kind == shown:
                line = Text(f"   {counts[kind]:>2} ")
                line.append(f"{kind:<8}", style)
                line.append(f" {escape_text(record['input']):<15.15} {words}")
                console.print(line, no_wrap=True, overflow="ellipsis")
                break

    while "next_request" in payload:
        payload = await abilities.call("read", payload["next_request"])
        costs.add(payload)

    followed = format_count(len(costs.calls) - 1, "call")
    title = f"{followed} of next_request: all {sum(costs.pieces):,} bytes, each once"
    _print_step(console, 3, "The rest", title)
    return request, costs


def _describe_outcome(record: JsonObject) -> tuple[str, str]:
    """Return the outcome of an item, one of `_KINDS`, and words about it."""
    if not record["success"]:
        error = record["error"]
        if error["reason"] == "response_budget":
            return "later", "no room in this reply"

        kinds = {"NOT_FOUND": "missing", "PERMISSION_ERROR": "refused"}
        return kinds.get(error["code"], "invalid"), str(error["message"])

    content = str(record["data"]["content"])
    if "truncation" in record:
        return "cut", f"the first {len(content):,} characters; the rest follows"
    if record["data"].get("redacted"):
        return "redacted", content.strip()

    return "ok", format_count(len(content), "character")


async def _show_memories(abilities: Abilities, console: Console) -> None:
    """Ask a question, and follow the links of a memory."""
    answer = await abilities.call("recall", {"queries": [QUESTION]})
    _print_step(console, 4, "Recall", f"{QUESTION} (no model, no embeddings)")
    for memory in answer["results"][0]["memories"][:3]:
        _print(console, f"   {memory['score']:.2f}  {memory['content']}")

    answer = await abilities.call("bulk_read_memory", {"key": "greeting", "depth": 2})
    cut = [memory["key"] for memory in answer["metadata"]["frontier"]]
    title = f"from 'greeting' along the best links, two deep; left out: {', '.join(cut)}"
    _print_step(console, 5, "Walk", title)
    for record in (answer["targetMemory"], *answer["associatedMemories"]):
        indent = "  " * record.get("depth", 0)
        _print(console, f"   {indent}{record['data']['content']}")


async def _show_surfaces(abilities: Abilities, request: JsonObject, console: Console) -> None:
    """Send the same request through LangChain and MCP, and compare the replies for a model."""
    # LangChain takes a second to import.
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    from abilities.adapters.langchain import load_tools

    direct = (await abilities.reply("read", request, for_model=True)).text

    (tool,) = load_tools(abilities, only=["read"])
    call = {"type": "tool_call", "id": "call-1", "name": tool.name, "args": request}
    through_langchain = str((await tool.ainvoke(call)).content)

    # The official client starts ``abilities mcp`` as a process, without the user's settings.
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
        through_mcp = "".join(part.text for part in result.content if part.type == "text")

    title = f"Python, LangChain and MCP give a model the same {len(direct.encode()):,} bytes"
    if not through_langchain == through_mcp == direct:
        title = "Python, LangChain and MCP gave different bytes, because a file changed meanwhile"
    _print_step(console, 6, "Anywhere", title)


def _count_tokens(sizes: list[int]) -> int:
    """Return the tokens that a model reads if each round adds an answer to its conversation."""
    context = read = _PROMPT_TOKENS
    for size in sizes:
        context += -(-size // TOKEN_BYTES)
        read += context

    return read


def _print_step(console: Console, number: int, name: str, title: str) -> None:
    line = Text(f"{number}. ")
    line.append(f"{name:<9}", "bold")
    line.append(escape_text(title))
    console.print(line, no_wrap=True, overflow="ellipsis")


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(escape_text(text), style), no_wrap=True, overflow="ellipsis")


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
