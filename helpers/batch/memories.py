"""Notes and memories of a mixed batch: named, listed by prefix, linked, or found by a question."""

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
from abilities.declarations.values import JsonObject, drop_empty, json_bytes
from abilities.helpers.batch import items
from abilities.helpers.memory import recall_answers
from abilities.helpers.memory.answers import describe_line
from abilities.helpers.memory.helper import MemoryText
from abilities.helpers.memory.overview import OVERVIEW_BYTES, build_overview
from abilities.helpers.memory.recalling import RecallResult, hash_ranking
from abilities.helpers.memory.records import (
    describe_replacement,
    describe_step,
    find_rank,
    to_memory_data,
)
from abilities.helpers.memory.targets import MemoryFiles, NotePart, parse_day, parse_target
from abilities.helpers.reply.envelope import (
    DAY,
    LISTED_MEMORY,
    MEMORY,
    RECALLED,
    FoundItem,
    Item,
    RecordForm,
)
from abilities.helpers.search.ranking import RankedEntry
from abilities.helpers.store.model import DamagedMemory, StoredMemory
from abilities.helpers.store.recalling import count_bytes
from abilities.helpers.text import Piece, Range, slice_text
from abilities.helpers.walk import WalkLimits

ANY = "*"
"""The end of a key that requests all memories whose keys begin like it."""

NOTE_FORM = f"long_term, today, yesterday, YYYY-MM-DD, or last N days (1 to {MAX_NOTE_DAYS})"
"""The values of an item's ``note``, in words."""

ANSWER_BYTES = DEFAULT_RECALL_TOKENS * TOKEN_BYTES
"""The most bytes of contents for a question; the item in its ``more`` continues."""

_DAY_FORMS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%B %d, %Y", "%d %B %Y", "%b %d, %Y", "%Y%m%d")
"""Other forms of a day, to suggest the right one. The order of day and month is clear in each."""

_LAST_DAYS = re.compile(r"last ([0-9]{1,2}) days?", re.ASCII)
_DAY_CHARS = len("YYYY-MM-DD")


class _Wanted(NamedTuple):
    """The targets that an item names: one, or with ``oldest`` those of the days back to that."""

    targets: list[JsonObject]
    oldest: date | None = None


async def gather_memories(
    asked: Sequence[items.AskedItem], sources: items.BatchSources
) -> list[items.ItemOffer]:
    """Return one offer per note, per range of days and per memory that is read alone."""
    wanted: list[_Wanted | Refused] = []
    targets: list[JsonObject] = []
    for item in asked:
        try:
            named = _name_targets(item, sources.memory.today)
        except Refused as error:
            wanted.append(error)
        else:
            wanted.append(named)
            targets += named.targets

    results: Sequence[MemoryText | Exception] = []
    if targets:
        try:
            results = await sources.wait(sources.memory.read(targets, sources.max_bytes))
        except Refused as error:
            results = [error] * len(targets)

    outcomes = iter(results)
    offers: list[items.ItemOffer] = []
    for item, found in zip(asked, wanted, strict=True):
        if isinstance(found, Refused):
            offers.append(item.fail(found))
            continue

        own = [next(outcomes) for _ in found.targets]
        if found.oldest is not None:
            offers.append(_offer_days(item, found, own))
            continue

        (outcome,) = own
        if isinstance(outcome, Exception):
            offers.append(item.fail(outcome))
            continue

        offer = item.begin_offer(outcome.version)
        position = str(outcome.target.day or outcome.target.origin)
        offer.leaves.append(_build_content_leaf(item, outcome, position))
        offers.append(offer)

    return offers


def _name_targets(item: items.AskedItem, today: date) -> _Wanted:
    """Return the targets that an item names. Raises Refused."""
    fields = item.fields
    if isinstance(fields, MemoryItem):
        target: JsonObject = {"type": "stored", "key": fields.memory}
        # The cursor names the namespace, because another one may have such a key later.
        if item.cursor.position:
            target["from"] = item.cursor.position
        return _Wanted([_resume(target, item)])

    assert isinstance(fields, NoteItem)
    if fields.note == "long_term":
        return _Wanted([_resume({"type": "long_term"}, item)])

    days = _LAST_DAYS.fullmatch(fields.note)
    if days is not None:
        return _name_days(item, today, int(days[1]))

    if fields.note not in ("today", "yesterday") and parse_day(fields.note) is None:
        rule = {"format": NOTE_FORM}
        meant = _suggest_note(fields.note)
        raise Refused("invalid_format", "note", expected=rule, did_you_mean=meant)

    return _Wanted([_resume({"type": "short_term", "date": fields.note}, item)])


