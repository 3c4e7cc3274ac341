"""The synchronous half of a backend, derived from its asynchronous one."""

from deepagents.backends.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from typing_extensions import override

from abilities.adapters.host import Host


class SynchronousBackend(BackendProtocol):
    """A backend whose asynchronous methods are written; the others run them in the background."""

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
