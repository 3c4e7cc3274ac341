"""The conversation of ``recall``, without I/O: it requests parts of an index and is sent them.

It ranks the memories of one namespace for several questions at once. Order and scores depend only
on the memories, and so are the same with every store.
"""

import heapq
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar

from abilities.helpers.search import ranking
from abilities.helpers.search.meaning import Near, Similarity
from abilities.helpers.search.passages import MAX_PART_CHARS
from abilities.helpers.search.postings import BLOCK_DOCS, POSTING_BYTES, block_of, decode, look_up
from abilities.helpers.search.selection import MOST_SELECTED, BlockPostings, Selected, select_best
from abilities.helpers.search.terms import (
    Language,
    MemoryTexts,
    QuestionWord,
    find_phrases,
    list_names,
    weigh_passages,
)

Postings = Mapping[str, Mapping[int, bytes]]
"""The postings of terms, by their blocks."""

MOST_DATED = 64
"""The number of best entries of which, of equal scores as they are shown, the newer come first."""

MOST_WITH_PHRASES = 10
"""The number of best hits in which phrases of the question are looked for."""

LONGEST_WITH_PHRASES = 5_000
"""The most characters of a content in which they are looked for."""

_ANY_LENGTH = 2**31 - 1

FEW_MATCHING = 16_384
"""If no more memories than this pass the filters, only these are scored."""

MOST_ALIKE = 6
"""The most memories to compare with a content, which is among them."""

MOST_RARE = 16
"""The most words of a content, the rarest, by which others like it are looked for."""

MOST_RARE_POSTINGS = 512
"""The most postings of these words in the sample that is counted."""

LEAST_RARE = 3
"""The words that are looked for even if they have more postings."""

Phrases = Mapping[str, tuple[int, ...]]
"""The phrases in memories or notes, by their names and the places of the first words."""

Question = tuple[QuestionWord, ...]
"""A question as its terms, from `split_question`."""

T = TypeVar("T")

Columns = tuple[Any, ...]
"""The fields of a `RankedEntry`."""

ColumnsT = TypeVar("ColumnsT", bound=tuple[Any, ...])

_NAME, _IS_NOTE, _SCORE, _OWN = map(
    ranking.RankedEntry._fields.index, ("name", "is_note", "score", "own")
)


