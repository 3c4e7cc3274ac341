"""Lists of a mixed batch: the memories whose keys begin alike, without their contents."""

from typing import cast

from abilities.declarations.faults import Refused
from abilities.declarations.limits import DEFAULT_LISTED_MEMORIES
from abilities.declarations.read import MemoryItem
from abilities.declarations.reasons import Reason
from abilities.declarations.values import JsonObject
from abilities.helpers.gather.asked import AskedItem, BatchSources
from abilities.helpers.gather.cursors import Cursor, count_down, parse_countdown
from abilities.helpers.gather.offers import ItemOffer, Leaf, hash_versions
from abilities.helpers.gather.walks import is_walk
from abilities.helpers.memory.timeline import describe_line
from abilities.helpers.reply.detail import LISTED_MEMORY
from abilities.helpers.store.model import DamagedMemory
from abilities.helpers.store.query import MemoryLine

ANY = "*"
"""What ends a key that stands for all that begin like it."""


def is_list(item: AskedItem) -> bool:
    """Return whether an item asks for the memories whose keys begin alike."""
    fields = item.fields
    if not isinstance(fields, MemoryItem) or is_walk(item):
        return False

    return fields.memory.endswith(ANY) and not item.cursor.resume


async def gather_list(item: AskedItem, sources: BatchSources) -> ItemOffer:
    """Return the offer of a list. Raises Refused, as the store does."""
    fields = item.fields
    assert isinstance(fields, MemoryItem)
    prefix = fields.memory.removesuffix(ANY)
    limit, after = parse_countdown(item.cursor.position, DEFAULT_LISTED_MEMORIES)

    # One more tells whether more follow.
    listing = sources.memory.versions.list_memories(prefix, after, limit + 1, archived=False)
    lines = await sources.wait(listing)

    shown = lines[:limit]
    offer = item.begin_offer(hash_versions(*map(_find_version, shown)))
    offer.group = {}
    if len(lines) > limit:
        last = shown[-1].key if shown else after
        offer.group["more"] = item.go_on(Cursor(count_down(None, last)))

    for place, line in enumerate(shown, start=1):
        offer.leaves.append(_build_leaf(line, limit - place))

    return offer


def _find_version(line: MemoryLine | DamagedMemory) -> str:
    version = "" if isinstance(line, DamagedMemory) else line.version
    return f"{line.key} {version}"


def _build_leaf(line: MemoryLine | DamagedMemory, left: int) -> Leaf:
    """Return the leaf of a memory; ``left`` counts those that may come behind it."""
    leading = {"key": line.key}
    source: JsonObject | Refused
    if isinstance(line, DamagedMemory):
        source = Refused(cast(Reason, line.reason))
    else:
        source = describe_line(line)
        del source["key"]

    return Leaf(source, 0, count_down(left, line.key), leading, shape=LISTED_MEMORY)
