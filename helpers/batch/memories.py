"""Notes and named memories of a mixed batch.

Questions of a mixed batch, and what answers them.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple, cast

from abilities.declarations.limits import (
    DEFAULT_BREADTH,
    DEFAULT_DEPTH,
    DEFAULT_LISTED_MEMORIES,
    DEFAULT_RECALL_TOKENS,
    DEFAULT_TOTAL,
    MAX_NOTE_DAYS,
    TOKEN_BYTES,
)
from abilities.declarations.read import MemoryItem, NoteItem, RecallItem
from abilities.declarations.recall import RecallInput
from abilities.declarations.refusals import Reason, Refused
from abilities.declarations.suggestions import suggest_value
from abilities.declarations.values import JsonObject, json_bytes
from abilities.helpers.batch.items import (
    AskedItem,
    BatchSources,
    Cursor,
    ItemOffer,
    Leaf,
    check_place,
    count_down,
    format_place,
    hash_versions,
    invalid_cursor,
    measure_piece,
    parse_countdown,
    parse_end,
    parse_place,
)
from abilities.helpers.memory.answers import describe_step, find_rank
from abilities.helpers.memory.helper import MemoryText
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
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.memory.targets import MemoryFiles, parse_target
from abilities.helpers.memory.versions import describe_line
from abilities.helpers.reply.detail import DAY, LISTED_MEMORY, MEMORY, RECALLED
from abilities.helpers.reply.envelope import FoundItem, Item
from abilities.helpers.search.ranking import RankedEntry
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.protocol import WalkResult
from abilities.helpers.store.query import MemoryLine
from abilities.helpers.store.recalling import count_bytes
from abilities.helpers.text.pieces import Piece, Range, slice_text
from abilities.helpers.walk import Step, WalkLimits

_DAY_FORMS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%B %d, %Y", "%d %B %Y", "%b %d, %Y", "%Y%m%d")
"""How days are written elsewhere; days and months in digits alone could be either."""

NOTE_FORM = f"long_term, today, yesterday, YYYY-MM-DD, or last N days (1 to {MAX_NOTE_DAYS})"
"""What names notes, in words."""

_LAST_DAYS = re.compile(r"last ([0-9]{1,2}) days?", re.ASCII)


class _Wanted(NamedTuple):
    """What an item names: one target, or with ``oldest`` those of the days back to that one."""

    targets: list[JsonObject]
    oldest: date | None = None


async def gather_memories(asked: Sequence[AskedItem], sources: BatchSources) -> list[ItemOffer]:
    """Return one offer per note, per range of days and per memory that is read alone."""
    wanted: list[_Wanted | Refused] = []
    targets: list[JsonObject] = []

    for item in asked:
        found = _try_to_name(item, sources.memory.today)
        wanted.append(found)
        if isinstance(found, _Wanted):
            targets += found.targets

    outcomes = iter(await _read(targets, sources))
    offers: list[ItemOffer] = []
    for item, found in zip(asked, wanted, strict=True):
        if isinstance(found, Refused):
            offers.append(item.fail(found))
            continue

        own = [next(outcomes) for _ in found.targets]
        if found.oldest is None:
            offers.append(_offer_one(item, own[0]))
        else:
            offers.append(_offer_days(item, found, own))

    return offers


async def _read(
    targets: Sequence[JsonObject], sources: BatchSources
) -> Sequence[MemoryText | Exception]:
    if not targets:
        return []

    try:
        return await sources.wait(sources.memory.read(targets, sources.max_bytes))
    except Refused as error:
        return [error] * len(targets)


def _try_to_name(item: AskedItem, today: date) -> _Wanted | Refused:
    try:
        return _name_targets(item, today)
    except Refused as error:
        return error


def _name_targets(item: AskedItem, today: date) -> _Wanted:
    """Return what an item names. Raises Refused."""
    fields = item.fields
    if isinstance(fields, MemoryItem):
        return _Wanted([_resume({"type": "stored", "key": fields.memory}, item)])

    assert isinstance(fields, NoteItem)
    if fields.note == "long_term":
        return _Wanted([_resume({"type": "long_term"}, item)])

    days = _LAST_DAYS.fullmatch(fields.note)
    if days is not None:
        return _name_days(item, today, int(days[1]))

    if fields.note not in ("today", "yesterday") and _parse_day(fields.note) is None:
        rule = {"format": NOTE_FORM}
        meant = _suggest_note(fields.note)
        raise Refused("invalid_format", "note", expected=rule, did_you_mean=meant)

    return _Wanted([_resume({"type": "short_term", "date": fields.note}, item)])


def _suggest_note(text: str) -> str | None:
    """Return the note that a text probably means: one of the words, or a day written otherwise."""
    for form in _DAY_FORMS:
        try:
            return datetime.strptime(text.strip(), form).date().isoformat()
        except ValueError:
            continue

    return suggest_value(text.replace(" ", "_"), ("long_term", "today", "yesterday"))


def _resume(target: JsonObject, item: AskedItem) -> JsonObject:
    """Return a target from where its item goes on."""
    # The day is part of the cursor, because today is another one after midnight.
    if item.cursor.position:
        target["date"] = item.cursor.position
    if item.cursor.resume:
        target["resume"] = item.cursor.resume

    return target


def _name_days(item: AskedItem, today: date, count: int) -> _Wanted:
    """Return the targets of the last days, from the newest on. Raises Refused."""
    if not 1 <= count <= MAX_NOTE_DAYS:
        raise Refused("invalid_format", "note", expected={"format": NOTE_FORM})

    newest, oldest = today, today - timedelta(days=count - 1)
    resume = item.cursor.resume
    if item.cursor.position:
        oldest, newest = _parse_span(item.cursor.position)

    # A day was read already unless the item goes on within it.
    skipped = 1 if item.cursor.position and not resume else 0
    number = min((newest - oldest).days + 1, MAX_NOTE_DAYS)
    days = [newest - timedelta(days=ago) for ago in range(skipped, number)]
    targets: list[JsonObject] = [{"type": "short_term", "date": str(day)} for day in days]
    if resume and targets:
        targets[0]["resume"] = resume

    return _Wanted(targets, oldest)


def _parse_span(position: str) -> tuple[date, date]:
    """Return the oldest day of a range and the last one that was read. Raises Refused."""
    first, _, last = position.partition(":")
    oldest, newest = _parse_day(first), _parse_day(last)
    if oldest is None or newest is None:
        raise invalid_cursor()

    return oldest, newest


def _parse_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None

    # Python takes other forms too, such as 20240229.
    return day if day.isoformat() == text else None


def _offer_one(item: AskedItem, outcome: MemoryText | Exception) -> ItemOffer:
    """Return the offer of one note or memory."""
    if isinstance(outcome, Exception):
        return item.fail(outcome)

    offer = item.begin_offer(outcome.version)
    position = outcome.target.day
    offer.leaves.append(
        _build_content_leaf(item, outcome, "" if position is None else str(position))
    )
    return offer


def _offer_days(
    item: AskedItem, wanted: _Wanted, outcomes: Sequence[MemoryText | Exception]
) -> ItemOffer:
    """Return the offer of a range of days: those that have notes, the newest first."""
    offer = item.begin_offer()
    offer.group = {}
    names: set[str] = set()
    versions: list[str] = []

    for target, outcome in zip(wanted.targets, outcomes, strict=True):
        leading: JsonObject = {"date": target["date"]}
        position = f"{wanted.oldest}:{target['date']}"
        if isinstance(outcome, Exception):
            if not _is_missing(outcome):
                offer.leaves.append(Leaf(outcome, 0, position, leading, shape=DAY))
            continue

        # The settings may name one file for all days of a month.
        filename = outcome.target.filename
        if filename in names:
            continue

        names.add(filename)
        versions += [filename, str(outcome.version)]
        leaf = _build_content_leaf(item, outcome, position)
        leaf.leading, leaf.shape = leading, DAY
        offer.leaves.append(leaf)

    offer.version = hash_versions(*versions)
    offer.is_unchanged = offer.version == item.fields.known
    return offer


def name_item(target: JsonObject, today: date) -> JsonObject:
    """Return the item that reads a target of `memory_read_bulk`. Raises Refused."""
    parsed = parse_target(target, MemoryFiles(), today)
    item: JsonObject = {"note": "long_term"}
    if parsed.key is not None:
        item = {"memory": parsed.key}
    elif parsed.day is not None:
        item = {"note": parsed.day.isoformat()}

    # A resume point says that it is one memory, also if its key could be a pattern.
    return {**item, "after": Cursor("", parsed.resume or "byte=0").format()}


def _is_missing(error: Exception) -> bool:
    return isinstance(error, Refused) and error.reason == "memory_file_not_found"


def _build_content_leaf(item: AskedItem, memory: MemoryText, position: str) -> Leaf:
    def continue_at(point: str) -> Item:
        return item.go_on(Cursor(position, point))

    data = {**memory.to_data(), "version": memory.version}
    found = FoundItem(data, memory.piece, item.item, continue_at, memory.size_bytes)
    return Leaf(found, measure_piece(memory.piece), position)


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
        offer.leaves.append(_build_line_leaf(line, limit - place))

    return offer


def _find_version(line: MemoryLine | DamagedMemory) -> str:
    version = "" if isinstance(line, DamagedMemory) else line.version
    return f"{line.key} {version}"


def _build_line_leaf(line: MemoryLine | DamagedMemory, left: int) -> Leaf:
    """Return the leaf of a memory; ``left`` counts those that may come behind it."""
    leading = {"key": line.key}
    source: JsonObject | Refused
    if isinstance(line, DamagedMemory):
        source = Refused(cast(Reason, line.reason))
    else:
        source = describe_line(line)
        del source["key"]

    return Leaf(source, 0, count_down(left, line.key), leading, shape=LISTED_MEMORY)


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
        offer.leaves.append(_build_step_leaf(item, step, memory, format_place(place, version)))

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


def _build_step_leaf(
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
    offer = item.begin_offer(hash_versions(ranking_hash, *map(_find_shown_version, chosen), shown))
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
            _build_recall_leaf(item, entry, source, format_place(place, ranking_hash, stop))
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

        room -= _measure_source(source)
        if room < 0 and chosen:
            break
        chosen.append((entry, source))

    return chosen


def _find_shown_version(chosen: tuple[RankedEntry, Source]) -> str:
    """Return what changes if an entry would be shown otherwise: a ranking may stay the same."""
    _, source = chosen
    if isinstance(source, Exception):
        return ""
    if isinstance(source, NotePart):
        return source.content

    return str(_get_memory(source).row.version)


def _measure_source(source: Source) -> int:
    if isinstance(source, Exception):
        return 0
    if isinstance(source, NotePart):
        return len(source.content.encode())

    return count_bytes(_get_memory(source))


def _get_memory(source: StoredMemory | Passage) -> StoredMemory:
    return source.memory if isinstance(source, Passage) else source


def _build_recall_leaf(item: AskedItem, entry: RankedEntry, source: Source, position: str) -> Leaf:
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
