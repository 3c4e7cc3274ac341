"""Memories as the files of a folder, for frameworks whose agents keep their memory in files.

The file ``/memories/people/ada.md`` is the memory with the key ``people/ada.md``. So every ability
finds the files of an agent, and each change of a file is in the history and can be undone.
"""

from typing import NamedTuple

from abilities.adapters.functions import Host, Source
from abilities.declarations.limits import (
    MAX_KEY_CHARS,
    MAX_LISTED_MEMORIES,
    MAX_OPERATIONS,
    MAX_QUERY_MEMORIES,
)
from abilities.declarations.memory import is_key, parse_namespace
from abilities.declarations.refusals import Fault, Reason
from abilities.declarations.values import JsonObject
from abilities.errors import AbilityError

MAX_FILES = 5_000
"""Maximum number of files that a list looks at."""

MAX_SEARCHED = 500
"""Maximum number of memories that a search looks at."""

NEW_TYPE = "core"
"""The type of memories for new files. An existing memory keeps its type."""


class VersionedText(NamedTuple):
    """The text of a file, and its version for conditional changes."""

    text: str
    version: int


class MemoryFile(NamedTuple):
    """A file in a list. ``size`` is in bytes; of a long file only the first part counts."""

    path: str
    size: int


class FolderListing(NamedTuple):
    """Files in the order of their paths. ``is_complete`` is False if a limit left some out."""

    files: list[MemoryFile]
    is_complete: bool


