"""The backend for `create_deep_agent`: read-only files, and a folder of memories among them.

The files are those of the agent directory and the workspace. Paths of deepagents begin with a
slash, those of the abilities do not. A pattern of deepagents is widened to one of the abilities,
and the results are then filtered by deepagents' own rules. Of memories, the file
``/people/ada.md`` is the memory ``people/ada.md``.
"""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from typing_extensions import override

from abilities.adapters.functions import Host, Source, check_namespace
from abilities.adapters.memory_files import MemoryFile, MemoryFolder
from abilities.declarations.limits import MAX_LISTED_FILES, MAX_READ_CHARS
from abilities.declarations.memory import parse_namespace
from abilities.declarations.values import JsonObject
from abilities.errors import AbilityError, needs

with needs("deepagents"):
    from deepagents.backends import CompositeBackend, StateBackend, utils
    from deepagents.backends.protocol import (
        BackendProtocol,
        DeleteResult,
        EditResult,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepMatch,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )

__all__ = ["FileBackend", "MemoryBackend", "create_backend"]

CALLER = "deepagents"

MAX_FILES = 10_000
"""Maximum number of files that `glob` looks at. Narrower paths and patterns find the rest."""

MAX_PAGES = 500
"""Maximum number of list pages that `ls` reads: one per folder in a folder, or per 1,000 files."""

MEMORIES = "/memories/"
"""The default folder of memories among the files."""

READ_ONLY = "Error: files are read-only here; write beneath {memories}"

CUT = " … [line cut]\n"
"""The end of a line that is longer than a reply. The rest of the line cannot be read."""

NOT_UTF_8 = "File is not UTF-8 text."

_SCRATCH = "/scratch/"

_LAST = "\U0010ffff"
"""Sorts after every name."""

_CODES = {"NOT_FOUND": "file_not_found", "PERMISSION_ERROR": "permission_denied"}

