"""The conversation of ``recall``, sans-IO: it asks for parts of an index, and is sent them.

It ranks the memories of one namespace for several questions at once. Whatever store answers, the
order and the scores are the same, since they depend on the memories alone.

The part of an index that one question needs.
"""

import heapq
from array import array
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from abilities.helpers.search.postings import POSTING_BYTES, block_of, decode, look_up
from abilities.helpers.search.ranking import (
    Entries,
    RankedEntry,
    Ranking,
    compute_idf,
    compute_score,
    keep_once,
)
from abilities.helpers.search.selection import MOST_SELECTED, BlockPostings, Selected, select_best
from abilities.helpers.search.spreading import (
    SEEDS,
    Gifts,
    Links,
    Steps,
    choose_relays,
    find_steps,
    lift,
    spread,
)
from abilities.helpers.search.terms import QuestionWord

Postings = Mapping[str, Mapping[int, bytes]]
"""The postings of terms, by their blocks."""


class QuestionIndex:
    """The blocks that hold terms of a question, by the places of the terms in it.

    ``size`` is the number of memories that are not archived. They and archived ones are two sides,
    each with blocks of its own; how rare a term is depends on the first side only.
    """

    def __init__(
        self, question: Sequence[QuestionWord], size: int, sides: Sequence[Postings]
    ) -> None:
        self._question = question
        self._places = {word.term: place for place, word in enumerate(question)}
        self._postings, *_ = sides
        self._sides = [self._group_by_block(side) for side in sides]

        self.blocks: list[BlockPostings] = []
        for side in self._sides:
            self.blocks += [BlockPostings(block, docs) for block, docs in side.items()]

        self.idfs = [compute_idf(size, self._count(word.term)) for word in question]
        self._decoded: dict[int, list[tuple[int, array[int]]]] = {}

    def _group_by_block(self, side: Postings) -> dict[int, dict[int, bytes]]:
        blocks: dict[int, dict[int, bytes]] = defaultdict(dict)
        for term, place in self._places.items():
            for block, docs in side.get(term, {}).items():
                blocks[block][place] = docs

        return blocks

    def _count(self, term: str) -> int:
        """Return how many memories that are not archived hold a term."""
        docs = self._postings.get(term, {}).values()
        return sum(map(len, docs)) // POSTING_BYTES

    def find_words(self, doc: int) -> tuple[str, ...]:
        """Return the words of the question that a memory holds."""
        block = block_of(doc)
        if block not in self._decoded:
            self._decoded[block] = self._decode(block)

        places = [place for place, values in self._decoded[block] if look_up(values, doc)]
        return self._list_words(places)

    def _decode(self, block: int) -> list[tuple[int, "array[int]"]]:
        """Return the postings of a block as numbers, by the places of their terms."""
        decoded: list[tuple[int, array[int]]] = []
        for side in self._sides:
            for place, docs in side.get(block, {}).items():
                decoded.append((place, decode(docs)))

        return decoded

    def score_text(self, terms: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
        """Return the score of a text with these terms and weights, and the words that it holds."""
        places = [place for place, word in enumerate(self._question) if word.term in terms]
        if not places:
            return 0, ()

        total = sum(terms[self._question[place].term] * self.idfs[place] for place in places)
        score = compute_score(total, len(places), len(self._question))
        return score, self._list_words(places)

    def list_unknown(self, texts: Iterable[Mapping[str, int]]) -> tuple[str, ...]:
        """Return the words of which neither a memory nor one of these texts holds any term."""
        held = {place for _, docs in self.blocks for place in docs}
        for terms in texts:
            held.update(self._places[term] for term in self._places.keys() & terms.keys())

        known = set(self._list_words(held))
        words = self._list_words(range(len(self._question)))
        return tuple(word for word in words if word not in known)

    def _list_words(self, places: Iterable[int]) -> tuple[str, ...]:
        """Return the words at these places as they were asked, each once."""
        return tuple(dict.fromkeys(self._question[place].word for place in sorted(places)))


FEW_MATCHING = 16_384
"""If filters pass no more memories than this, only these are scored."""

Question = tuple[QuestionWord, ...]
"""A question as its terms, from `split_question`."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which memories may be found; None and an empty tuple allow every one.

    An empty category is that of memories without one. A memory must have all of ``tags``.
    ``archived`` includes archived memories. ``changed_since`` is a time in RFC 3339 as memories
    have it; the memory was updated then or later.
    """

    type: str | None = None
    tags: tuple[str, ...] = ()
    category: str | None = None
    importance: str | None = None
    archived: bool = False
    changed_since: str | None = None

    @property
    def pass_all(self) -> bool:
        """Whether every memory of the sides that are searched passes."""
        values = (self.type, self.category, self.importance, self.changed_since)
        return not self.tags and all(value is None for value in values)


class NoteTerms(NamedTuple):
    """A chunk of a note by a name of its own, and its terms, from `weigh_text`."""

    name: str
    terms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What to rank: the questions, what may be found, and how many links away (0, 1 or 2)."""

    questions: tuple[Question, ...]
    filters: Filters = field(default_factory=Filters)
    hops: int = 2
    notes: tuple[NoteTerms, ...] = ()


class FetchBlocks(NamedTuple):
    """A request for the postings of these terms; answered with `IndexBlocks`."""

    terms: tuple[str, ...]
    archived: bool


class FetchMatching(NamedTuple):
    """A request for the numbers of all memories that pass; answered with a set.

    If there are more than ``limit``, the answer is None.
    """

    filters: Filters
    limit: int


class FetchPassing(NamedTuple):
    """A request to tell which of these memories pass the filters; answered with a set."""

    filters: Filters
    docs: tuple[int, ...]


class FetchKeys(NamedTuple):
    """A request for the keys of these memories; answered with a mapping, without those gone."""

    docs: tuple[int, ...]


class FetchLinks(NamedTuple):
    """A request for the links of these memories; answered with a mapping from key to `Links`.

    For each memory they are its 10 best outgoing links, by rank, weight and key, and all incoming
    ones if at most 64 lead to it. Links count only if the memory at their other end is present, is
    not archived (unless the filters include archived ones) and passes the filters.
    """

    filters: Filters
    keys: tuple[str, ...]


Fetch = FetchBlocks | FetchMatching | FetchPassing | FetchKeys | FetchLinks


class IndexBlocks(NamedTuple):
    """The postings of some terms.

    ``size`` is the number of memories that are not archived. ``archived_blocks`` are the postings
    of archived memories, if they were requested.
    """

    size: int
    blocks: Postings
    archived_blocks: Postings


T = TypeVar("T")

Columns = tuple[Any, ...]
"""The fields of a `RankedEntry`."""

ColumnsT = TypeVar("ColumnsT", bound=tuple[Any, ...])

_NAME, _IS_NOTE, _SCORE = map(RankedEntry._fields.index, ("name", "is_note", "score"))

Conversation = Generator[Fetch, Any, T]
"""Yields requests, is sent their answers, and returns a result."""


def rank(request: RecallRequest) -> Conversation[tuple[Ranking, ...]]:
    """Rank what answers each question; an entry stands in one ranking only, in its best place.

    In case of equal places it stands in the ranking of the earlier question.
    """
    terms = {word.term: None for question in request.questions for word in question}
    index: IndexBlocks = yield FetchBlocks(tuple(terms), request.filters.archived)
    allowed = yield from _find_allowed(request.filters)

    searches: list[QuestionIndex] = []
    hits: list[list[Selected]] = []
    for question in request.questions:
        search = QuestionIndex(question, index.size, (index.blocks, index.archived_blocks))
        searches.append(search)
        hits.append((yield from _select(search, request.filters, allowed)))

    docs = {doc: None for selected in hits for doc, _ in selected}
    keys: Mapping[int, str] = {}
    if docs:
        keys = yield FetchKeys(tuple(docs))

    own: list[list[RankedEntry]] = []
    for search, selected in zip(searches, hits, strict=True):
        own.append(_list_best(search, selected, keys))
    gifts = yield from _spread_all(own, request)

    rankings: list[Ranking] = []
    for search, entries, given in zip(searches, own, gifts, strict=True):
        merged = _merge(entries, given)
        notes = map(tuple, _score_notes(search, request.notes))
        ranked = _sort([*merged, *notes])
        unknown = search.list_unknown(note.terms for note in request.notes)
        rankings.append(Ranking(Entries(ranked), unknown))

    return keep_once(rankings)


def _find_allowed(filters: Filters) -> Conversation[Collection[int] | None]:
    """Return the memories that pass the filters if they are few, else None."""
    if filters.pass_all:
        return None

    matching: Collection[int] | None = yield FetchMatching(filters, FEW_MATCHING)
    return matching


def _select(
    search: QuestionIndex, filters: Filters, allowed: Collection[int] | None
) -> Conversation[list[Selected]]:
    """Return the best memories that pass the filters, with those that tie with the last."""
    if allowed is not None or filters.pass_all:
        return select_best(search.blocks, search.idfs, allowed=allowed)

    most = 4 * MOST_SELECTED
    while True:
        selected = select_best(search.blocks, search.idfs, most)
        docs = tuple(doc for doc, _ in selected)
        passing: Collection[int] = yield FetchPassing(filters, docs)

        hits = [(doc, score) for doc, score in selected if doc in passing]
        if len(hits) >= MOST_SELECTED or len(selected) < most:
            return hits

        most *= 4


def _list_best(
    search: QuestionIndex, selected: Sequence[Selected], keys: Mapping[int, str]
) -> list[RankedEntry]:
    """Return the 256 best of the memories that have keys; of equal ones the first by key."""
    present = [(-score, keys[doc], doc) for doc, score in selected if doc in keys]

    entries: list[RankedEntry] = []
    for fall, key, doc in heapq.nsmallest(MOST_SELECTED, present):
        entries.append(RankedEntry(key, False, -fall, -fall, None, search.find_words(doc)))

    return entries


def _score_notes(search: QuestionIndex, notes: Sequence[NoteTerms]) -> list[RankedEntry]:
    """Return the best notes that hold words of the question."""
    entries: list[RankedEntry] = []

    for note in notes:
        score, words = search.score_text(note.terms)
        if words:
            entries.append(RankedEntry(note.name, True, score, score, None, words))

    return _sort(entries)[:MOST_SELECTED]


def _spread_all(
    own: Sequence[Sequence[RankedEntry]], request: RecallRequest
) -> Conversation[list[Gifts]]:
    """Return what the seeds of each question give to other memories."""
    ways: dict[str, list[Steps]] = {}
    seeds = [[(entry.name, entry.score) for entry in entries[:SEEDS]] for entries in own]
    relays: list[Collection[str]] = [()] * len(seeds)

    if request.hops >= 1:
        yield from _fetch_ways(ways, request, (name for one in seeds for name, _ in one))
    if request.hops == 2:
        relays = [choose_relays(one, ways) for one in seeds]
        yield from _fetch_ways(ways, request, (name for one in relays for name in sorted(one)))

    return [spread(one, ways, through) for one, through in zip(seeds, relays, strict=True)]


def _fetch_ways(
    ways: dict[str, list[Steps]], request: RecallRequest, keys: Iterable[str]
) -> Conversation[None]:
    """Add the steps from memories whose steps are not known."""
    wanted = tuple(dict.fromkeys(key for key in keys if key not in ways))
    if not wanted:
        return

    fetched: Mapping[str, Links] = yield FetchLinks(request.filters, wanted)
    for key in wanted:
        ways[key] = find_steps(key, fetched.get(key, Links()))


def _merge(entries: Sequence[RankedEntry], gifts: Gifts) -> list[Columns]:
    """Return the entries with what they were given, and those that only links led to."""
    merged: list[Columns] = []
    own = {entry.name: entry.own for entry in entries}
    lifted = lift(own, gifts)

    for entry in entries:
        merged.append(tuple(entry._replace(score=lifted.get(entry.name, entry.own))))

    for key, score in lifted.items():
        if key not in own:
            merged.append((key, False, score, 0, gifts.givers[key], ()))

    return merged


def _sort(entries: Iterable[ColumnsT]) -> list[ColumnsT]:
    """Return entries by falling score and then by name, a memory before a note of its name."""
    # Three stable sorts by plain values take less than one by a tuple of them.
    ranked = sorted(entries, key=itemgetter(_IS_NOTE))
    ranked.sort(key=itemgetter(_NAME))
    ranked.sort(key=itemgetter(_SCORE), reverse=True)
    return ranked
