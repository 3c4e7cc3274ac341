"""Reviewing: memories that a person should look at, such as two that say nearly the same.

A review is bounded: it reads the memories that were changed last, and lists a few of each kind.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import orjson

from abilities.declarations.refusals import Refused
from abilities.declarations.values import utc_now
from abilities.helpers.memory.helper import SHOWN_LINKS, MemoryHelper
from abilities.helpers.store.model import Query, StoredMemory

MAX_EXAMINED = 300
"""Memories that are examined, the latest changes first."""

MAX_COMPARED = 50
"""Of these, the memories that are compared with all others, and those whose links are followed."""

MAX_LISTED = 20
"""Memories of one kind in a review."""

_COUNTED_AT_ONCE = 1_000

UNREAD_DAYS = 30
"""Days after which a memory that was never read by its key is listed."""

Kind = Literal["similar", "superseded", "dangling", "expiring", "unread"]


class ReviewItem(NamedTuple):
    """A memory to look at, and why.

    ``other`` is the key of the newer memory that is similar or took its place, or of the link's
    missing target; ``link_type`` is the type of that link.
    """

    kind: Kind
    stored: StoredMemory
    other: str = ""
    other_content: str = ""
    link_type: str = ""


class Review(NamedTuple):
    """What to look at, and how many of all memories were examined for it."""

    items: tuple[ReviewItem, ...]
    examined: int
    total: int


async def review_memories(memory: MemoryHelper) -> Review:
    """Return the memories to look at. This counts as no access. Raises Refused."""
    page = await memory.query(Query(limit=MAX_EXAMINED, sort_by="updated_at"))
    latest = [stored for stored in page.memories if isinstance(stored, StoredMemory)]

    items: list[ReviewItem] = []
    for found in (
        await _find_similar(memory, latest),
        await _find_superseded(memory),
        await _find_dangling(memory, latest),
        _find_expiring(latest),
        await _find_unread(memory),
    ):
        items += found[:MAX_LISTED]

    return Review(tuple(items), len(page.memories), page.total)


async def list_labels(memory: MemoryHelper) -> tuple[list[str], list[str]]:
    """Return the tags and the categories of the latest memories, each sorted. Raises Refused.

    The ten most used tags are always among them.
    """
    stats = await memory.read_stats()
    page = await memory.query(Query(limit=MAX_EXAMINED, sort_by="updated_at"))

    tags = {tag for tag, _ in stats.top_tags}
    categories: set[str] = set()
    for stored in page.memories:
        if isinstance(stored, StoredMemory):
            tags.update(orjson.loads(stored.row.tags))
            categories.add(stored.row.category)

    return sorted(tags), sorted(categories - {""})


async def count_labels(
    memory: MemoryHelper, by: Literal["type", "category", "tag"], most: int
) -> tuple[Counter[str], int, bool]:
    """Return how many memories have each label, how many were counted, and whether these are all.

    At most about ``most`` are, the latest changes first. The label of memories without one is "".
    Raises Refused.
    """
    counts: Counter[str] = Counter()
    total = 0

    while True:
        query = Query(limit=_COUNTED_AT_ONCE, offset=total, sort_by="updated_at")
        page = await memory.query(query)
        for stored in page.memories:
            if isinstance(stored, StoredMemory):
                tags = orjson.loads(stored.row.tags) or [""]
                counts.update(tags if by == "tag" else [getattr(stored.row, by)])

        total += len(page.memories)
        if not page.has_more or total >= most:
            return counts, total, not page.has_more


async def _find_similar(memory: MemoryHelper, latest: Sequence[StoredMemory]) -> list[ReviewItem]:
    """Return pairs of memories that say nearly the same, each once: the older, with the newer."""
    contents = {stored.row.key: stored.row.content for stored in latest[:MAX_COMPARED]}
    alike = await memory.compare_contents(contents)

    pairs: dict[frozenset[str], None] = {}
    for key, similar in alike.items():
        for other in similar:
            pairs[frozenset((key, other["key"]))] = None

    keys = sorted(frozenset[str]().union(*pairs))
    found: dict[str, StoredMemory] = {}
    for stored in await memory.read_memories(keys):
        if isinstance(stored, StoredMemory):
            found[stored.row.key] = stored

    items: list[ReviewItem] = []
    for pair in pairs:
        if pair <= found.keys():
            older, newer = sorted(map(found.__getitem__, pair), key=_find_age)
            items.append(ReviewItem("similar", older, newer.row.key, newer.row.content))

    return items


def _find_age(stored: StoredMemory) -> tuple[str, str]:
    return stored.row.created_at, stored.row.key


async def _find_superseded(memory: MemoryHelper) -> list[ReviewItem]:
    """Return the archived memories that others replaced lately."""
    try:
        changes, _ = await memory.reader.read_timeline(None, MAX_LISTED, action="superseded")
    except Refused as refusal:
        if refusal.reason != "version_not_found":
            raise
        return []  # the store keeps no history

    keys = list(dict.fromkeys(change.key for change in changes if change.key))
    items: list[ReviewItem] = []
    for stored in await memory.read_memories(keys):
        if isinstance(stored, StoredMemory) and stored.replaced_by:
            items.append(ReviewItem("superseded", stored, stored.replaced_by))

    return items


async def _find_dangling(memory: MemoryHelper, latest: Sequence[StoredMemory]) -> list[ReviewItem]:
    """Return links that lead to no memory; of each memory, its lowest links are followed."""
    linking: list[StoredMemory] = []
    for stored in [stored for stored in latest if stored.links_total][:MAX_COMPARED]:
        # Links to missing memories come last.
        offset = max(0, stored.links_total - SHOWN_LINKS)
        linking.append((await memory.inspect(stored.row.key, offset, 0))[0])

    targets = sorted({link.target for stored in linking for link in stored.links})
    missing: set[str] = set()
    for target, found in zip(targets, await memory.read_memories(targets), strict=True):
        if isinstance(found, Refused) and found.reason == "memory_not_found":
            missing.add(target)

    return [
        ReviewItem("dangling", stored, link.target, link_type=link.type)
        for stored in linking
        for link in stored.links
        if link.target in missing
    ]


def _find_expiring(latest: Sequence[StoredMemory]) -> list[ReviewItem]:
    """Return the memories that will expire, the next one first."""
    now = utc_now()
    expiring = [stored for stored in latest if stored.row.expires_at > now]
    expiring.sort(key=lambda stored: stored.row.expires_at)
    return [ReviewItem("expiring", stored) for stored in expiring]


async def _find_unread(memory: MemoryHelper) -> list[ReviewItem]:
    """Return memories that were not read by their keys or changed for long, the oldest first."""
    # A memory that was never read counts as accessed when it was created.
    query = Query(limit=MAX_EXAMINED, sort_by="accessed_at", descending=False)
    page = await memory.query(query)

    before = (datetime.fromisoformat(utc_now()) - timedelta(days=UNREAD_DAYS)).isoformat()
    read = [stored for stored in page.memories if isinstance(stored, StoredMemory)]
    unread = [one for one in read if not one.access_count and one.row.updated_at < before]
    unread.sort(key=lambda stored: stored.row.updated_at)
    return [ReviewItem("unread", stored) for stored in unread]
