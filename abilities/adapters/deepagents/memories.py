"""The backend of memories: the file ``/people/ada.md`` is the memory ``people/ada.md``.

Both backends of this package have asynchronous methods only. `SynchronousBackend` derives the
synchronous ones from them.
"""

from collections.abc import Awaitable

from deepagents.backends.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.utils import (
    compile_grep_include_glob,
    grep_matches_from_files,
    perform_string_replacement,
    slice_read_response,
)
from typing_extensions import override

from abilities.adapters.functions import Host, Source
from abilities.adapters.memory_files import MemoryFile, MemoryFolder
from abilities.errors import AbilityError

CALLER = "deepagents"

_ATTEMPTS = 3
"""How often an edit is tried while others change the file."""


class SynchronousBackend(BackendProtocol):
    """A backend whose synchronous methods run the asynchronous ones on the background loop."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @override
    def ls(self, path: str) -> LsResult:
        return self._host.run_sync(self.als(path))

    @override
    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return self._host.run_sync(self.aread(file_path, offset, limit))

    @override
    def grep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> GrepResult:
        return self._host.run_sync(self.agrep(pattern, path, glob, max_count=max_count))

    @override
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        return self._host.run_sync(self.aglob(pattern, path))

    @override
    def write(self, file_path: str, content: str) -> WriteResult:
        return self._host.run_sync(self.awrite(file_path, content))

    @override
    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        return self._host.run_sync(self.aedit(file_path, old_string, new_string, replace_all))

    @override
    def delete(self, file_path: str) -> DeleteResult:
        return self._host.run_sync(self.adelete(file_path))

    @override
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return self._host.run_sync(self.aupload_files(files))

    @override
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return self._host.run_sync(self.adownload_files(paths))


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
            return LsResult(error=describe(error))

        return LsResult(entries=list_level(listing.files, path))

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        try:
            text = (await self._files.read(file_path)).text
        except (AbilityError, ValueError) as error:
            return ReadResult(error=_describe_missing(error, file_path))

        return slice_read_response(FileData(content=text, encoding="utf-8"), offset, limit)

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
            return GrepResult(error=describe(error))

        result = grep_matches_from_files(files, pattern, path, glob, max_count=max_count)
        result.truncated = result.truncated or not listing.is_complete
        return result

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        root = f"{(path or '/').rstrip('/')}/"
        try:
            matches = compile_grep_include_glob(pattern)
            listing = await self._files.list_files(root)
        except (AbilityError, ValueError) as error:
            return GlobResult(error=describe(error))

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

            replaced = perform_string_replacement(before.text, old_string, new_string, replace_all)
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
            return DeleteResult(error=describe(error))

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


def describe(error: AbilityError | ValueError) -> str:
    """Return the message of an error for a model."""
    return error.fault.message if isinstance(error, AbilityError) else str(error)


def list_level(files: list[MemoryFile], path: str) -> list[FileInfo]:
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
    return f"File '{path}' not found" if _is_missing(error) else describe(error)


async def _find_error(work: Awaitable[None]) -> str | None:
    """Await a change, and return its error message, or None if it succeeded."""
    try:
        await work
    except (AbilityError, ValueError) as error:
        return f"Error: {describe(error)}"

    return None