class QuestionIndex:
    """The part of an index that one question needs: the blocks with its terms, by their places.

    The place of a term is its position in the question. ``size`` is the number of memories that are
    not archived. These and the archived ones are two sides, each with separate blocks; the idf of a
    term depends on the first side only.
    """

    def __init__(
        self, question: Sequence[QuestionWord], size: int, sides: Sequence[Postings]
    ) -> None:
        self._question = question
        self._names: dict[int, list[bytes]] = defaultdict(list)
        for name in list_names(question):
            for side in sides:
                for block, docs in side.get(name, {}).items():
                    self._names[block].append(docs)
        self._places = {word.term: place for place, word in enumerate(question)}
        self._sides: list[Mapping[int, Mapping[int, bytes]]] = []
        self.blocks: list[BlockPostings] = []
        for side in sides:
            blocks: dict[int, dict[int, bytes]] = defaultdict(dict)
            for term, place in self._places.items():
                for block, docs in side.get(term, {}).items():
                    blocks[block][place] = docs

            self._sides.append(blocks)
            self.blocks += [BlockPostings(block, docs) for block, docs in blocks.items()]

        self.idfs: list[int] = []
        for word in question:
            postings = sides[0].get(word.term, {}).values()
            count = sum(map(len, postings)) // POSTING_BYTES
            self.idfs.append(ranking.compute_idf(size, count))

        self._decoded: dict[int, list[tuple[int, array[int]]]] = {}

    def is_named(self, doc: int) -> bool:
        """Return whether a memory's content begins with a name in the question."""
        lists = self._names.get(block_of(doc), ())
        return any(look_up(decode(docs), doc) for docs in lists)

    def find_weights(self, doc: int) -> dict[int, int]:
        """Return the weights of the terms that a memory contains, by their places."""
        block = block_of(doc)
        decoded = self._decoded.get(block)
        if decoded is None:
            decoded = self._decoded[block] = []
            for side in self._sides:
                for place, docs in side.get(block, {}).items():
                    decoded.append((place, decode(docs)))

        weights: dict[int, int] = {}
        for place, values in decoded:
            weight = look_up(values, doc)
            if weight:
                weights[place] = weight

        return weights

    def find_weights_in(self, terms: Mapping[str, int]) -> dict[int, int]:
        """Return the weights of the terms that a text contains by their places, given all terms."""
        return {
            place: terms[word.term]
            for place, word in enumerate(self._question)
            if word.term in terms
        }

    def explain(self, weights: Mapping[int, int]) -> tuple[ranking.WordShare, ...]:
        """Return what each term gives to a score, given the weights by the terms' places."""
        return tuple(
            ranking.WordShare(*word, weights.get(place, 0), self.idfs[place])
            for place, word in enumerate(self._question)
        )

    def score(self, weights: Mapping[int, int]) -> int:
        """Return the score of weights by the terms' places; 0 without any."""
        if not weights:
            return 0

        total = sum(self.list_points(weights).values())
        return ranking.compute_score(total, len(weights), len(self._question))

    def list_points(self, weights: Mapping[int, int]) -> dict[int, int]:
        """Return the points of weights by the terms' places."""
        return {place: weight * self.idfs[place] for place, weight in weights.items()}

    def may_have_phrases(self, places: Collection[int]) -> bool:
        """Return whether a memory with the terms at these places may contain a phrase."""
        return any(place + 1 in places for place in places)

    def find_phrases(self, text: str, language: Language) -> tuple[int, ...]:
        """Return the places of the first words of the phrases that a text contains."""
        return tuple(find_phrases(text, self._question, language))

    def list_unknown(self, texts: Iterable[Mapping[str, int]]) -> list[QuestionWord]:
        """Return the terms of words without any term in a memory or in one of these texts."""
        held = {place for _, docs in self.blocks for place in docs}
        for terms in texts:
            held.update(self.find_weights_in(terms))

        known = set(self.list_words(held))
        return [word for word in self._question if word.word not in known]

    def list_words(self, places: Iterable[int]) -> tuple[str, ...]:
        """Return the words at these places, as they were asked and each once."""
        return _name_words(self._question[place] for place in sorted(places))


def _name_words(words: Iterable[QuestionWord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.word for word in words))


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on the memories that may be found; None and an empty tuple allow all.

    An empty category means memories without one. A memory must have all ``tags``. ``archived``
    includes archived memories. Memories must be updated at or after ``changed_since``, an RFC 3339
    time in the format of memories. With ``as_of``, a day in UTC, they must be created by its end;
    archived memories that were replaced after that day are included too. They must be about the
    file with the path ``about``; a store puts the ``ids`` of these in place of it.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    about: str | None = None
    ids: tuple[str, ...] | None = None
    category: str | None = None
    importance: str | None = None
    archived: bool = False
    changed_since: str | None = None
    as_of: str | None = None

    @property
    def reach_archived(self) -> bool:
        """Whether any archived memory may be found."""
        return self.archived or self.as_of is not None

    @property
    def pass_all(self) -> bool:
        """Whether every memory of the searched sides passes."""
        return self == Filters(archived=self.archived)

    @property
    def reach_notes(self) -> bool:
        """Whether notes may be found, which have no property but a day."""
        return replace(self, changed_since=None).pass_all


class NoteChunk(Protocol):
    """A chunk of a note."""

    @property
    def name(self) -> str:
        """A unique name."""
        ...

    @property
    def terms(self) -> Mapping[str, int]:
        """The weights of the terms."""
        ...

    @property
    def content(self) -> str:
        """The text."""
        ...


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """The questions, the filters, and the distance to linked memories in links (0, 1 or 2).

    Entries below ``at_least`` thousandths of the best score are left out. If it is None, none is;
    but a question whose best answer deserves no confidence has no answer at all. If the answers
    of several ``namespaces`` become one, each ranks its part of the most memories, and follows the
    links of its part.

    ``similarities``, one per question, let the questions be answered by meaning too. ``explained``
    is the key of a memory that the rankings can explain, even if it is not in them.

    ``language`` is that of the questions and of the index.
    """

    questions: tuple[Question, ...]
    filters: Filters = field(default_factory=Filters)
    hops: int = 2
    notes: tuple[NoteChunk, ...] = ()
    at_least: int | None = None
    namespaces: int = 1
    similarities: tuple[Similarity, ...] = ()
    explained: str | None = None
    language: Language = field(default_factory=Language)

    @property
    def most(self) -> int:
        """The most memories that words find."""
        return MOST_SELECTED // self.namespaces


