"""Files in LangChain: one call of our tool against LangChain's and deepagents' own ways."""

from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from abilities.adapters.langchain import load_tools
from abilities.declarations.values import JsonObject
from benchmarks.in_process import build_settings
from benchmarks.langchain_rivals import (
    DOWNLOAD,
    ONE_BY_ONE,
    build_async_rivals,
    build_sync_rivals,
)
from benchmarks.mcp_files import MAX_CHARS, collect_contents, describe_calls
from benchmarks.measure import Measured, Timings, Work, run_shuffled
from benchmarks.peers import BOUNDS, LARGE_BOUND, find_next_request
from benchmarks.workloads import Workload, copy_sources, write_files

WANTED = {
    f"25 files of 16 KB in LangChain, async, against {ONE_BY_ONE}": ">= 10x",
    f"25 files of 16 KB in LangChain, async, against {DOWNLOAD}": ">= 1x",
    f"25 files of 16 KB in LangChain, sync, against {ONE_BY_ONE}": ">= 5x",
    f"25 real sources in LangChain, async, against {ONE_BY_ONE}": ">= 6x",
}
"""What is wanted at the large bound."""


async def measure_langchain(base: Path, rounds: int) -> list[Measured]:
    """25 files of 16 KB in LangChain, async and sync, against single calls and deepagents."""
    return await compare(base, write_files(base / "workspace", 16), rounds)


async def measure_langchain_real(base: Path, rounds: int) -> list[Measured]:
    """25 real sources in LangChain, async and sync, against single calls and deepagents."""
    return await compare(base, copy_sources(base / "workspace"), rounds)


async def compare(base: Path, workload: Workload, rounds: int) -> list[Measured]:
    """Read the files at both bounds, asynchronously and from sync code."""
    request: JsonObject = {"paths": workload.names, "max_chars_per_file": MAX_CHARS}
    results: list[Measured] = []

    tools: dict[int, BaseTool] = {}
    calls: dict[int, int] = {}
    for bound in BOUNDS:
        (tools[bound],) = load_tools(build_settings(base, bound), only=["file_read_bulk"])
        replies = await read_async(tools[bound], request)
        assert collect_contents(replies) == workload.contents
        assert read_sync(tools[bound], request) == replies
        calls[bound] = len(replies)

    ways: dict[str, Any] = {
        "async": (read_async, await build_async_rivals(workload)),
        "sync": (read_sync, build_sync_rivals(workload)),
    }
    for mode, (read, rivals) in ways.items():
        variants: dict[str, Work] = {**rivals}
        for bound, tool in tools.items():
            variants[f"{bound}"] = partial(read, tool, request)

        workload.settle()
        timings = await run_shuffled(variants, rounds)

        for bound in BOUNDS:
            label = f"{workload.label} in LangChain, {mode}"
            results += list_ratios(timings, label, list(rivals), bound, calls[bound])

    return results


async def read_async(tool: BaseTool, request: JsonObject | None) -> list[str]:
    """Read files with our tool from async code, to the last byte."""
    replies: list[str] = []
    while request:
        replies.append(await tool.ainvoke(request))
        request = find_next_request(replies[-1])

    return replies


def read_sync(tool: BaseTool, request: JsonObject | None) -> list[str]:
    """Read files with our tool from sync code, to the last byte."""
    replies: list[str] = []
    while request:
        replies.append(tool.invoke(request))
        request = find_next_request(replies[-1])

    return replies


def list_ratios(
    timings: Timings, label: str, rivals: list[str], bound: int, calls: int
) -> list[Measured]:
    """Return the ratios of other ways to ours at one bound."""
    results: list[Measured] = []

    for rival in rivals:
        what = f"{label}, against {rival}"
        wanted = WANTED.get(what, "") if bound == LARGE_BOUND else ""
        note = describe_calls(calls)
        results.append(timings.ratio("6", what, wanted, rival, f"{bound}", bound=bound, note=note))

    return results
