"""Scores and rankings: BM25 and spreading activation, in integers, alike for every store.

After Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with
three changes. The average length is a constant, so that a write changes the weights of one memory
only. A memory scores more with each further word of the question that it contains. And words that
are next to each other in the question count more if they are near each other in the memory, after
Metzler and Croft, "A Markov Random Field Model for Term Dependencies", 2005.

Memories that are linked to a hit may also be answers: after Collins and Loftus, "A
Spreading-Activation Theory of Semantic Processing", 1975, and Crestani, "Application of Spreading
Activation Techniques in Information Retrieval", 1997. Activation is bounded in steps and in
fan-out, and falls with each step.
"""

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product, starmap
from typing import Any, Literal, NamedTuple, Protocol, cast, overload

HIGHEST_WEIGHT = 63
"""The limit of a word's weight in a memory, as the word occurs more often."""

IDF_ONE = 1_024
"""The integer for an inverse document frequency of 1."""

SCORE_ONE = HIGHEST_WEIGHT * IDF_ONE
"""The integer for a score of 1."""

LONGEST = 1_000
"""The most words that count as a memory's length."""


def compute_weight(count: int, length: int) -> int:
    """Return the weight, from 1 to 63, of a word with ``count`` occurrences in ``length`` words.

    This is 63·tf / (tf + k1·(1 - b + b·length/60)) with k1 = 1.2 and b = 0.75, rounded half up.

    >>> compute_weight(1, 60)
    29
    """
    numerator = HIGHEST_WEIGHT * 1_000 * count
    denominator = 1_000 * count + 300 + 15 * min(length, LONGEST)

    return max(1, (2 * numerator + denominator) // (2 * denominator))


def compute_idf(size: int, holders: int) -> int:
    """Return the value, at least 1, of a word that ``holders`` of ``size`` memories contain."""
    rarity = math.log(1 + (size - holders + 0.5) / (holders + 0.5))

    return max(1, int(IDF_ONE * rarity + 0.5))


def compute_score(total: int, matched: int, asked: int) -> int:
    """Return the score of a memory with ``matched`` of the ``asked`` words of a question.

    ``total`` is the sum of weight times idf over these words. A memory with all words of a question
    gets 1.5 times the total.
    """
    if asked == 1:
        return total

    steps = 2 * (asked - 1)
    return total * (steps + matched - 1) // steps


def score_phrases(points: Mapping[int, int], phrases: Iterable[int]) -> int:
    """Return what phrases add to a score, given the points of the words by their places.

    A phrase is two neighboring words of a question that are near each other in the memory too.
    Three quarters of the points of both are added.
    """
    total = sum(points.get(place, 0) + points.get(place + 1, 0) for place in phrases)
    return 3 * total // 4


Confidence = Literal["none", "weak", "strong"]
"""How far a question is about what is stored at all."""

_PLAIN_WORTH = 4 * IDF_ONE
"""What a word counts for the confidence, beside its idf: a common word too is a sign."""

_NAME_WORTH = 12 * IDF_ONE
"""The worth of a name in the question with which the memory begins: who says it is a clear sign."""

_MOST_COUNTED = 4
"""Words of a question beyond this number are no further sign."""

_MOST_ASKED = 10
"""Words of a question that a memory may lack at most; long questions have words of courtesy too."""

_FEW_WORDS = 2
"""A question of no more words is a search: any match answers it."""

MOST_JUDGED = 4
"""The best memories of which one must answer, and the first must clearly beat the last."""


class Match(NamedTuple):
    """The positions of the words of a question that a memory contains.

    It is ``named`` if the question contains the name with which the memory begins.
    """

    places: Collection[int]
    named: bool


def judge(idfs: Sequence[int], match: Match, scores: Sequence[int]) -> Confidence:
    """Return the confidence in the answers to a question, given the idf of each of its words.

    ``match`` is the best of the first four memories, and ``scores`` are theirs, falling.
    With s as the share of the matched words, each counted as 4 plus its idf, and m as their number,
    s·√min(m, 4) is below 0.5 for "none" and at least 1 for "strong". For a strong answer, the first
    also scores at least 1.5 times the fourth. A name counts as one more matched word, of 12.

    The limits are chosen on conversations, code and documents: of questions about something else 6
    to 9 % are answered (of those put to long documents 27 %), of questions about stored subjects 85
    to 100 %.
    """
    count = len(match.places) + match.named
    total = sum(heapq.nlargest(_MOST_ASKED, (idf + _PLAIN_WORTH for idf in idfs)))
    total += match.named * _NAME_WORTH
    share = min(sum_worths(idfs, match), total)
    strength = share * share * min(count, _MOST_COUNTED)

    if not match.places or (4 * strength < total * total and len(idfs) > _FEW_WORDS):
        return "none"

    is_clear = len(scores) < MOST_JUDGED or 2 * scores[0] >= 3 * scores[MOST_JUDGED - 1]
    return "strong" if strength >= total * total and is_clear else "weak"


def sum_worths(idfs: Sequence[int], match: Match) -> int:
    """Return what the matched words of a question count for the confidence."""
    return sum(idfs[place] + _PLAIN_WORTH for place in match.places) + match.named * _NAME_WORTH


LEAST_LIKENESS = 600
"""The likeness of contents that say nearly the same.

Of contents with a third of their words replaced and their sentences in another order, 8 in 10 and
more reach it; of turns of a conversation, 1 in 10 reaches it with another turn.
"""


def compute_likeness(terms: Collection[str], others: Collection[str]) -> int:
    """Return how alike two sets of terms are, in thousandths.

    This is the coefficient of Dice, "Measures of the Amount of Ecologic Association Between
    Species", 1945.

    >>> compute_likeness({"ada", "live", "lisbon"}, {"ada", "live", "porto"})
    666
    """
    shared = len(set(terms) & set(others))
    return 2_000 * shared // max(1, len(terms) + len(others))


def round_score(score: int) -> int:
    """Return a score in hundredths, rounded half up, as it is shown.

    >>> round_score(SCORE_ONE // 4)
    25
    """
    return (200 * score + SCORE_ONE) // (2 * SCORE_ONE)


NAMED_TENTHS = 16
"""The score of a memory whose content begins with a name in the question, in tenths.

"Ada: I moved to Lisbon" is said by Ada, so it answers a question about her more than what others
say to her.
"""


class RankedEntry(NamedTuple):
    """A memory in a ranking, or a chunk of a note; ``name`` is its key or the chunk's name.

    ``own`` is the part of ``score`` from its own words. ``words`` are its words of the question, as
    they were asked. ``via`` is the key of the hit whose links led here, if no word did. ``origin``
    is the namespace that it is from, or empty for the caller's own.
    """

    name: str
    is_note: bool
    score: int
    own: int
    via: str | None = None
    words: tuple[str, ...] = ()
    origin: str = ""


class Entries(Sequence[RankedEntry]):
    """The entries of a ranking, from plain tuples of their fields.

    An entry is made only on access. Thousands of entries per question would start full runs of the
    garbage collector, which plain tuples do not.
    """

    def __init__(self, columns: Sequence[tuple[Any, ...]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, place: int) -> RankedEntry: ...
    @overload
    def __getitem__(self, place: slice) -> "Entries": ...
    def __getitem__(self, place: int | slice) -> "RankedEntry | Entries":
        if isinstance(place, slice):
            return Entries(self.columns[place])

        return RankedEntry(*self.columns[place])

    def __iter__(self) -> Iterator[RankedEntry]:
        return starmap(RankedEntry, self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(cast(Sequence[object], other))

    def __hash__(self) -> int:
        return hash(tuple(self.columns))


class WordShare(NamedTuple):
    """A term of a question and its word as it was asked: what it gives to the score of a memory.

    Its weight in the memory is 0 if the memory lacks it.
    """

    term: str
    word: str
    weight: int
    idf: int

    @property
    def points(self) -> int:
        """The points that the word gives."""
        return self.weight * self.idf


class WayLink(NamedTuple):
    """A link on the way to the memory ``key``; ``is_incoming`` if it leads from there."""

    key: str
    weight: float
    kind: str
    is_incoming: bool


class Gift(NamedTuple):
    """The points that a memory gets from a hit, along the links of the best way from there.

    ``places`` are those of the words that it lacks and the hit contains.
    """

    giver: str
    points: int
    places: tuple[int, ...]
    way: tuple[WayLink, ...]


class Explanation(NamedTuple):
    """How a score by words and links came about.

    ``by_words`` is the score of the words, to which the ``phrases``, given by the places of their
    first words, add ``by_phrases``. ``own`` is the sum, or 0 if the memory is not among the best by
    words. Links add ``received``. If ``is_named``, `NAMED_TENTHS` multiply the sum. ``by_meaning``
    is added last.
    """

    words: tuple[WordShare, ...]
    by_words: int
    phrases: tuple[int, ...]
    own: int
    received: int
    is_named: bool
    by_meaning: int

    @property
    def by_phrases(self) -> int:
        """The points that phrases add."""
        points = {place: share.points for place, share in enumerate(self.words)}
        return score_phrases(points, self.phrases)


class Explainer(Protocol):
    """Explains the places in the ranking of one question."""

    @property
    def failing(self) -> Sequence[str]:
        """The names of the filters that keep the explained memory of the request out."""
        ...

    @property
    def uncut(self) -> "Entries":
        """The ranking with the entries that score too low to be shown."""
        ...

    def explain(self, name: str, *, is_note: bool = False) -> Explanation:
        """Explain the score of an entry, or of the explained memory of the request."""
        ...

    def find_gift(self, key: str) -> Gift | None:
        """Return what a memory gets over links; None if that is nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answers to a question, by falling score and then by name.

    ``unknown_words`` are the words of the question that no memory and no note contains, and
    ``archived_words`` those that only archived memories contain. ``also`` has the names of further
    answers, which are in the ranking of another question. ``others`` explain the entries of other
    namespaces.
    """

    entries: Sequence[RankedEntry]
    unknown_words: tuple[str, ...]
    also: tuple[str, ...] = ()
    confidence: Confidence = "none"
    archived_words: tuple[str, ...] = ()
    explainer: Explainer | None = field(default=None, compare=False, repr=False)
    others: Mapping[str, Explainer | None] = field(
        default_factory=dict[str, Explainer | None], compare=False, repr=False
    )

    def find_explainer(self, entry: RankedEntry) -> Explainer | None:
        """Return what explains an entry, in the ranking of its namespace."""
        return self.others.get(entry.origin) if entry.origin else self.explainer

    @property
    def columns(self) -> Sequence[tuple[Any, ...]]:
        """The entries as tuples, because creating thousands of entries takes a while."""
        return self.entries.columns if isinstance(self.entries, Entries) else self.entries


def keep_once(rankings: Sequence[Ranking]) -> tuple[Ranking, ...]:
    """Keep each entry only in the ranking with its best place; of equal ones, in the first."""
    if len(rankings) == 1:
        return tuple(rankings)

    best: dict[tuple[bool, str], tuple[int, int]] = {}

    for number, ranking in enumerate(rankings):
        for place, entry in enumerate(ranking.entries):
            name = entry.is_note, entry.name
            best[name] = min(best.get(name, (place, number)), (place, number))

    kept: list[Ranking] = []
    for number, ranking in enumerate(rankings):
        own: list[RankedEntry] = []
        also = list(ranking.also)
        for entry in ranking.entries:
            if best[entry.is_note, entry.name][1] == number:
                own.append(entry)
            else:
                also.append(entry.name)
        kept.append(replace(ranking, entries=tuple(own), also=tuple(also)))

    return tuple(kept)


SEEDS = 30
"""The number of best hits whose words linked memories get."""

MOST_RELAYS = 32
"""The most memories one link away from seeds whose links are followed too.

With the seeds, a question reads the links of at most 62 memories, however densely they are linked.
"""

MOST_OUTGOING = 10
"""The number of a memory's best-ranked links that are followed."""

MOST_INCOMING = 64
"""Links are followed backwards only to a memory with at most this number of incoming links."""

SHARES = (600_000, 400_000)
"""The share of a word's points for memories one and two links away, in millionths."""

_ONE = 1_000_000


BestLink = tuple[float, str]
"""Weight and kind of the best link to a memory, or from it. Named tuples would take longer."""


class Links(NamedTuple):
    """The links of a memory that can be followed: the best one by the other memory's key.

    ``incoming`` is empty if more than 64 links lead to the memory.
    """

    outgoing: Mapping[str, BestLink] = {}
    incoming: Mapping[str, BestLink] = {}


class Gifts(NamedTuple):
    """The points that memories get over links, and the seeds that give them."""

    points: Mapping[str, int]
    givers: Mapping[str, str]


class Steps(NamedTuple):
    """The steps from a memory along its links one way: weights by key, and the best weight.

    ``links`` are the links themselves.
    """

    weights: Mapping[str, int]
    best: int
    links: Mapping[str, BestLink]
    is_incoming: bool


Ways = Mapping[str, Sequence[Steps]]
"""The steps from each memory whose links are known."""

Hits = Mapping[str, Mapping[int, int]]
"""The points of each word of a question in the memories that it finds, best first.

They stand by the memories' keys, and by the words' places in the question.
"""


def keep_best(links: dict[str, BestLink], key: str, weight: float, kind: str) -> None:
    """Add a link; of several links to the same memory, the best counts, then the first by kind."""
    known = links.get(key)
    if known is None or weight > known[0] or (weight == known[0] and kind < known[1]):
        links[key] = weight, kind


def find_steps(key: str, links: Links) -> list[Steps]:
    """Return the steps from a memory to others."""
    steps: list[Steps] = []

    for side, is_incoming in ((links.outgoing, False), (links.incoming, True)):
        weights = {other: int(weight * _ONE + 0.5) for other, (weight, _) in side.items()}
        weights.pop(key, None)

        best = max(weights.values(), default=0)
        if best:
            steps.append(Steps(weights, best, side, is_incoming))

    return steps


def choose_relays(
    hits: Hits, seeds: Sequence[str], ways: Ways, most: int = MOST_RELAYS
) -> frozenset[str]:
    """Return the memories through which ways of two links may lead.

    They are the seeds, and the ``most`` other memories one link away that get most; of equal ones,
    the first by key.
    """
    known = frozenset(seeds)
    near = spread(hits, seeds, ways, ())
    others = [(-given, key) for key, given in near.points.items() if key not in known]
    best = heapq.nsmallest(most, others)

    return known.union(key for _, key in best)


def spread(hits: Hits, seeds: Sequence[str], ways: Ways, relays: Collection[str]) -> Gifts:
    """Return what memories get from the seeds among the hits, best first.

    A memory gets a share of the points of those words that it lacks and a seed contains. It gets
    them from the one seed that gives most, of equal ones from the first. So whatever many memories
    are linked with does not come before them. Ways of two links lead only through ``relays``.
    """
    points: dict[str, int] = {}
    givers: dict[str, str] = {}

    for seed in seeds:
        words = hits[seed]
        total = sum(words.values())
        for key, share in _find_shares(seed, ways, relays).items():
            given = total * share // _ONE
            most = points.get(key, 0)
            if given > most and key in hits:
                held = hits[key]
                lacking = sum([value for place, value in words.items() if place not in held])
                given = lacking * share // _ONE
            if given > most:
                points[key] = given
                givers[key] = seed

    return Gifts(points, givers)


def _find_shares(seed: str, ways: Ways, relays: Collection[str]) -> dict[str, int]:
    """Return the share of a seed's points by the best way to each memory, in millionths."""
    shares: dict[str, int] = {}
    near, far = SHARES
    steps = ways.get(seed, ())

    _add_shares(shares, steps, near, 1)
    for weights, best, _, _ in steps:
        for key, weight in weights.items():
            if key in relays:
                _add_shares(shares, ways.get(key, ()), far * weight, best)

    shares.pop(seed, None)
    return shares


def _add_shares(shares: dict[str, int], ways: Iterable[Steps], share: int, whole: int) -> None:
    """Add a share, as a fraction of the whole, along the steps from a memory."""
    for weights, best, _, _ in ways:
        divisor = whole * best
        for key, weight in weights.items():
            amount = share * weight // divisor
            if amount > shares.get(key, 0):  # not a call: this is the innermost loop
                shares[key] = amount


def find_way(seed: str, key: str, ways: Ways, relays: Collection[str]) -> tuple[WayLink, ...]:
    """Return the links of the best way from a seed to a memory; empty if no way leads there.

    Of equal ways, it is the shortest, then the first by the key of the memory between, and then
    the one along outgoing links.
    """
    best: tuple[WayLink, ...] = ()
    largest = 0

    for way in _list_ways(seed, key, ways, relays):
        if len(way) == 2 and largest >= SHARES[1]:
            break

        narrow: dict[str, Sequence[Steps]] = {}
        for name, end, steps in way:
            narrow[name] = [steps._replace(weights={end: steps.weights[end]})]

        share = _find_shares(seed, narrow, [name for name, _, _ in way[1:]]).get(key, 0)
        if share > largest:
            largest = share
            best = tuple(
                WayLink(end, *steps.links[end], steps.is_incoming) for _, end, steps in way
            )

    return best


Step = tuple[str, str, Steps]
"""A step from a memory to another one, among its steps one way."""


def _list_ways(
    seed: str, key: str, ways: Ways, relays: Collection[str]
) -> Iterator[tuple[Step, ...]]:
    """Yield the ways of one link, and then those of two links, from a seed to a memory."""
    first = ways.get(seed, ())
    for steps in first:
        if key in steps.weights:
            yield ((seed, key, steps),)

    between = {relay for near in first for relay in near.weights if relay in relays}
    for relay in sorted(between):
        for near, far in product(first, ways.get(relay, ())):
            if relay in near.weights and key in far.weights:
                yield (seed, relay, near), (relay, key, far)