_ATTEMPTS = 3
"""How often an edit is tried while others change the file."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def create_backend(
    source: Source = None,
    *,
    namespace: str | int | None = None,
    require_namespace: bool = False,
    memories: str = MEMORIES,
) -> CompositeBackend:
    """Return a backend in which paths beneath ``memories`` are memories, and all others files.

    ``source`` is an open application, or settings (by default those of the environment).
    ``namespace`` is the owner of the files and memories, by default that of the settings; with
    ``require_namespace`` a missing one raises ValueError. Files of the agent directory and the
    workspace can be read, listed and searched, and are never written. Data that deepagents itself
    puts aside, such as a large result of a tool, goes to ``/scratch/`` in the state of the agent's
    thread.
    """
    if require_namespace:
        check_namespace(namespace, "pass namespace=… to create_backend()")

    return CompositeBackend(
        default=FileBackend(source, namespace=namespace, memories=memories),
        routes={
            memories: MemoryBackend(source, namespace=namespace),
            _SCRATCH: StateBackend(),
        },
        artifacts_root=_SCRATCH,
    )


def _run_in_background(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a method that runs its asynchronous twin on the background loop."""

    @wraps(method)
    def run(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        backend, *others = args
        assert isinstance(backend, SynchronousBackend)
        result: Result = backend.run_twin(method.__name__, *others, **named)
        return result

    return run


class SynchronousBackend(BackendProtocol):
    """A backend whose synchronous methods run the asynchronous ones on the background loop."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def run_twin(self, name: str, *args: Any, **named: Any) -> Any:
        """Run the asynchronous method of a synchronous one's name."""
        return self._host.run_sync(getattr(self, f"a{name}")(*args, **named))

    ls = _run_in_background(BackendProtocol.ls)
    read = _run_in_background(BackendProtocol.read)
    grep = _run_in_background(BackendProtocol.grep)
    glob = _run_in_background(BackendProtocol.glob)
    write = _run_in_background(BackendProtocol.write)
    edit = _run_in_background(BackendProtocol.edit)
    delete = _run_in_background(BackendProtocol.delete)
    upload_files = _run_in_background(BackendProtocol.upload_files)
    download_files = _run_in_background(BackendProtocol.download_files)


class FileBackend(SynchronousBackend):
    """Files to read, list and search; see `create_backend` for the arguments.

    They are confined, filtered and redacted as in every other read. Names with a leading dot are
    listed only if the pattern has that dot. Every change is refused with an error, which names the
    folder ``memories`` as the place to write to.
    """

    def __init__(
        self,
        source: Source = None,
        *,
        namespace: str | int | None = None,
        memories: str = MEMORIES,
    ) -> None:
        super().__init__(Host(source, CALLER))
        self._namespace = None if namespace is None else parse_namespace(namespace)
        self._read_only = READ_ONLY.format(memories=memories)

    @override
    async def als(self, path: str) -> LsResult:
        try:
            files = await self._list_folder(path.strip("/"))
        except AbilityError as error:
            return LsResult(error=_describe(error))

        if files is None:
            return LsResult(error=f"Error: too many files in '{path}'; name a narrower folder")

        return LsResult(entries=_list_level(files, path))

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        root = (path or "").strip("/")
        request: JsonObject | None = {"pattern": widen(root, pattern), "limit": MAX_LISTED_FILES}
        sizes: dict[str, int] = {}

        try:
            matches = utils.compile_grep_include_glob(pattern)
            while request is not None and len(sizes) < MAX_FILES:
                answer = await self._call("file_list", {**request, "detail": "full"})
                for file in answer["files"]:
                    sizes.setdefault(f"/{file['path']}", file["size_bytes"])
                request = answer.get("next_request")
        except (AbilityError, ValueError) as error:
            return GlobResult(error=_describe(error))

        found: list[FileInfo] = []
        for file_path, size in sizes.items():
            name = find_name(file_path, root)
            if name is not None and matches(name):
                found.append(FileInfo(path=file_path, is_dir=False, size=size))

        if request is None:
            return GlobResult(matches=found)

        return GlobResult(matches=found, truncated=True, truncation_reason="budget")

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        offset, limit = utils.normalize_read_bounds(offset, limit)
        if limit == 0:
            return ReadResult(file_data=_build_data(""), no_lines_requested=True)

        # One extra line shows whether the file continues.
        request = {
            "paths": [f"{file_path.strip('/')}#L{offset + 1}-L{offset + limit + 1}"],
            "max_chars_per_file": MAX_READ_CHARS,
            "detail": "full",
        }
        try:
            (record,) = (await self._call("file_read_bulk", request))["results"]
        except AbilityError as error:
            return ReadResult(error=_describe(error))

        if not record["success"]:
            return ReadResult(error=f"File '{file_path}': {record['error']['message']}")

        return _build_window(record, offset, limit)

    @override
    async def agrep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        root = (path or "").strip("/")
        places = [widen(root, glob or "**/*")]
        if root:
            # The root may be a file. The last character as a wildcard matches it, but no folder.
            places.append(f"{escape(root[:-1])}?")
        items = [{"search": pattern, "in": place, "context": 0} for place in places]
        try:
            matches_name = utils.compile_grep_include_glob(glob or "**/*")
            answer = await self._call("read", {"items": items, "detail": "full"})
        except (AbilityError, ValueError) as error:
            return GrepResult(error=_describe(error))

        matches: list[GrepMatch] = []
        truncated = False
        for record in answer["results"]:
            if not record["success"]:
                return GrepResult(error=record["error"]["message"])

            truncated = truncated or "more" in record["data"] or "truncation" in record
            for hit in record["data"]["items"]:
                path = f"/{hit['path'].rpartition('#')[0]}"
                name = find_name(path, root)
                if name is None or (glob is not None and not matches_name(name)):
                    continue

                # A hit's path ends in the range of its lines, such as "#L3-L7".
                first = int(hit["path"].rpartition("#L")[2].partition("-")[0])
                lines = hit["data"]["content"].split("\n")
                for number in hit["data"]["lines"]:
                    text = lines[number - first].removesuffix("\r")
                    matches.append(GrepMatch(path=path, line=number, text=text))

        if max_count is not None and len(matches) > max_count:
            return GrepResult(matches=matches[:max_count], truncated=True)

        return GrepResult(matches=matches, truncated=truncated)

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [await self._download(path) for path in paths]

    @override
    async def awrite(self, file_path: str, content: str) -> WriteResult:
        return WriteResult(error=self._read_only)

    @override
    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        return EditResult(error=self._read_only)

    @override
    async def adelete(self, file_path: str) -> DeleteResult:
        return DeleteResult(error=self._read_only)

    @override
    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path, "permission_denied") for path, _ in files]

    async def _call(self, name: str, arguments: JsonObject) -> JsonObject:
        view = await self._host.get_view(self._namespace)
        return await view.call(name, arguments)

    async def _list_folder(self, root: str) -> list[MemoryFile] | None:
        """Return the files in a folder, and some files beneath each of its folders.

        If there are too many, the result is None. Raises AbilityError.
        """
        prefix = f"{root}/" if root else ""
        request: JsonObject = {"pattern": widen(root, "**/*"), "limit": MAX_LISTED_FILES}
        files: list[MemoryFile] = []
        folders: set[str] = set()

        for _ in range(MAX_PAGES):
            try:
                answer = await self._call("file_list", {**request, "detail": "full"})
            except AbilityError as error:
                # Without a workspace, an empty page is refused, even if it is the last one.
                if files and error.fault.reason == "no_workspace":
                    return files
                raise

            for file in answer["files"]:
                files.append(MemoryFile(f"/{file['path']}", file["size_bytes"]))
                folders.add(find_folder(file["path"], prefix))
            if not answer["has_more"]:
                return files

            # Once a folder is known, the rest of its files is skipped.
            request = answer["next_request"]
            folder = find_folder(request["after"], prefix)
            if folder and folder in folders:
                request = {**request, "after": f"{prefix}{folder}/{_LAST}"}

        return None

    async def _download(self, path: str) -> FileDownloadResponse:
        """Return a whole file, in as many replies as needed."""
        request: JsonObject | None = {
            "paths": [path.strip("/")],
            "max_chars_per_file": MAX_READ_CHARS,
        }
        pieces: list[str] = []

        while request is not None:
            try:
                answer = await self._call("file_read_bulk", {**request, "detail": "full"})
            except AbilityError as error:
                return FileDownloadResponse(path, error=_describe(error))

            (record,) = answer["results"]
            if not record["success"]:
                fault = record["error"]
                return FileDownloadResponse(path, error=_CODES.get(fault["code"], fault["message"]))
            if "encoding" in record["data"] or "replaced" in record["data"]:
                return FileDownloadResponse(path, error=NOT_UTF_8)

            pieces.append(record["data"]["content"])
            request = answer.get("next_request")

        return FileDownloadResponse(path, "".join(pieces).encode())