def _suggest_note(text: str) -> str | None:
    """Return the note that a text probably means: a day in another form, or one of the words.

    >>> _suggest_note("24.12.2025")
    '2025-12-24'
    """
    for form in _DAY_FORMS:
        try:
            return datetime.strptime(text.strip(), form).date().isoformat()
        except ValueError:
            continue

    return suggest_value(text.replace(" ", "_"), ("long_term", "today", "yesterday"))


def _resume(target: JsonObject, item: items.AskedItem) -> JsonObject:
    """Return a target from the place where its item continues."""
    # The day is part of the cursor, because "today" changes at midnight.
    if item.cursor.position and target["type"] != "stored":
        target["date"] = item.cursor.position
    if item.cursor.resume:
        target["resume"] = item.cursor.resume

    return target


def _name_days(item: items.AskedItem, today: date, count: int) -> _Wanted:
    """Return the targets of the last days, the newest first. Raises Refused."""
    if not 1 <= count <= MAX_NOTE_DAYS:
        raise Refused("invalid_format", "note", expected={"format": NOTE_FORM})

    newest, oldest = today, today - timedelta(days=count - 1)
    resume, position = item.cursor.resume, item.cursor.position
    skipped = 0
    if position:
        first, _, last = position.partition(":")
        begin, end = parse_day(first), parse_day(last)
        if begin is None or end is None:
            raise items.invalid_cursor()

        oldest, newest = begin, end
        if not resume:
            skipped = 1  # that day was read to its end

    number = min((newest - oldest).days + 1, MAX_NOTE_DAYS)
    days = [newest - timedelta(days=ago) for ago in range(skipped, number)]
    targets: list[JsonObject] = [{"type": "short_term", "date": str(day)} for day in days]
    if resume and targets:
        targets[0]["resume"] = resume

    return _Wanted(targets, oldest)


def _offer_days(
    item: items.AskedItem, wanted: _Wanted, outcomes: Sequence[MemoryText | Exception]
) -> items.ItemOffer:
    """Return the offer of a range of days: the days that have notes, the newest first."""
    offer = item.begin_offer()
    offer.group = {}
    names: set[str] = set()
    versions: list[str] = []

    for target, outcome in zip(wanted.targets, outcomes, strict=True):
        form = RecordForm({"date": target["date"]}, shape=DAY)
        position = f"{wanted.oldest}:{target['date']}"
        if isinstance(outcome, Refused) and outcome.reason == "memory_file_not_found":
            continue
        if isinstance(outcome, Exception):
            offer.leaves.append(items.Leaf(outcome, 0, position, form))
            continue

        # The settings may name one file for all days of a month.
        filename = outcome.target.filename
        if filename in names:
            continue

        names.add(filename)
        versions += [filename, str(outcome.version)]
        leaf = _build_content_leaf(item, outcome, position)
        leaf.form = form
        offer.leaves.append(leaf)

    offer.version = items.hash_versions(*versions)
    return offer


def name_item(target: JsonObject, today: date) -> JsonObject:
    """Return the item that reads a target of `memory_read_bulk`. Raises Refused.

    >>> name_item({"type": "stored", "key": "project/plan"}, date(2025, 12, 24))
    {'memory': 'project/plan', 'after': 'byte=0/'}
    """
    parsed = parse_target(target, MemoryFiles(), today)
    item: JsonObject = {"note": "long_term"}
    if parsed.key is not None:
        item = {"memory": parsed.key}
    elif parsed.day is not None:
        item = {"note": parsed.day.isoformat()}

    # With a resume point, the item reads one memory, even if its key looks like a pattern.
    return {**item, "after": items.Cursor(parsed.origin, parsed.resume or "byte=0").format()}


def _build_content_leaf(item: items.AskedItem, memory: MemoryText, position: str) -> items.Leaf:
    data = {**memory.to_data(), "version": memory.version}
    continue_at = item.continue_within(position)
    found = FoundItem(data, memory.piece, item.item, continue_at, memory.size_bytes)
    return items.Leaf(found, items.measure_piece(memory.piece), position)


