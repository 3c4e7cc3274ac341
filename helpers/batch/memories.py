"""Notes and named memories of a mixed batch."""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple, cast

from abilities.declarations.faults import Refused
from abilities.declarations.limits import (
    DEFAULT_BREADTH,
    DEFAULT_DEPTH,
    DEFAULT_LISTED_MEMORIES,
    DEFAULT_TOTAL,
    MAX_NOTE_DAYS,
)
from abilities.declarations.read import MemoryItem, NoteItem
from abilities.declarations.reasons import Reason
from abilities.declarations.suggestions import suggest_value
from abilities.declarations.values import JsonObject
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
    parse_place,
)
from abilities.helpers.memory.helper import MemoryText
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.memory.targets import MemoryFiles, parse_target
from abilities.helpers.memory.versions import describe_line
from abilities.helpers.memory.walk_answers import describe_step, find_rank
from abilities.helpers.reply.detail import DAY, LISTED_MEMORY, MEMORY
from abilities.helpers.reply.envelope import FoundItem, Item
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.protocol import WalkResult
from abilities.helpers.store.query import MemoryLine
from abilities.helpers.text.pieces import slice_text
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
