"""`recall` computed plainly: every memory is scored for every question, with floats for nothing.

It is written from the rules of the ranking, apart from the code that stores use. They share the
splitting of texts into terms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from abilities.helpers.search.passages import split_sections
from abilities.helpers.search.ranking import Ranking
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import (
    Language,
    MemoryTexts,
    QuestionWord,
    count_terms,
    find_name,
    list_names,
)
from tests.support.recall_index import PlainMemory, passes


@dataclass(frozen=True)
class Expected:
    """What must stand in a ranking."""

    name: str
    is_note: bool
    score: int
    own: int
    via: str | None
    words: tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """The ranking of a question, and what is said of its words."""

    entries: list[Expected]
    confidence: str
    unknown_words: list[str]
    archived_words: list[str]


def as_answers(ranking: Ranking) -> Answers:
    """Return a ranking of the package as this module has it."""
    entries = [Expected(e.name, e.is_note, e.score, e.own, e.via, e.words) for e in ranking.entries]
    unknown, archived = list(ranking.unknown_words), list(ranking.archived_words)
    return Answers(entries, ranking.confidence, unknown, archived)


def rank_exhaustively(
    memories: Sequence[PlainMemory], request: RecallRequest, language: Language | None = None
) -> list[Answers]:
    """Return the answers to each question, best first."""
    language = language or Language()
    weights = {m.key: weigh(m, language) for m in memories}
    rankings = [
        (rank_one(memories, weights, request, question, language), question)
        for question in request.questions
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
    labels = " ".join([*memory.tags, memory.category or ""])
    return _weigh_texts(MemoryTexts(memory.key, memory.summary, memory.content, labels), language)


@lru_cache(maxsize=4_096)
def _weigh_texts(texts: MemoryTexts, language: Language) -> Mapping[str, int]:
    content = texts.content
    passages = [content]
    if len(content) > 5_000:
        passages = [content[section.start : section.end] for section in split_sections(content)]

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
    language: Language,
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

    hits = sorted(
        (-score(weights[key]), key)
        for key in allowed
        if any(t in weights[key] for t, _ in question)
    )[:256]
    own = {key: -negative for negative, key in hits}

    received: dict[str, int] = {}
    best_giver: dict[str, tuple[int, str]] = {}
    neighbors = {memory.key: list_steps(memories, memory, allowed) for memory in memories}
    seeds = {key: -negative for negative, key in hits[:30]}
    relays = find_relays(neighbors, seeds) if request.hops == 2 else set[str]()
    for negative, seed in hits[:30]:
        for key, share in give(neighbors, seed, request.hops, relays).items():
            given = math.floor(-negative * share)
            if given:
                received[key] = received.get(key, 0) + given
                if given > best_giver.get(key, (0, ""))[0]:
                    best_giver[key] = given, seed

    total = dict(own)
    for key, amount in received.items():
        most = math.floor(own[best_giver[key][1]] * Fraction(8, 10))
        total[key] = max(own.get(key, 0), min(own.get(key, 0) + amount, most))

    names = set(list_names([QuestionWord(*word) for word in question]))
    named: set[str] = set()
    for memory in memories:
        if memory.key in own and find_name(memory.content, language) in names:
            named.add(memory.key)
            total[memory.key] = math.floor(total[memory.key] * Fraction(16, 10))
            own[memory.key] = math.floor(own[memory.key] * Fraction(16, 10))

    entries = [
        Expected(key, False, amount, own[key], None, list_words(weights[key]))
        if key in own
        else Expected(key, False, amount, 0, best_giver[key][1], ())
        for key, amount in total.items()
    ]

    notes = [
        Expected(
            note.name,
            True,
            score(dict(note.terms)),
            score(dict(note.terms)),
            None,
            list_words(dict(note.terms)),
        )
        for note in request.notes
        if any(term in note.terms for term, _ in question)
    ]
    notes.sort(key=lambda entry: (-entry.score, entry.name))

    ranked = sorted(entries + notes[:256], key=lambda e: (-e.score, e.name, e.is_note))
    if not ranked:
        return [], "none"

    best = ranked[0]
    texts = {note.name: note.terms for note in request.notes} if best.is_note else weights
    worths = {term: 4 * 1024 + value for term, value in idf.items()}
    held = [term for term in worths if term in texts[best.name]]
    most = sum(sorted(worths.values())[-10:])
    met = sum(worths[term] for term in held)
    if not best.is_note and best.name in named:
        most, met, held = most + 12 * 1024, met + 12 * 1024, [*held, "its name"]
    strength = min(Fraction(met, most), Fraction(1)) ** 2 * min(len(held), 4)
    is_clear = len(ranked) < 4 or Fraction(best.score, ranked[3].score) >= Fraction(3, 2)

    confidence = "strong" if strength >= 1 and is_clear else "weak"
    if strength < Fraction(1, 4) and len(worths) > 2:
        confidence = "none"

    if request.at_least is not None:
        least = Fraction(request.at_least, 1000) * best.score
        ranked = [entry for entry in ranked if entry.score >= least]
    elif confidence == "none":
        ranked = []

    return put_newer_first(ranked, memories), confidence


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


def list_steps(
    memories: Sequence[PlainMemory], memory: PlainMemory, allowed: set[str]
) -> list[tuple[str, Fraction]]:
    """Return where one link leads from a memory, with its weight over the best weight that way."""
    scores = {other.key: other.score for other in memories}
    out = [(key, weight) for key, weight in memory.links if key in allowed]
    out.sort(
        key=lambda link: (-int(link[1] * scores[link[0]] * 1_000_000 + 0.5), -link[1], link[0])
    )

    back = [(o.key, weight) for o in memories for key, weight in o.links if key == memory.key]
    back = [link for link in back if link[0] in allowed] if len(back) <= 64 else []

    steps: list[tuple[str, Fraction]] = []
    for side in (out[:10], back):
        others = [
            (key, Fraction(int(weight * 1_000_000 + 0.5)))
            for key, weight in side
            if key != memory.key
        ]
        best = max((weight for _, weight in others), default=Fraction(0))
        if best:
            steps += [(key, weight / best) for key, weight in others]
    return steps


def find_relays(
    neighbors: dict[str, list[tuple[str, Fraction]]], seeds: Mapping[str, int]
) -> set[str]:
    """Return the seeds, and the 32 others one link away that get most; ties stand by key."""
    near: dict[str, int] = {}
    for seed, score in seeds.items():
        for key, share in give(neighbors, seed, 1, set()).items():
            near[key] = near.get(key, 0) + math.floor(score * share)

    others = [key for key in near if key not in seeds and near[key] > 0]
    others.sort(key=lambda key: (-near[key], key))
    return set(seeds) | set(others[:32])


def give(
    neighbors: dict[str, list[tuple[str, Fraction]]], seed: str, hops: int, relays: set[str]
) -> dict[str, Fraction]:
    """Return the share of a seed's score for each memory within so many links, by its best way.

    Of two links, the first leads to one of ``relays``.
    """
    shares: dict[str, Fraction] = {}

    for first, share in neighbors[seed] if hops else ():
        shares[first] = max(shares.get(first, Fraction(0)), share * 4 / 10)
        for second, further in neighbors[first] if first in relays else ():
            shares[second] = max(shares.get(second, Fraction(0)), share * further * 3 / 10)

    shares.pop(seed, None)
    return shares


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
