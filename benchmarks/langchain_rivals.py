"""LangChain's and deepagents' own ways to read many files, async and sync.

Each returns the texts that the model would read, or the program, and is checked to hold all files.
"""

import asyncio
import warnings
from collections.abc import Sequence
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.filesystem import FilesystemMiddleware
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime

from abilities.declarations.values import JsonObject
from benchmarks.measure import Work
from benchmarks.workloads import Workload

LINES = 100_000
"""More lines than any file has; deepagents' tool returns a hundred unless it is asked."""

ONE_BY_ONE = "25 ReadFileTool calls"
TOGETHER = "25 ReadFileTool calls at once"
DEEPAGENTS = "25 read_file calls of deepagents"
DEEPAGENTS_TOGETHER = "25 read_file calls of deepagents at once"
DOWNLOAD = "deepagents' download_files (bytes for a program, no tool call)"


async def build_async_rivals(workload: Workload) -> dict[str, Work]:
    """Return the ways of async code; "at once" is what a graph does with calls of one message."""
    single, single_calls = load_read_file_tool(workload)
    deep, deep_calls = load_deepagents_tool(workload)
    backend = open_backend(workload)
    paths = to_virtual_paths(workload)

    async def read_one_by_one(tool: BaseTool, calls: list[JsonObject]) -> list[Any]:
        return [await tool.ainvoke(call) for call in calls]

    async def read_together(tool: BaseTool, calls: list[JsonObject]) -> list[Any]:
        return await asyncio.gather(*(tool.ainvoke(call) for call in calls))

    rivals: dict[str, Work] = {
        ONE_BY_ONE: lambda: read_one_by_one(single, single_calls),
        TOGETHER: lambda: read_together(single, single_calls),
        DEEPAGENTS: lambda: read_one_by_one(deep, deep_calls),
        DEEPAGENTS_TOGETHER: lambda: read_together(deep, deep_calls),
        DOWNLOAD: lambda: backend.adownload_files(paths),
    }
    for name, read in rivals.items():
        replies: Any = await read()  # type: ignore[misc]  # all of them are async
        check_replies(name, replies, workload)
    return rivals


def build_sync_rivals(workload: Workload) -> dict[str, Work]:
    """Return the ways of sync code; "at once" is ``batch``, which uses threads."""
    single, single_calls = load_read_file_tool(workload)
    deep, deep_calls = load_deepagents_tool(workload)
    backend = open_backend(workload)
    paths = to_virtual_paths(workload)

    rivals: dict[str, Work] = {
        ONE_BY_ONE: lambda: [single.invoke(call) for call in single_calls],
        TOGETHER: lambda: single.batch([*single_calls]),
        DEEPAGENTS: lambda: [deep.invoke(call) for call in deep_calls],
        DEEPAGENTS_TOGETHER: lambda: deep.batch([*deep_calls]),
        DOWNLOAD: lambda: backend.download_files(paths),
    }
    for name, read in rivals.items():
        replies: Any = read()
        check_replies(name, replies, workload)
    return rivals


def load_read_file_tool(workload: Workload) -> tuple[BaseTool, list[JsonObject]]:
    """Return LangChain community's tool, and its calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_community.tools import ReadFileTool

    tool = ReadFileTool(root_dir=str(workload.folder))
    return tool, [{"file_path": name} for name in workload.names]


def load_deepagents_tool(workload: Workload) -> tuple[BaseTool, list[Any]]:
    """Return deepagents' tool, and its calls; a graph would give each the runtime."""
    middleware = FilesystemMiddleware(backend=open_backend(workload), tools=["read_file"])
    (tool,) = middleware.tools
    runtime: Any = ToolRuntime(
        state={},
        context=None,
        config={},
        stream_writer=lambda _: None,
        tool_call_id="1",
        store=None,
    )
    calls = [
        {"file_path": path, "limit": LINES, "runtime": runtime}
        for path in to_virtual_paths(workload)
    ]
    return tool, calls


def open_backend(workload: Workload) -> FilesystemBackend:
    """Return deepagents' backend, confined to the folder."""
    return FilesystemBackend(root_dir=workload.folder, virtual_mode=True)


def to_virtual_paths(workload: Workload) -> list[str]:
    """Return the paths as deepagents takes them."""
    return [f"/{name}" for name in workload.names]


def check_replies(name: str, replies: Sequence[Any], workload: Workload) -> None:
    """Check that each reply holds its file; deepagents' tool leaves out the last line end."""
    assert len(replies) == len(workload.contents), name

    for reply, content in zip(replies, workload.contents.values(), strict=True):
        text = getattr(reply, "content", reply)
        if isinstance(text, bytes):
            text = text.decode()
        assert content.rstrip("\n") in text, name
