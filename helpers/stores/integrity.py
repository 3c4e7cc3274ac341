"""The integrity check that all stores share: a store feeds in its rows, the check compares them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson

from abilities.declarations.faults import Refused
from abilities.declarations.values import has_surrogate
from abilities.helpers.stores.model import IMPORTANCES, LinkRecord, Row, verify_row
from abilities.helpers.stores.protocol import IntegrityFinding
from abilities.helpers.stores.ranking import LinkEnds, StaleMark

_MAX_EXAMPLES = 5
_PROGRESS_ROWS = 1_000
"""Rows between two reports of progress."""


class IndexRow(NamedTuple):
    """A memory's row in the memory index, without its access counters, which nothing can confirm.

    ``importance`` is its index in `IMPORTANCES`; ``size`` is in bytes of UTF-8, content and summary
    together.
    """

    id: str
    type: str
    category: str
    importance: int
    archived: int
    size: int
    created_at: str
    updated_at: str


INDEX_COLUMNS = IndexRow._fields
"""The columns of the memory index that `IntegrityCheck.add_memory` takes."""


class Counted(NamedTuple):
    """What a counter counts: the memories of a namespace with a value, archived or not."""

    namespace: str
    name: str
    archived: int
    value: str


class _Group(NamedTuple):
    """What the counters tell memories apart by; the check counts by group because that is fast."""

    namespace: str
    archived: int
    type: str
    importance: str


class IntegrityCheck:
    """Collects what does not agree while a store feeds in its rows; `report` returns the findings.

    ``progress`` is called with the number of memories and links that were checked since the last
    call.
    """

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress
        self._checked_rows = 0
        self._memory_count = 0
        self._group_numbers: Counter[_Group] = Counter()
        self._group_sizes: Counter[_Group] = Counter()
        self._dangling_links = 0
        self._damaged_memories: list[str] = []
        self._damaged_links: list[str] = []
        self._wrong_tags: list[str] = []
        self._unfindable: list[str] = []
        self._wrong_link_counts: list[str] = []
        self._wrong_versions: list[str] = []
        self._last_versions: dict[str, int] = {}

    def add_memory(self, columns: Iterable[Any]) -> bool:
        """Check a memory: the columns of its `Row`, its hash, and its `INDEX_COLUMNS`.

        The last are None if the memory has no row in the memory index. Returns whether it is sound.
        """
        self._memory_count += 1
        self._count_row()

        # Take the columns apart by the fields of their types, so that no position is written down.
        values = iter(columns)
        row = Row._make(islice(values, len(Row._fields)))
        stored_hash = next(values)
        index_row = IndexRow._make(values)
        is_sound = _is_sound_memory(row, stored_hash, index_row)
        if is_sound:
            self._add_version(row)
        else:
            self._damaged_memories.append(_format_name(row.namespace, row.key))

        # A damaged memory counts too, so that its damage is not reported as wrong counters as well.
        group = _Group(row.namespace, row.archived, row.type, row.importance)
        self._group_numbers[group] += 1
        self._group_sizes[group] += _count_bytes(row, errors="surrogateescape")
        return is_sound

    def add_index_rows(self, number: int) -> None:
        """Compare the number of rows in the memory index with that of the memories added so far."""
        difference = number - self._memory_count
        if difference:
            self._damaged_memories.append(f"{difference:+} rows in the memory index")

    def add_link(self, columns: Iterable[Any]) -> None:
        """Check a link: its namespace, its `LinkRecord`, its target, its source, and their marks.

        Of the target and then the source come ``archived`` and ``score``; both are None if the
        memory does not exist. Marks say whether the ranks by the target and the source are stale.
        """
        self._count_row()

        namespace, *values = columns
        record = LinkRecord._make(values[: len(LinkRecord._fields)])
        ends = LinkEnds._make(values[len(LinkRecord._fields) :])
        if ends.target_archived is None:
            self._dangling_links += 1

        if not record.is_sound or not ends.confirm_ranks(record):
            self._damaged_links.append(
                f"{_format_name(namespace, record.source)} -> {record.target}"
            )

    def add_mark(self, namespace: str, mark: StaleMark) -> None:
        """Check the texts of a mark of stale ranks; the ranks behind it are checked themselves."""
        if has_surrogate(namespace) or not mark.is_sound:
            self._damaged_links.append(_format_name(namespace, mark.key))

    def compare_tags(self, namespace: str, key: str, tags: str, indexed: str) -> None:
        """Compare a memory's tags with those in the tag index; both are JSON arrays."""
        if not have_same_tags(tags, indexed):
            self._wrong_tags.append(_format_name(namespace, key))

    def add_miscounted_tag(self, namespace: str, tag: str) -> None:
        """Add a tag whose counter is wrong."""
        self._wrong_tags.append(_format_name(namespace, tag))

    def add_miscounted_links(self, namespace: str, key: str) -> None:
        """Add a key whose numbers of outgoing and incoming links are wrong."""
        self._wrong_link_counts.append(f"{_format_name(namespace, key)} links")

    def add_repeated_version(self, namespace: str, version: int) -> None:
        """Add a version that several memories of a namespace have."""
        self._wrong_versions.append(_format_name(namespace, version))

    def add_unfindable(self, namespace: str, key: str) -> None:
        """Add a memory that the search index does not have, or with other words."""
        self._unfindable.append(_format_name(namespace, key))

    def add_wrong_index(self, name: str) -> None:
        """Add a part of the search or recall index that is not made of the memories' texts."""
        self._unfindable.append(f"entries of {name}")

    def report(
        self, counters: Mapping[Counted, int], versions: Mapping[str, int]
    ) -> list[IntegrityFinding]:
        """Return the findings, in a fixed order.

        ``counters`` are those that the store keeps, except those of tags and links; ``versions``
        are the last versions that it gave, by namespace.
        """
        wrong_counters = [*self._compare_counters(counters), *self._wrong_link_counts]
        wrong_versions = [*self._wrong_versions, *self._list_uncounted_versions(versions)]
        return [
            build_finding(
                "memories",
                self._damaged_memories,
                "Every memory is as it was written.",
                "Memories that are not as they were written",
            ),
            build_finding(
                "links",
                self._damaged_links,
                "Every link is as it was written.",
                "Links that are not as they were written",
            ),
            self._report_dangling_links(),
            build_finding(
                "tags",
                self._wrong_tags,
                "The tag index agrees with the memories.",
                "Memories or tags with wrong entries in the tag index",
            ),
            build_finding(
                "counters",
                wrong_counters,
                "The counters agree with the memories.",
                "Counters that disagree with the memories",
            ),
            build_finding(
                "versions",
                wrong_versions,
                "Every version was given to one memory.",
                "Versions that were given twice or not at all",
            ),
            build_finding(
                "search",
                self._unfindable,
                "Every memory is in the search index.",
                "Memories missing from the search index, or with wrong entries",
            ),
        ]

    def _add_version(self, row: Row) -> None:
        last_version = self._last_versions.get(row.namespace, 0)
        self._last_versions[row.namespace] = max(last_version, row.version)

        if row.version < 1:
            self._wrong_versions.append(_format_name(row.namespace, row.key))

    def _list_uncounted_versions(self, versions: Mapping[str, int]) -> list[str]:
        """Return the memories' last versions that their namespaces have not given yet."""
        uncounted: list[str] = []
        for namespace, version in self._last_versions.items():
            if version > versions.get(namespace, 0):
                uncounted.append(_format_name(namespace, version))

        return uncounted

    def _compare_counters(self, counters: Mapping[Counted, int]) -> list[str]:
        """Return what the wrong ones among the store's counters count."""
        expected = self._sum_counters()
        wrong: list[str] = []

        for counted in sorted(counters.keys() | expected.keys(), key=_order_counters):
            if counters.get(counted, 0) != expected[counted]:
                wrong.append(" ".join(map(str, counted)))

        return wrong

    def _sum_counters(self) -> Counter[Counted]:
        """Return the counters as they should be."""
        counters: Counter[Counted] = Counter()

        for group, number in self._group_numbers.items():
            namespace, archived, type_, importance = group
            index = -1  # of a damaged value, so that no counter agrees with it
            if importance in IMPORTANCES:
                index = IMPORTANCES.index(importance)

            counters[Counted(namespace, "all", archived, "")] += number
            counters[Counted(namespace, "type", archived, type_)] += number
            counters[Counted(namespace, "importance", archived, str(index))] += number
            counters[Counted(namespace, "size", archived, "")] += self._group_sizes[group]

        return counters

    def _report_dangling_links(self) -> IntegrityFinding:
        """Return a note and no damage: a link may be stored before the memory that it leads to."""
        if not self._dangling_links:
            return IntegrityFinding("dangling", "sound", 0, "Every link leads to a memory.")

        words = f"Links to memories that do not exist: {self._dangling_links:,}. This is allowed."
        return IntegrityFinding("dangling", "note", self._dangling_links, words)

    def _count_row(self) -> None:
        self._checked_rows += 1
        if self._checked_rows % _PROGRESS_ROWS == 0:
            self._progress(_PROGRESS_ROWS)