def is_list(item: items.AskedItem) -> bool:
    """Return whether an item requests the memories whose keys begin alike."""
    fields = item.fields
    if not isinstance(fields, MemoryItem) or is_walk(item):
        return False

    return fields.memory.endswith(ANY) and not item.cursor.resume


async def gather_list(item: items.AskedItem, sources: items.BatchSources) -> items.ItemOffer:
    """Return the offer of a list. Raises Refused, as the store does."""
    fields = item.fields
    assert isinstance(fields, MemoryItem)
    prefix = fields.memory.removesuffix(ANY)
    limit, after = items.parse_countdown(item.cursor.position, DEFAULT_LISTED_MEMORIES)

    # One more shows whether more follow.
    listing = sources.memory.reader.list_memories(prefix, after, limit + 1, archived=False)
    lines = await sources.wait(listing)

    versions: list[str] = []
    leaves: list[items.Leaf] = []
    for place, line in enumerate(lines[:limit], start=1):
        source: JsonObject | Refused
        if isinstance(line, DamagedMemory):
            versions.append(f"{line.key} ")
            source = Refused(cast(Reason, line.reason))
        else:
            versions.append(f"{line.key} {line.version}")
            source = describe_line(line)
            del source["key"]

        position = items.count_down(limit - place, line.key)
        form = RecordForm({"key": line.key}, shape=LISTED_MEMORY)
        leaves.append(items.Leaf(source, 0, position, form))

    offer = item.begin_offer(items.hash_versions(*versions))
    offer.leaves = leaves
    offer.group = {}
    if len(lines) > limit:
        last = lines[limit - 1].key if limit else after
        offer.group["more"] = item.go_on(items.Cursor(items.count_down(None, last)))

    return offer


def is_walk(item: items.AskedItem) -> bool:
    """Return whether an item requests a memory and, through its links, others."""
    fields = item.fields
    if not isinstance(fields, MemoryItem):
        return False

    return any(limit is not None for limit in (fields.depth, fields.breadth, fields.total))


async def gather_walk(item: items.AskedItem, sources: items.BatchSources) -> items.ItemOffer:
    """Return the offer of a walk: the memory at its start, and the others by their rank.

    Raises Refused: memories_changed, and the refusals of the store.
    """
    fields = item.fields
    assert isinstance(fields, MemoryItem)
    limits = WalkLimits(
        fields.depth or DEFAULT_DEPTH,
        fields.breadth or DEFAULT_BREADTH,
        fields.total or DEFAULT_TOTAL,
    )
    result = await sources.wait(sources.memory.walk(fields.memory, limits))
    outcome = result.outcome
    entries = list(zip(outcome.steps, result.memories, strict=True))
    entries.sort(key=lambda entry: find_rank(entry[0]), reverse=True)

    versions: list[str] = []
    for step, memory in entries:
        version = "" if isinstance(memory, Exception) else str(memory.row.version)
        versions += [step.key, version]

    version = items.hash_versions(*versions)
    offer = item.begin_offer(version)
    frontier = [candidate.key for candidate in outcome.frontier]
    offer.group = drop_empty({"limitsReached": list(outcome.cut_by), "frontier": frontier})

    part = items.parse_place(item.cursor)
    part.check(version)
    for place, (step, memory) in enumerate(entries[part.begin :], part.begin):
        position = items.format_place(place, version)
        form = RecordForm({"key": step.key}, describe_step(step, "out"), MEMORY)
        error = memory if isinstance(memory, Exception) else None
        leaf = items.Leaf(error or {}, 0, position, form)
        if not isinstance(memory, Exception):
            data = to_memory_data(memory, key=False, version=True)
            data["metadata"] = {"memory_score": memory.row.score}
            _add_part(leaf, item, memory, data, item.cursor.find_range(position))
        offer.leaves.append(leaf)

    return offer


def _add_part(
    leaf: items.Leaf, item: items.AskedItem, memory: StoredMemory, data: JsonObject, part: Range
) -> None:
    """Add a part of a memory to its leaf, or the refusal of that part."""
    content = memory.row.content
    try:
        piece = slice_text(content, part, len(content))
    except Refused as error:
        leaf.source = error
        return

    data = {**data, "content": ""}
    continue_at = item.continue_within(leaf.position)
    leaf.source = FoundItem(data, piece, item.item, continue_at, len(content.encode()))
    leaf.size = items.measure_piece(piece)