class MemoryFolder:
    """The memories of a namespace as files beneath ``root``.

    ``source`` is an argument as for `load_functions`. Raises ValueError if the namespace is not
    valid. Methods raise AbilityError if a call is refused, and ValueError if a path or a text
    cannot be that of a memory.
    """

    def __init__(
        self,
        source: Source,
        caller: str,
        *,
        root: str = "/memories",
        namespace: str | int | None = None,
    ) -> None:
        self.host = Host(source, caller, reads=())  # a file is written where it was read
        self._namespace = None if namespace is None else parse_namespace(namespace)
        self._root = root.rstrip("/") + "/"

    def find_key(self, path: str) -> str:
        """Return the key of a file's memory. Raises ValueError."""
        key = path.removeprefix(self._root)
        if not path.startswith(self._root) or not _is_path(key):
            raise ValueError(f"a path has the form {self._root}folder/file, without '..'")

        return key

    async def call(self, name: str, arguments: JsonObject) -> JsonObject:
        """Call an ability in the namespace of these files."""
        view = await self.host.get_view(self._namespace)
        return await view.call(name, arguments)

    async def read(self, path: str) -> VersionedText:
        """Return a whole file. An archived memory counts as missing."""
        request: JsonObject = {"key": self.find_key(path)}
        texts: list[str] = []

        while True:
            answer = await self.call("memory_get", request)
            if answer["data"].get("archived"):
                raise AbilityError(Fault.from_reason("memory_not_found"))

            texts.append(answer["data"]["content"])
            if "next_request" not in answer:
                return VersionedText("".join(texts), answer["data"]["version"])

            request = answer["next_request"]

    async def write(self, path: str, text: str, *, if_version: int | None = None) -> None:
        """Create or replace a file. With version 0, it must be new or archived."""
        if not text:
            raise ValueError("a memory has at least one character")

        key = self.find_key(path)
        write: JsonObject = {"key": key, "content": text}
        if if_version is not None:
            write["if_version"] = if_version

        new: JsonObject = {**write, "op": "store", "type": NEW_TYPE}
        if if_version == 0:
            (reason,) = await self._change([new])
            if reason == "version_conflict":
                memory = (await self.call("memory_get", {"key": key}))["data"]
                if memory.get("archived"):
                    await self.write(path, text, if_version=memory["version"])
                    return
        else:
            # An update keeps the type of a memory, which storing it would change.
            (reason,) = await self._change([{**write, "op": "update", "archived": False}])
            if reason == "not_found":
                (reason,) = await self._change([new])

        if reason is not None:
            raise AbilityError(Fault.from_reason(reason))

    async def list_files(self, path: str) -> FolderListing:
        """Return the files at and beneath a path."""
        prefix = "" if f"{path.rstrip('/')}/" == self._root else self.find_key(path.rstrip("/"))
        request: JsonObject | None = {"prefix": "", "limit": MAX_LISTED_MEMORIES}
        found: dict[str, int] = {}
        seen = 0

        if prefix:
            size = await self._find_size(prefix)
            if size is not None:
                found[prefix] = size
            if len(prefix) >= MAX_KEY_CHARS:
                request = None  # keys beneath it would be too long
            else:
                request = {"prefix": f"{prefix}/", "limit": MAX_LISTED_MEMORIES}

        while request is not None and seen < MAX_FILES:
            answer = await self.call("memory_list", request)
            for memory in answer["memories"]:
                seen += 1
                if _is_path(memory["key"]):
                    found[memory["key"]] = memory.get("size", 0)
            request = answer.get("next_request")

        files = [MemoryFile(self._root + key, size) for key, size in found.items()]
        return FolderListing(files, request is None)

    async def delete(self, path: str) -> int:
        """Delete a file, or all files beneath a folder, and return their number."""
        self._refuse_root(path)
        count = 0

        while True:
            listing = await self.list_files(path)
            operations: list[JsonObject] = []
            for file in listing.files:
                key = self.find_key(file.path)
                operations.append({"op": "delete", "key": key, "permanent": True})

            await self._change_all(operations)
            count += len(operations)
            if listing.is_complete or not operations:
                return count

    async def rename(self, old: str, new: str) -> int:
        """Rename a file, or all files beneath a folder, and return their number."""
        old, new = old.rstrip("/"), new.rstrip("/")
        self._refuse_root(old)
        self.find_key(new)

        listing = await self.list_files(old)
        if not listing.is_complete:
            raise ValueError(f"a folder of more than {MAX_FILES:,} files cannot be renamed")

        operations: list[JsonObject] = []
        for file in listing.files:
            to = self.find_key(new + file.path.removeprefix(old))
            operations.append({"op": "rename", "key": self.find_key(file.path), "to": to})

        await self._change_all(operations)
        return len(operations)

    async def find_holding(self, text: str) -> FolderListing:
        """Return the files that may contain a text, ignoring case."""
        # A search takes a text apart into words, and the longest is in the fewest memories.
        word = max(text.split(), key=len, default=text)
        request: JsonObject | None = {"search": word, "limit": MAX_QUERY_MEMORIES}
        keys: set[str] = set()

        while request is not None and len(keys) < MAX_SEARCHED:
            answer = await self.call("query_memories", request)
            for memory in answer["memories"]:
                key = memory.get("key", "")
                if _is_path(key):
                    keys.add(key)
            request = answer.get("next_request")

        files = [MemoryFile(self._root + key, 0) for key in sorted(keys)]
        return FolderListing(files, request is None)

    def _refuse_root(self, path: str) -> None:
        if f"{path.rstrip('/')}/" == self._root:
            raise ValueError("the folder of all memories cannot be deleted or renamed")

    async def _find_size(self, key: str) -> int | None:
        """Return the size of a memory in bytes, or None if there is no memory with that key."""
        # The key itself comes first among the keys with this prefix.
        answer = await self.call("memory_list", {"prefix": key, "limit": 1})
        for memory in answer["memories"]:
            if memory["key"] == key:
                return int(memory.get("size", 0))

        return None

    async def _change_all(self, operations: list[JsonObject]) -> None:
        """Make changes, in as few transactions as possible. Raises AbilityError if one fails."""
        for begin in range(0, len(operations), MAX_OPERATIONS):
            batch = operations[begin : begin + MAX_OPERATIONS]
            for reason in await self._change(batch, atomic=True):
                if reason not in (None, "rolled_back"):
                    raise AbilityError(Fault.from_reason(reason))

    async def _change(
        self, operations: list[JsonObject], *, atomic: bool = False
    ) -> list[Reason | None]:
        """Make changes, and return for each the reason of its failure, or None."""
        request = {"operations": operations, "atomic": atomic, "detail": "concise"}
        answer = await self.call("remember", request)
        return [record.get("reason") for record in answer["results"]]


def _is_path(key: str) -> bool:
    """Return whether a memory's key can be the path of a file."""
    parts = key.split("/")
    return is_key(key) and not any(part in ("", ".", "..") for part in parts)
