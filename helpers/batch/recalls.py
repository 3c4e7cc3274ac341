"""Questions of a mixed batch, and what answers them."""

from collections.abc import Sequence

from abilities.declarations.faults import Refused
from abilities.declarations.limits import DEFAULT_RECALL_TOKENS, TOKEN_BYTES
from abilities.declarations.read import RecallItem
from abilities.declarations.recall import RecallInput
from abilities.declarations.values import JsonObject, json_bytes
from abilities.helpers.batch.items import (
    AskedItem,
    BatchSources,
    Cursor,
    ItemOffer,
    Leaf,
    check_place,
    format_place,
    hash_versions,
    measure_piece,
    parse_end,
    parse_place,
)
from abilities.helpers.memory.notes import NotePart
from abilities.helpers.memory.overview import OVERVIEW_BYTES, build_overview
from abilities.helpers.memory.recall_answers import (
    MAX_UNKNOWN_CHARS,
    MAX_UNKNOWN_WORDS,
    Passage,
    Source,
    explain_entry,
    find_source,
)
from abilities.helpers.memory.recalling import RecallResult, hash_ranking
from abilities.helpers.reply.detail import RECALLED
from abilities.helpers.reply.envelope import FoundItem, Item
from abilities.helpers.search.rankings import RankedEntry
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.recalling import count_bytes
from abilities.helpers.text.pieces import Piece, slice_text
from abilities.helpers.text.ranges import Range

ANSWER_BYTES = DEFAULT_RECALL_TOKENS * TOKEN_BYTES
"""Bytes of contents that a question brings at most; the item in its ``more`` goes on."""

_DAY_CHARS = len("YYYY-MM-DD")


async def gather_recall(item: AskedItem, sources: BatchSources) -> ItemOffer:
    """Return the offer of a question. Raises Refused: memories_changed, what the store refuses."""
    fields = item.fields
    assert isinstance(fields, RecallItem)
    arguments = RecallInput(queries=[fields.recall])

    begin, end = parse_place(item.cursor), parse_end(item.cursor)
    result = await sources.wait(sources.memory.recall(arguments, [begin], ANSWER_BYTES))
    ranking = result.rankings[0]
    ranking_hash = hash_ranking(ranking)
    check_place(item.cursor, ranking_hash)

    overview = await sources.wait(build_overview(sources.memory, arguments, result, OVERVIEW_BYTES))
    chosen = _choose_entries(ranking.entries[begin:end], result)
    stop = begin + len(chosen) if end is None else end
    shown = json_bytes(overview).decode()
    offer = item.begin_offer(hash_versions(ranking_hash, *map(_find_version, chosen), shown))
    offer.group = {"matched": len(ranking.entries)}
    unknown = [word[:MAX_UNKNOWN_CHARS] for word in ranking.unknown_words[:MAX_UNKNOWN_WORDS]]
    if unknown:
        offer.group["unknown_words"] = unknown
    if overview:
        offer.group["overview"] = overview
    if 0 < stop < len(ranking.entries):
        offer.group["more"] = item.go_on(Cursor(format_place(stop - 1, ranking_hash)))

    for place, (entry, source) in enumerate(chosen, begin):
        offer.leaves.append(
            _build_leaf(item, entry, source, format_place(place, ranking_hash, stop))
        )

    return offer


def _choose_entries(
    entries: Sequence[RankedEntry], result: RecallResult
) -> list[tuple[RankedEntry, Source]]:
    """Return the first entries with their sources, as many as a question brings: one at least."""
    chosen: list[tuple[RankedEntry, Source]] = []
    room = ANSWER_BYTES

    for entry in entries:
        source = find_source(entry, result)
        if source is None:
            break

        room -= _measure(source)
        if room < 0 and chosen:
            break
        chosen.append((entry, source))

    return chosen


def _find_version(chosen: tuple[RankedEntry, Source]) -> str:
    """Return what changes if an entry would be shown otherwise: a ranking may stay the same."""
    _, source = chosen
    if isinstance(source, Exception):
        return ""
    if isinstance(source, NotePart):
        return source.content

    return str(_get_memory(source).row.version)


def _measure(source: Source) -> int:
    if isinstance(source, Exception):
        return 0
    if isinstance(source, NotePart):
        return len(source.content.encode())

    return count_bytes(_get_memory(source))


def _get_memory(source: StoredMemory | Passage) -> StoredMemory:
    return source.memory if isinstance(source, Passage) else source


def _build_leaf(item: AskedItem, entry: RankedEntry, source: Source, position: str) -> Leaf:
    reasons = explain_entry(entry, is_full=True)
    if isinstance(source, NotePart):
        return _build_note_leaf(source, reasons, position)

    leading: JsonObject = {"key": entry.name}
    if isinstance(source, Exception):
        return Leaf(source, 0, position, leading, reasons, RECALLED)

    return _build_memory_leaf(item, source, position, leading, reasons)


def _build_memory_leaf(
    item: AskedItem,
    source: StoredMemory | Passage,
    position: str,
    leading: JsonObject,
    reasons: JsonObject,
) -> Leaf:
    def continue_at(point: str) -> Item:
        return item.go_on(Cursor(position, point))

    row = _get_memory(source).row
    requested = item.cursor.find_range(position)
    starts_at = 0
    if requested.is_whole and isinstance(source, Passage):
        starts_at, end, _ = source.section
        first = len(row.content[:starts_at].encode())
        size = len(row.content[starts_at:end].encode())
        requested = Range(start=first, end=first + size)

    try:
        piece = slice_text(row.content, requested, len(row.content))
    except Refused as error:
        return Leaf(error, 0, position, leading, reasons, RECALLED)

    data: JsonObject = {
        "content": "",
        "date": row.updated_at[:_DAY_CHARS],
        "version": row.version,
    }
    if row.archived:
        data["archived"] = True
    if starts_at:
        data["starts_at"] = starts_at
    found = FoundItem(data, piece, item.item, continue_at, len(row.content.encode()))
    return Leaf(found, measure_piece(piece), position, leading, reasons, RECALLED)


def _build_note_leaf(part: NotePart, reasons: JsonObject, position: str) -> Leaf:
    """Return the leaf of a part of a note, which is read on as the note itself."""
    leading: JsonObject = {"filename": part.target.filename}
    if part.heading:
        leading["heading"] = part.heading

    # It is cut only if there is room for less than a thousand characters.
    note = "long_term" if part.target.day is None else part.day
    resume = part.piece.resume(part.piece.find_cut(part.section.start))
    next_item: JsonObject = {"note": note}
    if part.section.start:
        next_item["after"] = Cursor("", resume).format()

    def continue_at(point: str) -> Item:
        return next_item

    content = part.content
    piece = Piece(content, total_chars=len(content))
    data: JsonObject = {"content": "", "date": part.day}
    found = FoundItem(data, piece, next_item, continue_at, len(content.encode()))
    return Leaf(found, len(content.encode()), position, leading, reasons, RECALLED, atomic=True)
