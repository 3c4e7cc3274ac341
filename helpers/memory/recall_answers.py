"""The answer of `recall`: as many memories as fit into its size as it is sent, best first.

The questions take turns: the best memory of each, then the second of each, and so on. A memory that
does not fit is cut to its sentences with the most words of the question, as many as fit, and names
the places of these and where to read it whole.

Why a memory is where it is in an answer, or why it is not in it, is told on its own.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from abilities.declarations.limits import MAX_RECALL_TOKENS, TOKEN_BYTES
from abilities.declarations.memory import USUAL_LINK_TYPE
from abilities.declarations.recall import RecallInput
from abilities.declarations.refusals import Fault, Refused
from abilities.declarations.values import (
    JsonObject,
    drop_empty,
    json_bytes,
    json_size,
    utc_now,
)
from abilities.helpers.memory.recalling import RecallResult, format_cursor, hash_ranking
from abilities.helpers.memory.records import describe_replacement, name_target, to_memory_data
from abilities.helpers.memory.targets import NotePart
from abilities.helpers.reply.budget import MIN_SHARE
from abilities.helpers.reply.formats import Format, measure_largest
from abilities.helpers.search import passages
from abilities.helpers.search.ranking import (
    IDF_ONE,
    NAMED_TENTHS,
    SCORE_ONE,
    Explainer,
    Explanation,
    Gift,
    RankedEntry,
    Ranking,
    WayLink,
    WordShare,
    compute_score,
    round_score,
)
from abilities.helpers.search.terms import Language, QuestionWord, split_question, weigh_text
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.text import Piece, back_off

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

ELLIPSIS = " … "
"""Stands between the parts of a content that is not shown whole."""

_RAREST = 1_000
"""The weight of a word that only one sentence contains."""

_PROPERTIES = ("type", "summary", "category", "tags", "about", "importance")
_DAY_CHARS = len("YYYY-MM-DD")

_LONGEST_WHOLE = 5_000
"""The most characters of a content that is shown as a whole if there is room, not as a passage."""

_REGION_CHARS, _AROUND_CHARS = 5_000, 1_000
"""Characters of the region of a long content that is searched for a passage, and around it."""


class Passage(NamedTuple):
    """The part of a memory's content that answers a question best: all of a short one."""

    memory: StoredMemory
    section: passages.Section

    @property
    def content(self) -> str:
        """The text of the part."""
        return self.memory.row.content[self.section.start : self.section.end]

    def build_next(self, chars: int) -> JsonObject | None:
        """Return the target that reads on after ``chars`` characters; None at the memory's end."""
        whole = self.memory.row.content
        end = self.section.start + chars
        # After a whole passage, mere space is not worth a request; after a part of one, it is.
        if end == self.section.end and not whole[end:].strip():
            return None

        target = name_target(self.memory)
        if end:
            target["resume"] = Piece(whole).resume(end)
        return target


Source = Passage | NotePart | Exception
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

    def allows(self, answer: JsonObject) -> bool:
        """Return whether an answer is small enough."""
        # An answer sent as TOON keeps the bound of all other answers as JSON.
        if "toon" in self.formats and json_size(answer) > self.ceiling:
            return False

        return measure_largest(answer, self.formats) <= self.max_bytes


class _Item(NamedTuple):
    """An entry that answers the question with this index; ``ranking`` is the question's."""

    question: int
    ranking: Ranking
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
    return _Draft(arguments, result, starts, bound, items).fill()


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
            yield _Item(question, ranking, entry, source)


def find_source(entry: RankedEntry, result: RecallResult) -> Source | None:
    """Return the source of an entry's content as it is shown; None if it was not loaded."""
    if entry.is_note:
        return result.parts[entry.name]

    memory = result.find_memory(entry)
    if isinstance(memory, StoredMemory):
        return choose_passage(memory, entry, result.language)

    return memory


