"""The answer of `recall`: as many memories as fit into its size as it is sent, best first.

The questions take turns: the best memory of each, then the second of each, and so on. All memories
are whole, except the first one without room, which is cut there and names the place to read on.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from abilities.declarations.limits import MAX_RECALL_TOKENS, TOKEN_BYTES
from abilities.declarations.recall import RecallInput
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import JsonObject, json_bytes, json_size, text_size
from abilities.helpers.memory.notes import NotePart
from abilities.helpers.memory.recalling import RecallResult, format_cursor, hash_ranking
from abilities.helpers.memory.records import to_memory_data
from abilities.helpers.reply.budget import MIN_SHARE
from abilities.helpers.reply.formats import Format, render
from abilities.helpers.search.passages import LONGEST_PASSAGE, Section, split_sections
from abilities.helpers.search.ranking import SCORE_ONE, RankedEntry
from abilities.helpers.search.terms import Language, split_question, weigh_text
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.text.pieces import Piece

INPUT_CHARS = 80
"""Characters of a question that its record repeats."""

MAX_LEFT_OUT = 10
"""Entries that a record names as left out."""

LEFT_OUT_SHARE = 8
"""The names of left out entries get an eighth of the answer at most."""

MAX_ALSO = 3
"""Memories under another question that a record names, because they answer this one too."""

MAX_UNKNOWN_WORDS = 10
"""Unknown words that a record names."""

MAX_UNKNOWN_CHARS = 40
"""Characters of an unknown word that a record names."""

_PROPERTIES = ("type", "summary", "category", "tags", "importance")
_DAY_CHARS = len("YYYY-MM-DD")

_REGION_CHARS, _AROUND_CHARS = 5_000, 1_000
"""Characters of the region of a long content that is searched for a passage, and around it."""


class Passage(NamedTuple):
    """The part of a long content that answers a question best."""

    memory: StoredMemory
    section: Section

    def find_cut(self, chars: int) -> int:
        """Return where to cut the passage to keep ``chars`` characters at most."""
        piece = Piece(self.memory.row.content)
        return piece.find_cut(self.section.start + chars) - self.section.start


Source = StoredMemory | Passage | NotePart | Exception
"""The source of an entry's content, or the error of one that cannot be read."""


class RecallBound(NamedTuple):
    """The most bytes of an answer in each of some formats.

    ``may_rise`` is whether the answer may take up to ``ceiling`` bytes if it could hold nothing
    otherwise; if not, it is refused with the size that it needs.
    """

    max_bytes: int
    ceiling: int
    may_rise: bool
    formats: Sequence[Format]

    def measure(self, answer: JsonObject) -> int:
        """Return the size of an answer in the format in which it is largest."""
        return max(text_size(render(answer, name)) for name in self.formats)

    def allows(self, answer: JsonObject) -> bool:
        """Return whether an answer is small enough."""
        # An answer sent as TOON keeps the bound of all other answers as JSON.
        if "toon" in self.formats and json_size(answer) > self.ceiling:
            return False

        return self.measure(answer) <= self.max_bytes


class _Item(NamedTuple):
    """An entry that answers the question with this index."""

    question: int
    entry: RankedEntry
    source: Source


def build_recall_answer(
    arguments: RecallInput, result: RecallResult, starts: Sequence[int], bound: RecallBound
) -> JsonObject:
    """Return the answer: one record per question, and the request for the rest, if there is any.

    It has the content of at least one memory, if there is one. Raises Refused: out_of_range if
    ``max_tokens`` has no room for that, response_too_large if no answer has.
    """
    items = list(_take_turns(result, starts))
    draft = _Draft(arguments, result, starts, bound, items)

    count = draft.count_whole()
    if count == len(items):
        return draft.assemble(count)

    return draft.add_cut(count)


def _take_turns(result: RecallResult, starts: Sequence[int]) -> Iterator[_Item]:
    """Yield the loaded entries of all questions in turns."""
    longest = max(len(ranking.entries) for ranking in result.rankings)

    for turn in range(longest):
        for question, ranking in enumerate(result.rankings):
            place = starts[question] + turn
            if place >= len(ranking.entries):
                continue

            entry = ranking.entries[place]
            source = find_source(entry, result)
            if source is None:
                return
            yield _Item(question, entry, source)


