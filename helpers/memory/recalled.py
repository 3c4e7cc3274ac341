"""What answers a question as callers read it: a memory, a part of a note, or why one is missing."""

from collections.abc import Collection
from typing import NamedTuple

from abilities.declarations.faults import Fault
from abilities.declarations.values import JsonObject
from abilities.helpers.memory.notes import NotePart
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.reply.encoding import json_bytes
from abilities.helpers.search.passages import LONGEST_PASSAGE, Section, split_sections
from abilities.helpers.search.ranking import SCORE_ONE
from abilities.helpers.search.rankings import RankedEntry
from abilities.helpers.search.terms import Language, split_question, weigh_text
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.text.pieces import Piece


class Passage(NamedTuple):
    """The part of a long content that answers a question best."""

    memory: StoredMemory
    section: Section

    def find_cut(self, chars: int) -> int:
        """Return where to cut the passage to keep ``chars`` characters at most."""
        piece = Piece(self.memory.row.content)
        return piece.find_cut(self.section.start + chars) - self.section.start


Source = StoredMemory | Passage | NotePart | Exception
"""What stands behind an entry of a ranking; an exception says why it could not be read."""

_PROPERTIES = ("type", "summary", "category", "tags", "importance")

_DAY_CHARS = len("YYYY-MM-DD")

_REGION_CHARS, _AROUND_CHARS = 5_000, 1_000
"""Characters of the part of a long content in which a passage is looked for, and before it."""


def find_content_cut(source: Source, chars: int) -> int:
    """Return where to cut a content to keep ``chars`` characters at most, but never to nothing."""
    if isinstance(source, Exception) or not chars:
        return 0
    if isinstance(source, NotePart | Passage):
        return max(source.find_cut(chars), 1)

    return Piece(source.row.content).find_cut(chars)


def build_recalled(
    entry: RankedEntry, source: Source, *, is_full: bool, chars: int | None = None
) -> JsonObject:
    """Return the record of an entry, with ``chars`` characters of its content, or with all."""
    if isinstance(source, NotePart):
        return _build_note(source, entry, is_full, chars)

    if isinstance(source, Exception):
        return _build_failure(source, entry, is_full)

    if isinstance(source, Passage):
        return _build_memory(source.memory, entry, is_full, chars, source.section)

    section = Section(0, len(source.row.content), ())
    return _build_memory(source, entry, is_full, chars, section)


def choose_passage(
    memory: StoredMemory, entry: RankedEntry, language: Language
) -> StoredMemory | Passage:
    """Return the passage of a long content with the words of a question; a short one as it is.

    Of passages that are as good, the first is chosen; it is also the one if only links led here.
    """
    content = memory.row.content
    if len(content) <= LONGEST_PASSAGE:
        return memory

    wanted = {word.term for text in entry.words for word in split_question(text, language)}
    start, end = _find_region(content, wanted)
    sections = split_sections(content[start:end]) or [Section(0, end - start, ())]
    best, most = sections[0], 0
    for section in sections:
        weights = weigh_text(content[start + section.start : start + section.end], language)
        weight = sum(weights.get(term, 0) for term in wanted)
        if weight > most:
            best, most = section, weight

    return Passage(memory, Section(start + best.start, start + best.end, best.headings))


def _find_region(content: str, wanted: Collection[str]) -> tuple[int, int]:
    """Return the part of a content that has the most of some terms, and what is around it.

    Only that is divided and weighed: for a whole content of 200,000 characters it takes long.
    """
    best, most = 0, 0
    for start in range(0, len(content), _REGION_CHARS):
        # A word may lie across the end of a region, and a stem is the beginning of a word.
        text = content[max(start - _AROUND_CHARS, 0) : start + _REGION_CHARS].casefold()
        count = sum(term in text for term in wanted)
        if count > most:
            best, most = start, count

    begin = max(best - _AROUND_CHARS, 0)
    lines = (max(begin - _AROUND_CHARS, 0), begin)
    begin = content.rfind("\n", *lines) + 1 or content.rfind(" ", *lines) + 1 or begin
    return begin, min(best + _REGION_CHARS + _AROUND_CHARS, len(content))


def _build_memory(
    memory: StoredMemory,
    entry: RankedEntry,
    is_full: bool,
    chars: int | None,
    section: Section,
) -> JsonObject:
    row = memory.row
    start, end, _ = section
    is_cut = chars is not None and start + chars < end
    if chars is not None:
        end = min(end, start + chars)
    content = row.content[start:end]
    record: JsonObject = {
        "key": row.key,
        "content": content,
        "date": row.updated_at[:_DAY_CHARS],
        **explain_entry(entry, is_full),
    }
    if row.archived:
        record["archived"] = True

    if start:
        record["starts_at"] = start
    # What follows a whole passage is worth a request only if it is more than space.
    if is_cut or row.content[end:].strip():
        resume = Piece(row.content).resume(end)
        target = {"type": "stored", "key": row.key, "resume": resume}
        record["next"] = format_target(target, is_full)

    if is_full:
        record |= _describe(memory)

    return record


def _describe(memory: StoredMemory) -> JsonObject:
    """Return the properties that a full record shows."""
    data = to_memory_data(memory)
    return {name: data[name] for name in _PROPERTIES if name in data}


def _build_note(part: NotePart, entry: RankedEntry, is_full: bool, chars: int | None) -> JsonObject:
    content = part.content[:chars]
    record: JsonObject = {"filename": part.target.filename}
    if part.heading:
        record["heading"] = part.heading

    record |= {"content": content, "date": part.day, **explain_entry(entry, is_full)}

    following = part.build_next(len(content))
    if following is not None:
        record["next"] = format_target(following, is_full)

    return record


def format_target(target: JsonObject, is_full: bool) -> JsonObject | str:
    """Return a target as memory_read_bulk takes it; concise records are flat, and hold its JSON."""
    if is_full:
        return target

    return json_bytes(target).decode()


def _build_failure(error: Exception, entry: RankedEntry, is_full: bool) -> JsonObject:
    fault = Fault.from_exception(error)
    record: JsonObject = {"key": entry.name, **explain_entry(entry, is_full)}
    if is_full:
        return {**record, "error": fault.to_payload()}

    return {**record, "reason": fault.reason}


def explain_entry(entry: RankedEntry, is_full: bool) -> JsonObject:
    """Return why an entry is there."""
    reasons: JsonObject = {"score": format_score(entry.score)}
    if is_full:
        reasons["own_score"] = format_score(entry.own)
    if is_full and entry.words:
        reasons["words"] = list(entry.words)
    if entry.via is not None:
        reasons["via"] = entry.via

    return reasons


def format_score(score: int) -> float:
    """Return a score with two decimals, rounded half up."""
    return (200 * score + SCORE_ONE) // (2 * SCORE_ONE) / 100
