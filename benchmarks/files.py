"""The goals about files, replies and imports: against the official server, LangChain's tool and a bare loop."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from abilities import Abilities, Settings, render
from abilities.adapters.langchain import load_tools
from abilities.builtin.file_read_bulk import run as read_files
from abilities.declarations.file_read_bulk import FileReadBulkInput
from abilities.definition import Context
from abilities.helpers.batch import Batch, Worker
from abilities.helpers.circuit_breaker import CircuitBreaker
from abilities.helpers.files.paths import parse_path
from abilities.helpers.files.reader import FileReader, ReadingSession
from abilities.helpers.workers import WorkerPool
from benchmarks import peers
from benchmarks.measure import Measured, interleaved

LINE = "    return [render(item, width=80) for item in items if item.visible]  # some source code\n"
FILES = 25


def fill(folder: Path, kilobytes: int) -> list[str]:
    """Make 25 files of source code of one size."""
    names = [f"module_{kilobytes}kb_{n:02}.py" for n in range(FILES)]
    text = (LINE * (kilobytes * 1024 // len(LINE) + 1))[: kilobytes * 1024]
    for name in names:
        (folder / name).write_text(text)
    return names


def contents(text: str) -> int:
    """Characters of content in one of our replies."""
    return int(orjson.loads(text)["summary"]["returned_chars"])


async def goal_1_and_2(base: Path, rounds: int) -> list[Measured]:
    """One bulk call over MCP against the official server's single reads and its bulk read."""
    rows: list[Measured] = []
    workspace = base / "workspace"
    with peers.ours(base / "agent", workspace) as mine, peers.filesystem(workspace) as other:
        for kilobytes, goal, bulk_goal in ((16, 5.0, 2.0), (1, 0.0, 1.3), (256, 15.0, 0.0)):
            names = fill(workspace, kilobytes)
            whole = [str(workspace / name) for name in names]
            most = 20_000 if kilobytes == 256 else 100_000
            ask = {"paths": names, "max_chars_per_file": most}
            assert contents(mine.call("file_read_bulk", ask)) == FILES * min(most, kilobytes * 1024)
            taken = await interleaved(
                {
                    "ours": lambda ask=ask: mine.call("file_read_bulk", ask),
                    "single": lambda whole=whole: [
                        other.call("read_text_file", {"path": path}) for path in whole
                    ],
                    "bulk": lambda whole=whole: other.call("read_multiple_files", {"paths": whole}),
                },
                rounds,
            )
            label = f"25x{kilobytes} KB over MCP stdio"
            if goal:
                number = "2" if kilobytes == 256 else "1"
                rows.append(
                    taken.ratio(
                        number,
                        f"{label}, against 25 read_text_file",
                        f">= {goal:g}x",
                        "single",
                        "ours",
                    )
                )
            if bulk_goal:
                what = f"{label}, against read_multiple_files"
                rows.append(taken.ratio("1", what, f">= {bulk_goal:g}x", "bulk", "ours"))
            if kilobytes == 16:
                text = mine.call("file_read_bulk", ask)
                received = mine.received
                once = len(orjson.dumps(orjson.loads(text)))
                sources = len(orjson.dumps([(workspace / name).read_text() for name in names]))
                what = "bytes on the wire, against the payload's own JSON encoding"
                rows.append(Measured("3", what, "<= 1.1x", received / once))
                what = "bytes on the wire, against the contents' JSON encoding"
                rows.append(Measured("3", what, "<= 1.1x", received / sources))
    return rows


@contextmanager
def session(reader: FileReader) -> Iterator[ReadingSession]:
    """A reading session on this thread, as a worker would have it."""
    batch = Batch(reader.open_session, lambda *_: None, [], CircuitBreaker(), lambda: None)
    with reader.open_session(Worker(batch, pooled=False)) as opened:
        yield opened


def bare(folder: Path, names: list[str], size: int) -> list[bytes]:
    """What reading costs at the least: open, read, close."""
    read: list[bytes] = []
    for name in names:
        descriptor = os.open(f"{folder}/{name}", os.O_RDONLY)
        try:
            read.append(os.read(descriptor, size + 1))
        finally:
            os.close(descriptor)
    return read


async def goal_4(base: Path, rounds: int) -> list[Measured]:
    """The safe reader in process against a bare loop."""
    rows: list[Measured] = []
    settings = Settings(agent_dir=base / "agent", workspace_dir=base / "workspace")
    reader = FileReader(
        [settings.agent_root, settings.workspace_root], settings.policy, WorkerPool()
    )
    for kilobytes, goal in ((1, 2.5), (16, 2.0), (256, 1.6)):
        names = fill(settings.workspace_dir, kilobytes)

        def safe(names: list[str] = names) -> list[Any]:
            with session(reader) as opened:
                return [opened.read(parse_path(name), 1_000_000) for name in names]

        ways = {
            "bare": lambda names=names, size=kilobytes * 1024: bare(
                settings.workspace_dir, names, size
            ),
            "safe": safe,
        }
        taken = await interleaved(ways, rounds * 10)
        what = f"25x{kilobytes} KB, safe reader against a bare loop"
        rows.append(taken.ratio("4", what, f"<= {goal:g}x", "safe", "bare"))
    return rows


class Inline(WorkerPool):
    """Workers that do the work where they are called."""

    async def map(self, session: Any, function: Any, items: Any) -> list[Any]:
        """The same batch without a thread."""
        batch = Batch(session, function, items, CircuitBreaker(), lambda: None)
        batch.run(Worker(batch, pooled=False))
        return batch.results