class FetchBlocks(NamedTuple):
    """A request for the postings of these terms; answered with `IndexBlocks`."""

    terms: tuple[str, ...]
    archived: bool


class FetchDoc(NamedTuple):
    """A request for the number of a memory; answered with a list of it, empty without one."""

    key: str


class FetchMatching(NamedTuple):
    """A request for the numbers of all memories that pass the filters; answered with a set.

    The answer is None if there are more than ``limit``.
    """

    filters: Filters
    limit: int


class FetchPassing(NamedTuple):
    """A request for the memories among these that pass the filters; answered with a set."""

    filters: Filters
    docs: tuple[int, ...]


class FetchKeys(NamedTuple):
    """A request for the keys of these memories, and the times of their last changes.

    It is answered with a mapping to `KeyAndTime`, of those that exist.
    """

    docs: tuple[int, ...]


class FetchTimes(NamedTuple):
    """A request for the times of the last changes of those memories that pass the filters.

    It is answered with a mapping from key to time in RFC 3339.
    """

    filters: Filters
    keys: tuple[str, ...]


class KeyAndTime(NamedTuple):
    """A memory's key, and the time of its last change in RFC 3339."""

    key: str
    updated_at: str


class FetchLinks(NamedTuple):
    """A request for the links of these memories; answered with a mapping from key to `Links`.

    For each memory, these are its 10 best outgoing links, by rank, weight and key, and all incoming
    links if there are at most 64. A link counts only if the memory at its other end exists, is not
    archived (unless the filters reach archived ones) and passes the filters.
    """

    filters: Filters
    keys: tuple[str, ...]


class FetchTexts(NamedTuple):
    """A request for the texts of memories whose contents have ``least`` to ``most`` characters.

    It is answered with a mapping from key to `MemoryTexts`, of those of these memories.
    """

    keys: tuple[str, ...]
    least: int
    most: int


Fetch = (
    FetchBlocks
    | FetchDoc
    | FetchMatching
    | FetchPassing
    | FetchKeys
    | FetchTimes
    | FetchLinks
    | FetchTexts
)


class IndexBlocks(NamedTuple):
    """The postings of some terms.

    ``size`` is the number of memories that are not archived. ``archived_blocks`` are the postings
    of archived memories, if they were requested.
    """

    size: int
    blocks: Postings
    archived_blocks: Postings


Conversation = Generator[Fetch, Any, T]
"""Yields requests, is sent their answers, and returns a result."""


