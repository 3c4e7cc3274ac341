"""What `recall` must answer about a namespace whose contents are known, and checks of it.

The rankings come from a plain computation over all memories. A cursor holds a hash of its whole
ranking, so that a page which does not end it says whether the rest is right too.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import cast

from abilities.declarations.limits import MAX_RECALL_TOKENS, MIN_FURTHER_TOKENS, MIN_RECALL_TOKENS
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.recall_answers import (
    ELLIPSIS,
    INPUT_CHARS,
    MAX_ALSO,
    MAX_UNKNOWN_CHARS,
    MAX_UNKNOWN_WORDS,
    format_score,
)
from abilities.helpers.memory.recalling import hash_ranking
from abilities.helpers.reply.envelope import MAX_ITEMS_BYTES
from abilities.helpers.search.ranking import Confidence, Gift, RankedEntry, Ranking
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import Language, split_question
from tests.support.exhaustive_recall import Expected, rank_exhaustively
from tests.support.law_model import MemoryModel, NamespaceModel
from tests.support.law_payloads import list_plain
from tests.support.law_places import Reading, check_refusal, complete

MOST_RANKED = 256
"""Memories that words of a question can find."""

MOST_PAGES = 4
"""The first pages of a recall that are read."""

_LONGEST_WORDS = 8
_WORD_CHARS = 120
"""Of a longer word this much is asked: a term has 64 characters."""


def ask_for(memory: MemoryModel, *, by_key: bool) -> str:
    """Return a question of a memory's own words: of its key, or the longest of all of its texts."""
    key = "" if memory.key == memory.id else memory.key
    if by_key:
        return key

    words = dict.fromkeys(f"{key} {memory.summary} {memory.content}".split())
    longest = sorted(words, key=len, reverse=True)[:_LONGEST_WORDS]
    return " ".join(word[:_WORD_CHARS] for word in longest)


def check_found(reading: Reading, namespace: NamespaceModel, key: str, number: int) -> None:
    """Ask for a memory with words of its own.

    It must be found, unless it is archived and archived ones are left out; one that is not there
    must never be found. The number chooses the words, and whether archived memories are included.
    """
    memory = namespace.memories.get(key)
    question = key if memory is None else ask_for(memory, by_key=number % 3 == 0)
    if not split_question(question, Language()):
        return

    includes_archived = memory is None or number % 2 == 0
    arguments: JsonObject = {
        "queries": [question],
        "max_tokens": MAX_RECALL_TOKENS,
        "hops": 0,
        "notes": False,
        "archived": includes_archived,
        "at_least": 0,
    }
    found, matched = _look_for(reading, namespace, arguments, key)

    if memory is None or (memory.archived and not includes_archived):
        assert not found, f"{key!r} must not be found: {arguments}"
    else:
        assert found or matched == MOST_RANKED, f"{key!r} must be found: {arguments}"


def _look_for(
    reading: Reading, namespace: NamespaceModel, arguments: JsonObject, key: str
) -> tuple[bool, int]:
    """Return whether a memory is found, page by page, and how many are in all."""
    following: JsonObject | None = arguments
    matched = 0

    while following is not None:
        page = check_page(reading, namespace, following)
        (result,) = page["results"]
        matched = result["matched"]
        if any(record["key"] == key for record in result["memories"]):
            return True, matched
        following = page.get("next_request")

    return False, matched


def check_recall(
    reading: Reading, namespace: NamespaceModel, arguments: JsonObject
) -> list[JsonObject]:
    """Ask any questions, and compare the first pages; return these."""
    following: JsonObject | None = arguments
    pages: list[JsonObject] = []

    while following is not None and len(pages) < MOST_PAGES:
        page = check_page(reading, namespace, following)
        following = page.get("next_request")
        pages.append(page)

    return pages


def check_page(reading: Reading, namespace: NamespaceModel, arguments: JsonObject) -> JsonObject:
    """Ask questions, and compare the answer, or its refusal, with a plain computation."""
    rankings = expect_rankings(namespace, arguments, reading.moment.now)
    payload = reading.call("recall", **arguments)
    reason = _expect_refusal(arguments, rankings)

    if reason is not None:
        assert check_refusal(payload) == reason, payload
        return payload

    if "error" in payload:
        # Only a store's caller knows how much room a memory takes: it is asked to give that.
        assert check_refusal(payload) == "out_of_range", payload
        least = payload["error"]["expected"]["minimum"]
        assert least > arguments["max_tokens"]
        arguments = {**arguments, "max_tokens": least}
        payload = reading.call("recall", **arguments)
        assert "error" not in payload, payload

    _check_answer(reading, namespace, arguments, rankings, payload)
    return payload


def expect_rankings(namespace: NamespaceModel, arguments: JsonObject, now: str) -> list[Ranking]:
    """Return what answers the questions of a call that is made at a time."""
    changed_since: str | None = None
    if "within_days" in arguments:
        day = date.fromisoformat(now[:10]) - timedelta(days=arguments["within_days"])
        changed_since = f"{day.isoformat()}T00:00:00.000Z"

    filters = Filters(
        type=arguments.get("type"),
        tags=tuple(arguments.get("tags", ())),
        category=arguments.get("category"),
        importance=arguments.get("importance"),
        archived=arguments.get("archived", False),
        changed_since=changed_since,
        as_of=arguments.get("as_of"),
    )
    questions = tuple(split_question(query, Language()) for query in arguments["queries"])
    at_least: int | None = None
    if "at_least" in arguments:
        at_least = round(arguments["at_least"] * 1_000)
    request = RecallRequest(questions, filters, arguments.get("hops", 2), (), at_least)

    plain = list_plain(namespace)
    rankings: list[Ranking] = []
    for number, expected in enumerate(rank_exhaustively(plain, request)):
        entries = expected.entries
        # What another question shows answers this one too.
        alone = replace(request, questions=(questions[number],))
        (answers,) = rank_exhaustively(plain, alone)
        shown = {entry.name for entry in entries}
        ranking = Ranking(
            cast(Sequence[RankedEntry], entries),
            tuple(expected.unknown_words),
            tuple(one.name for one in answers.entries if one.name not in shown),
            cast(Confidence, expected.confidence),
            tuple(expected.archived_words),
        )
        rankings.append(ranking)

    return rankings


