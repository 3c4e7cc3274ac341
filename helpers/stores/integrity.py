"""What a check makes of the rows that a store tells it, the same for every store."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from abilities.declarations.faults import Refused
from abilities.helpers.stores.model import IMPORTANCES, Row, hash_values, verify_row
from abilities.helpers.stores.protocol import IntegrityFinding

_SHOWN = 5
_WIDTH = len(Row._fields)
INDEX_COLUMNS = (
    "id",
    "type",
    "category",
    "importance",
    "archived",
    "size",
    "created_at",
    "updated_at",
)
"""What stands beside each memory, as `Examination.memory` is told it."""
Counted = tuple[str, str, int, str]
"""A counter's namespace, name, archived and value."""


class IntegrityCheck:
    """Is told every row, and finds what does not agree; ``progress`` is told of memories and links looked at."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress
        self._done = 0
        self._memories = list[str]()
        self._links = list[str]()
        self._tags = list[str]()
        self._unfindable = list[str]()
        self._dangling = 0
        self._count = 0
        self._counted: Counter[Counted] = Counter()

    def add_memory(self, raw: tuple[Any, ...]) -> None:
        """A memory's row, its hash, and what stands beside it, as `SHELF` names it."""
        self._count += 1
        self._step()
        row = Row(*raw[:_WIDTH])
        if not _is_sound(row, raw[_WIDTH], tuple(raw[_WIDTH + 1 :])):
            self._memories.append(_named(row.namespace, row.key))
        place = IMPORTANCES.index(row.importance) if row.importance in IMPORTANCES else -1
        size = sum(
            len(text.encode("utf-8", "surrogateescape")) for text in (row.content, row.summary)
        )
        for name, value in (("all", ""), ("type", row.type), ("importance", str(place))):
            self._counted[row.namespace, name, row.archived, value] += 1
        self._counted[row.namespace, "size", row.archived, ""] += size

    def add_index_rows(self, number: int) -> None:
        """How many rows stand beside memories."""
        if number != self._count:
            self._memories.append(f"{number - self._count:+} rows beside the memories")

    def add_link(self, raw: tuple[Any, ...]) -> None:
        """A link: namespace, source, target, type, weight, rank, hash, and its target's archived and score, or None."""
        namespace, *link, stored_hash, archived, score = raw
        self._step()
        self._dangling += archived is None
        rank = -1.0 if archived is None or archived else link[3] * score
        if not _hashes(tuple(link), stored_hash) or rank != link[4]:
            self._links.append(f"{_named(namespace, link[0])} -> {link[1]}")

    def compare_tags(self, namespace: str, key: str, tags: str, told: str) -> None:
        """A memory's tags as it says them, and as they stand where they are looked for; both as JSON."""
        if _listed(tags) != _listed(told):
            self._tags.append(_named(namespace, key))

    def add_miscounted_tag(self, namespace: str, tag: str) -> None:
        """A tag whose counter is wrong."""
        self._tags.append(_named(namespace, tag))

    def add_unfindable(self, namespace: str, key: str) -> None:
        """A memory that search does not look into."""
        self._unfindable.append(_named(namespace, key))

    def report(self, told: dict[Counted, int]) -> list[IntegrityFinding]:
        """What was found, in a fixed order; ``told`` are the store's counters but for those of tags."""
        wrong = [
            " ".join(map(str, name))
            for name in sorted(told.keys() | self._counted.keys(), key=repr)
            if told.get(name, 0) != self._counted[name]
        ]
        return [
            build_finding(
                "memories",
                self._memories,
                "Every memory is as it was written.",
                "memories are damaged",
            ),
            build_finding(
                "links", self._links, "Every link is as it was written.", "links are damaged"
            ),
            self._dangling_links(),
            build_finding(
                "tags",
                self._tags,
                "Every tag stands where it is looked for.",
                "memories have other tags",
            ),
            build_finding(
                "counters", wrong, "The counters agree with the memories.", "counters are wrong"
            ),
            build_finding(
                "search",
                self._unfindable,
                "Every memory can be searched for.",
                "memories cannot be searched for",
            ),
        ]

    def _dangling_links(self) -> IntegrityFinding:
        """Links that lead nowhere are told, not blamed."""
        if not self._dangling:
            return IntegrityFinding("dangling", "sound", 0, "Every link leads somewhere.")
        words = f"{self._dangling:,} links lead to memories that are not there."
        return IntegrityFinding("dangling", "note", self._dangling, words)

    def _step(self) -> None:
        self._done += 1
        if self._done % 1_000 == 0:
            self._progress(1_000)


def build_finding(name: str, wrong: list[str], good: str, bad: str) -> IntegrityFinding:
    """What was found of one thing, in words."""
    if not wrong:
        return IntegrityFinding(name, "sound", 0, good)
    return IntegrityFinding(
        name, "damaged", len(wrong), f"{len(wrong):,} {bad}.", tuple(wrong[:_SHOWN])
    )


def _is_sound(row: Row, stored_hash: int, shelf: tuple[Any, ...]) -> bool:
    try:
        verify_row(row, stored_hash)
        size = len(row.content.encode()) + len(row.summary.encode())
        place = IMPORTANCES.index(row.importance)
    except (Refused, UnicodeEncodeError, ValueError):
        return False
    return shelf == (
        row.id,
        row.type,
        row.category,
        place,
        row.archived,
        size,
        row.created_at,
        row.updated_at,
    )


def _hashes(link: tuple[Any, ...], stored_hash: int) -> bool:
    try:
        return hash_values(link) == stored_hash
    except TypeError:
        return False


def _listed(tags: str) -> list[Any] | None:
    try:
        return sorted(orjson.loads(tags))
    except (ValueError, TypeError):
        return None


def _named(namespace: str, key: str) -> str:
    return f"{namespace}/{key}"