def build_finding(name: str, wrong: list[str], good: str, bad: str) -> IntegrityFinding:
    """Return a finding about one kind of thing; ``wrong`` names what is damaged.

    ``good`` is the sentence if nothing is; ``bad`` is what stands before the number otherwise.
    """
    if not wrong:
        return IntegrityFinding(name, "sound", 0, good)

    examples = tuple(wrong[:_MAX_EXAMPLES])
    return IntegrityFinding(name, "damaged", len(wrong), f"{bad}: {len(wrong):,}.", examples)


def _is_sound_memory(row: Row, stored_hash: int, index_row: IndexRow) -> bool:
    """Return whether a row is as it was written and its row in the memory index agrees with it."""
    try:
        verify_row(row, stored_hash)
        expected = build_index_row(row)
    except (Refused, UnicodeEncodeError, ValueError):
        return False

    return index_row == expected


def build_index_row(row: Row) -> IndexRow:
    """Return what the memory index must have of a sound row."""
    return IndexRow(
        id=row.id,
        type=row.type,
        category=row.category,
        importance=IMPORTANCES.index(row.importance),
        archived=row.archived,
        size=_count_bytes(row),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _count_bytes(row: Row, *, errors: str = "strict") -> int:
    return _measure(row.content, errors) + _measure(row.summary, errors)


def _measure(text: object, errors: str) -> int:
    # A damaged text holds surrogates, which "surrogateescape" turns back into its bytes.
    return len(text.encode(errors=errors)) if isinstance(text, str) else 0


def _order_counters(counted: Counted) -> str:
    return repr(tuple(counted))  # damage can turn a value into one of a type that does not compare


def have_same_tags(tags: str, indexed: str) -> bool:
    """Return whether two JSON arrays hold the same tags."""
    return _parse_tags(tags) == _parse_tags(indexed)


def _parse_tags(tags: str) -> list[object] | None:
    """Return the sorted tags of a JSON array, or None if damage made it something else."""
    try:
        return sorted(orjson.loads(tags))
    except (ValueError, TypeError):
        return None


def _format_name(namespace: object, key: object) -> str:
    return f"{namespace}/{key}"