def _expect_refusal(arguments: JsonObject, rankings: list[Ranking]) -> str | None:
    """Return why a call must be refused, whatever room its answer needs."""
    queries = arguments["queries"]
    if sum(map(json_size, queries)) > MAX_ITEMS_BYTES:
        return "too_long"

    count = len(queries)
    least = MIN_RECALL_TOKENS + MIN_FURTHER_TOKENS * (count - 1)
    if arguments.get("max_tokens", least) < least:
        return "out_of_range"

    cursors = arguments.get("after") or [""] * count
    if len(cursors) != count:
        return "too_few" if len(cursors) < count else "too_many"

    for cursor, ranking in zip(cursors, rankings, strict=True):
        if cursor and cursor.partition(".")[2] != hash_ranking(ranking):
            return "changed"

    return None


def _check_answer(
    reading: Reading,
    namespace: NamespaceModel,
    arguments: JsonObject,
    rankings: list[Ranking],
    payload: JsonObject,
) -> None:
    """Compare an answer with the rankings, from where its cursors say."""
    cursors = arguments.get("after") or [""] * len(rankings)
    is_full = arguments.get("detail") == "full"
    following: list[str] = []
    has_more = False

    assert len(payload["results"]) == len(rankings)
    for number, (result, ranking) in enumerate(zip(payload["results"], rankings, strict=True)):
        assert result["input"] == arguments["queries"][number][:INPUT_CHARS]
        data = result["data"] if is_full else result
        matched = len(ranking.entries) + len(ranking.also)
        assert data["matched"] == matched, (arguments, ranking, payload)
        assert data["confidence"] == ranking.confidence, (arguments, ranking, payload)
        for name in ("unknown_words", "archived_words"):
            words = [word[:MAX_UNKNOWN_CHARS] for word in getattr(ranking, name)]
            assert data.get(name, []) == words[:MAX_UNKNOWN_WORDS], arguments
        assert data.get("also", []) == list(ranking.also[:MAX_ALSO]), (arguments, ranking)

        start = int(cursors[number].partition(".")[0] or 0)
        end = start + len(data["memories"])
        for record, entry in zip(data["memories"], ranking.entries[start:end], strict=True):
            _check_record(reading, namespace, record, cast(Expected, entry), is_full=is_full)

        following.append(f"{end}.{hash_ranking(ranking)}")
        has_more = has_more or end < len(ranking.entries)

    next_request = payload.get("next_request")
    assert has_more == (next_request is not None)
    if next_request is not None:
        assert next_request == {**arguments, "after": following}


def _check_record(
    reading: Reading,
    namespace: NamespaceModel,
    record: JsonObject,
    entry: Expected,
    *,
    is_full: bool,
) -> None:
    """Compare a record with a memory and its place in a ranking."""
    memory = namespace.memories[entry.name]
    expected: JsonObject = {
        "key": memory.key,
        "content": memory.content,
        "date": memory.updated_at[:10],
        "score": format_score(entry.score),
    }
    if entry.gift is not None and (is_full or entry.via is not None):
        expected |= _describe_way(entry.gift)
    if memory.archived:
        expected["archived"] = True
    expected |= namespace.describe_replacement(memory.key)
    if since := namespace.find_since(memory.key):
        expected["since"] = since
    if is_full:
        expected |= _describe(memory, entry)

    target = record.get("next")
    if target is not None:
        assert record["content"]
        target = target if is_full else json.loads(target)
        shown = record["content"]
        if "starts_at" in record:
            # Of sentences from anywhere, each is in its place, and all is read anew.
            _check_places(memory.content, shown, record["starts_at"])
            shown = ""

        cut = {"data": {"content": shown}, "truncation": {"next": target}}
        record = {**record, "content": complete(reading, cut)["data"]["content"]}
        record.pop("starts_at", None)
        del record["next"]

    assert record == expected, f"{record} instead of {expected}"


def _check_places(content: str, shown: str, places: int | list[int]) -> None:
    """Check that the parts of a content are in the places that a record names."""
    starts = places if isinstance(places, list) else [places]
    text, end = shown, 0
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        assert start >= end
        length = len(text)
        if following is not None:
            length = text.index(ELLIPSIS + content[following], 0, following - start + len(ELLIPSIS))
        assert content[start : start + length] == text[:length]
        text, end = text[length + len(ELLIPSIS) :], start + length

    assert not text


def _describe_way(gift: Gift) -> JsonObject:
    """Return the giver, and the kind of the link if there is only one on the way."""
    described: JsonObject = {"via": gift.giver}
    if len(gift.way) == 1 and gift.way[0].kind != "association":
        described["link"] = gift.way[0].kind
        if gift.way[0].is_incoming:
            described["direction"] = "in"

    return described


def _describe(memory: MemoryModel, entry: Expected) -> JsonObject:
    """Return what a full record says beside a concise one."""
    described: JsonObject = {"own_score": format_score(entry.own), "type": memory.type}
    if entry.words:
        described["words"] = {word: format_score(n) for word, n in entry.points.items()}
    if entry.is_named:
        described["named"] = True

    described["importance"] = memory.importance
    for name in ("summary", "category", "tags", "about"):
        if getattr(memory, name):
            described[name] = getattr(memory, name)

    return described
