"""Remarks on a whole source: how many of its rows have something that is not kept as it was."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple


class Kind(NamedTuple):
    """What a remark counts, in the singular and in the plural."""

    one: str
    many: str


MEMORIES = Kind("memory", "memories")
LINKS = Kind("link", "links")
RELATIONS = Kind("relation", "relations")
ROWS = Kind("row", "rows")


class CountedRemark(NamedTuple):
    """A sentence that holds for some rows; ``subject`` names them, for example ``160 links``."""

    subject: str
    rows: int
    words: str


class RemarkCounter:
    """Counts rows by kind and sentence, so that a report has one remark for all of them."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Kind, str]] = Counter()

    def add(self, kind: Kind, words: str, count: int = 1) -> None:
        """Count rows that a sentence holds for."""
        if count:
            self._counts[kind, words] += count

    def list_remarks(self) -> Iterator[CountedRemark]:
        """Yield the remarks, each sentence once, in the order in which they first came up."""
        for (kind, words), count in self._counts.items():
            noun = kind.many
            if count == 1:
                noun = kind.one

            yield CountedRemark(f"{count:,} {noun}", count, words)
