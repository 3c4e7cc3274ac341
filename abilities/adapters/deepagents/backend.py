"""The backend for `create_deep_agent`: read-only files, and a folder of memories among them.

The files are those of the agent directory and the workspace. Paths of deepagents begin with a
slash, those of the abilities do not. A pattern of deepagents is widened to one of the abilities,
and the results are then filtered by deepagents' own rules.
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
from abilities.adapters.functions import Host, Source, check_namespace
from abilities.adapters.memory_files import MemoryFile
from abilities.declarations.limits import MAX_ITEMS, MAX_LISTED_FILES, MAX_READ_CHARS
from abilities.declarations.memory import parse_namespace
from abilities.declarations.values import JsonObject
from abilities.errors import AbilityError

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
            return LsResult(error=describe(error))

        if files is None:
            return LsResult(error=f"Error: too many files in '{path}'; name a narrower folder")

        return LsResult(entries=list_level(files, path))

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        root = (path or "").strip("/")
        request: JsonObject | None = {"pattern": widen(root, pattern), "limit": MAX_LISTED_FILES}
        sizes: dict[str, int] = {}

        try:
            matches = compile_grep_include_glob(pattern)
            while request is not None and len(sizes) < MAX_FILES:
                answer = await self._call("file_list", {**request, "detail": "full"})
                for file in answer["files"]:
                    sizes.setdefault(f"/{file['path']}", file["size_bytes"])
                request = answer.get("next_request")
        except (AbilityError, ValueError) as error:
            return GlobResult(error=describe(error))

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
        offset, limit = normalize_read_bounds(offset, limit)
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
        root = (path or "").strip("/")
        places = [widen(root, glob or "**/*")]
        if root:
            # The root may be a file. The last character as a wildcard matches it, but no folder.
            places.append(f"{escape(root[:-1])}?")
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

    async def _download(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Return up to 25 whole files, in as many replies as needed."""
        names = [path.strip("/") for path in paths]
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
                if record["success"]:
                    data = record["data"]
                    if "encoding" in data or "replaced" in data:
                        errors[place] = NOT_UTF_8
                    else:
                        texts[place].append(data["content"])
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
