"""The goals about reading files: against the official server, LangChain's tool and a bare loop."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from abilities import Abilities, Settings, parse_text
from abilities.adapters.langchain import load_tools
from abilities.builtin.file_read_bulk import run as read_files
from abilities.declarations.file_read_bulk import FileReadBulkInput
from abilities.declarations.values import JsonObject
from abilities.definition import Context
from abilities.helpers.batch import Batch, Worker
from abilities.helpers.circuit_breaker import CircuitBreaker
from abilities.helpers.files.paths import parse_path
from abilities.helpers.files.reader import FileReader, ReadingSession
from abilities.helpers.files.roots import Root
from abilities.helpers.workers import WorkerPool
from benchmarks import peers
from benchmarks.measure import Measured, Work, run_interleaved

LINE = "    return [render(item, width=80) for item in items if item.visible]  # some source code\n"
FILES = 25


class McpGoal(NamedTuple):
    """What is wanted of files of one size over MCP; None if nothing is."""

    kilobytes: int
    max_chars: int
    against_single_reads: tuple[str, str] | None
    against_bulk_read: tuple[str, str] | None


MCP_GOALS = (
    McpGoal(16, 100_000, ("1", ">= 5x"), ("1", ">= 2x")),
    McpGoal(1, 100_000, None, ("1", ">= 1.3x")),
    McpGoal(256, 20_000, ("2", ">= 15x"), None),
)


def write_files(folder: Path, kilobytes: int) -> list[str]:
    """Write 25 files of source code of one size, and return their names."""
    size = kilobytes * 1024
    text = (LINE * (size // len(LINE) + 1))[:size]
    names = [f"module_{kilobytes}kb_{n:02}.py" for n in range(FILES)]

    for name in names:
        (folder / name).write_text(text)
    return names


def build_settings(base: Path) -> Settings:
    """Return settings with room for 25 whole files in one reply."""
    return Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        max_response_bytes=peers.LARGE_BOUND,
    )


def count_content(reply: str) -> int:
    """Return the characters of content in one of our replies."""
    return int(parse_text(reply)["summary"]["returned_chars"])


async def measure_goals_1_to_3(base: Path, rounds: int) -> list[Measured]:
    """One bulk call over MCP against the official server's single reads and its bulk read."""
    results: list[Measured] = []
    workspace = base / "workspace"

    with (
        peers.start_ours(base / "agent", workspace) as ours,
        peers.start_filesystem_server(workspace) as official,
    ):
        for goal in MCP_GOALS:
            results += await compare_over_mcp(goal, workspace, ours, official, rounds)
        results += measure_bytes(workspace, ours)

    return results


async def compare_over_mcp(
    goal: McpGoal, workspace: Path, ours: peers.Peer, official: peers.Peer, rounds: int
) -> list[Measured]:
    """Read files of one size through both servers."""
    names = write_files(workspace, goal.kilobytes)
    paths = [str(workspace / name) for name in names]
    arguments = {"paths": names, "max_chars_per_file": goal.max_chars}

    returned = count_content(ours.call("file_read_bulk", arguments))
    assert returned == FILES * min(goal.max_chars, goal.kilobytes * 1024)

    def read_one_by_one() -> None:
        for path in paths:
            official.call("read_text_file", {"path": path})

    variants = {
        "ours": lambda: ours.call("file_read_bulk", arguments),
        "single": read_one_by_one,
        "bulk": lambda: official.call("read_multiple_files", {"paths": paths}),
    }
    timings = await run_interleaved(variants, rounds)

    label = f"25x{goal.kilobytes} KB over MCP stdio, {peers.LARGE_BOUND:,} bytes"
    results: list[Measured] = []
    if goal.against_single_reads:
        number, wanted = goal.against_single_reads
        what = f"{label}, against 25 read_text_file"
        results.append(timings.ratio(number, what, wanted, "single", "ours"))
    if goal.against_bulk_read:
        number, wanted = goal.against_bulk_read
        what = f"{label}, against read_multiple_files"
        results.append(timings.ratio(number, what, wanted, "bulk", "ours"))

    return results


async def measure_goal_1_by_default(base: Path, rounds: int) -> list[Measured]:
    """The same files at the default bound, following next_request to the last byte."""
    workspace = base / "workspace"
    names = write_files(workspace, 16)

    with (
        peers.start_ours(base / "agent", workspace, bound=peers.DEFAULT_BOUND) as ours,
        peers.start_filesystem_server(workspace) as official,
    ):

        def read_to_the_end() -> int:
            characters = 0
            request: JsonObject | None = {"paths": names, "max_chars_per_file": 100_000}
            while request:
                reply = parse_text(ours.call("file_read_bulk", request))
                characters += reply["summary"]["returned_chars"]
                request = reply.get("next_request")

            return characters

        def read_one_by_one() -> None:
            for name in names:
                official.call("read_text_file", {"path": str(workspace / name)})

        assert read_to_the_end() == FILES * 16 * 1024

        paths = [str(workspace / name) for name in names]
        variants = {
            "ours": read_to_the_end,
            "single": read_one_by_one,
            "bulk": lambda: official.call("read_multiple_files", {"paths": paths}),
        }
        timings = await run_interleaved(variants, rounds)

    label = f"25x16 KB over MCP stdio, {peers.DEFAULT_BOUND:,} bytes, to the last byte"
    return [
        timings.ratio("1", f"{label}, against 25 read_text_file", ">= 1.5x", "single", "ours"),
        timings.ratio("1", f"{label}, against read_multiple_files", ">= 0.9x", "bulk", "ours"),
    ]