def rank(request: RecallRequest) -> Conversation[tuple[ranking.Ranking, ...]]:
    """Rank the answers to each question; an entry is only in the ranking with its best place.

    If places are equal, it is in the ranking of the earlier question.
    """
    filters = request.filters
    terms = {word.term: None for question in request.questions for word in question}
    for question in request.questions:
        terms |= dict.fromkeys(list_names(question))
    index: IndexBlocks = yield FetchBlocks(tuple(terms), filters.reach_archived)

    allowed: Collection[int] | None = None
    if not filters.pass_all:
        allowed = yield FetchMatching(filters, FEW_MATCHING)

    searches: list[QuestionIndex] = []
    hits: list[list[Selected]] = []
    for question in request.questions:
        search = QuestionIndex(question, index.size, (index.blocks, index.archived_blocks))
        searches.append(search)
        hits.append((yield from _select(search, request, allowed)))

    docs = {doc: None for selected in hits for doc, _ in selected}
    found: Mapping[int, KeyAndTime] = {}
    if docs:
        found = yield FetchKeys(tuple(docs))

    own: list[list[ranking.RankedEntry]] = []
    points: list[ranking.Hits] = []
    for search, selected in zip(searches, hits, strict=True):
        present = [(-score, found[doc].key, doc) for doc, score in selected if doc in found]
        best = heapq.nsmallest(request.most, present)  # of equal scores, the first by key
        entries: list[ranking.RankedEntry] = []
        by_word: dict[str, Mapping[int, int]] = {}
        for fall, key, doc in best:
            weights = search.find_weights(doc)
            words = search.list_words(weights)
            entries.append(ranking.RankedEntry(key, False, -fall, -fall, None, words))
            by_word[key] = search.list_points(weights)
        own.append(entries)
        points.append(by_word)

    phrases, read = yield from _find_phrases(searches, own, points, request)
    for number, in_hits in enumerate(phrases):
        own[number] = _add_phrases(own[number], points[number], in_hits)
        points[number] = {hit.name: points[number][hit.name] for hit in own[number]}

    spreadings = yield from _spread_all(points, request)
    times = dict(found.values())
    near: list[Near] = []
    for similarity in request.similarities:
        memories = yield from _select_similar(similarity, filters, times)
        near.append(Near(memories, similarity))

    numbers = {one.key: doc for doc, one in found.items()}
    failing: tuple[str, ...] = ()
    if request.explained is not None:
        for doc in (yield FetchDoc(request.explained)):
            numbers[request.explained] = doc
            failing = yield from _find_failing(filters, doc)

    unknown = [search.list_unknown(note.terms for note in request.notes) for search in searches]
    in_archive: Postings = {}
    if any(unknown) and not filters.reach_archived:
        absent = dict.fromkeys(word.term for words in unknown for word in words)
        hidden: IndexBlocks = yield FetchBlocks(tuple(absent), archived=True)
        in_archive = hidden.archived_blocks

    explainers: list[_Explainer] = []
    for search, hit, held, spreading in zip(searches, own, phrases, spreadings, strict=True):
        explainer = _Explainer(search, hit, held, spreading, numbers, request, failing)
        explainers.append(explainer)

    judged = [one[_NAME] for each in explainers for one in each.best if not one[_IS_NOTE]]
    texts = {key: each for key, each in read.items() if len(each.content) > MAX_PART_CHARS}
    unread = tuple(dict.fromkeys(key for key in judged if key not in read))
    if unread:
        texts |= yield FetchTexts(unread, MAX_PART_CHARS + 1, _ANY_LENGTH)

    rankings: list[ranking.Ranking] = []
    for number, explainer in enumerate(explainers):
        confidence = explainer.judge(texts, request.language)
        if near:
            confidence = explainer.add_similar(near[number], confidence)

        ranked = list(explainer.uncut.columns)
        if request.at_least is not None:
            least = request.at_least
            ranked = [one for one in ranked if 1_000 * one[_SCORE] >= least * ranked[0][_SCORE]]
        elif confidence == "none":
            ranked = []

        shown = ranking.Entries(_put_newer_first(ranked, times))
        missing = unknown[number]
        archived = _name_words(word for word in missing if in_archive.get(word.term))
        unknown_words = _name_words(word for word in missing if word.word not in archived)
        rankings.append(ranking.Ranking(shown, unknown_words, (), confidence, archived, explainer))

    return ranking.keep_once(rankings)


def choose_rare(terms: Iterable[str], counts: Mapping[str, int]) -> list[str]:
    """Return the rarest terms of a content, given their counts in a sample of the memories."""
    chosen: list[str] = []
    room = MOST_RARE_POSTINGS
    for term in heapq.nsmallest(MOST_RARE, terms, key=lambda term: counts.get(term, 0)):
        room -= counts.get(term, 0)
        if room < 0 and len(chosen) >= LEAST_RARE:
            break
        chosen.append(term)

    return chosen


def find_sharing(terms: Iterable[str], postings: Postings, size: int) -> list[int]:
    """Return the numbers of the memories with two or more of some terms, the best first.

    ``size`` is the number of memories, and ``postings`` are those of the terms.
    """
    holders: list[set[int]] = []
    once: set[int] = set()
    several: set[int] = set()
    for term in terms:
        docs: set[int] = set()
        for block, values in postings[term].items():
            first = block * BLOCK_DOCS
            docs.update([first + (value >> 6) for value in decode(values)])
        holders.append(docs)
        several |= once & docs
        once |= docs

    scores: Counter[int] = Counter()
    for docs in holders:
        idf = ranking.compute_idf(size, len(docs))
        for doc in docs & several:
            scores[doc] += idf

    best = heapq.nsmallest(MOST_ALIKE, [(-score, doc) for doc, score in scores.items()])
    return [doc for _, doc in best]


