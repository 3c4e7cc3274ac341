"""Memories of a mixed batch together with what they link to."""

from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.declarations.limits import DEFAULT_BREADTH, DEFAULT_DEPTH, DEFAULT_TOTAL
from abilities.declarations.read import MemoryItem
from abilities.declarations.values import JsonObject
from abilities.helpers.gather.asked import AskedItem, BatchSources
from abilities.helpers.gather.cursors import Cursor, check_place, format_place, parse_place
from abilities.helpers.gather.offers import ItemOffer, Leaf, hash_versions, measure_piece
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.memory.walk_answers import describe_step, find_rank
from abilities.helpers.reply.detail import MEMORY
from abilities.helpers.reply.envelope import FoundItem
from abilities.helpers.reply.items import Item
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import WalkResult
from abilities.helpers.text.pieces import slice_text
from abilities.helpers.walk import Step, WalkLimits


def is_walk(item: AskedItem) -> bool:
    """Return whether an item asks for a memory with what it links to."""
    fields = item.fields
    if not isinstance(fields, MemoryItem):
        return False

    return any(limit is not None for limit in (fields.depth, fields.breadth, fields.total))


async def gather_walk(item: AskedItem, sources: BatchSources) -> ItemOffer:
    """Return the offer of a walk. Raises Refused: memories_changed, and what the store refuses."""
    fields = item.fields
    assert isinstance(fields, MemoryItem)
    limits = WalkLimits(
        fields.depth or DEFAULT_DEPTH,
        fields.breadth or DEFAULT_BREADTH,
        fields.total or DEFAULT_TOTAL,
    )
    result = await sources.wait(sources.memory.walk(fields.memory, limits))

    entries = _sort_best_first(result)
    version = _hash_entries(entries)
    offer = item.begin_offer(version)
    offer.group = _describe_walk(result)

    check_place(item.cursor, version)
    start = parse_place(item.cursor)
    for place, (step, memory) in enumerate(entries[start:], start):
        offer.leaves.append(_build_leaf(item, step, memory, format_place(place, version)))

    return offer


def _sort_best_first(result: WalkResult) -> list[tuple[Step, StoredMemory | Exception]]:
    """Return what a walk met: the memory it began at, and the others by their rank."""
    entries = list(zip(result.outcome.steps, result.memories, strict=True))
    return sorted(entries, key=lambda entry: find_rank(entry[0]), reverse=True)


def _hash_entries(entries: Sequence[tuple[Step, StoredMemory | Exception]]) -> str:
    parts: list[str] = []
    for step, memory in entries:
        version = "" if isinstance(memory, Exception) else str(memory.row.version)
        parts += [step.key, version]

    return hash_versions(*parts)


def _describe_walk(result: WalkResult) -> JsonObject:
    """Return what the limits left out, if anything."""
    outcome = result.outcome
    group: JsonObject = {}
    if outcome.cut_by:
        group["limitsReached"] = list(outcome.cut_by)
    if outcome.frontier:
        group["frontier"] = [candidate.key for candidate in outcome.frontier]

    return group


def _build_leaf(
    item: AskedItem, step: Step, memory: StoredMemory | Exception, position: str
) -> Leaf:
    leading: JsonObject = {"key": step.key}
    trailing = describe_step(step, "out")
    if isinstance(memory, Exception):
        return Leaf(memory, 0, position, leading, trailing, MEMORY)

    def continue_at(point: str) -> Item:
        return item.go_on(Cursor(position, point))

    content = memory.row.content
    try:
        piece = slice_text(content, item.cursor.find_range(position), len(content))
    except Refused as error:
        return Leaf(error, 0, position, leading, trailing, MEMORY)

    data = to_memory_data(memory, key=False, version=True)
    data["metadata"] = {"memory_score": memory.row.score}
    found = FoundItem({**data, "content": ""}, piece, item.item, continue_at, len(content.encode()))
    return Leaf(found, measure_piece(piece), position, leading, trailing, MEMORY)