class MemoryBackend(SynchronousBackend):
    """Memories as files, for sync and async code; see `create_backend` for the arguments."""

    def __init__(
        self,
        source: Source = None,
        *,
        namespace: str | int | None = None,
    ) -> None:
        self._files = MemoryFolder(source, CALLER, root="/", namespace=namespace)
        super().__init__(self._files.host)

    @override
    async def als(self, path: str) -> LsResult:
        try:
            listing = await self._files.list_files(path)
        except (AbilityError, ValueError) as error:
            return LsResult(error=_describe(error))

        return LsResult(entries=_list_level(listing.files, path))

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        try:
            text = (await self._files.read(file_path)).text
        except (AbilityError, ValueError) as error:
            return ReadResult(error=_describe_missing(error, file_path))

        return utils.slice_read_response(FileData(content=text, encoding="utf-8"), offset, limit)

    @override
    async def agrep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        files: dict[str, FileData] = {}
        try:
            listing = await self._files.find_holding(pattern)
            for file in listing.files:
                try:
                    text = (await self._files.read(file.path)).text
                except AbilityError as error:
                    if not _is_missing(error):
                        raise
                else:  # others may delete a file that was found
                    files[file.path] = FileData(content=text, encoding="utf-8")
        except (AbilityError, ValueError) as error:
            return GrepResult(error=_describe(error))

        result = utils.grep_matches_from_files(files, pattern, path, glob, max_count=max_count)
        result.truncated = result.truncated or not listing.is_complete
        return result

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        root = f"{(path or '/').rstrip('/')}/"
        try:
            matches = utils.compile_grep_include_glob(pattern)
            listing = await self._files.list_files(root)
        except (AbilityError, ValueError) as error:
            return GlobResult(error=_describe(error))

        found: list[FileInfo] = []
        for file in listing.files:
            if matches(file.path.removeprefix(root)):
                found.append(FileInfo(path=file.path, is_dir=False, size=file.size))

        if listing.is_complete:
            return GlobResult(matches=found)

        return GlobResult(matches=found, truncated=True, truncation_reason="budget")

    @override
    async def awrite(self, file_path: str, content: str) -> WriteResult:
        error = await _find_error(self._files.write(file_path, content))
        if error is not None:
            return WriteResult(error=error)

        return WriteResult(path=file_path)

    @override
    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        error = None
        for _ in range(_ATTEMPTS):
            try:
                before = await self._files.read(file_path)
            except (AbilityError, ValueError) as failure:
                return EditResult(error=f"Error: {_describe_missing(failure, file_path)}")

            replaced = utils.perform_string_replacement(
                before.text, old_string, new_string, replace_all
            )
            if isinstance(replaced, str):
                return EditResult(error=replaced)

            text, occurrences = replaced
            error = await _find_error(self._files.write(file_path, text, if_version=before.version))
            if error is None:
                return EditResult(path=file_path, occurrences=occurrences)

        return EditResult(error=error)

    @override
    async def adelete(self, file_path: str) -> DeleteResult:
        try:
            if await self._files.delete(file_path):
                return DeleteResult(path=file_path)
        except (AbilityError, ValueError) as error:
            return DeleteResult(error=_describe(error))

        return DeleteResult(error=f"Error: File '{file_path}' not found")

    @override
    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        responses: list[FileUploadResponse] = []
        for path, content in files:
            try:
                error = await _find_error(self._files.write(path, content.decode()))
            except UnicodeDecodeError:
                error = "File is not text."
            responses.append(FileUploadResponse(path, error))

        return responses

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        responses: list[FileDownloadResponse] = []
        for path in paths:
            try:
                text = (await self._files.read(path)).text
            except (AbilityError, ValueError) as error:
                code = "invalid_path"
                if isinstance(error, AbilityError):
                    code = "file_not_found" if _is_missing(error) else error.fault.message
                responses.append(FileDownloadResponse(path, error=code))
            else:
                responses.append(FileDownloadResponse(path, text.encode()))

        return responses