class _Spreading(NamedTuple):
    """What the hits of a question give to other memories, and the ways on which they give it."""

    hits: ranking.Hits
    ways: ranking.Ways
    relays: Collection[str]
    gifts: ranking.Gifts


class _Explainer:
    """Ranks the memories and notes for one question, and explains their places."""

    def __init__(
        self,
        search: QuestionIndex,
        hits: Sequence[ranking.RankedEntry],
        phrases: Phrases,
        spreading: _Spreading,
        numbers: Mapping[str, int],
        request: RecallRequest,
        failing: Sequence[str],
    ) -> None:
        self._search = search
        self._phrases = phrases
        self._spreading = spreading
        self._numbers = numbers
        self._notes = {note.name: note.terms for note in request.notes}
        self._own = {entry.name: entry.own for entry in hits}
        self._named = {entry.name for entry in hits if search.is_named(numbers[entry.name])}
        self._by_words: Sequence[Columns] | None = None
        self.failing = failing

        merged = _merge(hits, spreading.gifts, self._named)
        notes, self._in_notes = _score_notes(search, request)
        self.uncut = ranking.Entries(_sort(merged + notes))

    @property
    def best(self) -> Sequence[Columns]:
        """The entries that are judged."""
        return self.uncut.columns[: ranking.MOST_JUDGED]

    def judge(self, texts: Mapping[str, MemoryTexts], language: Language) -> ranking.Confidence:
        """Return the confidence in the best entries by words, given the texts of long memories.

        Of a long memory, the words of one passage count, because all together have most words.
        """
        idfs = self._search.idfs
        best = ranking.Match((), named=False)
        for columns in self.best:
            name, is_note = columns[_NAME], columns[_IS_NOTE]
            found = [self._find_weights(name, is_note=is_note)]
            if not is_note and name in texts:
                passages = weigh_passages(texts[name], language)
                found = list(map(self._search.find_weights_in, passages))

            named = not is_note and name in self._named
            matches = [best, *(ranking.Match(weights, named) for weights in found)]
            best = max(matches, key=partial(ranking.sum_worths, idfs))

        return ranking.judge(idfs, best, [columns[_SCORE] for columns in self.best])

    def add_similar(self, near: Near, confidence: ranking.Confidence) -> ranking.Confidence:
        """Add what similarity adds to the scores; return the confidence in the best entry."""
        self._by_words = self.uncut.columns
        self.uncut = ranking.Entries(_sort(near.add_to(self._by_words, confidence)))
        if confidence == "none" and near.is_about:
            return "weak"

        return confidence

    def explain(self, name: str, *, is_note: bool = False) -> ranking.Explanation:
        """Explain the score of an entry, or of the explained memory of the request."""
        weights = self._find_weights(name, is_note=is_note)
        words, by_words = self._search.explain(weights), self._search.score(weights)
        phrases = (self._in_notes if is_note else self._phrases).get(name, ())
        by_meaning = self._added.get((name, is_note), 0)
        points = self._search.list_points(weights)
        own = by_words + ranking.score_phrases(points, phrases)
        received = 0
        if not is_note:
            own, received = self._own.get(name, 0), self._spreading.gifts.points.get(name, 0)

        is_named = not is_note and name in self._named
        return ranking.Explanation(words, by_words, phrases, own, received, is_named, by_meaning)

    def find_gift(self, key: str) -> ranking.Gift | None:
        """Return what a memory gets over links; None if that is nothing."""
        hits, ways, relays, gifts = self._spreading
        if key not in gifts.givers:
            return None

        giver = gifts.givers[key]
        places = tuple(sorted(set(hits[giver]).difference(hits.get(key, ()))))
        way = ranking.find_way(giver, key, ways, relays)
        return ranking.Gift(giver, gifts.points[key], places, way)

    @cached_property
    def _added(self) -> dict[tuple[str, bool], int]:
        """What similarity adds to the score of each entry."""
        if self._by_words is None:
            return {}

        added = {(one[_NAME], one[_IS_NOTE]): one[_SCORE] for one in self.uncut.columns}
        for one in self._by_words:
            added[one[_NAME], one[_IS_NOTE]] -= one[_SCORE]
        return added

    def _find_weights(self, name: str, *, is_note: bool) -> Mapping[int, int]:
        """Return the weights of an entry's terms; none of a memory that only links led to."""
        if is_note:
            return self._search.find_weights_in(self._notes[name])
        if name not in self._numbers:
            return {}

        return self._search.find_weights(self._numbers[name])


