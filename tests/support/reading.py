"""Write files, follow requests to their end, and see what was read, asked for and held open."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from abilities import Abilities
from abilities.helpers.files.window import KnownLines, read_piece
from abilities.helpers.text import Piece, Range, parse_range

Payload = dict[str, Any]


def write_files(root: Path, files: Mapping[str, str | bytes] | Iterable[str]) -> None:
    """Write files with their contents; one without a content holds its own name."""
    contents = files if isinstance(files, Mapping) else {name: name for name in files}
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def drop_nulls(value: Any) -> Any:
    """Return what TOON holds without the nulls that fill its tables."""
    if isinstance(value, list):
        return [drop_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value

    return {name: drop_nulls(item) for name, item in value.items() if item is not None}


async def follow(app: Abilities, name: str, request: Payload | None) -> AsyncIterator[Payload]:
    """Call an ability until there is no next request; yield each payload."""
    while request:
        payload = await app.call(name, request)
        yield payload
        request = payload.get("next_request")


def list_outcomes(payload: Payload) -> list[str]:
    """Return the content of each record, or the reason of its failure."""
    return [
        record["data"]["content"] if record["success"] else record["error"]["reason"]
        for record in payload["results"]
    ]


async def read(app: Abilities, *paths: str) -> list[str]:
    """Return the content of each file, or the reason why it is not read."""
    return list_outcomes(await app.call("file_read_bulk", {"paths": list(paths)}))


def count_descriptors() -> int:
    """Return how many files and sockets this process holds open."""
    return len(os.listdir("/proc/self/fd"))


class OpenFile:
    """An open file of some bytes, of which parts are read as text."""

    def __init__(self, raw: bytes, *, redacts: bool = False) -> None:
        self._size = len(raw)
        self._redacts = redacts
        self._known_lines = KnownLines()
        self._descriptor = os.memfd_create("text")
        os.write(self._descriptor, raw)

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, requested: Range, chars: int) -> Piece:
        """Read a piece of at most so many characters."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return read_piece(
            self._descriptor,
            self._size,
            requested,
            chars,
            lambda: None,
            redacts=self._redacts,
            known_lines=self._known_lines,
        )

    def follow(self, requested: Range, chars: int) -> Iterator[Piece]:
        """Yield a part's pieces, from one resume point to the next."""
        for _ in range(self._size + 2):
            piece = self.read(requested, chars)
            yield piece
            if not piece.rest:
                return

            assert piece.text, "a cut is never to nothing"
            requested = parse_range(piece.resume(len(piece.text)))
        raise AssertionError("continuation never ended")


def fail_for(end: str, function: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """Return a function that fails for paths that end alike, and for their descriptors."""

    def call_or_fail(subject: Any, *rest: Any, **more: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{subject}") if isinstance(subject, int) else subject
        if str(path).endswith(end):
            raise error

        return function(subject, *rest, **more)

    return call_or_fail


class SystemRead(NamedTuple):
    """A file that was read, how many bytes were asked for, and how many came."""

    path: Path
    asked: int
    came: int


@contextmanager
def noting_reads() -> Iterator[list[SystemRead]]:
    """Yield a list that gets every read of a file that the system is asked for meanwhile."""
    reads: list[SystemRead] = []

    with pytest.MonkeyPatch.context() as patch:
        for name in ("read", "pread"):
            patch.setattr(os, name, _note(getattr(os, name), reads))
        yield reads


def _note(function: Any, reads: list[SystemRead]) -> Any:
    def read(descriptor: int, length: int, *place: int) -> bytes:
        raw: bytes = function(descriptor, length, *place)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        reads.append(SystemRead(path, length, len(raw)))
        return raw

    return read