def find_source(entry: RankedEntry, result: RecallResult) -> Source | None:
    """Return the source of an entry's content as it is shown; None if it was not loaded."""
    if entry.is_note:
        return result.parts[entry.name]

    memory = result.memories.get(entry.name)
    if isinstance(memory, StoredMemory):
        return choose_passage(memory, entry, result.language)

    return memory


def choose_passage(
    memory: StoredMemory, entry: RankedEntry, language: Language
) -> StoredMemory | Passage:
    """Return the passage of a long content with the words of a question; a short one unchanged.

    Of equally good passages, the first is chosen; so it is if only links led to the memory.
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
    """Return the region of a content that has the most of some terms, with the text around it.

    Only the region is divided and weighed, because a content of 200,000 characters takes long.
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


class _Draft:
    """An answer, until it is known how many of the items fit."""

    def __init__(
        self,
        arguments: RecallInput,
        result: RecallResult,
        starts: Sequence[int],
        bound: RecallBound,
        items: Sequence[_Item],
    ) -> None:
        self._arguments = arguments
        self._result = result
        self._starts = starts
        self._bound = bound
        self._items = items
        self._is_full = arguments.detail == "full"
        self._records = [_build_record(item, self._is_full) for item in items]
        self._hashes = [hash_ranking(ranking) for ranking in result.rankings]

    def count_whole(self) -> int:
        """Return how many items, from the front, fit whole."""
        count = len(self._items)
        if self._fits_whole(count):
            return count

        return _find_largest(count - 1, self._fits_whole)

    def add_cut(self, count: int) -> JsonObject:
        """Return the answer with the first items whole, and as much of the next one as fits.

        Raises Refused if nothing fits.
        """
        source = self._items[count].source
        size = len(self._records[count].get("content", ""))

        chars = _find_largest(size, partial(self._fits_cut, count))
        chars = _find_cut(source, chars)
        is_worth_it = chars >= MIN_SHARE or not count
        if chars and is_worth_it and self._fits_cut(count, chars):
            return self._cut(count, chars)

        if count:
            return self.assemble(count)

        # Not even a part of the best memory fits: the answer needs more room than it may take.
        least = self._cut(count, _find_cut(source, min(size, MIN_SHARE)))
        needed = self._bound.measure(least)
        if needed > self._bound.ceiling:
            raise Refused("response_too_large")

        if not self._bound.may_rise:
            rule = {"minimum": -(-needed // TOKEN_BYTES), "maximum": MAX_RECALL_TOKENS}
            raise Refused("out_of_range", "max_tokens", expected=rule)

        return least

    def assemble(self, count: int, cut: JsonObject | None = None) -> JsonObject:
        """Return the answer with the first items whole; ``cut`` is the record of the next one."""
        records = self._records[:count]
        if cut is not None:
            records.append(cut)

        shown: list[list[JsonObject]] = [[] for _ in self._starts]
        for item, record in zip(self._items, records, strict=False):
            shown[item.question].append(record)

        ends = [start + len(own) for start, own in zip(self._starts, shown, strict=True)]
        results: list[JsonObject] = []
        for question, own in enumerate(shown):
            results.append(self._build_result(question, own, ends[question]))

        answer: JsonObject = {"results": results}
        if self._is_full:
            answer["summary"] = {
                "requested": len(results),
                "succeeded": len(results),
                "failed": 0,
                "truncated": sum("next" in record for record in records),
                "returned_chars": sum(len(record.get("content", "")) for record in records),
            }

        # All questions are asked again, because each ranking omits the entries of the others.
        rankings = self._result.rankings
        if any(end < len(one.entries) for end, one in zip(ends, rankings, strict=True)):
            cursors = list(map(format_cursor, ends, self._hashes))
            answer["next_request"] = {**self._arguments.explicit_arguments(), "after": cursors}

        return answer

    def _cut(self, count: int, chars: int) -> JsonObject:
        """Return the answer with the first items whole, and ``chars`` characters of the next."""
        return self.assemble(count, _build_record(self._items[count], self._is_full, chars))

    def _fits_whole(self, count: int) -> bool:
        return self._bound.allows(self.assemble(count))

    def _fits_cut(self, count: int, chars: int) -> bool:
        return self._bound.allows(self._cut(count, chars))

    def _build_result(self, question: int, own: list[JsonObject], end: int) -> JsonObject:
        """Return the record of a question; its ranking is shown up to a place."""
        ranking = self._result.rankings[question]
        matched = len(ranking.entries) + len(ranking.also)
        data: JsonObject = {"memories": own, "matched": matched}

        if ranking.also:
            data["also"] = list(ranking.also[:MAX_ALSO])

        unknown = [word[:MAX_UNKNOWN_CHARS] for word in ranking.unknown_words[:MAX_UNKNOWN_WORDS]]
        if unknown:
            data["unknown_words"] = unknown
        if self._result.overview and not question:
            data["overview"] = list(self._result.overview)

        text = self._arguments.queries[question][:INPUT_CHARS]
        if not self._is_full:
            return {"input": text, **data}

        room = self._bound.max_bytes // (LEFT_OUT_SHARE * len(self._starts))
        left_out: list[JsonObject] = []
        for entry in ranking.entries[end : end + MAX_LEFT_OUT]:
            described: JsonObject = {"key": entry.name}
            if entry.is_note:
                described = {"filename": self._result.parts[entry.name].target.filename}
            described["score"] = format_score(entry.score)

            room -= json_size(described) + 1
            if room < 0:
                break
            left_out.append(described)

        if left_out:
            data["left_out"] = left_out

        return {"input": text, "success": True, "data": data}


def _find_largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that fits, given that all smaller ones fit too.

    If none fits, return 0.
    """
    least = 0

    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1

    return least


def _find_cut(source: Source, chars: int) -> int:
    """Return where to cut a content to keep ``chars`` characters at most, but at least one.

    Of an error, or if ``chars`` is 0, nothing is kept.
    """
    if isinstance(source, Exception) or not chars:
        return 0
    if isinstance(source, NotePart | Passage):
        return max(source.find_cut(chars), 1)

    return Piece(source.row.content).find_cut(chars)


def _build_record(item: _Item, is_full: bool, chars: int | None = None) -> JsonObject:
    """Return the record of an item, with ``chars`` characters of its content, or with all."""
    entry, source = item.entry, item.source
    if isinstance(source, NotePart):
        return _build_note(source, entry, is_full, chars)

    record: JsonObject
    if isinstance(source, Exception):
        fault = Fault.from_exception(source)
        record = {"key": entry.name, **explain_entry(entry, is_full)}
        if is_full:
            return {**record, "error": fault.to_payload()}
        return {**record, "reason": fault.reason}

    memory = source.memory if isinstance(source, Passage) else source
    row = memory.row
    start, end = 0, len(row.content)
    if isinstance(source, Passage):
        start, end, _ = source.section

    is_cut = chars is not None and start + chars < end
    if chars is not None:
        end = min(end, start + chars)
    record = {
        "key": row.key,
        "content": row.content[start:end],
        "date": row.updated_at[:_DAY_CHARS],
        **explain_entry(entry, is_full),
    }
    if row.archived:
        record["archived"] = True
    if start:
        record["starts_at"] = start

    # After a whole passage, mere space is not worth a request.
    if is_cut or row.content[end:].strip():
        resume = Piece(row.content).resume(end)
        target = {"type": "stored", "key": row.key, "resume": resume}
        record["next"] = format_target(target, is_full)

    if is_full:
        data = to_memory_data(memory)
        record |= {name: data[name] for name in _PROPERTIES if name in data}

    return record


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
    """Return a target of `memory_read_bulk`; concise records, which are flat, have its JSON.

    >>> format_target({"type": "long_term"}, is_full=False)
    '{"type":"long_term"}'
    """
    if is_full:
        return target

    return json_bytes(target).decode()


def explain_entry(entry: RankedEntry, is_full: bool) -> JsonObject:
    """Return the reasons for an entry's place in the ranking."""
    reasons: JsonObject = {"score": format_score(entry.score)}
    if is_full:
        reasons["own_score"] = format_score(entry.own)
    if is_full and entry.words:
        reasons["words"] = list(entry.words)
    if entry.via is not None:
        reasons["via"] = entry.via

    return reasons


def format_score(score: int) -> float:
    """Return a score with two decimals, rounded half up.

    >>> format_score(SCORE_ONE // 4)
    0.25
    """
    return (200 * score + SCORE_ONE) // (2 * SCORE_ONE) / 100
