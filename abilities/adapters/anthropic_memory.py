"""Anthropic's memory tool (`memory_20250818`) over memories: a file is a memory.

The six commands and their answers follow the tool's documentation:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool
"""

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from typing_extensions import override

from abilities.adapters.functions import Source, check_namespace
from abilities.adapters.memory_files import FolderListing, MemoryFolder, VersionedText
from abilities.errors import AbilityError, needs

with needs("anthropic_memory"):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types import beta

_ROOT = "/memories"
_PLACE = "pass namespace=… to the tool"
_CALLER = "anthropic"

_DEPTH = 2
"""Levels of a folder that are listed."""

_SNIPPET_LINES = 2
"""Lines before and after a replacement that are shown."""


T = TypeVar("T")


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The tool for `AsyncAnthropic`.

    ``source`` is an open application, or settings (by default those of the environment).
    ``namespace`` is the owner of the memories, by default that of the settings. With
    ``require_namespace`` a missing one raises ValueError.

    The commands return the text for a model. All raise ToolError if they fail.
    """

    def __init__(
        self,
        source: Source = None,
        *,
        namespace: str | int | None = None,
        require_namespace: bool = False,
        cache_control: beta.BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        if require_namespace:
            check_namespace(namespace, _PLACE)

        super().__init__(cache_control=cache_control)
        self.files = MemoryFolder(source, _CALLER, root=_ROOT, namespace=namespace)

    @override
    async def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        path, lines = command.path, command.view_range
        listing = await _explain(self._list(path))
        if not _is_file(listing, path):
            return _format_folder(path.rstrip("/"), listing)

        text = (await _explain(self.files.read(path))).text
        all_lines = text.split("\n")
        first, last = 1, len(all_lines)
        if lines and len(lines) == 2:
            first = max(lines[0], 1)
            last = last if lines[1] == -1 else lines[1]

        numbered = _number(all_lines[first - 1 : last], first)
        return f"Here's the content of {path} with line numbers:\n{numbered}"

    @override
    async def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        path = command.path
        try:
            await _explain(self.files.write(path, command.file_text, if_version=0))
        except _Conflict:
            raise ToolError(f"Error: File {path} already exists") from None

        return f"File created successfully at: {path}"

    @override
    async def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        path, old = command.path, command.old_str
        before = await self._read(path)
        places: list[int] = []
        position = before.text.find(old) if old else -1
        while position >= 0:
            places.append(before.text.count("\n", 0, position) + 1)
            position = before.text.find(old, position + 1)

        if not places:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if len(places) > 1:
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{', '.join(map(str, places))}. Please ensure it is unique"
            )

        text = before.text.replace(old, command.new_str)
        await self._write_again(path, text, before)

        first = max(places[0] - _SNIPPET_LINES, 1)
        snippet = _number(text.split("\n")[first - 1 : places[0] + _SNIPPET_LINES], first)
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            f"(with line numbers):\n{snippet}"
        )

    @override
    async def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        path, line = command.path, command.insert_line
        before = await self._read(path)
        lines = before.text.removesuffix("\n").split("\n") if before.text else []
        if not 0 <= line <= len(lines):
            raise ToolError(
                f"Error: Invalid `insert_line` parameter: {line}. "
                f"It should be within the range of lines of the file: [0, {len(lines)}]"
            )

        lines.insert(line, command.insert_text.removesuffix("\n"))
        await self._write_again(path, "\n".join(lines) + "\n", before)
        return f"The file {path} has been edited."

    @override
    async def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        path = command.path
        _refuse_root(path)
        if not await _explain(self.files.delete(path)):
            raise ToolError(f"Error: The path {path} does not exist")

        return f"Successfully deleted {path}"

    @override
    async def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        old, new = command.old_path, command.new_path
        _refuse_root(old)
        if (await _explain(self.files.list_files(new))).files:
            raise ToolError(f"Error: The destination {new} already exists")
        if not await _explain(self.files.rename(old, new)):
            raise ToolError(f"Error: The path {old} does not exist")

        return f"Successfully renamed {old} to {new}"

    async def _list(self, path: str) -> FolderListing:
        """Return the files at and beneath a path. Raises ToolError unless there are some.

        The root may be empty.
        """
        listing = await self.files.list_files(path)
        if path.endswith("/"):
            # A path that ends in a slash is a folder's, and never that of the file of its name.
            beneath = [file for file in listing.files if file.path.startswith(path)]
            listing = listing._replace(files=beneath)

        if not listing.files and path.rstrip("/") != _ROOT:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")

        return listing

    async def _read(self, path: str) -> VersionedText:
        if not _is_file(await _explain(self._list(path)), path):
            raise ToolError(f"The path {path} is not a file.")

        return await _explain(self.files.read(path))

    async def _write_again(self, path: str, text: str, before: VersionedText) -> None:
        try:
            await _explain(self.files.write(path, text, if_version=before.version))
        except _Conflict:
            raise ToolError(f"Error: {path} was changed by others. View it again.") from None


class MemoryTool(BetaAbstractMemoryTool):
    """The tool for `Anthropic`, the synchronous client; see `AsyncMemoryTool`."""

    def __init__(
        self,
        source: Source = None,
        *,
        namespace: str | int | None = None,
        require_namespace: bool = False,
        cache_control: beta.BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = AsyncMemoryTool(
            source, namespace=namespace, require_namespace=require_namespace
        )

    def _run(self, work: Coroutine[Any, Any, str]) -> str:
        return self._tool.files.host.run_sync(work)

    @override
    def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        return self._run(self._tool.view(command))

    @override
    def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        return self._run(self._tool.create(command))

    @override
    def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self._run(self._tool.str_replace(command))

    @override
    def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        return self._run(self._tool.insert(command))

    @override
    def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        return self._run(self._tool.delete(command))

    @override
    def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        return self._run(self._tool.rename(command))


class _Conflict(Exception):
    """The file has another version than the one that was read."""


async def _explain(work: Awaitable[T]) -> T:
    """Await a call of the files. Raises ToolError for a refusal, and _Conflict for a conflict."""
    try:
        return await work
    except ValueError as error:
        raise ToolError(f"Error: {error}") from None
    except AbilityError as error:
        if error.fault.reason == "version_conflict":
            raise _Conflict from None
        raise ToolError(f"Error: {error.fault.message}") from None


def _refuse_root(path: str) -> None:
    if path.rstrip("/") == _ROOT:
        raise ToolError(f"Error: {_ROOT} itself cannot be deleted or renamed")


def _is_file(listing: FolderListing, path: str) -> bool:
    return any(file.path == path for file in listing.files)


def _number(lines: list[str], first: int) -> str:
    numbered = [f"{first + index:>6}\t{line}" for index, line in enumerate(lines)]
    return "\n".join(numbered)


def _format_folder(path: str, listing: FolderListing) -> str:
    """Return the list of a folder's files and folders, two levels deep, with sizes."""
    sizes: dict[str, int] = {path: 0}
    for file in listing.files:
        parts = file.path.removeprefix(f"{path}/").split("/")
        for depth in range(1, min(len(parts), _DEPTH) + 1):
            name = f"{path}/{'/'.join(parts[:depth])}"
            if depth < len(parts):
                name += "/"
            sizes[name] = sizes.get(name, 0) + file.size
        sizes[path] += file.size

    lines: list[str] = []
    for name, size in sizes.items():
        shown = f"{size}" if size < 1_024 else f"{size / 1_024:.1f}K"
        lines.append(f"{shown}\t{name}")

    if not listing.is_complete:
        lines.append("There are more, which are not listed.")

    return (
        f"Here're the files and directories up to {_DEPTH} levels deep in {path}, "
        "excluding hidden items and node_modules:\n" + "\n".join(lines)
    )
