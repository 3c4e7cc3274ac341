"""The backend for `create_deep_agent`: files, and a folder of memories among them.

Paths and patterns of deepagents, and those of the abilities.

A backend of the files that agents may read: those of the agent directory and the workspace.
"""

import re

from deepagents.backends import CompositeBackend, StateBackend
from deepagents.backends.protocol import (
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
from deepagents.backends.utils import compile_grep_include_glob, normalize_read_bounds
from typing_extensions import override

from abilities.adapters.deepagents.memories import (
    CALLER,
    MemoryBackend,
    SynchronousBackend,
    describe,
    list_level,
)
from abilities.adapters.host import Host, Source, check_namespace
from abilities.adapters.memory_files import MemoryFile
from abilities.declarations.limits import MAX_ITEMS, MAX_LISTED_FILES, MAX_READ_CHARS
from abilities.declarations.memory import parse_namespace
from abilities.declarations.values import JsonObject
from abilities.errors import AbilityError


def strip(path: str) -> str:
    """Return a path as the abilities take it: without a slash at either end."""
    return path.strip("/")


def widen(root: str, pattern: str) -> str:
    """Return a glob of this package that finds what deepagents' pattern matches, and maybe more.

    ``root`` is the folder to look in; it is no pattern.
    """
    wide = pattern.strip("/").replace("[^", "[!")
    if "/" not in pattern.rstrip("/"):
        wide = f"**/{wide}"  # it names a file at any depth

    return f"{escape(root)}/{wide}".lstrip("/")


def escape(path: str) -> str:
    """Return a glob that finds a path, and maybe others."""
    # Braces and commas cannot be escaped, but a question mark stands for any of them.
    return re.sub(r"[{},]", "?", re.sub(r"[\[*?]", r"[\g<0>]", path))


def escape_file(path: str) -> str:
    """Return a glob that finds a file, and maybe others, but nothing beneath a folder."""
    return f"{escape(path[:-1])}?"


def find_name(path: str, root: str) -> str | None:
    """Return a file's path from a folder on, or its name if it is the root; None beside both."""
    if not root:
        return path.removeprefix("/")
    if path == f"/{root}":
        return path.rpartition("/")[2]

    return path.removeprefix(f"/{root}/") if path.startswith(f"/{root}/") else None


def find_folder(path: str, prefix: str) -> str:
    """Return the first folder of a path behind a prefix; empty if there is none."""
    folder, slash, _ = path.removeprefix(prefix).partition("/")
    return folder if slash else ""


MAX_FILES = 10_000
"""Files that `glob` looks at; narrower paths and patterns find the rest."""

MAX_PAGES = 500
"""Pages of a list that `ls` looks at: one for each folder in a folder, and for 1,000 files."""

_LAST = "\U0010ffff"
"""No name comes after this one."""

MEMORIES = "/memories/"
"""The folder of memories among the files, by default."""

READ_ONLY = "Error: files are read-only here; write beneath {memories}"

CUT = " … [line cut]\n"
"""Ends a line that is longer than a reply; its rest cannot be read as a window."""

NOT_UTF_8 = "File is not UTF-8 text."

_CODES = {"NOT_FOUND": "file_not_found", "PERMISSION_ERROR": "permission_denied"}


class FileBackend(SynchronousBackend):
    """Files to read, list and search; see `create_backend` for the arguments.

    They are confined, filtered and redacted as in every other read. Names with a leading dot are
    listed only if a pattern has that dot. Nothing is written: every change is answered with an
    error, which names the folder ``memories`` as the place for it.
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
            files = await self._list_level(strip(path))
        except AbilityError as error:
            return LsResult(error=describe(error))

        if files is None:
            return LsResult(error=f"Error: too many files in '{path}'; name a narrower folder")

        return LsResult(entries=list_level(files, path))

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        root = strip(path or "/")
        try:
            matches = compile_grep_include_glob(pattern)
            files, is_complete = await self._list(widen(root, pattern))
        except (AbilityError, ValueError) as error:
            return GlobResult(error=describe(error))

        found: list[FileInfo] = []
        for file in files:
            name = find_name(file.path, root)
            if name is not None and matches(name):
                found.append(FileInfo(path=file.path, is_dir=False, size=file.size))

        if is_complete:
            return GlobResult(matches=found)

        return GlobResult(matches=found, truncated=True, truncation_reason="budget")

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        offset, limit = normalize_read_bounds(offset, limit)
        if limit == 0:
            return ReadResult(file_data=_build_data(""), no_lines_requested=True)

        # One line more tells whether the file goes on.
        request = {
            "paths": [f"{strip(file_path)}#L{offset + 1}-L{offset + limit + 1}"],
            "max_chars_per_file": MAX_READ_CHARS,
            "detail": "full",
        }
        try:
            (record,) = (await self._call("file_read_bulk", request))["results"]
        except AbilityError as error:
            return ReadResult(error=describe(error))

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
        root = strip(path or "/")
        places = [widen(root, glob or "**/*")]
        if root:
            places.append(escape_file(root))  # it may be a file
        items = [{"search": pattern, "in": place, "context": 0} for place in places]
        try:
            matches_name = compile_grep_include_glob(glob or "**/*")
            answer = await self._call("read", {"items": items, "detail": "full"})
        except (AbilityError, ValueError) as error:
            return GrepResult(error=describe(error))

        matches: list[GrepMatch] = []
        truncated = False
        for record in answer["results"]:
            if not record["success"]:
                return GrepResult(error=record["error"]["message"])

            truncated = truncated or "more" in record["data"] or "truncation" in record
            for hit in record["data"]["items"]:
                path = f"/{hit['path'].rpartition('#')[0]}"
                name = find_name(path, root)
                if name is not None and (glob is None or matches_name(name)):
                    matches += _find_matches(path, hit)

        if max_count is not None and len(matches) > max_count:
            return GrepResult(matches=matches[:max_count], truncated=True)

        return GrepResult(matches=matches, truncated=truncated)

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        responses: list[FileDownloadResponse] = []
        for begin in range(0, len(paths), MAX_ITEMS):
            responses += await self._download(paths[begin : begin + MAX_ITEMS])

        return responses

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

    async def _list(self, pattern: str) -> tuple[list[MemoryFile], bool]:
        """Return the files of a pattern, and whether these are all. Raises AbilityError."""
        request: JsonObject | None = {"pattern": pattern, "limit": MAX_LISTED_FILES}
        found: dict[str, MemoryFile] = {}

        while request is not None and len(found) < MAX_FILES:
            answer = await self._call("file_list", {**request, "detail": "full"})
            for file in answer["files"]:
                path = f"/{file['path']}"
                found.setdefault(path, MemoryFile(path, file["size_bytes"]))
            request = answer.get("next_request")

        return list(found.values()), request is None

    async def _list_level(self, root: str) -> list[MemoryFile] | None:
        """Return the files in a folder, and some beneath each folder in it; None if too many.

        Raises AbilityError.
        """
        prefix = f"{root}/" if root else ""
        request: JsonObject = {"pattern": widen(root, "**/*"), "limit": MAX_LISTED_FILES}
        files: list[MemoryFile] = []
        folders: set[str] = set()

        for _ in range(MAX_PAGES):
            try:
                answer = await self._call("file_list", {**request, "detail": "full"})
            except AbilityError as error:
                # Without a workspace, a list of no files is refused, and so is an empty last page.
                if files and error.fault.reason == "no_workspace":
                    return files
                raise

            for file in answer["files"]:
                files.append(MemoryFile(f"/{file['path']}", file["size_bytes"]))
                folders.add(find_folder(file["path"], prefix))
            if not answer["has_more"]:
                return files

            request = answer["next_request"]
            folder = find_folder(request["after"], prefix)
            if folder and folder in folders:
                request = {**request, "after": f"{prefix}{folder}/{_LAST}"}

        return None

    async def _download(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Return up to 25 whole files; those that do not fit into one reply follow in others."""
        names = [strip(path) for path in paths]
        request: JsonObject | None = {"paths": names, "max_chars_per_file": MAX_READ_CHARS}
        texts: list[list[str]] = [[] for _ in paths]
        errors: list[str | None] = [None] * len(paths)
        places = list(range(len(paths)))

        while request is not None:
            try:
                answer = await self._call("file_read_bulk", {**request, "detail": "full"})
            except AbilityError as error:
                return [FileDownloadResponse(path, error=describe(error)) for path in paths]

            left: list[int] = []
            for place, record in zip(places, answer["results"], strict=True):
                if record["success"] and not _is_utf_8(record["data"]):
                    errors[place] = NOT_UTF_8
                    if "truncation" in record:
                        left.append(place)
                elif record["success"]:
                    texts[place].append(record["data"]["content"])
                    if "truncation" in record:
                        left.append(place)
                elif record["error"]["reason"] == "response_budget":
                    left.append(place)
                else:
                    errors[place] = _CODES.get(record["error"]["code"], record["error"]["message"])

            places = left
            request = answer.get("next_request")

        responses: list[FileDownloadResponse] = []
        for path, pieces, code in zip(paths, texts, errors, strict=True):
            content = None if code else "".join(pieces).encode()
            responses.append(FileDownloadResponse(path, content, code))

        return responses


def _is_utf_8(data: JsonObject) -> bool:
    """Return whether the content of a record, encoded, is what the file holds."""
    return "encoding" not in data and "replaced" not in data


def _build_data(text: str) -> FileData:
    return FileData(content=text, encoding="utf-8")


def _build_window(record: JsonObject, offset: int, limit: int) -> ReadResult:
    """Return the lines of a record, of which one line more than the limit was requested."""
    text: str = record["data"]["content"]
    lines: list[str] = re.findall(r"[^\n]*\n|[^\n]+", text)  # the abilities count line feeds only
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


def _find_matches(path: str, hit: JsonObject) -> list[GrepMatch]:
    """Return the matching lines of a place; its path ends in the range of its lines."""
    first = int(hit["path"].rpartition("#L")[2].partition("-")[0])
    lines = hit["data"]["content"].split("\n")
    return [
        GrepMatch(path=path, line=number, text=lines[number - first].removesuffix("\r"))
        for number in hit["data"]["lines"]
    ]


_SCRATCH = "/scratch/"


def create_backend(
    source: Source = None,
    *,
    namespace: str | int | None = None,
    require_namespace: bool = False,
    memories: str = MEMORIES,
) -> CompositeBackend:
    """Return a backend in which paths beneath ``memories`` are memories, and all others files.

    ``source`` is an open application, or settings (by default those of the environment);
    ``namespace`` is whose files and memories they are, by default that of the settings; with
    ``require_namespace`` a missing one raises ValueError. Files of the agent directory and the
    workspace can be read, listed and searched, and are never written.
    What deepagents itself puts aside, such as a large result of a tool, lies beneath ``/scratch/``
    in the state of the agent's thread.
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
