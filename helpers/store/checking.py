"""The integrity check of every store: what memories imply is compared with what is stored."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from abilities.declarations.values import has_surrogate
from abilities.helpers.store.examining import (
    COUNT_LINKS,
    COUNT_MEMORIES,
    MARKS,
    EngineIndex,
    examine_links,
    examine_memories,
)
from abilities.helpers.store.history_check import MISCOUNTED, REVIVED, UNTOLD, list_broken
from abilities.helpers.store.protocol import IntegrityFinding
from abilities.helpers.store.ranking import StaleMark
from abilities.helpers.store.recall_check import list_wrong_parts
from abilities.helpers.store.transaction import Transaction

_MAX_EXAMPLES = 5
_PROGRESS_ROWS = 1_000
"""Rows between two reports of progress."""

_WORDS = {
    "memories": (
        "Every memory is as it was written.",
        "Memories that are not as they were written",
    ),
    "links": ("Every link is as it was written.", "Links that are not as they were written"),
    "tags": (
        "The tag index agrees with the memories.",
        "Memories or tags with wrong entries in the tag index",
    ),
    "counters": (
        "The counters agree with the memories.",
        "Counters that disagree with the memories",
    ),
    "versions": (
        "Every version was given to one memory.",
        "Versions that were given twice or not at all",
    ),
    "search": (
        "Every memory is in the search index.",
        "Memories missing from the search index, or with wrong entries",
    ),
    "history": (
        "The history is as it was written.",
        "Entries of the history that are not as they were written",
    ),
}
"""By the names of the findings: the sentence if all is sound, and what counts what is not."""


_INDEX_SIZE = "SELECT count(*) FROM shelf"

_MISCOUNTED_MEMORIES = f"""
SELECT namespace, name, archived, value FROM (
    {COUNT_MEMORIES.format(where="")}
    UNION ALL SELECT namespace, name, archived, value, -number FROM counters
) AS counted GROUP BY namespace, name, archived, value HAVING sum(number) <> 0
ORDER BY namespace, name, archived, value
"""
_MISCOUNTED_LINKS = f"""
SELECT namespace, key, 'links' FROM (
    {COUNT_LINKS.format(where="")}
    UNION ALL SELECT namespace, key, -outgoing, -incoming FROM link_counts
) AS counted GROUP BY namespace, key HAVING sum(outgoing) <> 0 OR sum(incoming) <> 0
ORDER BY namespace, key
"""
_WRONG_VERSIONS = """
SELECT m.namespace, m.version FROM memories AS m
LEFT JOIN versions AS v ON v.namespace = m.namespace
GROUP BY m.namespace, m.version, v.number
HAVING count(*) > 1 OR m.version < 1 OR m.version > coalesce(v.number, 0)
"""
_WRONG = (
    ("counters", _MISCOUNTED_LINKS),
    ("versions", _WRONG_VERSIONS),
    ("history", UNTOLD),
    ("history", REVIVED),
    ("history", MISCOUNTED),
)
"""Statements that return what is wrong: its namespace and what names it there."""


async def check_rows(
    transaction: Transaction,
    index: EngineIndex,
    progress: Callable[[int], None],
    wrong_tables: Sequence[str] = (),
) -> list[IntegrityFinding]:
    """Compare all rows, and return the findings in a fixed order.

    ``progress`` is called with the number of memories and links that were checked since the last
    call. ``wrong_tables`` are those of the search index that are not made of the texts of the
    memories, if an engine compares them as a whole.
    """
    wrong: dict[str, list[str]] = defaultdict(list)
    wrong_parts = [*wrong_tables, *await list_wrong_parts(transaction)]
    count = _count_rows(progress)
    await _check_memories(transaction, index, wrong, count)
    dangling = await _check_links(transaction, wrong, count)

    async for namespace, name, archived, value in transaction.stream(_MISCOUNTED_MEMORIES):
        words = value if name == "tag" else f"{name} {archived} {value}"
        wrong["tags" if name == "tag" else "counters"].append(f"{namespace}/{words}")

    for finding, statement in _WRONG:
        async for namespace, *words in transaction.stream(statement):
            wrong[finding].append(f"{namespace}/{' '.join(map(str, words))}")

    async for entry in list_broken(transaction):
        wrong["history"].append(f"{entry.namespace}/{entry.id} {entry.version}")

    wrong["search"] += [f"entries of {name}" for name in wrong_parts]
    findings = [build_finding(name, wrong[name], *words) for name, words in _WORDS.items()]
    findings.insert(2, _report_dangling_links(dangling))
    return findings


async def _check_memories(
    transaction: Transaction,
    index: EngineIndex,
    wrong: dict[str, list[str]],
    count: Callable[[], None],
) -> None:
    number = 0
    async for memory in examine_memories(transaction, index):
        count()
        number += 1
        name = f"{memory.row.namespace}/{memory.row.key}"
        if not memory.is_indexed:
            wrong["memories"].append(name)
        if memory.is_sound and not memory.has_tags:
            wrong["tags"].append(name)
        if memory.is_sound and not memory.is_findable:
            wrong["search"].append(name)

    ((indexed,),) = await transaction.fetch(_INDEX_SIZE)
    if indexed != number:
        wrong["memories"].append(f"{indexed - number:+} rows in the memory index")


async def _check_links(
    transaction: Transaction, wrong: dict[str, list[str]], count: Callable[[], None]
) -> int:
    """Check the links and the marks of stale ranks; return how many links dangle."""
    dangling = 0
    async for namespace, record, is_ranked, is_dangling in examine_links(transaction):
        count()
        dangling += is_dangling
        if not is_ranked:
            wrong["links"].append(f"{namespace}/{record.source} -> {record.target}")

    # The ranks behind the marks are checked themselves.
    async for namespace, *columns in transaction.stream(MARKS):
        mark = StaleMark._make(columns)
        if has_surrogate(namespace) or not mark.is_sound:
            wrong["links"].append(f"{namespace}/{mark.key}")

    return dangling


def build_finding(name: str, wrong: list[str], good: str, bad: str) -> IntegrityFinding:
    """Return a finding about one kind of thing; ``wrong`` names what is damaged.

    ``good`` is the sentence if nothing is; ``bad`` is what stands before the number otherwise.
    """
    if not wrong:
        return IntegrityFinding(name, "sound", 0, good)

    examples = tuple(wrong[:_MAX_EXAMPLES])
    return IntegrityFinding(name, "damaged", len(wrong), f"{bad}: {len(wrong):,}.", examples)


def _report_dangling_links(number: int) -> IntegrityFinding:
    """Return a note and no damage: a link may be stored before the memory that it leads to."""
    if not number:
        return IntegrityFinding("dangling", "sound", 0, "Every link leads to a memory.")

    words = f"Links to memories that do not exist: {number:,}. This is allowed."
    return IntegrityFinding("dangling", "note", number, words)


def _count_rows(progress: Callable[[int], None]) -> Callable[[], None]:
    """Return what to call for each row, so that progress is reported now and then."""
    number = 0

    def count() -> None:
        nonlocal number
        number += 1
        if number % _PROGRESS_ROWS == 0:
            progress(_PROGRESS_ROWS)

    return count