async def gather_recall(item: items.AskedItem, sources: items.BatchSources) -> items.ItemOffer:
    """Return the offer of a question. Raises Refused: memories_changed, those of the store."""
    fields = item.fields
    assert isinstance(fields, RecallItem)
    arguments = RecallInput(queries=[fields.recall])

    begin, end, _ = part = items.parse_place(item.cursor)
    result = await sources.wait(sources.memory.recall(arguments, [begin], ANSWER_BYTES))
    ranking = result.rankings[0]
    ranking_hash = hash_ranking(ranking)
    part.check(ranking_hash)

    overview = await sources.wait(build_overview(sources.memory, arguments, result, OVERVIEW_BYTES))
    chosen = _choose_entries(ranking.entries[begin:end], result)
    stop = begin + len(chosen) if end is None else end

    # The same entries may be shown with other contents: a ranking alone is no version.
    versions = [ranking_hash]
    for _, source in chosen:
        if isinstance(source, Exception):
            versions.append("")
        elif isinstance(source, NotePart):
            versions.append(source.content)
        else:
            versions.append(str(source.memory.row.version))
    versions.append(json_bytes(overview).decode())

    offer = item.begin_offer(items.hash_versions(*versions))
    offer.group = {"matched": len(ranking.entries), **recall_answers.describe_ranking(ranking)}
    if overview:
        offer.group["overview"] = overview
    if 0 < stop < len(ranking.entries):
        offer.group["more"] = item.go_on(items.Cursor(items.format_place(stop - 1, ranking_hash)))

    for place, (entry, source) in enumerate(chosen, begin):
        position = items.format_place(place, ranking_hash, stop)
        reasons = recall_answers.explain_entry(ranking, entry, is_full=True)
        if isinstance(source, NotePart):
            offer.leaves.append(_build_note_leaf(source, reasons, position))
            continue

        form = RecordForm({"key": entry.name}, reasons, RECALLED)
        error = source if isinstance(source, Exception) else None
        leaf = items.Leaf(error or {}, 0, position, form)
        if isinstance(source, recall_answers.Passage):
            _add_passage(leaf, item, source)
        offer.leaves.append(leaf)

    return offer


def _choose_entries(
    entries: Sequence[RankedEntry], result: RecallResult
) -> list[tuple[RankedEntry, recall_answers.Source]]:
    """Return the first entries that fit into an answer, with their sources; at least one."""
    chosen: list[tuple[RankedEntry, recall_answers.Source]] = []
    room = ANSWER_BYTES

    for entry in entries:
        source = recall_answers.find_source(entry, result)
        if source is None:
            break

        if isinstance(source, NotePart):
            room -= len(source.content.encode())
        elif not isinstance(source, Exception):
            room -= count_bytes(source.memory)
        if room < 0 and chosen:
            break
        chosen.append((entry, source))

    return chosen


def _add_passage(leaf: items.Leaf, item: items.AskedItem, passage: recall_answers.Passage) -> None:
    row = passage.memory.row
    data: JsonObject = {
        "content": "",
        "date": row.updated_at[:_DAY_CHARS],
        "version": row.version,
        **describe_replacement(passage.memory),
    }
    requested = item.cursor.find_range(leaf.position)
    if requested.is_whole and len(passage.content) < len(row.content):
        start = passage.section.start
        first = len(row.content[:start].encode())
        requested = Range(start=first, end=first + len(passage.content.encode()))
        if start:
            data["starts_at"] = start

    _add_part(leaf, item, passage.memory, data, requested)


def _build_note_leaf(part: NotePart, reasons: JsonObject, position: str) -> items.Leaf:
    """Return the leaf of a part of a note, which continues as the note itself."""
    leading = drop_empty({"filename": part.target.filename, "heading": part.heading})

    # It is cut only if there is room for less than a thousand characters.
    note = "long_term" if part.target.day is None else part.day
    resume = part.piece.resume(part.piece.find_cut(part.section.start))
    next_item: JsonObject = {"note": note}
    if part.section.start:
        next_item["after"] = items.Cursor("", resume).format()

    def continue_at(point: str) -> Item:
        return next_item

    content = part.content
    piece = Piece(content, total_chars=len(content))
    data: JsonObject = {"content": "", "date": part.day}
    found = FoundItem(data, piece, next_item, continue_at, len(content.encode()))
    form = RecordForm(leading, reasons, RECALLED)
    return items.Leaf(found, found.size_bytes, position, form, atomic=True)