def _find_failing(filters: Filters, doc: int) -> Conversation[tuple[str, ...]]:
    """Return the names of the filters that a memory does not pass, each tried alone."""
    no_filter = Filters(archived=True)
    failing: list[str] = []

    for each in fields(filters):
        alone = replace(no_filter, **{each.name: getattr(filters, each.name)})
        if alone != no_filter:
            passing: Collection[int] = yield FetchPassing(alone, (doc,))
            if doc not in passing:
                failing.append(each.name)

    return tuple(failing)


def _select_similar(
    similarity: Similarity, filters: Filters, times: dict[str, str]
) -> Conversation[dict[str, int]]:
    """Return the most similar memories that pass the filters, and add the times of their changes.

    They are as many as a question has hits, if the similarity names so many.
    """
    near: dict[str, int] = {}
    start, size = 0, 2 * MOST_SELECTED
    while len(near) < MOST_SELECTED and start < len(similarity.memories):
        batch = dict(similarity.memories[start : start + size])
        passing: Mapping[str, str] = yield FetchTimes(filters, tuple(batch))
        times |= passing

        near |= {key: value for key, value in batch.items() if key in passing}
        start, size = start + size, 4 * size

    return dict(list(near.items())[:MOST_SELECTED])


def _select(
    search: QuestionIndex, request: RecallRequest, allowed: Collection[int] | None
) -> Conversation[list[Selected]]:
    """Return the best memories that pass the filters, and others that tie with the last of them."""
    filters = request.filters
    if allowed is not None or filters.pass_all:
        return select_best(search.blocks, search.idfs, request.most, allowed)

    most = 4 * request.most
    while True:
        selected = select_best(search.blocks, search.idfs, most)
        docs = tuple(doc for doc, _ in selected)
        passing: Collection[int] = yield FetchPassing(filters, docs)

        hits = [(doc, score) for doc, score in selected if doc in passing]
        if len(hits) >= request.most or len(selected) < most:
            return hits

        most *= 4


def _score_notes(search: QuestionIndex, request: RecallRequest) -> tuple[list[Columns], Phrases]:
    """Return the best notes that contain words of the question, and the phrases in them."""
    entries: list[Columns] = []
    notes: dict[str, NoteChunk] = {}

    for note in request.notes:
        weights = search.find_weights_in(note.terms)
        if weights:
            score, words = search.score(weights), search.list_words(weights)
            entries.append((note.name, True, score, score, None, words))
            notes[note.name] = note

    entries = _sort(entries)[:MOST_SELECTED]
    best = [ranking.RankedEntry(*one) for one in entries[:MOST_WITH_PHRASES]]
    points: dict[str, Mapping[int, int]] = {}
    phrases: dict[str, tuple[int, ...]] = {}
    for entry in best:
        note = notes[entry.name]
        points[note.name] = search.list_points(search.find_weights_in(note.terms))
        if search.may_have_phrases(points[note.name]):
            phrases[note.name] = search.find_phrases(note.content, request.language)

    return _sort([*_add_phrases(best, points, phrases), *entries[MOST_WITH_PHRASES:]]), phrases


def _find_phrases(
    searches: Sequence[QuestionIndex],
    hits: Sequence[Sequence[ranking.RankedEntry]],
    points: Sequence[ranking.Hits],
    request: RecallRequest,
) -> Conversation[tuple[list[Phrases], Mapping[str, MemoryTexts]]]:
    """Return the phrases of each question in the best of its hits, and the texts of these."""
    most = MOST_WITH_PHRASES // request.namespaces
    wanted: list[list[str]] = []
    for search, found, held in zip(searches, hits, points, strict=True):
        best = [hit.name for hit in found[:most]]
        wanted.append([key for key in best if search.may_have_phrases(held[key])])

    texts: Mapping[str, MemoryTexts] = {}
    keys = tuple(dict.fromkeys(key for each in wanted for key in each))
    if keys:
        texts = yield FetchTexts(keys, 0, LONGEST_WITH_PHRASES)

    phrases: list[Phrases] = []
    for search, each in zip(searches, wanted, strict=True):
        in_texts: dict[str, tuple[int, ...]] = {}
        for key in each:
            if key in texts:
                in_texts[key] = search.find_phrases(texts[key].content, request.language)
        phrases.append(in_texts)

    return phrases, texts