async def goal_5(base: Path, rounds: int) -> list[Measured]:
    """A call through its thread against the same call inline."""
    rows: list[Measured] = []
    settings = Settings(
        agent_dir=base / "agent", workspace_dir=base / "workspace", max_response_bytes=1_000_000
    )
    async with Abilities.open(settings) as abilities:
        roots = [settings.agent_root, settings.workspace_root]
        inline = replace(abilities.context, files=FileReader(roots, settings.policy, Inline()))
        for kilobytes in (1, 16):
            asked = FileReadBulkInput(paths=fill(settings.workspace_dir, kilobytes))

            async def call(context: Context, asked: FileReadBulkInput = asked) -> object:
                return await read_files(context, asked)

            ways = {
                "thread": lambda call=call: call(abilities.context),
                "inline": lambda call=call: call(inline),
            }
            taken = await interleaved(ways, rounds * 10)
            what = f"25x{kilobytes} KB, async call against the same inline"
            rows.append(taken.ratio("5", what, "<= 2x", "thread", "inline"))
    return rows


async def goal_6(base: Path, rounds: int) -> list[Measured]:
    """One LangChain tool call against 25 of the community's ReadFileTool."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_community.tools import ReadFileTool

    workspace = base / "workspace"
    names = fill(workspace, 16)
    settings = Settings(
        agent_dir=base / "agent", workspace_dir=workspace, max_response_bytes=1_000_000
    )
    (tool,) = load_tools(settings, only=["file_read_bulk"])
    single = ReadFileTool(root_dir=str(workspace))

    async def one_by_one() -> list[Any]:
        return [await single.ainvoke({"file_path": name}) for name in names]

    assert contents(await tool.ainvoke({"paths": names})) == sum(
        len(text) for text in await one_by_one()
    )
    taken = await interleaved(
        {"bulk": lambda: tool.ainvoke({"paths": names}), "single": one_by_one}, rounds
    )
    return [
        taken.ratio(
            "6", "25x16 KB in LangChain, against 25 ReadFileTool calls", ">= 10x", "single", "bulk"
        )
    ]


MEMORY = """
import asyncio, sys, threading, time
from abilities import Abilities, Settings
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
async def main():
    async with Abilities.open(Settings(agent_dir=sys.argv[1], workspace_dir=sys.argv[2])) as abilities:
        ask = {"paths": ["huge.txt"] * 25}
        await abilities.call("file_read_bulk", {"paths": ["none"]})
        idle, peak, going = resident(), 0, True
        def watch():
            nonlocal peak
            while going:
                peak = max(peak, resident())
                time.sleep(0.001)
        thread = threading.Thread(target=watch); thread.start()
        began = time.perf_counter()
        times = []
        async def one():
            await abilities.call("file_read_bulk", ask)
            times.append(time.perf_counter() - began)
        await asyncio.gather(*(one() for _ in range(64)))
        going = False; thread.join()
        print((peak - idle) / 2**20, sorted(times)[-1] * 1000)
asyncio.run(main())
"""


async def goal_18(base: Path, _: int) -> list[Measured]:
    """Peak memory of 64 concurrent calls of 25 files of one gibibyte."""
    huge = base / "workspace" / "huge.txt"
    block = (LINE * 12_000).encode()
    with huge.open("wb") as file:
        while file.tell() < 2**30:
            file.write(block)
    command = [sys.executable, "-c", MEMORY, str(base / "agent"), str(base / "workspace")]
    mebibytes, last = (
        float(n) for n in subprocess.run(command, capture_output=True, check=True).stdout.split()
    )
    huge.unlink()
    return [
        Measured("18", "peak MiB over idle, 64 calls of 25x1 GiB", "<= 128 MiB", mebibytes),
        Measured(
            "18",
            "ms until the last of those 64 calls was answered (figure 4: p99 <= 300)",
            "<= 300 ms",
            last,
        ),
    ]


async def goal_19(_: Path, rounds: int) -> list[Measured]:
    """The time that importing the package adds to an interpreter."""

    def start(code: str) -> Any:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    taken = await interleaved({"bare": start("pass"), "ours": start("import abilities")}, rounds)
    return [
        Measured(
            "19", "ms to import abilities", "<= 250 ms", (taken["ours"] - taken["bare"]) * 1000
        )
    ]


async def goal_20(base: Path, _: int) -> list[Measured]:
    """Characters of a reply beyond the contents, a record."""
    workspace = base / "workspace"
    names = [f"{n:02}".ljust(37, "x") + ".py" for n in range(FILES)]
    for name in names:
        (workspace / name).write_text("word " * 5_000)
    rows: list[Measured] = []
    settings = Settings(
        agent_dir=base / "agent", workspace_dir=workspace, max_response_bytes=1_000_000
    )
    async with Abilities.open(settings) as abilities:
        for label, goal, most in (("whole", 260, 100_000), ("cut", 500, 20_000)):
            payload = await abilities.call(
                "file_read_bulk", {"paths": names, "max_chars_per_file": most}
            )
            beyond = len(render(payload)) - payload["summary"]["returned_chars"]
            what = f"characters beyond its content, a {label} file record"
            rows.append(Measured("20", what, f"<= {goal}", beyond / FILES))
    return rows


OF_FILES = [goal_1_and_2, goal_4, goal_5, goal_6, goal_18, goal_19, goal_20]