def choose_passage(memory: StoredMemory, entry: RankedEntry, language: Language) -> Passage:
    """Return the passage of a content with the words of a question; a short one is a passage.

    Of equally good passages, the first is chosen; so it is if only links led to the memory.
    """
    content = memory.row.content
    if len(content) <= _LONGEST_WHOLE:
        return Passage(memory, passages.Section(0, len(content), ()))

    wanted = {word.term for word in _split_words(entry, language)}
    start, end = _find_region(content, wanted)
    sections = passages.split_sections(content[start:end]) or [passages.Section(0, end - start, ())]
    best, most = sections[0], 0
    for section in sections:
        weights = weigh_text(content[start + section.start : start + section.end], language)
        weight = sum(weights.get(term, 0) for term in wanted)
        if weight > most:
            best, most = section, weight

    return Passage(memory, passages.Section(start + best.start, start + best.end, best.headings))


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

    def fill(self) -> JsonObject:
        """Return the answer with the first items whole, and the best sentences of the next one.

        Raises Refused if nothing fits.
        """
        count = len(self._items)
        if self._fits(self._records):
            return self.assemble(self._records)

        count = _find_largest(count - 1, lambda first: self._fits(self._records[:first]))
        records = self._records[:count]
        item = self._items[count]
        sentences = _rank_sentences(item, self._result.language)

        def build(chosen: int) -> JsonObject:
            return _build_record(item, self._is_full, sorted(sentences[:chosen]))

        chosen = _find_largest(len(sentences), lambda most: self._fits([*records, build(most)]))
        if chosen:
            records.append(build(chosen))
        elif not records:
            records.append(self._cut_shortest(item, sentences))

        return self.assemble(records)

    def _cut_shortest(self, item: _Item, sentences: Sequence[passages.Span]) -> JsonObject:
        """Return the record of the only item with a part of its best sentence.

        Raises Refused if not even a short part fits.
        """
        text = _get_text(item.source)
        start, end_of_sentence = sentences[0] if sentences else passages.Span(0, len(text))

        def build(chars: int) -> JsonObject:
            end = max(back_off(text[start:], chars), 1)
            return _build_record(item, self._is_full, [passages.Span(start, start + end)])

        size = end_of_sentence - start
        chars = _find_largest(size, lambda count: self._fits([build(count)]))
        if chars:
            return build(chars)

        # The answer needs more room than it may take.
        least = build(min(size, MIN_SHARE))
        needed = measure_largest(self.assemble([least]), self._bound.formats)
        if needed > self._bound.ceiling:
            raise Refused("response_too_large")

        if not self._bound.may_rise:
            rule = {"minimum": -(-needed // TOKEN_BYTES), "maximum": MAX_RECALL_TOKENS}
            raise Refused("out_of_range", "max_tokens", expected=rule)

        return least

    def assemble(self, records: Sequence[JsonObject]) -> JsonObject:
        """Return the answer with the records of the first items."""
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

    def _fits(self, records: Sequence[JsonObject]) -> bool:
        return self._bound.allows(self.assemble(records))

    def _build_result(self, question: int, own: list[JsonObject], end: int) -> JsonObject:
        """Return the record of a question; its ranking is shown up to a place."""
        ranking = self._result.rankings[question]
        matched = len(ranking.entries) + len(ranking.also)
        data: JsonObject = {"memories": own, "matched": matched, **describe_ranking(ranking)}

        days = next(iter(self._result.within_days[question:]), None)
        overview = () if question else self._result.overview
        data |= drop_empty(
            {
                "also": list(ranking.also[:MAX_ALSO]),
                "did_you_mean": drop_empty({"within_days": days}),
                "overview": list(overview),
            }
        )

        text = self._arguments.queries[question][:INPUT_CHARS]
        if not self._is_full:
            return {"input": text, **data}

        room = self._bound.max_bytes // (LEFT_OUT_SHARE * len(self._starts))
        left_out: list[JsonObject] = []
        for entry in ranking.entries[end : end + MAX_LEFT_OUT]:
            described: JsonObject = {"key": entry.name}
            if entry.is_note:
                described = {"filename": self._result.parts[entry.name].target.filename}
            if entry.origin:
                described["from"] = entry.origin
            described["score"] = format_score(entry.score)

            room -= json_size(described) + 1
            if room < 0:
                break
            left_out.append(described)

        if left_out:
            data["left_out"] = left_out

        return {"input": text, "success": True, "data": data}


def _find_largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that fits, as all smaller ones do; 0 if none."""
    return bisect_left(range(1, most + 1), True, key=lambda number: not fits(number))


def _get_text(source: Source) -> str:
    """Return the text of a source as it is shown whole; none of an error."""
    return "" if isinstance(source, Exception) else source.content


def _rank_sentences(item: _Item, language: Language) -> list[passages.Span]:
    """Return the sentences of an item's text, best first: those with words of its question.

    A word counts more if few sentences contain it, and half for the sentences before and after,
    which often continue the thought.
    """
    text = _get_text(item.source)
    sentences = passages.split_sentences(text)
    wanted = {word.term for word in _split_words(item.entry, language)}
    held = [wanted & weigh_text(text[start:end], language).keys() for start, end in sentences]
    holders = Counter(term for terms in held for term in terms)

    own = [0, *(sum(_RAREST // holders[term] for term in terms) for terms in held), 0]
    weights: dict[passages.Span, int] = {}
    for place, sentence in enumerate(sentences, 1):
        weights[sentence] = own[place - 1] + 2 * own[place] + own[place + 1]

    return sorted(weights, key=weights.__getitem__, reverse=True)


def _split_words(entry: RankedEntry, language: Language) -> Iterator[QuestionWord]:
    """Yield the terms of an entry's words of the question."""
    for words in entry.words:
        yield from split_question(words, language)


def _build_record(
    item: _Item, is_full: bool, sentences: Sequence[passages.Span] | None = None
) -> JsonObject:
    """Return the record of an item, with some of its sentences, or with its whole text."""
    source = item.source
    reasons = explain_entry(item.ranking, item.entry, is_full)
    if isinstance(source, Exception):
        fault = Fault.from_exception(source)
        failure = {"error": fault.to_payload()} if is_full else {"reason": fault.reason}
        return {"key": item.entry.name, **reasons, **failure}

    text = source.content
    parts = [passages.Span(0, len(text))] if sentences is None else _join_neighbors(text, sentences)
    content = ELLIPSIS.join(text[start:end] for start, end in parts)

    record: JsonObject
    if isinstance(source, NotePart):
        names = drop_empty({"filename": source.target.filename, "heading": source.heading})
        record = {**names, "content": content, "date": source.day, **reasons}
    else:
        row = source.memory.row
        record = {"key": row.key, "content": content, "date": row.updated_at[:_DAY_CHARS]}
        record |= {**reasons, **describe_replacement(source.memory)}

    offset = source.section.start
    is_beginning = len(parts) == 1 and parts[0].start == 0
    if not is_beginning or (offset and isinstance(source, Passage)):
        places = [offset + start for start, _ in parts]
        record["starts_at"] = places if len(places) > 1 else places[0]

    # What was cut at its end goes on there, anything else at its beginning.
    following = source.build_next(parts[0].end if is_beginning else 0)
    if following is not None:
        record["next"] = format_target(following, is_full)

    if is_full and isinstance(source, Passage):
        data = to_memory_data(source.memory)
        record |= {name: data[name] for name in _PROPERTIES if name in data}

    return record


def _join_neighbors(text: str, sentences: Sequence[passages.Span]) -> list[passages.Span]:
    """Return the parts of a text that sentences make, given in order; neighbors are one part."""
    parts: list[passages.Span] = []
    end = 0

    for sentence in sentences:
        if text[end : sentence.start].strip():
            parts.append(sentence)
        else:
            begin = parts.pop().start if parts else end
            parts.append(passages.Span(begin, sentence.end))
        end = sentence.end

    return parts


def format_target(target: JsonObject, is_full: bool) -> JsonObject | str:
    """Return a target of `memory_read_bulk`; concise records, which are flat, have its JSON.

    >>> format_target({"type": "long_term"}, is_full=False)
    '{"type":"long_term"}'
    """
    if is_full:
        return target

    return json_bytes(target).decode()


def describe_ranking(ranking: Ranking) -> JsonObject:
    """Return the confidence of a ranking, and the words that it says nothing about."""
    described: JsonObject = {"confidence": ranking.confidence}
    absent = {"unknown_words": ranking.unknown_words, "archived_words": ranking.archived_words}
    for name, words in absent.items():
        if words:
            described[name] = [word[:MAX_UNKNOWN_CHARS] for word in words[:MAX_UNKNOWN_WORDS]]

    return described


def explain_entry(ranking: Ranking, entry: RankedEntry, is_full: bool) -> JsonObject:
    """Return the reasons for an entry's place in a ranking, and its namespace.

    ``link`` and ``direction`` are of a single link between ``via`` and the memory, as in a walk.
    """
    reasons: JsonObject = {"score": format_score(entry.score)}
    if is_full:
        reasons["own_score"] = format_score(entry.own)
    reasons |= drop_empty({"via": entry.via, "from": entry.origin})
    explainer = ranking.find_explainer(entry)
    if explainer is None:
        return reasons

    gets = entry.via is not None
    if is_full:
        explained = explainer.explain(entry.name, is_note=entry.is_note)
        gets = explained.received > 0
        if entry.words:
            reasons["words"] = sum_points(explained.words)
        if explained.is_named:
            reasons["named"] = True

    gift = explainer.find_gift(entry.name) if gets else None
    if gift is not None:
        reasons["via"] = gift.giver
        first, *more = gift.way
        if not more and first.kind != USUAL_LINK_TYPE:
            reasons["link"] = first.kind
            if first.is_incoming:
                reasons["direction"] = "in"

    return reasons


def sum_points(shares: Sequence[WordShare]) -> dict[str, float]:
    """Return the points of the words that a memory contains; a word may have several terms."""
    points: Counter[str] = Counter()
    for share in shares:
        points[share.word] += share.points

    return {word: format_score(total) for word, total in points.items() if total}


def format_score(score: int) -> float:
    """Return a score with two decimals, rounded half up."""
    return round_score(score) / 100


def explain_place(
    key: str, memory: StoredMemory | Exception, arguments: RecallInput, result: RecallResult
) -> JsonObject:
    """Return the place and the score of a memory in the answer to a question, or the reason.

    The record has ``place``, ``of`` and ``score``, or else a ``reason``:

    - "archived", "expired", or "filters" (the names of those that it does not pass),
    - "confidence", with what the ``best`` memory lacks, or "at_least", with the score that is
      ``needed``; for both, also with the ``score`` that it has,
    - "below_best" if 256 memories have better words, or "no_match".

    Points and scores are in the units of `recall`. The points of ``words`` times their ``factor``
    are ``by_words``. ``phrases`` add three quarters of the points of their words, and ``links`` the
    points of words that the memory lacks; ``named`` multiplies the sum. What the similarity of its
    meaning gives, ``by_meaning``, is added last.
    """
    (ranking,) = result.rankings
    explainer = ranking.explainer
    assert explainer is not None, "every store ranks by the same conversation"

    record: JsonObject = {"key": key, "question": arguments.queries[0]}
    place = _find_place(ranking.entries, key)
    if place is not None:
        score = ranking.entries[place].score
        record |= {"place": place + 1, "of": len(ranking.entries), "score": format_score(score)}
    else:
        record |= _explain_absence(key, memory, arguments, explainer)

    record |= describe_ranking(ranking)
    if "archived" in explainer.failing:
        return record  # the words of archived memories were not asked for

    explained = explainer.explain(key)
    record["words"] = list(map(_describe_word, explained.words))
    record |= _describe_parts(explained, explainer.find_gift(key))
    return record


def _find_place(entries: Sequence[RankedEntry], key: str) -> int | None:
    for place, entry in enumerate(entries):
        if entry.name == key and not entry.is_note:
            return place

    return None


def _explain_absence(
    key: str, memory: StoredMemory | Exception, arguments: RecallInput, explainer: Explainer
) -> JsonObject:
    """Return the reason that keeps a memory out of a ranking."""
    if "archived" in explainer.failing:
        expires_at = memory.row.expires_at if isinstance(memory, StoredMemory) else ""
        return {"reason": "expired" if "" < expires_at <= utc_now() else "archived"}
    if explainer.failing:
        # That of the day is the only filter whose argument has another name.
        names = [name.replace("changed_since", "within_days") for name in explainer.failing]
        return {"reason": "filters", "filters": names}

    place = _find_place(explainer.uncut, key)
    if place is None:
        has_words = explainer.explain(key).by_words > 0
        return {"reason": "below_best" if has_words else "no_match"}

    best, entry = explainer.uncut[0], explainer.uncut[place]
    score: JsonObject = {"score": format_score(entry.score)}
    if arguments.at_least is not None:
        needed = format_score(round(arguments.at_least * best.score))
        return {"reason": "at_least", **score, "needed": needed}

    words = dict.fromkeys(share.word for share in explainer.explain(key).words)
    lacking = [word for word in words if word not in best.words]
    named = "filename" if best.is_note else "key"
    return {"reason": "confidence", **score, "best": {named: best.name, "lacks": lacking}}


def _describe_word(share: WordShare) -> JsonObject:
    return {
        "word": share.word,
        "term": share.term,
        "weight": share.weight,
        "idf": round(share.idf / IDF_ONE, 2),
        "points": _format_points(share.points),
    }


def _describe_parts(explained: Explanation, gift: Gift | None) -> JsonObject:
    matched = sum(share.weight > 0 for share in explained.words)
    parts: JsonObject = {}
    if matched:
        factor = compute_score(SCORE_ONE, matched, len(explained.words)) / SCORE_ONE
        parts = {"factor": round(factor, 2), "by_words": _format_points(explained.by_words)}

    if explained.phrases:
        pairs = [(explained.words[n].word, explained.words[n + 1].word) for n in explained.phrases]
        points = _format_points(explained.by_phrases)
        parts["phrases"] = {"words": list(map(" ".join, pairs)), "points": points}
    if gift is not None:
        words = dict.fromkeys(explained.words[place].word for place in gift.places)
        parts["links"] = {
            "from": gift.giver,
            "words": list(words),
            "points": _format_points(gift.points),
            "way": list(map(_describe_link, gift.way)),
        }
    if explained.is_named:
        parts["named"] = NAMED_TENTHS / 10
    if explained.by_meaning:
        parts["by_meaning"] = _format_points(explained.by_meaning)

    return parts


def _describe_link(link: WayLink) -> JsonObject:
    step: JsonObject = {"key": link.key, "link_weight": link.weight}
    if link.kind != USUAL_LINK_TYPE:
        step["type"] = link.kind
    if link.is_incoming:
        step["direction"] = "in"

    return step


def _format_points(points: int) -> float:
    """Return points with four decimals, so that they add up to a score of two."""
    return round(points / SCORE_ONE, 4)