def measure_bytes(workspace: Path, ours: peers.Peer) -> list[Measured]:
    """Compare the bytes on the wire with the JSON of the payload, and of the contents alone."""
    names = write_files(workspace, 16)
    reply = ours.call("file_read_bulk", {"paths": names, "max_chars_per_file": 100_000})

    payload_size = len(orjson.dumps(parse_text(reply)))
    contents = [(workspace / name).read_text() for name in names]
    contents_size = len(orjson.dumps(contents))

    label = "bytes on the wire, against"
    return [
        Measured(
            "3",
            f"{label} the payload's own JSON encoding",
            "<= 1.1x",
            ours.received / payload_size,
        ),
        Measured(
            "3", f"{label} the contents' JSON encoding", "<= 1.1x", ours.received / contents_size
        ),
    ]


def build_roots(settings: Settings) -> list[Root]:
    """Return the roots that an application would read from."""
    return [Root(place.name, place.path) for place in settings.roots]


async def measure_goal_4(base: Path, rounds: int) -> list[Measured]:
    """The safe reader in process against a bare loop."""
    results: list[Measured] = []
    settings = build_settings(base)
    roots = build_roots(settings)
    reader = FileReader(roots, settings.policy, WorkerPool())

    for kilobytes, wanted in ((1, "<= 2.5x"), (16, "<= 2x"), (256, "<= 1.6x")):
        names = write_files(settings.workspace_dir, kilobytes)
        variants = prepare_readers(reader, settings.workspace_dir, names, kilobytes * 1024)
        timings = await run_interleaved(variants, rounds * 10)

        what = f"25x{kilobytes} KB, safe reader against a bare loop"
        results.append(timings.ratio("4", what, wanted, "safe", "bare"))

    return results


def prepare_readers(
    reader: FileReader, folder: Path, names: list[str], size: int
) -> dict[str, Work]:
    """Return the safe way and the bare way to read some files."""

    def read_safely() -> list[Any]:
        with open_session(reader) as session:
            return [session.read(parse_path(name), 1_000_000) for name in names]

    return {"safe": read_safely, "bare": lambda: read_bare(folder, names, size)}


@contextmanager
def open_session(reader: FileReader) -> Iterator[ReadingSession]:
    """Open a reading session on this thread, as a worker would."""
    batch: Batch[ReadingSession, object, None] = Batch(
        reader.open_session, lambda *_: None, [], CircuitBreaker(), lambda: None
    )
    with reader.open_session(Worker(batch, pooled=False)) as session:
        yield session


def read_bare(folder: Path, names: list[str], size: int) -> list[bytes]:
    """Read files at the least possible cost: open, read, close."""
    contents: list[bytes] = []

    for name in names:
        descriptor = os.open(f"{folder}/{name}", os.O_RDONLY)
        try:
            contents.append(os.read(descriptor, size + 1))
        finally:
            os.close(descriptor)

    return contents


class InlineWorkerPool(WorkerPool):
    """Workers that do the work on the thread that calls them."""

    async def map(
        self, open_session: Any, function: Any, items: Any, second_step: Any = None
    ) -> list[Any]:
        """Run the same batch without a thread."""
        batch = Batch(open_session, function, items, CircuitBreaker(), lambda: None, second_step)
        batch.run(Worker(batch, pooled=False))
        return batch.results


async def measure_goal_5(base: Path, rounds: int) -> list[Measured]:
    """A call through its thread against the same call inline."""
    results: list[Measured] = []
    settings = build_settings(base)
    roots = build_roots(settings)
    inline_reader = FileReader(roots, settings.policy, InlineWorkerPool())

    async with Abilities.open(settings) as abilities:
        inline_context = replace(abilities.context, files=inline_reader)

        for kilobytes in (1, 16):
            arguments = FileReadBulkInput(paths=write_files(settings.workspace_dir, kilobytes))
            variants = {
                "thread": prepare_call(abilities.context, arguments),
                "inline": prepare_call(inline_context, arguments),
            }
            timings = await run_interleaved(variants, rounds * 10)

            what = f"25x{kilobytes} KB, async call against the same inline"
            results.append(timings.ratio("5", what, "<= 2x", "thread", "inline"))

    return results


def prepare_call(context: Context, arguments: FileReadBulkInput) -> Work:
    """Return a function that reads files."""
    return lambda: read_files(context, arguments)


async def measure_goal_6(base: Path, rounds: int) -> list[Measured]:
    """One LangChain tool call against 25 of the community's ReadFileTool."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_community.tools import ReadFileTool

    settings = build_settings(base)
    names = write_files(settings.workspace_dir, 16)
    (bulk,) = load_tools(settings, only=["file_read_bulk"])
    single = ReadFileTool(root_dir=str(settings.workspace_dir))

    async def read_one_by_one() -> list[Any]:
        return [await single.ainvoke({"file_path": name}) for name in names]

    returned = count_content(await bulk.ainvoke({"paths": names}))
    assert returned == sum(map(len, await read_one_by_one()))

    variants = {"bulk": lambda: bulk.ainvoke({"paths": names}), "single": read_one_by_one}
    timings = await run_interleaved(variants, rounds)

    what = f"25x16 KB in LangChain, {peers.LARGE_BOUND:,} bytes, against 25 ReadFileTool calls"
    return [timings.ratio("6", what, ">= 10x", "single", "bulk")]


GOALS_OF_FILES = [
    measure_goals_1_to_3,
    measure_goal_1_by_default,
    measure_goal_4,
    measure_goal_5,
    measure_goal_6,
]
