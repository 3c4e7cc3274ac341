"""`recall` computed plainly: every memory is scored for every question, with floats for nothing.

It is written from the rules of the ranking, apart from the code that stores use. They share the
splitting of texts into terms.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from abilities.helpers.search.passages import split_sections
from abilities.helpers.search.ranking import Explanation, Gift, RankedEntry, Ranking, WayLink
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import (
    Language,
    MemoryTexts,
    QuestionWord,
    count_terms,
    divide,
    find_name,
    list_names,
)
from tests.support.recall_index import PlainLink, PlainMemory, passes


class Expected(NamedTuple):
    """What must stand in a ranking, and how it must be explained: points are those of words."""

    name: str
    is_note: bool
    score: int
    own: int
    via: str | None
    words: tuple[str, ...]
    origin: str
    points: Mapping[str, int]
    gift: Gift | None = None
    is_named: bool = False
    phrases: tuple[int, ...] = ()


@dataclass(frozen=True)
class Answers:
    """The ranking of a question, and what is said of its words."""

    entries: list[Expected]
    confidence: str
    unknown_words: list[str]
    archived_words: list[str]


def as_answers(ranking: Ranking) -> Answers:
    """Return a ranking of the package as this module has it, after its parts were added up."""
    assert ranking.explainer is not None
    entries: list[Expected] = []
    for entry in ranking.entries:
        gift = None if entry.is_note else ranking.explainer.find_gift(entry.name)
        told = check_sum(ranking, entry, gift)
        points: Counter[str] = Counter()
        for share in told.words if entry.words else ():
            points[share.word] += share.points
        entries.append(Expected(*entry, +points, gift, told.is_named, told.phrases))

    unknown, archived = list(ranking.unknown_words), list(ranking.archived_words)
    return Answers(entries, ranking.confidence, unknown, archived)


def check_sum(ranking: Ranking, entry: RankedEntry, gift: Gift | None) -> Explanation:
    """Check that the parts of an explanation add up to the score, and return it."""
    assert ranking.explainer is not None
    told = ranking.explainer.explain(entry.name, is_note=entry.is_note)
    held = [share for share in told.words if share.weight]
    total = Fraction(sum(share.weight * share.idf for share in held))
    if len(told.words) > 1:
        total *= 1 + Fraction(1, 2) * Fraction(max(len(held), 1) - 1, len(told.words) - 1)
    assert told.by_words == math.floor(total)
    points = {place: share.points for place, share in enumerate(told.words)}
    assert told.by_phrases == score_phrases(points, told.phrases)
    assert told.own in (told.by_words + told.by_phrases, 0)
    assert told.received == (gift.points if gift else 0)

    factor = Fraction(16 if told.is_named else 10, 10)
    assert told.by_meaning == 0, "nothing here compares meanings"
    assert entry.score == math.floor((told.own + told.received) * factor)
    assert entry.own == math.floor(told.own * factor)
    assert entry.via == (gift.giver if gift and not told.own else None)
    if told.own:
        assert entry.words == tuple(dict.fromkeys(share.word for share in held))
    return told


def rank_exhaustively(memories: Sequence[PlainMemory], request: RecallRequest) -> list[Answers]:
    """Return the answers to each question, best first."""
    weights = {m.key: weigh(m, request.language) for m in memories}
    rankings = [
        (rank_one(memories, weights, request, question), question) for question in request.questions
    ]

    first: dict[tuple[str, bool], tuple[int, int]] = {}
    for number, ((entries, _), _) in enumerate(rankings):
        for place, entry in enumerate(entries):
            name = entry.name, entry.is_note
            if name not in first or (place, number) < first[name]:
                first[name] = place, number

    return [
        Answers(
            [e for e in entries if first[e.name, e.is_note][1] == number],
            confidence,
            *list_absent(memories, weights, request, question),
        )
        for number, ((entries, confidence), question) in enumerate(rankings)
    ]


def weigh(memory: PlainMemory, language: Language) -> Mapping[str, int]:
    """max(1, round(63·tf / (tf + k1·(1 - b + b·min(length, 1000)/60)))), k1 1.2, b 0.75."""
    return _weigh_texts(memory.texts, language)


@lru_cache(maxsize=4_096)
def _weigh_texts(texts: MemoryTexts, language: Language) -> Mapping[str, int]:
    content = texts.content
    passages = [content]
    if len(content) > 3_000:
        sections = split_sections(content)
        passages = [content[section.start : section.end] for section in sections] or [""]

    weights: dict[str, int] = {}
    for passage in passages:
        for term, weight in _weigh_passage(texts._replace(content=passage), language).items():
            weights[term] = max(weight, weights.get(term, 0))

    return weights


def _weigh_passage(texts: MemoryTexts, language: Language) -> Mapping[str, int]:
    counts, length = count_terms(texts, language)
    k1, b = Fraction(12, 10), Fraction(3, 4)
    norm = k1 * (1 - b + b * Fraction(min(length, 1000), 60))

    return {
        t: max(1, math.floor(63 * tf / (tf + norm) + Fraction(1, 2))) for t, tf in counts.items()
    }


def rank_one(
    memories: Sequence[PlainMemory],
    weights: Mapping[str, Mapping[str, int]],
    request: RecallRequest,
    question: Sequence[tuple[str, str]],
) -> tuple[list[Expected], str]:
    """Return the ranked answers to one question, and the confidence in the best one."""
    present = [memory for memory in memories if not memory.archived]
    allowed = {memory.key for memory in memories if passes(memory, request.filters)}

    idf: dict[str, int] = {}
    for term, _ in question:
        df = sum(term in weights[memory.key] for memory in present)
        idf[term] = max(
            1, math.floor(1024 * math.log(1 + (len(present) - df + 0.5) / (df + 0.5)) + 0.5)
        )

    def score(terms: Mapping[str, int]) -> int:
        held = [term for term, _ in question if term in terms]
        total = Fraction(sum(terms[term] * idf[term] for term in held))
        if len(question) > 1:
            total *= 1 + Fraction(1, 2) * Fraction(len(held) - 1, len(question) - 1)
        return math.floor(total)

    def list_words(terms: Mapping[str, int]) -> tuple[str, ...]:
        words: list[str] = []
        for term, word in question:
            if term in terms and word not in words:
                words.append(word)
        return tuple(words)

    def add_points(terms: Mapping[str, int]) -> Mapping[str, int]:
        points: Counter[str] = Counter()
        for term, word in question:
            points[word] += terms.get(term, 0) * idf[term]
        return +points

    hits = sorted(
        (-score(weights[key]), key)
        for key in allowed
        if any(t in weights[key] for t, _ in question)
    )[:256]
    own = {key: -negative for negative, key in hits}

    def list_points(terms: Mapping[str, int]) -> dict[int, int]:
        held = [(place, term) for place, (term, _) in enumerate(question) if term in terms]
        return {place: terms[term] * idf[term] for place, term in held}

    contents = {memory.key: memory.content for memory in memories}
    phrases: dict[str, tuple[int, ...]] = {}
    for key in list(own)[:10]:
        if len(contents[key]) <= 5_000:
            phrases[key] = find_phrases(contents[key], question, request.language)
            own[key] += score_phrases(list_points(weights[key]), phrases[key])

    best = sorted(own, key=lambda key: (-own[key], key))
    points_of = {key: list_points(weights[key]) for key in best}

    gifts: dict[str, Gift] = {}
    neighbors = find_neighbors(memories, allowed)
    if request.hops:
        gifts = give(neighbors, points_of, set())
    if request.hops == 2:
        gifts = give(neighbors, points_of, find_relays(points_of, gifts))

    total = dict(own)
    for key, gift in gifts.items():
        total[key] = own.get(key, 0) + gift.points

    names = set(list_names([QuestionWord(*word) for word in question]))
    named = {
        m.key for m in memories if m.key in own and find_name(m.content, request.language) in names
    }
    for memory in memories:
        if memory.key in named:
            total[memory.key] = math.floor(total[memory.key] * Fraction(16, 10))
            own[memory.key] = math.floor(own[memory.key] * Fraction(16, 10))

    entries: list[Expected] = []
    for key, amount in total.items():
        if key in own:
            entry = Expected(
                *(key, False, amount, own[key], None, list_words(weights[key]), ""),
                points=add_points(weights[key]),
                gift=gifts.get(key),
                is_named=key in named,
                phrases=phrases.get(key, ()),
            )
        else:
            entry = Expected(key, False, amount, 0, gifts[key].giver, (), "", {}, gifts[key])
        entries.append(entry)

    by_note = {note.name: note for note in request.notes}
    notes: list[Expected] = []
    for note in request.notes:
        reached = score(note.terms)
        if reached:
            told_words, told_points = list_words(note.terms), add_points(note.terms)
            notes.append(
                Expected(note.name, True, reached, reached, None, told_words, "", told_points)
            )
    notes.sort(key=lambda entry: (-entry.score, entry.name))

    for place, entry in enumerate(notes[:10]):
        note = by_note[entry.name]
        in_note = find_phrases(note.content, question, request.language)
        reached = entry.own + score_phrases(list_points(note.terms), in_note)
        notes[place] = entry._replace(score=reached, own=reached, phrases=in_note)

    ranked = sorted(entries + notes[:256], key=lambda e: (-e.score, e.name, e.is_note))
    if not ranked:
        return [], "none"

    worths = {term: 4 * 1024 + value for term, value in idf.items()}
    by_key = {memory.key: memory.texts for memory in memories}
    matches: list[tuple[int, int, list[str], bool]] = []
    for place, entry in enumerate(ranked[:4]):
        texts = [by_note[entry.name].terms] if entry.is_note else [weights[entry.name]]
        content = "" if entry.is_note else by_key[entry.name].content
        if len(content) > 1_000:
            sections = split_sections(content)
            parts = [content[section.start : section.end] for section in sections] or [""]
            passages = [by_key[entry.name]._replace(content=part) for part in parts]
            texts = [count_terms(passage, request.language)[0] for passage in passages]

        is_named = not entry.is_note and entry.name in named
        for terms in texts:
            held = [term for term in worths if term in terms]
            met = sum(worths[term] for term in held) + is_named * 12 * 1024
            matches.append((met, -place, held, is_named))

    met, _, held, is_named = max(matches, key=lambda match: match[:2], default=(0, 0, [], False))
    most = sum(sorted(worths.values())[-10:]) + is_named * 12 * 1024
    strength = min(Fraction(met, most), Fraction(1)) ** 2 * min(len(held) + is_named, 4)
    is_clear = len(ranked) < 4 or Fraction(ranked[0].score, ranked[3].score) >= Fraction(3, 2)

    confidence = "strong" if strength >= 1 and is_clear else "weak"
    if not held or (strength < Fraction(1, 4) and len(worths) > 2):
        confidence = "none"

    if request.at_least is not None:
        least = Fraction(request.at_least, 1000) * ranked[0].score
        ranked = [entry for entry in ranked if entry.score >= least]
    elif confidence == "none":
        ranked = []

    return put_newer_first(ranked, memories), confidence


def find_phrases(
    text: str, question: Sequence[tuple[str, str]], language: Language
) -> tuple[int, ...]:
    """Return the places of the words whose next word is at most three words after them."""
    positions: dict[str, list[int]] = {}
    words = 0
    for run in divide(text, language):
        for number, word in enumerate(run.terms, words + 1):
            positions.setdefault(word.term, []).append(number)
        words += max(len(run.terms), run.length)

    found: list[int] = []
    for place, (first, second) in enumerate(pairwise(question)):
        starts, ends = positions.get(first[0], []), positions.get(second[0], [])
        if first[1] != second[1] and any(0 < b - a <= 3 for a in starts for b in ends):
            found.append(place)

    return tuple(found)


def score_phrases(points: Mapping[int, int], phrases: Sequence[int]) -> int:
    """Return three quarters of the points of both words of each phrase."""
    return math.floor(Fraction(3, 4) * sum(points[n] + points[n + 1] for n in phrases))


def put_newer_first(ranked: list[Expected], memories: Sequence[PlainMemory]) -> list[Expected]:
    """Of the first 64 whose scores are equal as shown, the newer come first.

    Notes, and what only links lead to, have no date.
    """
    dates = {memory.key: memory.updated_at for memory in memories}
    groups: dict[int, list[Expected]] = {}
    for entry in ranked[:64]:
        shown = math.floor(Fraction(100 * entry.score, 63 * 1024) + Fraction(1, 2))
        groups.setdefault(shown, []).append(entry)
    for group in groups.values():
        group.sort(key=lambda e: dates[e.name] if e.own and not e.is_note else "", reverse=True)

    return [e for value in sorted(groups, reverse=True) for e in groups[value]] + ranked[64:]


class Step(NamedTuple):
    """A link that can be followed, and its weight over the best weight that way."""

    link: WayLink
    share: Fraction


Neighbors = Mapping[str, Sequence[Step]]


def find_neighbors(memories: Sequence[PlainMemory], allowed: set[str]) -> Neighbors:
    """Return where one link leads from each memory."""
    scores = {other.key: other.score for other in memories}
    incoming: dict[str, list[PlainLink]] = {}
    for other in memories:
        for link in other.all_links:
            incoming.setdefault(link.key, []).append(link._replace(key=other.key))

    neighbors: dict[str, list[Step]] = {}
    for memory in memories:
        out = [link for link in memory.all_links if link.key in allowed]
        out.sort(
            key=lambda link: (
                -int(link.weight * scores[link.key] * 1_000_000 + 0.5),
                -link.weight,
                link.key,
                link.kind,
            )
        )
        back = incoming.get(memory.key, [])
        back = [link for link in back if link.key in allowed] if len(back) <= 64 else []
        neighbors[memory.key] = list_steps(memory.key, out[:10], back)

    return neighbors


def list_steps(key: str, out: Sequence[PlainLink], back: Sequence[PlainLink]) -> list[Step]:
    """Return the steps along the best links of a memory, and along the links to it."""
    steps: list[Step] = []
    for side, is_incoming in ((out, False), (back, True)):
        others = [
            (link, Fraction(int(link.weight * 1_000_000 + 0.5))) for link in side if link.key != key
        ]
        best = max((weight for _, weight in others), default=Fraction(0))
        if best:
            steps += [Step(WayLink(*link, is_incoming), w / best) for link, w in others]
    return steps


def find_relays(points: Mapping[str, Mapping[int, int]], near: Mapping[str, Gift]) -> set[str]:
    """Return the seeds, and the 32 others one link away that get most; ties stand by key."""
    seeds = list(points)[:30]
    others = [key for key in near if key not in seeds]
    others.sort(key=lambda key: (-near[key].points, key))
    return {*seeds, *others[:32]}


def give(
    neighbors: Neighbors, points: Mapping[str, Mapping[int, int]], relays: set[str]
) -> dict[str, Gift]:
    """Return what each memory gets from the one of the 30 best hits that gives most, or the first.

    ``points`` are those of the words in each hit, by place in the question. A hit gives a share of
    the points of each word that the other memory, if it is a hit too, lacks.
    """
    gifts: dict[str, Gift] = {}
    for seed in list(points)[:30]:
        for key, (share, way) in find_ways(neighbors, seed, relays).items():
            lacking = tuple(place for place in points[seed] if place not in points.get(key, ()))
            given = math.floor(share * sum(points[seed][place] for place in lacking))
            if given > (gifts[key].points if key in gifts else 0):
                gifts[key] = Gift(seed, given, lacking, way)

    return gifts


class Way(NamedTuple):
    """The share of points that is given along links."""

    share: Fraction
    links: tuple[WayLink, ...]


def find_ways(neighbors: Neighbors, seed: str, relays: set[str]) -> Mapping[str, Way]:
    """Return the best way from a seed to each memory, over one link or over two.

    A share is 6/10 over one link and 4/10 over two, times the links' shares, in full millionths.
    Of two links, the first leads to one of ``relays``. Of equal ways, the best is the shortest,
    then the first by the memory between, along outgoing links, by heavier links and by kinds.
    """
    ways: dict[str, list[Way]] = {}

    def add(share: Fraction, *links: WayLink) -> None:
        share = Fraction(math.floor(share * 1_000_000), 1_000_000)
        if share and links[-1].key != seed:
            ways.setdefault(links[-1].key, []).append(Way(share, links))

    for first, share in neighbors[seed]:
        add(share * 6 / 10, first)
        for second, further in neighbors[first.key] if first.key in relays else ():
            add(share * further * 4 / 10, first, second)

    return {key: min(each, key=order_way) for key, each in ways.items()}


def order_way(way: Way) -> tuple[object, ...]:
    """Return what ways to a memory are ordered by."""
    keys = [link.key for link in way.links]
    sides = [link.is_incoming for link in way.links]
    best = [(-link.weight, link.kind) for link in way.links]
    return -way.share, len(way.links), keys, sides, best


def list_absent(
    memories: Sequence[PlainMemory],
    weights: Mapping[str, Mapping[str, int]],
    request: RecallRequest,
    question: Sequence[tuple[str, str]],
) -> tuple[list[str], list[str]]:
    """Return the words of a question without a term in any memory or note.

    First those that are nowhere, then those that archived memories have.
    """
    filters = Filters(archived=request.filters.reach_archived)
    held = {t for memory in memories if passes(memory, filters) for t in weights[memory.key]}
    held |= {term for note in request.notes for term in note.terms}
    anywhere = {term for terms in weights.values() for term in terms}

    known = {word for term, word in question if term in held}
    stored = {word for term, word in question if term in anywhere}
    absent = list(dict.fromkeys(word for _, word in question if word not in known))
    return [w for w in absent if w not in stored], [w for w in absent if w in stored]