def _add_phrases(
    hits: Iterable[ranking.RankedEntry], points: ranking.Hits, phrases: Phrases
) -> list[ranking.RankedEntry]:
    """Return hits with the points that phrases add, best first."""
    raised: list[ranking.RankedEntry] = []
    for hit in hits:
        held = phrases.get(hit.name)
        if held:
            more = ranking.score_phrases(points[hit.name], held)
            hit = hit._replace(score=hit.score + more, own=hit.own + more)
        raised.append(hit)

    return _sort(raised)


def _spread_all(
    hits: Sequence[ranking.Hits], request: RecallRequest
) -> Conversation[list[_Spreading]]:
    """Return what each question's seeds, the best of its hits, give to other memories."""
    ways: dict[str, list[ranking.Steps]] = {}
    most = ranking.SEEDS // request.namespaces
    seeds = [list(one)[:most] for one in hits]
    relays: list[Collection[str]] = [()] * len(seeds)

    if request.hops >= 1:
        yield from _fetch_ways(ways, request, (name for one in seeds for name in one))
    if request.hops == 2:
        most = ranking.MOST_RELAYS // request.namespaces
        relays = [
            ranking.choose_relays(found, best, ways, most)
            for found, best in zip(hits, seeds, strict=True)
        ]
        yield from _fetch_ways(ways, request, (name for one in relays for name in sorted(one)))

    return [
        _Spreading(found, ways, through, ranking.spread(found, best, ways, through))
        for found, best, through in zip(hits, seeds, relays, strict=True)
    ]


def _fetch_ways(
    ways: dict[str, list[ranking.Steps]], request: RecallRequest, keys: Iterable[str]
) -> Conversation[None]:
    """Add the steps from memories whose steps are not known yet."""
    wanted = tuple(dict.fromkeys(key for key in keys if key not in ways))
    if not wanted:
        return

    fetched: Mapping[str, ranking.Links] = yield FetchLinks(request.filters, wanted)
    for key in wanted:
        ways[key] = ranking.find_steps(key, fetched.get(key, ranking.Links()))


def _merge(
    hits: Sequence[ranking.RankedEntry], gifts: ranking.Gifts, named: Collection[str]
) -> list[Columns]:
    """Return the hits with what links give to them, and the memories that only links lead to.

    The scores of the ``named`` ones are raised.
    """
    merged: list[Columns] = []
    rest = dict(gifts.points)

    for entry in hits:
        tenths = ranking.NAMED_TENTHS if entry.name in named else 10
        score = (entry.own + rest.pop(entry.name, 0)) * tenths // 10
        merged.append(tuple(entry._replace(score=score, own=entry.own * tenths // 10)))

    for key, score in rest.items():
        merged.append((key, False, score, 0, gifts.givers[key], ()))

    return merged


def _put_newer_first(ranked: list[Columns], dates: Mapping[str, str]) -> list[Columns]:
    """Return a ranking in which, of equal scores as they are shown, the newer ones come first.

    Notes, and memories that only links lead to, have no date.
    """
    best = ranked[:MOST_DATED]
    best.sort(
        key=lambda one: dates[one[_NAME]] if one[_OWN] and not one[_IS_NOTE] else "", reverse=True
    )
    best.sort(key=lambda one: ranking.round_score(one[_SCORE]), reverse=True)
    return best + ranked[MOST_DATED:]


def _sort(entries: Iterable[ColumnsT]) -> list[ColumnsT]:
    """Return entries by falling score and then by name; a memory is before a note of its name."""
    # Three stable sorts by plain values are faster than one sort by tuples.
    ranked = sorted(entries, key=itemgetter(_IS_NOTE))
    ranked.sort(key=itemgetter(_NAME))
    ranked.sort(key=itemgetter(_SCORE), reverse=True)
    return ranked