def _build_data(text: str) -> FileData:
    return FileData(content=text, encoding="utf-8")


def _build_window(record: JsonObject, offset: int, limit: int) -> ReadResult:
    """Return the lines of a record, which was requested with one line more than the limit."""
    text: str = record["data"]["content"]
    lines: list[str] = re.findall(r"[^\n]*\n|[^\n]+", text)  # as the abilities count lines
    if not lines:
        if offset:
            return ReadResult(error=f"Line offset {offset} exceeds file length")
        return ReadResult(file_data=_build_data(""))

    goes_on = len(lines) > limit or "truncation" in record
    if len(lines) > limit:
        lines = lines[:limit]
    elif "truncation" in record and len(lines) > 1:
        lines.pop()  # the last one was cut
    elif "truncation" in record and not lines[0].endswith("\n"):
        lines[0] += CUT

    end = offset + len(lines)
    content = "".join(lines).replace("\r\n", "\n")
    return ReadResult(
        file_data=_build_data(content),
        start_line=offset + 1,
        end_line=end,
        next_offset=end if goes_on else None,
        total_lines=None if goes_on else end,
    )


def widen(root: str, pattern: str) -> str:
    """Return a glob for the abilities that matches all files of deepagents' pattern, or more.

    ``root`` is the folder to look in, and is not a pattern.

    >>> widen("docs", "*.md"), widen("a[1]", "/*.md")
    ('docs/**/*.md', 'a[[]1]/*.md')
    """
    wide = pattern.strip("/").replace("[^", "[!")
    if "/" not in pattern.rstrip("/"):
        wide = f"**/{wide}"  # a pattern without a slash matches at any depth

    return f"{escape(root)}/{wide}".lstrip("/")


def escape(path: str) -> str:
    """Return a glob that matches a path, and perhaps others."""
    # Braces and commas cannot be escaped, but a question mark matches any of them.
    return re.sub(r"[{},]", "?", re.sub(r"[\[*?]", r"[\g<0>]", path))


def find_name(path: str, root: str) -> str | None:
    """Return a file's path relative to a folder, or None if the file is not in it.

    If the root is the file itself, it is the file's name.

    >>> find_name("/docs/a/b.md", "docs"), find_name("/b.md", "b.md"), find_name("/b.md", "docs")
    ('a/b.md', 'b.md', None)
    """
    if not root:
        return path.removeprefix("/")
    if path == f"/{root}":
        return path.rpartition("/")[2]

    return path.removeprefix(f"/{root}/") if path.startswith(f"/{root}/") else None


def find_folder(path: str, prefix: str) -> str:
    """Return the first folder of a path after a prefix, or an empty string if there is none."""
    folder, slash, _ = path.removeprefix(prefix).partition("/")
    return folder if slash else ""


def _describe(error: AbilityError | ValueError) -> str:
    """Return the message of an error for a model."""
    return error.fault.message if isinstance(error, AbilityError) else str(error)


def _list_level(files: list[MemoryFile], path: str) -> list[FileInfo]:
    """Return the entries of a folder: its files, and its folders with a slash at the end."""
    root = f"{path.rstrip('/')}/"
    folders: set[str] = set()
    entries: list[FileInfo] = []

    for file in files:
        name, slash, _ = file.path.removeprefix(root).partition("/")
        if not file.path.startswith(root):
            continue
        if slash:
            folders.add(f"{root}{name}/")
        else:
            entries.append(FileInfo(path=file.path, is_dir=False, size=file.size))

    entries += [FileInfo(path=folder, is_dir=True) for folder in folders]
    return sorted(entries, key=lambda entry: entry["path"])


def _is_missing(error: Exception) -> bool:
    return isinstance(error, AbilityError) and error.fault.reason == "not_found"


def _describe_missing(error: AbilityError | ValueError, path: str) -> str:
    return f"File '{path}' not found" if _is_missing(error) else _describe(error)


async def _find_error(work: Awaitable[None]) -> str | None:
    """Await a change, and return its error message, or None if it succeeded."""
    try:
        await work
    except (AbilityError, ValueError) as error:
        return f"Error: {_describe(error)}"

    return None
