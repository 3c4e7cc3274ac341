"""Stub."""

from dataclasses import dataclass, field
from typing import NamedTuple
from abilities.helpers.files.globs import Glob


class SearchRequest(NamedTuple):
    text: str
    is_regex: bool
    glob: Glob
    context: int
    limit: int
    after: tuple[str, int] = ("", 0)


class Hit(NamedTuple):
    path: str
    position: str
    source: str
    last_line: int
    lines: tuple[int, ...]
    text: str
    is_cut: bool


@dataclass
class SearchResult:
    hits: list[Hit] = field(default_factory=list)
    searched: int = 0
    skipped: int = 0
    after: tuple[str, int] | None = None
    is_over_time: bool = False


class FileSearcher:
    async def search(self, request: SearchRequest) -> SearchResult:
        return SearchResult()
