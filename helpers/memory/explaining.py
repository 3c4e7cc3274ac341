"""Why a memory is where it is in an answer of `recall`, or why it is not in it."""

from collections.abc import Sequence

from abilities.declarations.memory import USUAL_LINK_TYPE
from abilities.declarations.recall import RecallInput
from abilities.declarations.values import JsonObject, utc_now
from abilities.helpers.memory.recall_answers import describe_ranking, format_score
from abilities.helpers.memory.recalling import RecallResult
from abilities.helpers.search.ranking import (
    IDF_ONE,
    LIFTED_TENTHS,
    NAMED_TENTHS,
    SCORE_ONE,
    Explainer,
    Explanation,
    Gift,
    RankedEntry,
    WordShare,
    compute_score,
)
from abilities.helpers.store.model import StoredMemory

_ARGUMENTS = {"changed_since": "within_days"}
"""The arguments of filters that have other names."""


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
    are ``by_words``; ``links`` lift that, and ``named`` multiplies the result.
    What the similarity of its meaning gives, ``by_meaning``, is added last.
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
    record |= _describe_parts(explained, explainer.list_gifts(key))
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
        names = [_ARGUMENTS.get(name, name) for name in explainer.failing]
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


def _describe_parts(explained: Explanation, gifts: Sequence[Gift]) -> JsonObject:
    matched = sum(share.weight > 0 for share in explained.words)
    parts: JsonObject = {}
    if matched:
        factor = compute_score(SCORE_ONE, matched, len(explained.words)) / SCORE_ONE
        parts = {"factor": round(factor, 2), "by_words": _format_points(explained.by_words)}

    if gifts:
        parts["links"] = {
            "given": _format_points(explained.received),
            "most": _format_points(explained.most),
            "share": LIFTED_TENTHS / 10,
            "lifted": _format_points(explained.lifted),
            "is_lifted": explained.is_lifted,
            "from": list(map(_describe_gift, gifts)),
        }
    if explained.is_named:
        parts["named"] = NAMED_TENTHS / 10
    if explained.by_meaning:
        parts["by_meaning"] = _format_points(explained.by_meaning)

    return parts


def _describe_gift(gift: Gift) -> JsonObject:
    way: list[JsonObject] = []
    for link in gift.way:
        step: JsonObject = {"key": link.key, "link_weight": link.weight}
        if link.kind != USUAL_LINK_TYPE:
            step["type"] = link.kind
        if link.is_incoming:
            step["direction"] = "in"
        way.append(step)

    return {"key": gift.giver, "points": _format_points(gift.points), "way": way}


def _format_points(points: int) -> float:
    """Return points with four decimals, so that they add up to a score of two."""
    return round(points / SCORE_ONE, 4)
